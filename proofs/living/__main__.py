"""Audit live clusters for a long time: ``python -m proofs.living --minutes 20 --results living.jsonl``.

The program starts clusters of real bookies, with each storage on ZooKeeper and on etcd in turn. Until the
time is over, it audits each cluster under load with every way to read the indexes. Each cluster adds a line
to the results. The program prints the table of all lines. The exit code is 1 if a confirmed finding is false
or an audit overlooked a fault.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from auditor.spark.session import build_session
from proofs.living.scenario import Outcome, play
from proofs.living.ways import MORE_WAYS, WAYS, Way

STORAGES = ("SortedLedgerStorage", "DbLedgerStorage", "InterleavedLedgerStorage")
STORES = ("zookeeper", "etcd")
ALL_WAYS: dict[str, Way] = {way.name: way for way in (*WAYS, *MORE_WAYS)}
ROUND = 10
"""Number of audits of one cluster under load."""


def main() -> int:
    """Run clusters until the time is over and print the results; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m proofs.living", description=__doc__)
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--audits", type=int, default=ROUND, help="audits of one cluster under load")
    parser.add_argument("--storage", action="append", choices=STORAGES)
    parser.add_argument("--store", action="append", choices=STORES)
    parser.add_argument("--way", action="append", choices=sorted(ALL_WAYS))
    parser.add_argument("--keep", type=Path, help="a new directory for what the clusters leave behind")
    parser.add_argument("--results", type=Path, help="a file that each cluster adds a line to")
    options = parser.parse_args()
    ways = [ALL_WAYS[name] for name in options.way or ALL_WAYS]
    kinds = [(store, storage) for storage in options.storage or STORAGES for store in options.store or STORES]
    spark = build_session("local[2]", {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2"})
    deadline = time.monotonic() + 60 * options.minutes
    number = 0
    with tempfile.TemporaryDirectory(prefix="living-") as scratch:
        root = options.keep or Path(scratch)
        results = options.results or root / "results.jsonl"
        wrong: list[str] = []
        while not number or time.monotonic() < deadline:
            (store, storage), seed = kinds[number % len(kinds)], options.seed + number
            order = random.Random(seed).sample(ways, len(ways))
            place = root / f"{number}-{storage}-{store}"
            place.parent.mkdir(parents=True, exist_ok=True)
            print(f"{storage} on {store}, seed {seed}", flush=True)
            outcome = play(
                spark,
                place,
                storage,
                seed=seed,
                ways=order,
                audits=options.audits,
                say=_say,
                on_etcd=store == "etcd",
            )
            print(outcome.text(), flush=True)
            record(results, outcome, store=store, seed=seed)
            wrong += outcome.wrong()
            number += 1
        print(table(results))
    spark.stop()
    print("\n".join(wrong) or "nothing false, nothing overlooked")
    return 1 if wrong else 0


def record(results: Path, outcome: Outcome, **labels: str | int) -> None:
    """Append the line of a cluster to the results file."""
    with results.open("a") as file:
        file.write(json.dumps({"storage": outcome.storage, **labels, **counts(outcome)}) + "\n")


def counts(outcome: Outcome) -> dict[str, int]:
    """Return the results of a cluster as numbers that can be summed."""
    codes = Counter(run.exit_code for run in outcome.loop.runs)
    cells = outcome.loop.matrix.cells
    return {
        "audits": len(outcome.loop.runs),
        "exit 0": codes[0],
        "exit 3": codes[3],
        "exit 1, rightly": len(outcome.loop.excused),
        "other exits": len(outcome.loop.bad_exits()),
        **{
            f"{confidence} {verdict}": sum(
                count for (_, *kind), count in cells.items() if kind == [confidence, verdict]
            )
            for confidence in ("confirmed", "suspect")
            for verdict in ("true", "open", "false")
        },
        "overlooked": outcome.loop.matrix.overlooked.total(),
        "faults": len(outcome.faults),
        "confirmed in two audits": len(outcome.faults) - len(outcome.missed),
    }


def table(results: Path) -> str:
    """Return the sums of a results file: one line per kind of cluster, and one for all."""
    rows = [json.loads(line) for line in results.read_text().splitlines()]
    names = [name for name in rows[0] if name not in ("storage", "store", "seed", "release")]
    lines = ["\t".join(("cluster", *names))]
    for kind in (*dict.fromkeys((row["storage"], row["store"]) for row in rows), ()):
        chosen = [row for row in rows if not kind or (row["storage"], row["store"]) == kind]
        sums = [str(sum(row[name] for row in chosen)) for name in names]
        lines.append("\t".join((" on ".join(kind) or "all", *sums)))
    return "\n".join(lines)


def _say(line: str) -> None:
    print(time.strftime("%H:%M:%S", time.gmtime()), line[:2000], flush=True)


if __name__ == "__main__":
    sys.exit(main())
