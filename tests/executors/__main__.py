"""python -m tests.executors [--ledgers N]

Audits by executors that see nothing of the driver's files: a standalone master, two workers of one core each
in namespaces of their own, `spark-submit`, the package as a zip, what it imports as an archive, collections
and run on an S3 server, metadata in a running ZooKeeper. Each is held to the audit of one process of two
cores, on S3 too, as findings name collections: findings and tables must be the same. In a third a worker is
killed while replicas are compared. First the corpus, then N made-up ledgers (a million; 0: none). Prints a
table, and ends with 1 where they are not the same. It needs root, `mvn`, a Java that is not in the
environment of the tests, and what only this command wants: moto[s3], flask, flask-cors and venv-pack.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from tests.executors.audits import COMPARISON, Bookies, corpus, differing, made_up
from tests.executors.cluster import Cluster, Ended, cluster, lost_executors
from tests.servers import s3

HEAD = ["bookies", "audit", "seconds", "exit code", "against the first"]
MEMORY = "1500m"


def main() -> int:
    """Run them; returns 1 where an audit found something else."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ledgers", type=int, default=1_000_000, help="made-up ones (%(default)s)")
    options = parser.parse_args()
    rows = [HEAD]
    with ExitStack() as running, tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        server = running.enter_context(s3.running(folder / "s3"))
        os.environ |= server.environment
        executors = running.enter_context(cluster(folder / "spark", server, MEMORY))
        some = [corpus(folder, server)]
        some += [made_up(options.ledgers, folder, server)] if options.ledgers else []
        for source in some:
            with source as bookies:
                for row in audits(bookies, executors, folder):
                    rows.append(row)
                    print(" | ".join(row), flush=True)
    print("\n".join(["rows = [", *(f"    {json.dumps(row)}," for row in rows), "]"]))
    return int(any(row[-1] not in ("", "the same") for row in rows[1:]))


def audits(bookies: Bookies, executors: Cluster, folder: Path) -> Iterator[list[str]]:
    """The rows of one cluster of bookies."""

    def row(by: str, ended: Ended, run: str) -> list[str]:
        if ended.exit_code not in (0, 1, 3) or "Traceback" in ended.said:
            compared = f"failed: {ended.said[-3000:]}"
        else:
            compared = "" if run == alone else "; ".join(differing(alone, run)) or "the same"
        return [bookies.name, by, f"{ended.seconds:.0f}", str(ended.exit_code), compared]

    name = bookies.name.replace(" ", "-").replace(",", "")
    # Each run by itself: one that finds another beside it says what is new.
    alone, run, killed = (f"s3a://{s3.BUCKET}/{name}-{each}/run" for each in ("alone", "executors", "killed"))
    ended = executors.submit(bookies.arguments(bookies.uploaded, alone), local=True)
    yield row("one process", ended, alone)
    ended = executors.submit(bookies.arguments(bookies.uploaded, run))
    yield row("two executors", ended, run)
    arguments = bookies.arguments(bookies.uploaded, killed)
    ended = executors.submit(arguments, at=COMPARISON, deed=lambda: executors.kill_workers(1))
    lost = lost_executors(ended.said)
    yield row(f"a worker killed in the comparison, {lost} executor lost", ended, killed)
    executors.start_workers()


if __name__ == "__main__":
    sys.exit(main())
