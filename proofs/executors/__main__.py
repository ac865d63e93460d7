"""Audit with executors that cannot see the driver's files, and compare with audits of one process.

    python -m proofs.executors [--only executors|killed|unseen|made-up] [--ledgers N]

The setup is a standalone master and two workers with one core each, in namespaces of their own.
`spark-submit` sends the package as a zip and its dependencies as an archive. Collections and runs are on an
S3 server. The metadata are in a running ZooKeeper. Each audit must give the same findings and tables as an
audit of one process with two cores. That audit reads the same collection on S3, because findings name
collections.

First the program audits the corpus. A third audit of the corpus loses a worker while it compares replicas.
Other audits get files that executors cannot see, and the program prints their messages. Then it audits N
generated ledgers (a million by default). It prints rows for docs/truth.md. The exit code is 1 if findings or
tables differ. The program needs root, `mvn`, and a Java that is not in the environment of the tests.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from proofs.executors.audits import COMPARISON, CORPUS, Bookies, corpus, find_differences, generated_cluster
from proofs.executors.cluster import (
    DRIVER_DIRECTORIES,
    Cluster,
    JobResult,
    cluster,
    lost_executors,
    namespaces,
    packed_environment,
)
from tests.corpora.corpora import open_corpus
from tests.servers import s3

PARTS = ("executors", "killed", "unseen", "made-up")
MEMORY = "1500m"
SAME = "the same"
SAYS = re.compile("^(?:bkaudit: (?!stage)|bookies  ).*", re.MULTILINE)
"""The lines of a job's output that state why it stopped and which bookies it read."""


def main() -> int:
    """Run the selected parts; return 1 if an audit has other findings or tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ledgers", type=int, default=1_000_000, help="made-up ones (%(default)s)")
    parser.add_argument("--only", choices=PARTS, help="one part alone")
    options = parser.parse_args()
    parts = [options.only] if options.only else PARTS
    if not namespaces():
        parser.error("workers need namespaces of their own: run this as root")
    with ExitStack() as running, tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        server = running.enter_context(s3.running(folder / "s3"))
        os.environ |= server.environment
        started = cluster(folder / "spark", server, MEMORY, packed_environment(), DRIVER_DIRECTORIES)
        executors = running.enter_context(started)
        same = []
        if {*parts} - {"made-up"}:
            with corpus(folder, server) as bookies:
                same += [print_row(row) for row in audits(bookies, executors, parts)]
                for row in audit_hidden_paths(bookies, executors, folder) if "unseen" in parts else ():
                    print_row(row)
        if "made-up" in parts:
            with generated_cluster(options.ledgers, folder, server) as bookies:
                same += [print_row(row) for row in audits(bookies, executors, ["executors"])]
    return int(any(row[-1] not in ("", SAME) for row in same))


def print_row(row: list[str]) -> list[str]:
    """Print a row in the form of a table of docs/truth.md, and return it."""
    print(f"    {json.dumps(row)},", flush=True)
    return row


def audits(bookies: Bookies, executors: Cluster, parts: Sequence[str]) -> Iterator[list[str]]:
    """Yield the rows of one cluster: elapsed seconds, exit code, and differences from the first audit."""
    if not {"executors", "killed"} & {*parts}:
        return

    def row(by: str, ended: JobResult, run: str) -> list[str]:
        if ended.exit_code not in (0, 1, 3) or "Traceback" in ended.said:
            compared = f"failed: {ended.said[-3000:]}"
        else:
            compared = "" if run == basis else "; ".join(find_differences(basis, run)) or SAME
        return [bookies.name, by, f"{ended.seconds:.0f}", str(ended.exit_code), compared]

    name = bookies.name.replace(" ", "-").replace(",", "")
    # Each run has its own parent directory. Beside another run, an audit would report changes.
    basis, run, killed = (f"s3a://{s3.BUCKET}/{name}-{part}/run" for part in ("alone", "executors", "killed"))
    ended = executors.submit(bookies.arguments(bookies.uploaded, basis), local=True)
    yield row("one process", ended, basis)
    if "executors" in parts:
        ended = executors.submit(bookies.arguments(bookies.uploaded, run))
        yield row("two executors", ended, run)
    if "killed" in parts:
        arguments = bookies.arguments(bookies.uploaded, killed)
        ended = executors.submit(arguments, stage=COMPARISON, action=lambda: executors.kill_workers(1))
        lost = lost_executors(ended.said)
        yield row(f"a worker killed in the comparison, {lost} executor lost", ended, killed)
        executors.start_workers()


def audit_hidden_paths(bookies: Bookies, executors: Cluster, folder: Path) -> Iterator[list[str]]:
    """Yield a row for each kind of local path that only the driver can see, with the job's messages."""
    corpus_files = open_corpus(CORPUS, folder / CORPUS)
    saved = replace(bookies, metadata=f"dump://{corpus_files.dump}")
    arguments_by_kind = {
        "run directory": bookies.arguments(bookies.uploaded, str(folder / "run")),
        "bookies' disks": bookies.arguments(str(corpus_files.bookies), f"s3a://{s3.BUCKET}/disks/run"),
        "collection": bookies.arguments(str(bookies.collection), f"s3a://{s3.BUCKET}/collection/run"),
        "dump of the metadata": saved.arguments(bookies.uploaded, f"s3a://{s3.BUCKET}/dump/run"),
    }
    for path_kind, arguments in arguments_by_kind.items():
        ended = executors.submit(arguments)
        messages = (
            "; ".join(SAYS.findall(ended.said)).replace(str(folder), "DIR").replace(executors.url, "MASTER")
        )
        yield [f"{path_kind} of the driver's", f"{ended.seconds:.0f}", str(ended.exit_code), messages]


if __name__ == "__main__":
    sys.exit(main())
