"""Fuzz every reader of bytes, each in a process of its own: ``python -m proofs.fuzz --runs N``.

The fuzzing is coverage-guided, with atheris (``pip install atheris``; only this command needs it). Corpora,
failures and counts are kept in ``--home``, and the next call continues with them. The exit code is 1 if
a reader failed.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path

from proofs.fuzz.corpus import CORPUS, write_corpus
from proofs.fuzz.targets import BY_NAME

TIMEOUT_S = 10
"""Longest time of one execution, in seconds."""

MEMORY_MB = 1500
"""Largest memory of a process in MB, with all modules and its corpus."""


def main() -> int:
    """Fuzz the chosen targets one after the other and print a line for each; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m proofs.fuzz", description=__doc__)
    parser.add_argument("--runs", type=int, default=100_000, help="executions of each target")
    parser.add_argument("--seconds", type=int, default=600, help="how long a target may take at most")
    parser.add_argument("--only", nargs="+", choices=BY_NAME, default=list(BY_NAME), metavar="TARGET")
    parser.add_argument("--home", type=Path, default=Path(".fuzz"))
    parser.add_argument("--keep", action="store_true", help=f"write the smallest inputs into {CORPUS.name}")
    chosen = parser.parse_args()
    if chosen.keep:
        print(keep_corpora(chosen.home), "inputs are kept")
        return 0
    return max([fuzz(name, chosen.home, chosen.runs, chosen.seconds) for name in chosen.only])


def fuzz(name: str, home: Path, runs: int, seconds: int) -> int:
    """Fuzz a target, add its executions to the total, and print a line; return 1 if it failed."""
    corpus, failures_dir = home / "corpus" / name, home / "found" / name
    for directory in (corpus, failures_dir):
        directory.mkdir(parents=True, exist_ok=True)
    before = len(list(failures_dir.iterdir()))
    limits = (f"-timeout={TIMEOUT_S}", f"-rss_limit_mb={MEMORY_MB}", f"-max_total_time={seconds}")
    options = (f"-runs={runs}", *limits, f"-artifact_prefix={failures_dir}/", "-print_final_stats=1")
    command = [sys.executable, "-m", "proofs.fuzz.guided", name, str(corpus), *options]
    log = home / f"{name}.log"
    with log.open("wb") as out:
        done = subprocess.run(command, stdout=out, stderr=subprocess.STDOUT, check=False)
    text = log.read_text("utf-8", "replace")
    stats = re.search(r"number_of_executed_units: (\d+)", text)
    new_failures = len(list(failures_dir.iterdir())) - before
    total = _add(home / "executions.json", name, int(stats[1]) if stats else 0)
    suffix = "" if not done.returncode else f"  exit {done.returncode}, {new_failures} found: {log}"
    print(f"{name:28} {total:>10,} executions  {len(list(corpus.iterdir())):>6,} inputs{suffix}", flush=True)
    return int(done.returncode != 0)


def _add(file: Path, name: str, runs: int) -> int:
    counts = json.loads(file.read_text()) if file.exists() else {}
    counts[name] = counts.get(name, 0) + runs
    file.write_text(json.dumps(counts, indent=2) + "\n")
    return int(counts[name])


def keep_corpora(home: Path) -> int:
    """Write the smallest inputs of every target with a corpus below ``home``; return their number."""
    inputs = {name: [file.read_bytes() for file in (home / "corpus" / name).glob("*")] for name in BY_NAME}
    return write_corpus(inputs)


if __name__ == "__main__":
    sys.exit(main())
