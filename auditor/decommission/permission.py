"""Permission to remove bookies, from the gate (`auditor.actions.gate`), which permits or refuses actions.

A permission comes with the commands, and a refusal with the holds (rules that forbid actions). A running
bookie is stopped before it is removed, so holds that forbid this stop count too.
"""

from collections.abc import Iterator, Sequence

from auditor.actions.commands import decommission_command
from auditor.actions.gate import GateRun, permit
from auditor.actions.hold_order import sort_by_importance
from auditor.actions.objects import bookie
from auditor.model.decommission import Blocker, Cause
from auditor.model.holds import ActionKind, FactReason, Hold, HoldNotice, hold_notice
from auditor.model.permission import Allowed, Permission, Refused, UnfitRunReason

_CAUSE_BY_REASON = {
    str(FactReason.OPEN_LEDGERS): Cause.OPEN_LEDGERS,
    str(FactReason.LAST_SERVED_COPY): Cause.LAST_SERVED,
}
"""Causes by the reason of a hold that can end while the bookie runs. Others have `Cause.PROVED_HOLD`."""

_CAUSE_BY_UNFITNESS = {
    UnfitRunReason.NO_HOLDS: Cause.RUN_LACKS_HOLDS,
    UnfitRunReason.DATA_TOO_OLD: Cause.DATA_TOO_OLD,
    UnfitRunReason.DATA_OF_FUTURE: Cause.DATA_OF_FUTURE,
    UnfitRunReason.NO_EARLIER_RUN: Cause.NO_EARLIER_RUN,
    UnfitRunReason.CHECKS_NOT_RUN: Cause.CHECKS_NOT_RUN,
}


def permit_decommission(run: GateRun, bookies: Sequence[str], live_bookies: Sequence[str]) -> Permission:
    """Ask the gate (`auditor.actions.gate`) whether bookies may be removed.

    The gate permits or refuses actions. The result is a refusal also if it refuses to stop ``live_bookies``.
    """
    action_objects = [bookie(name) for name in bookies]
    gate_answer = permit(run, ActionKind.DECOMMISSION, action_objects)
    stop_gate_answer = permit(run, ActionKind.STOP, [bookie(name) for name in live_bookies])
    if isinstance(stop_gate_answer, Allowed):
        return gate_answer
    if isinstance(gate_answer, Allowed):
        return Refused(
            gate_answer.kind,
            gate_answer.objects,
            stop_gate_answer.holds,
            stop_gate_answer.reason,
            stop_gate_answer.unfit_reason,
        )
    action_holds = sort_by_importance(dict.fromkeys((*gate_answer.holds, *stop_gate_answer.holds)))
    return Refused(
        gate_answer.kind, gate_answer.objects, action_holds, gate_answer.reason, gate_answer.unfit_reason
    )


def gate_blockers(permission: Permission) -> Iterator[Blocker]:
    """Yield the reasons why a removal is refused; nothing if it is permitted.

    A reason is a hold (a rule that forbids the removal), or that the run permits no removal at all. If at
    least one hold is certain, the uncertain holds are left out.
    """
    if isinstance(permission, Allowed):
        return
    action_holds_by_cause: dict[Cause, list[Hold]] = {}
    for action_hold in permission.holds:
        if action_hold.certain:
            action_holds_by_cause.setdefault(
                _CAUSE_BY_REASON.get(action_hold.reason, Cause.PROVED_HOLD), []
            ).append(action_hold)
    for cause in (Cause.PROVED_HOLD, Cause.LAST_SERVED, Cause.OPEN_LEDGERS):
        if cause in action_holds_by_cause:
            yield Blocker(cause, detail=_reason_text(action_holds_by_cause[cause]))
    if permission.holds and not action_holds_by_cause:
        yield Blocker(Cause.DOUBTFUL_HOLD, detail=_reason_text(permission.holds))
    if permission.unfit_reason:
        yield Blocker(_CAUSE_BY_UNFITNESS[permission.unfit_reason])


def _reason_text(action_holds: Sequence[Hold]) -> str:
    return ", ".join(dict.fromkeys(action_hold.reason for action_hold in action_holds))


def notices_of(permission: Permission) -> tuple[HoldNotice, ...]:
    """Return the rules (holds) that forbid a removal, the most important first. Empty if it is permitted."""
    return () if isinstance(permission, Allowed) else tuple(map(hold_notice, permission.holds))


def decommission_commands(permission: Permission, bookies: Sequence[str]) -> tuple[str, ...]:
    """Return the commands that remove the bookies, in order. Empty if the removal is refused."""
    if isinstance(permission, Refused):
        return ()
    return tuple(decommission_command(permission, name) for name in bookies)
