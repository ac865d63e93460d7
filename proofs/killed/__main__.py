"""Interrupt audits, repeat the same command, and compare the findings with those of an undisturbed audit.

    python -m proofs.killed [--diagonal] [--only TEXT]... [--out FILE]

At each stage the program takes away one victim. A victim can be a process: the driver, Java, a Python
worker or an executor. It can also be the metadata store, the run directory, or the free space of a disk.
The program prints a table. The exit code is 1 if findings differ. The program needs root, because it mounts
disks of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from proofs.killed.cells import STAGES, Cell, audit_undisturbed, diagonal, matrix, run_cells
from proofs.killed.ground import IN_A_NAMESPACE, audit_setup
from proofs.killed.victims import VICTIMS

NAMESPACE_VARIABLE = "BKAUDIT_TEST_NAMESPACE"


def main() -> int:
    """Run the selected cells; return 1 if one failed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--diagonal",
        action="store_true",
        help="each stage and each victim once, in chains: one breaks off what another has",
    )
    parser.add_argument("--only", action="append", help="those in whose names this text is, or another such")
    parser.add_argument(
        "--out", type=Path, help="a file that keeps results; what stands in it is not run again"
    )
    options = parser.parse_args()
    if NAMESPACE_VARIABLE not in os.environ:  # the mounts vanish with this namespace
        os.environ[NAMESPACE_VARIABLE] = "yes"
        os.execvp(IN_A_NAMESPACE[0], [*IN_A_NAMESPACE, sys.executable, "-m", "proofs.killed", *sys.argv[1:]])
    cells = read_results(options.out)
    done = {(cell.stage, cell.victim) for cell in cells}
    with tempfile.TemporaryDirectory() as root, audit_setup(Path(root) / "ground") as setup:
        whole = audit_undisturbed(setup)
        print(f"unbroken: exit code {whole.exit_code}, {len(whole.findings)} findings and tables", flush=True)
        selection = [
            (stage, piece, victim)
            for stage, piece, victim in (diagonal if options.diagonal else matrix)(whole)
            if any(text in f"{stage}/{piece}/{victim.name}" for text in options.only or [""])
            and (stage, victim.name) not in done
        ]
        for cell in run_cells(setup, whole, selection, chained=options.diagonal):
            cells.append(cell)
            print(line(cell), flush=True)
            if options.out is not None:
                with options.out.open("a") as file:
                    file.write(json.dumps(asdict(cell)) + "\n")
    failed = [cell for cell in cells if cell.faults]
    print("\n".join(table(cells)))
    print(f"{len(cells)} audits broken off, {len(failed)} failed")
    return int(bool(failed))


def read_results(out: Path | None) -> list[Cell]:
    """Return the results of earlier calls in the file ``out``."""
    if out is None or not out.exists():
        return []
    return [Cell(**json.loads(line)) for line in out.read_text().splitlines()]


def line(cell: Cell) -> str:
    """Return a table row for one cell, with its faults on lines below."""
    row = (f"{cell.stage} ({cell.piece})", cell.victim, cell.outcome, cell.said, f"{cell.seconds:.0f} s")
    return "\n".join([f"| {' | '.join(row)} |", *(f"    FAILED: {fault}" for fault in cell.faults)])


def table(cells: Sequence[Cell]) -> list[str]:
    """Return the rows for `tests/truth/proofs.toml`: one row per stage, one column per victim."""
    victims = [victim.name for victim in VICTIMS]
    outcomes = {(cell.stage, cell.victim): "FAILED" if cell.faults else cell.outcome for cell in cells}
    rows = [["stage", *victims]]
    rows += [[stage, *(outcomes.get((stage, victim), "") for victim in victims)] for stage in STAGES]
    return ["rows = [", *(f"    {json.dumps(row)}," for row in rows), "]"]


if __name__ == "__main__":
    sys.exit(main())
