"""Damage and audit a real Pulsar: ``python -m proofs.pulsar --seed 7``.

The program starts the standalone broker with ZooKeeper and three bookies, with jars that it fetches from
Maven Central once. It writes topics that the seed determines, plants faults beside the idle broker, stops
everything and audits the files. The audit must report the broker's topics and the planted faults, and
nothing else. Otherwise the program ends with 1.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from auditor.codecs.pulsar.managed_ledger import COMPRESSIONS
from auditor.spark.session import build_session
from proofs.pulsar.cluster import RELEASE, Pulsar
from proofs.pulsar.scenario import play


def main() -> int:
    """Run one scenario and print its result; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m proofs.pulsar", description=__doc__)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--topics", type=int, default=5, help="topics of each of three namespaces, from 3 on")
    parser.add_argument(
        "--unspoiled", action="store_true", help="plant no fault: the verdict must be healthy"
    )
    parser.add_argument(
        "--compression",
        choices=COMPRESSIONS.values(),
        default="LZ4",
        help="of lists of ledgers and of cursors (managedLedgerInfoCompressionType and its twin for cursors)",
    )
    parser.add_argument(
        "--threshold",
        type=int,
        default=60,
        help="values above so many bytes are compressed (Pulsar's own is 16384); with less than 40 Pulsar "
        "4.2.4 cannot load all that it wrote",
    )
    parser.add_argument("--release", default=RELEASE, help="Pulsar's; another needs its jars of its own")
    parser.add_argument("--values", type=Path, help="a directory for the bytes of one value of each kind")
    parser.add_argument("--keep", type=Path, help="a new directory for what the cluster leaves behind")
    options = parser.parse_args()
    spark = build_session("local[2]", {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2"})
    with tempfile.TemporaryDirectory(prefix="pulsar-") as scratch:
        root = options.keep or Path(scratch)
        facts = (max(options.topics, 3), options.compression, options.threshold, options.release)
        pulsar = Pulsar(root / "pulsar", options.seed, *facts)
        outcome = play(spark, pulsar, root / "run", _say, spoil=not options.unspoiled, values=options.values)
    spark.stop()
    print("\n".join(outcome) or "nothing false, nothing overlooked")
    return 1 if outcome else 0


def _say(line: str) -> None:
    print(time.strftime("%H:%M:%S", time.gmtime()), line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
