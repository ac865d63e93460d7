"""Sentences on holds. A hold forbids an action on a bookie or a ledger until a condition lifts it."""

from __future__ import annotations

from collections.abc import Sequence

from auditor.actions.gate import GateRun
from auditor.actions.hold_order import sort_by_importance
from auditor.model.holds import METADATA_SOURCE, ActionKind, HoldObject, bookie_source, ledger_key
from auditor.model.ledger_id import LedgerId
from auditor.model.permission import ActionObject, Refused
from auditor.reports.plain_text import fold_text

_ACTION_TEXTS = {
    ActionKind.RECOVER: "recover",
    ActionKind.STOP: "stop",
    ActionKind.RESTORE_METADATA: "restore the metadata of",
    ActionKind.MAKE_COOKIE: "create a cookie for",
    ActionKind.REBUILD_INDEX: "rebuild the index of",
    ActionKind.START: "start",
    ActionKind.WAIT: "wait for the repair of",
    ActionKind.COLLECT: "collect garbage on",
    ActionKind.COMPACT: "compact",
    ActionKind.DECOMMISSION: "decommission",
    ActionKind.DELETE_COOKIE: "delete the cookie of",
    ActionKind.DELETE_LEDGER: "delete",
}


def refusal_text(refusal: Refused) -> str:
    """Return the sentence that is shown in place of a command if `auditor.actions.gate` refused the action.

    >>> from auditor.model.permission import UnfitRunReason
    >>> objects = (ActionObject(HoldObject.LEDGER, "0/42"),)
    >>> old = UnfitRunReason.DATA_TOO_OLD
    >>> refusal_text(Refused(ActionKind.RECOVER, objects, reason=old.sentence, unfit_reason=old))
    'Do not: recover ledger 42: the data of this run is more than 24 hours old; audit again'
    """
    names = " and ".join(dict.fromkeys(map(_object_name, refusal.objects))) or "anything"
    # Most sentences begin with the name of their object, which this text has already.
    return f"Do not: {_ACTION_TEXTS[refusal.kind]} {names}: {refusal.sentence.removeprefix(f'{names}: ')}"


def _object_name(action_object: ActionObject) -> str:
    if action_object.kind is not HoldObject.LEDGER:
        return action_object.key
    scope_text, _, ledger_text = action_object.key.partition("/")
    return LedgerId(int(ledger_text), int(scope_text)).display_name


def bookie_hold_lines(run: GateRun, bookie_id: str, width: int) -> list[str]:
    """Return the lines on all holds (rules that forbid actions) that concern a bookie.

    These holds are on the bookie, on the data that was read from it, or on the metadata store.
    """
    object_keys = (
        (HoldObject.BOOKIE, bookie_id),
        (HoldObject.SOURCE, bookie_source(bookie_id)),
        (HoldObject.SOURCE, METADATA_SOURCE),
    )
    return _hold_lines(run, [ActionObject(*object_key) for object_key in object_keys], width)


def ledger_hold_lines(run: GateRun, ledger_id: int, scope_id: int, width: int) -> list[str]:
    """Return the lines on all holds (rules that forbid actions) on a ledger."""
    object_key = ledger_key(scope_id, ledger_id)
    return _hold_lines(run, [ActionObject(HoldObject.LEDGER, object_key)], width)


def _hold_lines(run: GateRun, action_objects: Sequence[ActionObject], width: int) -> list[str]:
    """Return a heading and the holds on ``action_objects``, the most important first.

    A hold is a rule that forbids actions. Empty if there are no holds.
    """
    lines = []
    for hold in sort_by_importance(run.holds.find_holds(action_objects)):
        forbidden_actions = ", ".join(action_kind.replace("-", " ") for action_kind in hold.forbids)
        reason_text = hold.reason if hold.certain else f"{hold.reason}, unconfirmed"
        reason_text = f"{reason_text}, from an earlier run" if hold.carried else reason_text
        lines += fold_text(f"{forbidden_actions}: {hold.message} ({reason_text})", width, "  ", "    ")
        lines += fold_text(f"until: {hold.lift.describe([hold.reason])}", width, "    ", "      ")
    return ["do not", *lines] if lines else []
