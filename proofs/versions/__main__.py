"""Audit every supported release of BookKeeper with each storage and store: ``python -m proofs.versions``.

Each pair is a cluster of its own (`proofs.living`) with real bookies of that release, on a ZooKeeper or
an etcd. Clients write ledgers of every digest type, while bookies are killed, stopped and slowed. Audits
read the bookies' disks, their answers, or both, with witness reads. Each finding is compared with the
entries that the bookies serve. Then the program makes 19 faults (17 on etcd), and audits must confirm
each of them. It prints a row per pair. It ends with 1 if a finding is false, or if a fault was overlooked
or not confirmed.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from auditor.spark.session import build_session
from proofs.living.__main__ import STORAGES, record
from proofs.living.scenario import KEPT_LEDGERS, Outcome, play
from proofs.living.ways import DISK, DISK_AND_RPC, RPC
from tests.servers.bookies.jars import RELEASE, RELEASES
from tests.truth.etcd import VERSIONS as ETCDS
from tests.truth.etcd import on_path
from tests.truth.zookeeper import VERSIONS as ZOOKEEPERS
from tests.truth.zookeeper import jars_of

WAYS = (DISK, RPC, DISK_AND_RPC)
HEAD = ("BookKeeper", "storage", "store", "day", "ledgers written", "faults confirmed", "wrong")


class Pair(NamedTuple):
    """A release of BookKeeper, a ledger storage, and a metadata store such as ``etcd 3.7.3``."""

    release: str
    storage: str
    store: str

    @property
    def name(self) -> str:
        return " ".join(self)


# Each release has each storage, and each ZooKeeper each storage. Each etcd has only one storage, because
# BookKeeper's etcd driver has only one release.
PAIRS = [
    *(
        Pair(release, storage, f"ZooKeeper {ZOOKEEPERS[(number + shift) % len(ZOOKEEPERS)]}")
        for number, release in enumerate(RELEASES)
        for shift, storage in enumerate(STORAGES)
    ),
    *(Pair(RELEASE, STORAGES[number % len(STORAGES)], f"etcd {etcd}") for number, etcd in enumerate(ETCDS)),
]


def main() -> int:
    """Run the selected pairs; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m proofs.versions", description=__doc__)
    parser.add_argument("--only", action="append", help="pairs in whose names this is: 4.14.7, Sorted")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--results", type=Path, help="a file that each pair adds a line of counts to")
    options = parser.parse_args()
    spark = build_session("local[2]", {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2"})
    failed = False
    print(" | ".join(HEAD), flush=True)
    for pair in PAIRS:
        if options.only and not any(text in pair.name for text in options.only):
            continue
        with tempfile.TemporaryDirectory(prefix="versions-") as scratch, stored(pair) as store:
            outcome = play(
                spark,
                Path(scratch, "cluster"),
                pair.storage,
                seed=options.seed,
                ways=WAYS,
                audits=len(WAYS),
                ledgers=KEPT_LEDGERS,
                say=_say,
                release=pair.release,
                **store,
            )
        if options.results:
            record(options.results, outcome, store=pair.store, release=pair.release)
        print(" | ".join(row(pair, outcome)), flush=True)
        failed |= bool(outcome.wrong())
    spark.stop()
    return int(failed)


@contextmanager
def stored(pair: Pair) -> Iterator[dict[str, Any]]:
    """Yield the arguments of `living_cluster` for a pair's store. They are valid inside the block."""
    kind, version = pair.store.split()
    if kind == "etcd":
        with on_path(version):
            yield {"on_etcd": True}
    else:
        yield {"jars": [Path(jars_of(version))]}


def row(pair: Pair, outcome: Outcome) -> tuple[str, ...]:
    """Return the result of a pair, in the columns of HEAD."""
    faults = len(outcome.faults)
    return (
        *pair,
        time.strftime("%Y-%m-%d"),
        f"{outcome.load['created']}",
        f"{faults - len(outcome.missed)} of {faults}",
        "; ".join(outcome.wrong()) or "nothing",
    )


def _say(line: str) -> None:
    print(time.strftime("%H:%M:%S", time.gmtime()), line[:2000], file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
