"""python -m proofs.executors [--only executors|killed|unseen|made-up] [--ledgers N]

Audits by executors that see nothing of the driver's files: a standalone master, two workers of one core each
in namespaces of their own, `spark-submit`, the package as a zip, what it imports as an archive, collections
and run on an S3 server, metadata in a running ZooKeeper. Each is held to the audit of one process of two
cores, on S3 too, as findings name collections: findings and tables must be the same. First the corpus, of
which in a third audit a worker is killed while replicas are compared, and what is said of files that
executors do not see; then N made-up ledgers (a million). Prints rows for docs/truth.md, and ends
with 1 where findings or tables are not the same. It needs root, `mvn`, and a Java that is not in the
environment of the tests.
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

from proofs.executors.audits import COMPARISON, CORPUS, Bookies, corpus, differing, made_up
from proofs.executors.cluster import (
    THE_DRIVERS,
    Cluster,
    Ended,
    cluster,
    lost_executors,
    namespaces,
    packed_environment,
)
from tests.corpora.corpora import laid_out
from tests.servers import s3

PARTS = ("executors", "killed", "unseen", "made-up")
MEMORY = "1500m"
SAME = "the same"
SAYS = re.compile("^(?:bkaudit: (?!stage)|bookies  ).*", re.MULTILINE)
"""Of what a job says: why it went no further, and which bookies were read."""


def main() -> int:
    """Run them; returns 1 where an audit found something else."""
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
        started = cluster(folder / "spark", server, MEMORY, packed_environment(), THE_DRIVERS)
        executors = running.enter_context(started)
        same = []
        if {*parts} - {"made-up"}:
            with corpus(folder, server) as bookies:
                same += [shown(row) for row in audits(bookies, executors, parts)]
                for row in unseen(bookies, executors, folder) if "unseen" in parts else ():
                    shown(row)
        if "made-up" in parts:
            with made_up(options.ledgers, folder, server) as bookies:
                same += [shown(row) for row in audits(bookies, executors, ["executors"])]
    return int(any(row[-1] not in ("", SAME) for row in same))


def shown(row: list[str]) -> list[str]:
    """Print a row, as a table of docs/truth.md takes it."""
    print(f"    {json.dumps(row)},", flush=True)
    return row


def audits(bookies: Bookies, executors: Cluster, parts: Sequence[str]) -> Iterator[list[str]]:
    """The rows of one cluster of bookies: seconds by the clock, exit code, and against the first."""
    if not {"executors", "killed"} & {*parts}:
        return

    def row(by: str, ended: Ended, run: str) -> list[str]:
        if ended.exit_code not in (0, 1, 3) or "Traceback" in ended.said:
            compared = f"failed: {ended.said[-3000:]}"
        else:
            compared = "" if run == alone else "; ".join(differing(alone, run)) or SAME
        return [bookies.name, by, f"{ended.seconds:.0f}", str(ended.exit_code), compared]

    name = bookies.name.replace(" ", "-").replace(",", "")
    # Each run by itself: one that finds another beside it says what is new.
    alone, run, killed = (f"s3a://{s3.BUCKET}/{name}-{each}/run" for each in ("alone", "executors", "killed"))
    ended = executors.submit(bookies.arguments(bookies.uploaded, alone), local=True)
    yield row("one process", ended, alone)
    if "executors" in parts:
        ended = executors.submit(bookies.arguments(bookies.uploaded, run))
        yield row("two executors", ended, run)
    if "killed" in parts:
        arguments = bookies.arguments(bookies.uploaded, killed)
        ended = executors.submit(arguments, at=COMPARISON, deed=lambda: executors.kill_workers(1))
        lost = lost_executors(ended.said)
        yield row(f"a worker killed in the comparison, {lost} executor lost", ended, killed)
        executors.start_workers()


def unseen(bookies: Bookies, executors: Cluster, folder: Path) -> Iterator[list[str]]:
    """What is said of local paths that the driver sees and no executor: a row for each kind of path."""
    there = laid_out(CORPUS, folder / CORPUS)
    saved = replace(bookies, metadata=f"dump://{there.dump}")
    some = {
        "run directory": bookies.arguments(bookies.uploaded, str(folder / "run")),
        "bookies' disks": bookies.arguments(str(there.bookies), f"s3a://{s3.BUCKET}/disks/run"),
        "collection": bookies.arguments(str(bookies.collection), f"s3a://{s3.BUCKET}/collection/run"),
        "dump of the metadata": saved.arguments(bookies.uploaded, f"s3a://{s3.BUCKET}/dump/run"),
    }
    for what, arguments in some.items():
        ended = executors.submit(arguments)
        said = (
            "; ".join(SAYS.findall(ended.said)).replace(str(folder), "DIR").replace(executors.url, "MASTER")
        )
        yield [f"{what} of the driver's", f"{ended.seconds:.0f}", str(ended.exit_code), said]


if __name__ == "__main__":
    sys.exit(main())
