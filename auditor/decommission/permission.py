"""Permission of the gate to remove bookies: the holds that forbid the removal, or its commands.

A running bookie is stopped before it is removed, so holds on its stop count too.
"""

from collections.abc import Iterator, Sequence

from auditor.actions.commands import decommission_command
from auditor.actions.gate import HeldRun, permit
from auditor.actions.hold_order import sort_by_importance
from auditor.actions.objects import bookie
from auditor.model.decommission import Blocker, Cause
from auditor.model.holds import ActionKind, FactReason, Hold, HoldNotice, hold_notice
from auditor.model.permission import Allowed, Permission, Refused, UnfitRunReason

_CAUSE_BY_REASON = {
    str(FactReason.OPEN_LEDGERS): Cause.OPEN_LEDGERS,
    str(FactReason.LAST_SERVED_COPY): Cause.LAST_SERVED,
}
"""Causes of holds that can end while the bookie runs, by reason. Other holds have `Cause.HELD`."""

_CAUSE_BY_UNFITNESS = {
    UnfitRunReason.NO_HOLDS: Cause.NO_HOLDS,
    UnfitRunReason.DATA_TOO_OLD: Cause.DATA_TOO_OLD,
    UnfitRunReason.DATA_OF_FUTURE: Cause.DATA_OF_FUTURE,
    UnfitRunReason.NO_EARLIER_RUN: Cause.NO_EARLIER_RUN,
    UnfitRunReason.CHECKS_NOT_RUN: Cause.CHECKS_NOT_RUN,
}


def permit_decommission(run: HeldRun, bookies: Sequence[str], live_bookies: Sequence[str]) -> Permission:
    """Ask the gate whether bookies may be removed. A stop of ``live_bookies`` must be permitted too."""
    objects = [bookie(name) for name in bookies]
    answer = permit(run, ActionKind.DECOMMISSION, objects)
    stop_answer = permit(run, ActionKind.STOP, [bookie(name) for name in live_bookies])
    if isinstance(stop_answer, Allowed):
        return answer
    if isinstance(answer, Allowed):
        return Refused(answer.kind, answer.objects, stop_answer.holds, stop_answer.why, stop_answer.unfit)
    holds = sort_by_importance(dict.fromkeys((*answer.holds, *stop_answer.holds)))
    return Refused(answer.kind, answer.objects, holds, answer.why, answer.unfit)


def gate_blockers(permission: Permission) -> Iterator[Blocker]:
    """Yield the causes of a refusal: its holds, and the reason why the run permits no removal at all.

    If some holds are certain, uncertain ones are left out. Nothing is yielded if the removal is permitted.
    """
    if isinstance(permission, Allowed):
        return
    holds_by_cause: dict[Cause, list[Hold]] = {}
    for hold in permission.holds:
        if hold.certain:
            holds_by_cause.setdefault(_CAUSE_BY_REASON.get(hold.reason, Cause.HELD), []).append(hold)
    for cause in (Cause.HELD, Cause.LAST_SERVED, Cause.OPEN_LEDGERS):
        if cause in holds_by_cause:
            yield Blocker(cause, detail=_reason_text(holds_by_cause[cause]))
    if permission.holds and not holds_by_cause:
        yield Blocker(Cause.DOUBT, detail=_reason_text(permission.holds))
    if permission.unfit:
        yield Blocker(_CAUSE_BY_UNFITNESS[permission.unfit])


def _reason_text(holds: Sequence[Hold]) -> str:
    return ", ".join(dict.fromkeys(hold.reason for hold in holds))


def notices_of(permission: Permission) -> tuple[HoldNotice, ...]:
    """Return the holds of a refusal, the most important first; empty if the removal is permitted."""
    return () if isinstance(permission, Allowed) else tuple(map(hold_notice, permission.holds))


def decommission_commands(permission: Permission, bookies: Sequence[str]) -> tuple[str, ...]:
    """Return the commands that remove the bookies, in order; empty if the removal is refused."""
    if isinstance(permission, Refused):
        return ()
    return tuple(decommission_command(permission, name) for name in bookies)
