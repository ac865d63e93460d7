"""Carry out every printed instruction: ``python -m proofs.obedient --minutes 60 --seed 7``.

Each round starts a small cluster of real bookies and damages it with one to three faults. It audits the
cluster and carries out every instruction that the program prints, until it prints no new one. A round prints
one line.

The exit code is 1 if an entry was lost or an active writer was fenced. It is also 1 if an instruction would
delete a ledger in use.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

from auditor.spark.session import build_session
from proofs.obedient.faults import FAULTS
from proofs.obedient.trial import RoundResult, play_round


def main() -> int:
    """Run rounds until the time is over and print the results; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m proofs.obedient", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--seed", type=int, default=7, help="of the first round; each later one has the next")
    parser.add_argument("--rounds", type=int, help="at most so many rounds")
    parser.add_argument(
        "--fault", action="append", choices=sorted(FAULTS), help="these instead of random ones"
    )
    parser.add_argument("--keep", type=Path, help="a directory for what all rounds leave behind")
    parser.add_argument("--verbose", action="store_true", help="print every instruction")
    args = parser.parse_args()
    root = args.keep or Path(tempfile.mkdtemp(prefix="obedient-"))
    root.mkdir(parents=True, exist_ok=True)
    spark = build_session("local[2]", {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2"})
    deadline = time.monotonic() + 60 * args.minutes
    results: list[RoundResult] = []
    broken = 0
    seed = args.seed
    while time.monotonic() < deadline and len(results) + broken < (args.rounds or sys.maxsize):
        place = root / f"seed-{seed}"
        try:
            result = play_round(spark, place, seed, args.fault, _say if args.verbose else lambda _: None)
        except Exception:
            traceback.print_exc()
            _say(f"seed {seed}: broken off; see {place}")
            broken += 1
        else:
            results.append(result)
            _say(result.text())
            if result.wrong:
                _say(f"seed {seed}: see {place}")
            elif args.keep is None:
                shutil.rmtree(place)
        seed += 1
    spark.stop()
    print(summary(results, broken))
    return 1 if broken or any(result.wrong for result in results) else 0


def summary(results: list[RoundResult], broken: int) -> str:
    """Return the sums of all rounds: instructions by group and kind, judged entries, and failures."""
    counts: Counter[str] = sum((result.counts for result in results), Counter())
    lines = [f"{name}\t{count}" for name, count in sorted(counts.items())]
    wrong = sum(bool(result.wrong) for result in results)
    failed = sum(len(result.failed) for result in results)
    judged = sum(result.judged for result in results)
    lines.append(
        f"{len(results)} rounds, {counts.total()} instructions obeyed, {failed} could not be, "
        f"{judged} entries judged, {wrong} rounds wrong, {broken} broken off"
    )
    return "\n".join(lines)


def _say(line: str) -> None:
    print(time.strftime("%H:%M:%S", time.gmtime()), line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
