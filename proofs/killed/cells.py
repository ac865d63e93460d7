"""One stage and one victim: what came of the audit, and of the same command given again."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from auditor.cli.progress import STAGES, stage_shown
from proofs.killed.ground import At, Ended, Ground, findings_of
from proofs.killed.victims import VICTIMS, Victim

UNDISTURBED, RESUMED, NOT_AT_WORK = "went on", "again", "not at work"
"""The first command had the findings; the second had them; nothing of the kind was at work any more."""
SAYS_SO = (2, 4)
"""How a command ends that says why it went no further."""


@dataclass(frozen=True)
class Whole:
    """An audit that nothing disturbed: its pieces of work in order, its exit code, findings and tables."""

    pieces: Sequence[str]
    exit_code: int
    findings: Sequence[str]

    def of_stage(self, stage: str) -> list[str]:
        """The pieces of work of one stage, as the command line shows stages."""
        number = 0
        found: list[str] = []
        for piece in self.pieces:
            number = max(number, stage_shown(piece) or number)
            if STAGES[number - 1] == stage:
                found.append(piece)
        return found


@dataclass(frozen=True)
class Cell:
    """What came of one stage and victim; ``faults`` are what should not have been."""

    stage: str
    piece: str
    victim: str
    outcome: str
    said: str
    faults: tuple[str, ...]
    seconds: float


def unbroken(ground: Ground) -> Whole:
    """Audit once, undisturbed."""
    out, at = ground.new_run(), At()
    ended = ground.here(out, at)
    assert (out / "report.json").exists(), ended.stderr
    whole = Whole(tuple(dict.fromkeys(at.begun)), ended.exit_code, findings_of(out))
    ground.clear(out)
    return whole


def matrix(whole: Whole) -> list[tuple[str, str, Victim]]:
    """Every stage with every victim; the pieces of work of a stage take turns."""
    return [
        (stage, pieces[(row + number) % len(pieces)], victim)
        for number, victim in enumerate(VICTIMS)
        for row, stage in enumerate(STAGES)
        if (pieces := whole.of_stage(stage))
    ]


def diagonal(whole: Whole) -> list[tuple[str, str, Victim]]:
    """Every stage at least once, each victim once; in the order that makes long chains of `run_cells`."""
    cells = matrix(whole)
    rows = len(cells) // len(VICTIMS)
    chosen = [cells[number * rows + number % rows] for number in range(len(VICTIMS))]
    return sorted(chosen, key=lambda cell: (not cell[2].takes_run, cell[2].more))


def run_cells(
    ground: Ground, whole: Whole, cells: Sequence[tuple[str, str, Victim]], chained: bool
) -> Iterator[Cell]:
    """Break audits off, and give the same command again.

    ``chained``: the next victim breaks off the command that is given again, until one comes to its end. The
    findings of that one say what became of all that were broken off before it.
    """
    out: Path | None = None
    for (stage, piece, victim), following in zip_longest(cells, cells[1:]):
        began, out = time.monotonic(), out or ground.new_run()
        broken = victim.strike(ground, out, piece)
        last = not chained or following is None or not victim.can_precede(following[2])
        faults: list[str] = []
        if broken is None:
            outcome, said = NOT_AT_WORK, ""
        else:
            outcome, said = _came_of(ground, whole, victim, broken, out, faults, last)
        if last or _is_whole(out):
            ground.clear(out)
            out = None
        yield Cell(stage, piece, victim.name, outcome, said, tuple(faults), time.monotonic() - began)


def _came_of(
    ground: Ground, whole: Whole, victim: Victim, broken: Ended, out: Path, faults: list[str], last: bool
) -> tuple[str, str]:
    said = last_line(broken.stderr)
    if "Traceback" in broken.stderr:
        faults.append(f"a traceback: {broken.stderr[-1500:]}")
    if _is_whole(out):
        ended, outcome = broken, UNDISTURBED
    else:
        if broken.exit_code >= 0 and broken.exit_code not in SAYS_SO:
            faults.append(f"ended with {broken.exit_code} and without a report: {broken.stderr[-1500:]}")
        if not last:
            return RESUMED, said
        ended, outcome = victim.again(ground, out), RESUMED
    if ended.exit_code != whole.exit_code:
        faults.append(f"exit code {ended.exit_code}, not {whole.exit_code}: {ended.stderr[-1500:]}")
    elif findings_of(out) != whole.findings:
        faults.append(f"other findings: {_differ(findings_of(out), whole.findings)}")
    return outcome, said


def _is_whole(out: Path) -> bool:
    return (out / "report.json").exists()


def _differ(one: Sequence[str], other: Sequence[str]) -> str:
    return "; ".join(line[:800] for line in sorted({*one} ^ {*other})[:4])


def last_line(stderr: str) -> str:
    """What a command said last."""
    lines = [line for line in stderr.splitlines() if line.startswith("bkaudit: ")]
    return lines[-1].removeprefix("bkaudit: ") if lines else ""
