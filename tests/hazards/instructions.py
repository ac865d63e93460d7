"""All instructions that any part of the program gives for a run, and the rules for them.

No hold forbids a printed instruction, and no two instructions of a run contradict each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

from auditor.actions.gate import Refused, permit
from auditor.actions.objects import bookie, ledger
from auditor.decommission.rehearse import rehearse
from auditor.model.decommission import Answer
from auditor.model.holds import ActionKind, HoldObject
from auditor.plan.plan_file import make_plan

if TYPE_CHECKING:
    from auditor.actions.objects import ActionObject
    from auditor.runs.reader import RunReader

MAX_REHEARSED_BOOKIES = 40
"""So many bookies of one run are asked whether they may be decommissioned."""


@dataclass(frozen=True)
class Instruction:
    """An action on objects, and the part of the program that recommends it.

    If ``ordered`` is true, it is an order of two actions: copy first, then stop.
    """

    kind: ActionKind
    objects: tuple[ActionObject, ...]
    origin: str
    ordered: bool = False


def instructions_of(run: RunReader) -> list[Instruction]:
    """Return all instructions of a run: from its action list, its plan, and the answers for its bookies."""
    return [*_listed(run), *_planned(run), *_decommissioned(run)]


def _listed(run: RunReader) -> Iterator[Instruction]:
    for action in run.report.run.actions or ():
        if action["kind"] is None:
            continue
        kind = ActionKind(action["kind"])
        ordered = action["text"].startswith("copy the entries")
        for name in action["bookies"]:
            yield Instruction(kind, (bookie(name),), "actions", ordered)
        if not action["bookies"] and action["ledger_id"] is not None:
            subject = ledger(int(action["ledger_id"]), int(action["scope_id"] or 0))
            yield Instruction(kind, (subject,), "actions")


def _planned(run: RunReader) -> Iterator[Instruction]:
    for step in make_plan(run).steps:
        kind = ActionKind(step.kind)
        objects = [] if step.bookie_id is None else [bookie(step.bookie_id)]
        ledgers = [ledger(int(target.ledger_id)) for target in step.ledgers]
        for subject in ledgers or objects:
            yield Instruction(kind, (subject, *(objects if ledgers else ())), f"plan step {step.number}")


def _decommissioned(run: RunReader) -> Iterator[Instruction]:
    names = sorted(row["bookie_id"] for row in run.table("bookies", ["bookie_id"]).to_pylist())
    for name in names[:MAX_REHEARSED_BOOKIES]:
        if rehearse(run, [name]).answer is Answer.NOW:
            yield Instruction(ActionKind.DECOMMISSION, (bookie(name),), "decommission")


CONTRADICTIONS = frozenset(
    frozenset(pair)
    for pair in (
        (ActionKind.START, ActionKind.STOP),
        (ActionKind.START, ActionKind.DELETE_COOKIE),
        (ActionKind.MAKE_COOKIE, ActionKind.DELETE_COOKIE),
        (ActionKind.MAKE_COOKIE, ActionKind.DECOMMISSION),
        (ActionKind.STOP, ActionKind.COLLECT),
        (ActionKind.STOP, ActionKind.COMPACT),
        (ActionKind.REBUILD_INDEX, ActionKind.DECOMMISSION),
        (ActionKind.REBUILD_INDEX, ActionKind.DELETE_COOKIE),
        (ActionKind.RECOVER, ActionKind.DELETE_LEDGER),
        (ActionKind.WAIT, ActionKind.DELETE_LEDGER),
        (ActionKind.RESTORE_METADATA, ActionKind.DELETE_LEDGER),
        (ActionKind.RESTORE_METADATA, ActionKind.COLLECT),
    )
)
"""Pairs of kinds that nobody can follow on one object.

To start a bookie that is down and to take it out for good are two ways that both lose nothing.
"""


def problems_of(run: RunReader) -> list[str]:
    """Return descriptions of the problems with a run's instructions; a correct run has none."""
    instructions = instructions_of(run)
    return [*_forbidden(run, instructions), *_contradicting(instructions)]


def _forbidden(run: RunReader, instructions: Iterable[Instruction]) -> Iterator[str]:
    for instruction in instructions:
        answer = permit(run, instruction.kind, instruction.objects)
        if isinstance(answer, Refused) and not instruction.ordered:
            names = ", ".join(subject.key for subject in instruction.objects)
            yield f"{instruction.origin}: {instruction.kind} {names}: {answer.sentence}"


def _contradicting(instructions: Iterable[Instruction]) -> Iterator[str]:
    by_object: dict[ActionObject, set[tuple[ActionKind, str]]] = {}
    for instruction in instructions:
        for subject in instruction.objects:
            # A ledger is copied off a bookie: that says nothing of what else is done to the bookie.
            if subject.kind is HoldObject.BOOKIE and len(instruction.objects) > 1:
                continue
            by_object.setdefault(subject, set()).add((instruction.kind, instruction.origin))
    for subject, kinds in by_object.items():
        for (first, one_origin), (second, two_origin) in combinations(sorted(kinds), 2):
            if frozenset((first, second)) in CONTRADICTIONS:
                yield f"{subject.key}: {first} ({one_origin}) and {second} ({two_origin})"


def forbidden_by(run: RunReader) -> set[tuple[str, str, ActionKind]]:
    """Return the actions that a run's holds forbid: the object, its key, and the kind of action."""
    holds = [hold for holds in run.holds.holds_by_key.values() for hold in holds]
    holds += [hold for kind in ActionKind for hold in run.holds.iterate_ledger_holds(kind)]
    return {(str(hold.object), hold.key, kind) for hold in holds for kind in hold.forbids}
