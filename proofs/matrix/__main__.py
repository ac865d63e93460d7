"""Audit clusters with every pair of corpus, damage, source, option and command that can be combined.

    python -m proofs.matrix [--cells N] [--only TEXT] [--seed N] [--out DIR] [--again]

A cell tests pairs, and rules check the results of each cell. The exit code is 1 if a cell breaks a rule. The
program then prints the command that repeats that cell. It does not repeat cells with a result in DIR.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from pathlib import Path

from proofs.matrix.bench import Bench
from proofs.matrix.cells import pairwise
from proofs.matrix.matrix import Record, Result, run_cell, select_cells, summary
from tests.servers import shared_spark


def main() -> int:
    """Run the matrix; return 1 if a cell breaks a rule."""
    options = parse()
    signals: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: signals.append(number))
    with tempfile.TemporaryDirectory() as scratch:
        out = options.out or Path(scratch)
        out.mkdir(parents=True, exist_ok=True)
        record = Record(out / "results.jsonl")
        done = {} if options.again else record.read_results()
        cells = select_cells(pairwise(options.seed), options.only, options.cells)
        results = [done[cell.name] for cell in cells if cell.name in done]
        session = shared_spark.start()
        bench = Bench(session, out)
        try:
            for cell in [candidate for candidate in cells if candidate.name not in done]:
                if signals:
                    break  # leaves the loop, so that the servers end too
                result = run_cell(bench, cell)
                record.add(result)
                results.append(result)
                print_result(result, f"{len(results)}/{len(cells)}")
        finally:
            bench.close()
            session.stop()
    print("\n".join(summary(results)))
    return int(any(result.failures for result in results))


def parse() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cells", type=int, help="run the first so many")
    parser.add_argument("--only", help="run one cell by its name, or those in whose names this text is")
    parser.add_argument("--seed", type=int, default=1, help="of the order")
    parser.add_argument("--out", type=Path, help="where results and runs are kept; without it nowhere")
    parser.add_argument("--again", action="store_true", help="run what stands in --out again")
    return parser.parse_args()


def print_result(result: Result, where: str) -> None:
    """Print the result of a cell in one line. After a failure, print how to repeat it."""
    ends = "ok" if not result.failures else f"FAILED: {', '.join(result.failures)}"
    print(f"{where} {result.seconds} s, exit code {result.exit_code}: {result.cell}: {ends}", flush=True)
    for rule, sentences in result.failures.items():
        for sentence in sentences[:8]:
            print(f"    {rule}: {sentence}", flush=True)
    if result.failures:
        print(f"    {result.reproduction}\n    {result.command}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
