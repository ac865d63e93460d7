"""Every command that looks at running clusters, in one process, for `tests.live.recorded`.

    python -m tests.live.every_command URI BOOKIES SOURCE OUT ...

For each cluster, BOOKIES is the directory of the bookies, and SOURCE the ``--bookies`` of the audit. The
commands write below OUT.
"""

from __future__ import annotations

import sys

from auditor.cli import main

EXIT_CODES = (0, 1, 3)
"""How a command ends that saw what it was to see."""


def commands(uri: str, bookies: str, source: str, out: str) -> list[list[str]]:
    """Return the commands in order. All their output is below ``out``."""
    run, plan = f"{out}/run", f"{out}/plan.toml"
    options = ["--metadata", uri, "--timeout", "5"]
    # Everything was flushed after the metadata was written: there is nothing to be patient about.
    audit = ["audit", *options, "--grace", "0"]
    return [
        ["collect", "--bookies", bookies, "--out", f"{out}/collected", "--entry-logs"],
        ["doctor", *options, "--bookies", bookies, "--bookies", "rpc:"],
        [*audit, "--bookies", source, "--out", run],
        [
            *audit,
            "--bookies",
            bookies,
            "--bookies",
            "rpc:",
            "--out",
            f"{out}/all",
            "--since",
            run,
            "--entry-logs",
        ],
        ["scan", *options, "--out", f"{out}/scan"],
        ["dump", uri, f"{out}/dump.jsonl"],
        ["simulate", run],
        ["plan", "make", run, "--out", plan],
        ["plan", "check", plan],
    ]


if __name__ == "__main__":
    words = sys.argv[1:]
    for start in range(0, len(words), 4):
        for arguments in commands(*words[start : start + 4]):
            ended = main(arguments, standalone_mode=False) or 0
            assert ended in EXIT_CODES, (arguments, ended)
