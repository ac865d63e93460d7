"""Ordered list of the actions that a run's findings require. Screens, pages and alerts show this list.

A check can have an instruction (``do_now``) and the kind of action that the instruction performs
(``action``). The gate (`auditor.actions.gate`) decides about each object. If it permits the action, the list
contains the instruction for the object. A second list has the forbidden instructions with reasons. Actions
on the same object are adjacent, in order of execution. Objects are ordered by their most urgent finding.

A hold (a rule) can forbid a necessary stop of a bookie because no other bookie has or serves some entries.
The instruction is then to copy these entries first, and to stop the bookie afterwards. The same applies if
several bookies on the list are the only servers of an entry: they may not all stop.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from auditor.actions.action_order import merge_actions, merge_refusals, sort_actions
from auditor.actions.gate import GateRun, Refused, permit
from auditor.actions.objects import bookie
from auditor.actions.stop_set import DANGEROUS_CHECKS, NO_GC_SETTINGS, StopSet
from auditor.checks import CHECK_BY_ID, Check, check_order
from auditor.findings.table import MAX_BOOKIES_NAMED, FindingCount
from auditor.model.action_facts import Action, ForbiddenAction
from auditor.model.amounts import first_names
from auditor.model.finding import Confidence, Severity, Urgency, decimal_text
from auditor.model.holds import ActionKind, FactReason, HoldObject, HoldTarget
from auditor.model.ledger_id import LedgerId

REASONS_TO_COPY_FIRST = (FactReason.LAST_KNOWN_COPY, FactReason.LAST_SERVED_COPY)
"""Reasons of holds that forbid a stop until other bookies serve copies of the entries."""
ALL_STOP_REFUSAL_TEXT = (
    "the findings require a stop of every writable bookie; repair the common fault instead, and audit again"
)
"""Text of a refusal to copy entries before a stop: no writable bookie would remain to take the copies."""
HolderFinder = Callable[[Collection[str]], Iterable[Collection[str]] | None]
"""Function from the bookies that would stop to the sets of them that are the only servers of an entry."""


@dataclass(frozen=True, slots=True)
class PermittedLedgers:
    """Number of ledgers on which a check's action is permitted, and the 128-bit id of the first one."""

    count: int
    scope_id: int
    ledger_id: int


@dataclass(frozen=True, slots=True)
class ActionList:
    """Permitted actions in order, and actions that findings require although holds (rules) forbid them."""

    actions: tuple[Action, ...]
    forbidden_actions: tuple[ForbiddenAction, ...]

    @property
    def texts(self) -> dict[str, str]:
        """Text of the first action of each check, by check id."""
        text_by_check: dict[str, str] = {}
        for action in self.actions:
            for id in action["checks"]:
                text_by_check.setdefault(id, action["text"])
        return text_by_check


def build_action_list(
    run: GateRun,
    counts: Iterable[FindingCount],
    ledgers: Mapping[str, PermittedLedgers],
    writable_bookies: Collection[str] | None = None,
    find_holders: HolderFinder | None = None,
) -> ActionList:
    """Build the list from the findings that are not suppressed.

    Args:
        run: the run. Its holds (the rules that forbid actions) must be complete.
        counts: numbers of findings, by check, urgency and object.
        ledgers: the ledgers on which a check's action is permitted, by check id. If the action is not
            permitted on any ledger, the check has no key.
        writable_bookies: the bookies that take writes. None if they are not known.
        find_holders: the function that finds the sets of bookies that are the only servers of an entry.
            None if these sets are not known.
    """
    groups_by_check: dict[tuple[str, str], list[FindingCount]] = {}
    for count in counts:
        if count.suppression is None:
            groups_by_check.setdefault((count.urgency, count.id), []).append(count)
    actions: list[Action] = []
    forbidden_actions: list[ForbiddenAction] = []
    urgent_checks = [
        (check, _sort_counts(counts_of_check))
        for counts_of_check in groups_by_check.values()
        if (check := CHECK_BY_ID.get(counts_of_check[0].id)) is not None
        and check.do_now is not None
        and _is_urgent_group(counts_of_check)
    ]
    planned_stops = _plan_stops(run, urgent_checks, find_holders)
    for check, counts_of_check in urgent_checks:
        permitted_actions, refused_actions = _decide_instructions(
            run, check, counts_of_check, ledgers, writable_bookies, planned_stops
        )
        actions += permitted_actions
        forbidden_actions += refused_actions
    return ActionList(tuple(sort_actions(merge_actions(actions))), tuple(merge_refusals(forbidden_actions)))


@dataclass(frozen=True, slots=True)
class _PlannedStops:
    """Bookies that the list would stop, and the bookies among them that must keep running.

    A bookie must keep running if its stop and the other stops together would leave an entry without a server.
    ``last_holders`` maps such a bookie to the only bookies that serve such an entry, including the bookie
    itself.
    """

    bookies: frozenset[str] = frozenset()
    last_holders: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def _plan_stops(
    run: GateRun,
    urgent_checks: Sequence[tuple[Check, list[FindingCount]]],
    find_holders: HolderFinder | None,
) -> _PlannedStops:
    """Return the bookies to stop, and those that must keep running. Confirmed, urgent findings come first."""
    ordered_stops = sorted(
        (
            not finding_count.confirmed,
            check_order(finding_count.urgency, finding_count.severity, finding_count.id),
            stopped_bookie,
        )
        for check, counts_of_check in urgent_checks
        if "{bookies}" in (check.do_now or "") and _action_kinds(check) == (ActionKind.STOP,)
        for finding_count in counts_of_check
        for stopped_bookie in _find_action_bookies(run, check, finding_count)
    )
    bookies = dict.fromkeys(stopped_bookie for *_, stopped_bookie in ordered_stops)
    bookie_ids = [stopped_bookie for stopped_bookie in bookies if _may_stop(run, stopped_bookie)]
    stop_set = StopSet(find_holders(bookie_ids) if find_holders is not None and len(bookie_ids) > 1 else ())
    last_holders: dict[str, tuple[str, ...]] = {}
    for bookie_id in bookie_ids:
        if holders := stop_set.last_holders(bookie_id):
            last_holders[bookie_id] = holders
        else:
            stop_set.add(bookie_id)
    return _PlannedStops(frozenset(bookie_ids), last_holders)


def _may_stop(run: GateRun, bookie_id: str) -> bool:
    """Return whether the list may stop a bookie, at once or after its entries are copied."""
    gate_answer = permit(run, ActionKind.STOP, [bookie(bookie_id)])
    return not isinstance(gate_answer, Refused) or _is_lifted_by_copy(gate_answer)


def _is_urgent_group(counts_of_check: Sequence[FindingCount]) -> bool:
    most_severe_count = min(counts_of_check, key=lambda finding_count: Severity(finding_count.severity).rank)
    return (
        Severity(most_severe_count.severity).at_least(Severity.WARNING)
        or most_severe_count.urgency == Urgency.UNCHECKED
    )


def _sort_counts(counts_of_check: Sequence[FindingCount]) -> list[FindingCount]:
    """Sort counts by severity, then confirmed before unconfirmed findings, then by object."""
    return sorted(
        counts_of_check,
        key=lambda finding_count: (
            check_order(finding_count.urgency, finding_count.severity, finding_count.id),
            not finding_count.confirmed,
            finding_count.bookie_id or "",
            finding_count.scope_id or 0,
            finding_count.ledger_id or 0,
        ),
    )


def _decide_instructions(
    run: GateRun,
    check: Check,
    counts_of_check: list[FindingCount],
    ledgers: Mapping[str, PermittedLedgers],
    writable_bookies: Collection[str] | None,
    planned_stops: _PlannedStops,
) -> tuple[list[Action], list[ForbiddenAction]]:
    assert check.do_now is not None
    if "{bookies}" in check.do_now:
        return _make_bookie_actions(run, check, counts_of_check, writable_bookies, planned_stops)
    if "{ledgers}" in check.do_now and check.action is not None:
        return _make_ledger_actions(run, check, counts_of_check, ledgers.get(check.id))
    return [
        _make_action(
            check,
            counts_of_check,
            {"ledgers": _format_ledgers(counts_of_check[0], _count_findings(counts_of_check))},
        )
    ], []


def _make_bookie_actions(
    run: GateRun,
    check: Check,
    counts_of_check: list[FindingCount],
    writable_bookies: Collection[str] | None,
    planned_stops: _PlannedStops,
) -> tuple[list[Action], list[ForbiddenAction]]:
    counts_by_bookie: dict[str, list[FindingCount]] = {}
    for finding_count in counts_of_check:
        for bookie_id in _find_action_bookies(run, check, finding_count):
            counts_by_bookie.setdefault(bookie_id, []).append(finding_count._replace(bookie_id=bookie_id))
    permitted_bookies: list[str] = []
    refusals_by_bookie: dict[str, list[Refused]] = {}
    for bookie_id in counts_by_bookie:
        gate_answers = [permit(run, kind, [bookie(bookie_id)]) for kind in _action_kinds(check)]
        if refusals := [gate_answer for gate_answer in gate_answers if isinstance(gate_answer, Refused)]:
            refusals_by_bookie[bookie_id] = refusals
        elif bookie_id in planned_stops.last_holders and _action_kinds(check) == (ActionKind.STOP,):
            refusals_by_bookie[bookie_id] = []
        else:
            permitted_bookies.append(bookie_id)
    actions = []
    if permitted_bookies:
        permitted_counts = [
            count for permitted_id in permitted_bookies for count in counts_by_bookie[permitted_id]
        ]
        actions.append(
            _make_action(
                check, permitted_counts, {"bookies": first_names(permitted_bookies, MAX_BOOKIES_NAMED)}
            )
        )
    forbidden_actions = []
    for bookie_id, refusals in refusals_by_bookie.items():
        final_refusal = next((refusal for refusal in refusals if not _is_lifted_by_copy(refusal)), None)
        copy_gate_answer = permit(run, ActionKind.RECOVER, [bookie(bookie_id)])
        if final_refusal is None and isinstance(copy_gate_answer, Refused):
            final_refusal = copy_gate_answer
        if (
            final_refusal is None
            and writable_bookies is not None
            and counts_by_bookie.keys() | planned_stops.bookies >= {*writable_bookies}
        ):
            start_gate_answer = permit(run, ActionKind.START, [bookie(bookie_id)])
            if not refusals and check.id in DANGEROUS_CHECKS and not isinstance(start_gate_answer, Refused):
                actions.append(_make_restart_action(check, counts_by_bookie[bookie_id], bookie_id))
                continue
            # A copy made before one stop would be on a bookie that must stop too, and so on without end.
            final_refusal = Refused(ActionKind.STOP, (bookie(bookie_id),), reason=ALL_STOP_REFUSAL_TEXT)
        if final_refusal is None:
            holders = planned_stops.last_holders.get(bookie_id, (bookie_id,))
            actions.append(_make_stop_action(check, counts_by_bookie[bookie_id], bookie_id, holders))
        else:
            forbidden_actions.append(_forbidden_action(check, bookie_id, final_refusal))
    return actions, forbidden_actions


def _make_restart_action(check: Check, finding_counts: list[FindingCount], bookie_id: str) -> Action:
    """Return the instruction to restart a bookie with garbage collection disabled, instead of stopping it."""
    action_text = (
        f"restart {bookie_id} alone, with {NO_GC_SETTINGS} in its configuration, so that it deletes "
        "nothing meanwhile"
    )
    return _make_action(check, finding_counts, {}, action_text)


def _is_lifted_by_copy(refusal: Refused) -> bool:
    """Return whether a refusal of a stop ends as soon as other bookies serve copies of the entries."""
    hold_reasons = [hold.reason for hold in refusal.holds]
    if refusal.unfit_reason is not None:
        return False
    return (
        refusal.kind is ActionKind.STOP
        and bool(hold_reasons)
        and all(reason in REASONS_TO_COPY_FIRST for reason in hold_reasons)
    )


def _action_kinds(check: Check) -> tuple[ActionKind, ...]:
    """Return the kinds of action in a check's instruction: stop and start for a restart, else at most one."""
    if check.action is None:
        return ()
    return (check.action, ActionKind.START) if check.restarts else (check.action,)


def _find_action_bookies(run: GateRun, check: Check, finding_count: FindingCount) -> list[str]:
    """Return the bookies that an instruction names.

    If the check is about a bookie with several ids, these are the other ids of that bookie. Otherwise this
    is the bookie of the finding. The list is empty if the finding has no bookie.
    """
    if finding_count.bookie_id is None:
        return []
    if not any(hold_rule.target is HoldTarget.ALIAS_IDS for hold_rule in check.holds):
        return [finding_count.bookie_id]
    bookie_ids = {
        object_key
        for (object_kind, object_key), holds_on_bookie in run.holds.holds_by_key.items()
        if object_kind == HoldObject.BOOKIE and any(hold.reason == check.id for hold in holds_on_bookie)
    }
    return sorted(bookie_ids - {finding_count.bookie_id})


def _make_stop_action(
    check: Check, finding_counts: list[FindingCount], bookie_id: str, holders: Sequence[str]
) -> Action:
    """Return the instruction to copy entries to other bookies and then to stop the bookie.

    ``holders`` are the only bookies that have or serve the entries. The bookie is one of them.
    """
    assert check.do_now is not None
    stop_text = check.do_now.format(bookies=bookie_id, ledgers="")
    holders_text = first_names(holders, MAX_BOOKIES_NAMED)
    return _make_action(
        check,
        finding_counts,
        {},
        f"copy the entries that are served only by {holders_text} to other bookies, then {stop_text}",
    )


def _make_ledger_actions(
    run: GateRun,
    check: Check,
    counts_of_check: list[FindingCount],
    permitted_ledgers: PermittedLedgers | None,
) -> tuple[list[Action], list[ForbiddenAction]]:
    assert check.action is not None
    finding_total = _count_findings(counts_of_check)
    gate_answer = permit(run, check.action, [])
    if isinstance(gate_answer, Refused):
        return [], [_forbidden_action(check, _format_ledgers(counts_of_check[0], finding_total), gate_answer)]
    if permitted_ledgers is None:
        reason_text = (
            "each of these ledgers has a hold that forbids the action "
            "(bkaudit explain ledger ID shows the holds)"
        )
        refusal = Refused(check.action, (), reason=reason_text)
        return [], [_forbidden_action(check, _format_ledgers(counts_of_check[0], finding_total), refusal)]
    first_count = counts_of_check[0]._replace(
        scope_id=permitted_ledgers.scope_id, ledger_id=permitted_ledgers.ledger_id
    )
    ledgers_text = _format_ledgers(first_count, min(permitted_ledgers.count, finding_total))
    action = _make_action(check, [first_count, *counts_of_check[1:]], {"ledgers": ledgers_text})
    action["count"] = finding_total
    return [action], []


def _make_action(
    check: Check,
    counts_of_check: Sequence[FindingCount],
    text_by_placeholder: Mapping[str, str],
    action_text: str | None = None,
) -> Action:
    first_count = counts_of_check[0]
    bookie_ids = [finding_count.bookie_id for finding_count in counts_of_check]
    return Action(
        kind=None if check.action is None else str(check.action),
        text=action_text if action_text is not None else (check.do_now or "").format_map(text_by_placeholder),
        checks=[check.id],
        urgency=first_count.urgency,
        severity=first_count.severity,
        count=_count_findings(counts_of_check),
        unsure=sum(
            finding_count.findings
            for finding_count in counts_of_check
            if finding_count.confidence != Confidence.CONFIRMED
        ),
        bookies=list(dict.fromkeys(bookie_id for bookie_id in bookie_ids if bookie_id is not None)),
        bookie_id=first_count.bookie_id,
        scope_id=decimal_text(first_count.scope_id),
        ledger_id=decimal_text(first_count.ledger_id),
    )


def _forbidden_action(check: Check, objects_text: str, gate_answer: Refused) -> ForbiddenAction:
    return ForbiddenAction(
        kind=str(gate_answer.kind),
        objects=objects_text,
        why=gate_answer.sentence,
        way_out=gate_answer.way_out,
        checks=[check.id],
    )


def _count_findings(counts_of_check: Sequence[FindingCount]) -> int:
    return sum(finding_count.findings for finding_count in counts_of_check)


def _format_ledgers(first_count: FindingCount, ledger_count: int) -> str:
    if first_count.ledger_id is None:
        return f"{ledger_count:,} ledgers"
    further_ledgers_text = f" and {ledger_count - 1:,} more" if ledger_count > 1 else ""
    return LedgerId(first_count.ledger_id, first_count.scope_id or 0).display_name + further_ledgers_text


LEDGER_ACTIONS = tuple(
    (check.id, check.action)
    for check in CHECK_BY_ID.values()
    if check.action is not None and "{ledgers}" in (check.do_now or "")
)
"""Pairs (check id, kind of action) of the checks with an action on ledgers."""
