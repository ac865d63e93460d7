"""Merging of equal actions, and the order of actions on a list."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from auditor.checks import check_order
from auditor.model.action_facts import Action, ForbiddenAction
from auditor.model.holds import ActionKind

_ACTION_KINDS = list(ActionKind)


def merge_actions(actions: Iterable[Action]) -> list[Action]:
    """Merge equal instructions of several checks. The result has the urgency of the most urgent check."""
    merged_actions: dict[tuple[str | None, str], Action] = {}
    for action in sorted(actions, key=_sort_key):
        merged_action = merged_actions.setdefault((action["kind"], action["text"]), action)
        if merged_action is not action:
            merged_action["checks"] = [*merged_action["checks"], *action["checks"]]
            merged_action["count"] += action["count"]
            merged_action["unsure"] += action["unsure"]
    return list(merged_actions.values())


def merge_refusals(refusals: Iterable[ForbiddenAction]) -> list[ForbiddenAction]:
    """Merge forbidden actions with the same kind, objects and reason."""
    merged_refusals: dict[tuple[str, str, str], ForbiddenAction] = {}
    for refusal in refusals:
        merged_refusal = merged_refusals.setdefault(
            (refusal["kind"], refusal["objects"], refusal["why"]), refusal
        )
        if merged_refusal is not refusal:
            merged_refusal["checks"] = [*merged_refusal["checks"], *refusal["checks"]]
    return list(merged_refusals.values())


def _sort_key(action: Action) -> tuple[int, int, int, str]:
    return check_order(action["urgency"], action["severity"], action["checks"][0])


def sort_actions(actions: Sequence[Action]) -> list[Action]:
    """Sort actions by the most urgent action on their object, then by the order of execution."""

    def object_key(action: Action) -> tuple[str | None, ...]:
        return action["bookie_id"], action["scope_id"], action["ledger_id"]

    most_urgent_key_by_object: dict[tuple[str | None, ...], tuple[int, int, int, str]] = {}
    for action in actions:
        most_urgent_key_by_object[object_key(action)] = min(
            _sort_key(action), most_urgent_key_by_object.get(object_key(action), _sort_key(action))
        )
    return sorted(
        actions,
        key=lambda action: (
            most_urgent_key_by_object[object_key(action)],
            _action_phase(action),
            _sort_key(action),
        ),
    )


def _action_phase(action: Action) -> int:
    """Return the position of an action in the order of execution on one object.

    An action that changes nothing has no kind. It comes between a stop and a start.
    """
    action_kind = ActionKind.RESTORE_METADATA if action["kind"] is None else ActionKind(action["kind"])
    return _ACTION_KINDS.index(action_kind)
