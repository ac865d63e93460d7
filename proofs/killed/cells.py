"""One cell: an audit that loses one victim at one stage, and the repetition of the same command."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from proofs.killed.ground import AuditSetup, ProgressTrigger, Result, findings_of
from proofs.killed.victims import VICTIMS, Victim

UNDISTURBED, RESUMED, NOT_AT_WORK = "went on", "again", "not at work"
"""Outcomes: the first command finished, the second finished, or the victim was not running any more."""
EXPLAINED_CODES = (2, 4)
"""Exit codes of a command that prints why it stopped."""

STAGES: dict[str, tuple[str, ...]] = {
    "starting Spark": ("starting Spark",),
    "reading the metadata": ("opening the metadata", "metadata", "owners"),
    "reading the indexes": ("indexes", "entry-logs"),
    "asking bookies": ("ask",),
    "comparing": ("compare", "judge", "witness"),
    "reading the metadata again": ("second-scan",),
    "checking": ("derive", "check", "confirm"),
    "reporting": ("changes", "holds", "report"),
}
"""Groups of an audit's stages that one victim interrupts. There are not more of them than victims."""


@dataclass(frozen=True)
class Baseline:
    """An undisturbed audit: its pieces of work in order, its exit code, findings and tables.

    A piece of work is a stage or a table that the audit reports to its progress listener. ``pieces`` has
    pairs of a stage and a piece of work.
    """

    pieces: Sequence[tuple[str, str]]
    exit_code: int
    findings: Sequence[str]

    def of_stage(self, stage: str) -> list[str]:
        """Return the pieces of work of one group of stages."""
        return [piece for stage_name, piece in self.pieces if stage_name in STAGES[stage]]


@dataclass(frozen=True)
class Cell:
    """The result of one stage and victim. ``faults`` describes each violated expectation."""

    stage: str
    piece: str
    victim: str
    outcome: str
    said: str
    faults: tuple[str, ...]
    seconds: float


def audit_undisturbed(setup: AuditSetup) -> Baseline:
    """Audit once without disturbance."""
    out, progress = setup.new_run(), ProgressTrigger()
    ended = setup.audit_in_process(out, progress)
    assert (out / "report.json").exists(), ended.stderr
    whole = Baseline(tuple(dict.fromkeys(progress.begun)), ended.exit_code, findings_of(out))
    setup.clear(out)
    return whole


def matrix(whole: Baseline) -> list[tuple[str, str, Victim]]:
    """Return a cell for each stage and victim. Successive cells use the stage's pieces of work in turn."""
    return [
        (stage, pieces[(row + number) % len(pieces)], victim)
        for number, victim in enumerate(VICTIMS)
        for row, stage in enumerate(STAGES)
        if (pieces := whole.of_stage(stage))
    ]


def diagonal(whole: Baseline) -> list[tuple[str, str, Victim]]:
    """Return cells that cover every stage at least once and each victim once.

    Their order makes the chains in `run_cells` long.
    """
    cells = matrix(whole)
    rows = len(cells) // len(VICTIMS)
    chosen = [cells[number * rows + number % rows] for number in range(len(VICTIMS))]
    return sorted(chosen, key=lambda cell: (not cell[2].takes_run, cell[2].arguments))


def run_cells(
    setup: AuditSetup, whole: Baseline, cells: Sequence[tuple[str, str, Victim]], chained: bool
) -> Iterator[Cell]:
    """Interrupt an audit for each cell and repeat its command; yield the results.

    Args:
        setup: The store, the disks and the session.
        whole: The undisturbed audit to compare with.
        cells: Stage, piece of work and victim of each cell.
        chained: Let the next cell's victim interrupt the repeated command, until a command finishes. The
            findings of that command then count for all interrupted commands before it.
    """
    out: Path | None = None
    for (stage, piece, victim), following in zip_longest(cells, cells[1:]):
        began, out = time.monotonic(), out or setup.new_run()
        broken = victim.strike(setup, out, piece)
        last = not chained or following is None or not victim.can_precede(following[2])
        faults: list[str] = []
        if broken is None:
            outcome, message = NOT_AT_WORK, ""
        else:
            outcome, message = _judge_outcome(setup, whole, victim, broken, out, faults, last)
        if last or _is_whole(out):
            setup.clear(out)
            out = None
        yield Cell(stage, piece, victim.name, outcome, message, tuple(faults), time.monotonic() - began)


def _judge_outcome(
    setup: AuditSetup,
    whole: Baseline,
    victim: Victim,
    broken: Result,
    out: Path,
    faults: list[str],
    last: bool,
) -> tuple[str, str]:
    message = last_line(broken.stderr)
    if "Traceback" in broken.stderr:
        faults.append(f"a traceback: {broken.stderr[-1500:]}")
    if _is_whole(out):
        ended, outcome = broken, UNDISTURBED
    else:
        if broken.exit_code >= 0 and broken.exit_code not in EXPLAINED_CODES:
            faults.append(f"ended with {broken.exit_code} and without a report: {broken.stderr[-1500:]}")
        if not last:
            return RESUMED, message
        ended, outcome = victim.repeat(setup, out), RESUMED
    if ended.exit_code != whole.exit_code:
        faults.append(f"exit code {ended.exit_code}, not {whole.exit_code}: {ended.stderr[-1500:]}")
    elif findings_of(out) != whole.findings:
        faults.append(f"other findings: {_differ(findings_of(out), whole.findings)}")
    return outcome, message


def _is_whole(out: Path) -> bool:
    return (out / "report.json").exists()


def _differ(first: Sequence[str], second: Sequence[str]) -> str:
    return "; ".join(line[:800] for line in sorted({*first} ^ {*second})[:4])


def last_line(stderr: str) -> str:
    """Return the last message of a command."""
    lines = [line for line in stderr.splitlines() if line.startswith("bkaudit: ")]
    return lines[-1].removeprefix("bkaudit: ") if lines else ""
