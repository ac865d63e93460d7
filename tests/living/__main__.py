"""The long form of the loop: ``python -m tests.living --minutes 20 --seed 7``.

It starts clusters of real bookies, one storage after the other, and audits each under load in every way,
until the time is over. Ends with 1 where anything that was found is false, or anything was overlooked.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path

from auditor.spark.session import build_session
from tests.living.scenario import play
from tests.living.ways import MORE_WAYS, WAYS, Way

STORAGES = ("SortedLedgerStorage", "DbLedgerStorage", "InterleavedLedgerStorage")
ALL_WAYS: dict[str, Way] = {way.name: way for way in (*WAYS, *MORE_WAYS)}
ROUND = 10
"""Audits of one cluster."""


def main() -> int:
    """Play until the time is over, and say what came of it."""
    parser = argparse.ArgumentParser(prog="python -m tests.living", description=__doc__)
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--audits", type=int, default=ROUND, help="audits of one cluster under load")
    parser.add_argument("--storage", action="append", choices=STORAGES)
    parser.add_argument("--way", action="append", choices=sorted(ALL_WAYS))
    parser.add_argument("--keep", type=Path, help="a new directory for what the clusters leave behind")
    given = parser.parse_args()
    ways = [ALL_WAYS[name] for name in given.way or ALL_WAYS]
    spark = build_session("local[2]", {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2"})
    deadline = time.monotonic() + 60 * given.minutes
    wrong: list[str] = []
    number = 0
    with tempfile.TemporaryDirectory(prefix="living-") as scratch:
        root = given.keep or Path(scratch)
        while not number or time.monotonic() < deadline:
            storages = given.storage or STORAGES
            storage, seed = storages[number % len(storages)], given.seed + number
            order = random.Random(seed).sample(ways, len(ways))
            place = root / f"{number}-{storage}"
            print(f"{storage}, seed {seed}", flush=True)
            outcome = play(spark, place, storage, seed=seed, ways=order, audits=given.audits, say=_say)
            print(outcome.text(), flush=True)
            wrong += outcome.wrong()
            number += 1
    spark.stop()
    print("\n".join(wrong) or "nothing false, nothing overlooked")
    return 1 if wrong else 0


def _say(line: str) -> None:
    print(time.strftime("%H:%M:%S", time.gmtime()), line[:2000], flush=True)


if __name__ == "__main__":
    sys.exit(main())
