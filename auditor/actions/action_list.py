"""Ordered list of the actions that a run's findings require. Screens, pages and alerts show this list.

A check has an instruction for its findings (``do_now``) and the kind of that action (``action``). The list
has the instruction for the objects on which the gate permits it. A second list has the forbidden
instructions, with the reason. The actions on one object are adjacent, in the order of execution. Objects are
ordered by their most urgent finding.

A hold can forbid a necessary stop because no other bookie has or serves some entries. The instruction is then
to copy these entries, and to stop the bookie afterwards. It is the same if several bookies on the list are
the only ones that serve an entry, so that not all of them may stop.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from auditor.actions.action_order import merge_actions, merge_refusals, sort_actions
from auditor.actions.gate import HeldRun, Refused, permit
from auditor.actions.objects import bookie
from auditor.actions.stop_set import DANGEROUS_CHECKS, NO_COLLECTION, StopSet
from auditor.checks import BY_ID, Check, check_order
from auditor.findings.table import MAX_BOOKIES_NAMED, FindingCount
from auditor.model.action_facts import Action, ForbiddenAction
from auditor.model.amounts import first_names
from auditor.model.finding import Confidence, Severity, Urgency, decimal
from auditor.model.holds import ActionKind, FactReason, HoldObject, HoldTarget
from auditor.model.ledger_id import LedgerId

REASONS_TO_COPY_FIRST = (FactReason.LAST_KNOWN_COPY, FactReason.LAST_SERVED_COPY)
"""Reasons of holds that forbid a stop until other bookies serve copies of the entries."""
ALL_STOP_REFUSAL_TEXT = (
    "findings ask to stop every writable bookie: repair the common fault instead, and audit again"
)
"""Text of a refusal to copy entries before a stop: no writable bookie would remain to take the copies."""
JointHolders = Callable[[Collection[str]], Iterable[Collection[str]] | None]
"""Function that returns, for stopping bookies, the sets of them that are the only servers of an entry."""


@dataclass(frozen=True, slots=True)
class PermittedLedgers:
    """Ledgers on which a check's action is permitted: their number, and scope and id of the first ledger."""

    count: int
    scope_id: int
    ledger_id: int


@dataclass(frozen=True, slots=True)
class ActionList:
    """Permitted actions in order, and the actions that findings require but holds forbid."""

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
    run: HeldRun,
    counts: Iterable[FindingCount],
    ledgers: Mapping[str, PermittedLedgers],
    writable_bookies: Collection[str] | None = None,
    joint_holders: JointHolders | None = None,
) -> ActionList:
    """Build the list from the findings that are not suppressed.

    Args:
        run: the run, whose holds are finished.
        counts: numbers of findings with the same check, urgency and object.
        ledgers: the ledgers on which a check's action is permitted, by check id. Checks without such a ledger
            are left out.
        writable_bookies: the bookies that take writes; None if that is not known.
        joint_holders: the function that finds sets of bookies that are the only servers of an entry; None if
            these sets are not known.
    """
    groups_by_check: dict[tuple[str, str], list[FindingCount]] = {}
    for count in counts:
        if count.suppression is None:
            groups_by_check.setdefault((count.urgency, count.id), []).append(count)
    actions: list[Action] = []
    forbidden_actions: list[ForbiddenAction] = []
    urgent_checks = [
        (check, _sort_counts(count_group))
        for count_group in groups_by_check.values()
        if (check := BY_ID.get(count_group[0].id)) is not None
        and check.do_now is not None
        and _is_urgent_group(count_group)
    ]
    planned_stops = _plan_stops(run, urgent_checks, joint_holders)
    for check, count_group in urgent_checks:
        permitted_actions, refused_actions = _decide_instructions(
            run, check, count_group, ledgers, writable_bookies, planned_stops
        )
        actions += permitted_actions
        forbidden_actions += refused_actions
    return ActionList(tuple(sort_actions(merge_actions(actions))), tuple(merge_refusals(forbidden_actions)))


@dataclass(frozen=True, slots=True)
class _PlannedStops:
    """Bookies that the list would stop, and the ones among them that must not stop too.

    ``last_holders`` maps a bookie that must not stop to the only bookies that serve some entries. The bookie
    is one of these.
    """

    bookies: frozenset[str] = frozenset()
    last_holders: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def _plan_stops(
    run: HeldRun,
    urgent_checks: Sequence[tuple[Check, list[FindingCount]]],
    joint_holders: JointHolders | None,
) -> _PlannedStops:
    """Find the bookies that the list would stop. Confirmed and urgent findings are considered first."""
    ordered_stops = sorted(
        (not count.confirmed, check_order(count.urgency, count.severity, count.id), name)
        for check, count_group in urgent_checks
        if "{bookies}" in (check.do_now or "") and _action_kinds(check) == (ActionKind.STOP,)
        for count in count_group
        for name in _instructed_bookies(run, check, count)
    )
    names = list(dict.fromkeys(name for *_, name in ordered_stops if _may_stop(run, name)))
    stop_set = StopSet(joint_holders(names) if joint_holders is not None and len(names) > 1 else ())
    last_holders: dict[str, tuple[str, ...]] = {}
    for name in names:
        if holders := stop_set.last_holders(name):
            last_holders[name] = holders
        else:
            stop_set.add(name)
    return _PlannedStops(frozenset(names), last_holders)


def _may_stop(run: HeldRun, name: str) -> bool:
    """Return whether the list may stop a bookie, at once or after its entries are copied."""
    answer = permit(run, ActionKind.STOP, [bookie(name)])
    return not isinstance(answer, Refused) or _ends_when_copied(answer)


def _is_urgent_group(count_group: Sequence[FindingCount]) -> bool:
    worst_count = min(count_group, key=lambda count: Severity(count.severity).rank)
    return Severity(worst_count.severity).at_least(Severity.WARNING) or worst_count.urgency == Urgency.UNSEEN


def _sort_counts(count_group: Sequence[FindingCount]) -> list[FindingCount]:
    """Sort counts by severity, confirmed findings before others, and then by object."""
    return sorted(
        count_group,
        key=lambda count: (
            check_order(count.urgency, count.severity, count.id),
            not count.confirmed,
            count.bookie_id or "",
            count.scope_id or 0,
            count.ledger_id or 0,
        ),
    )


def _decide_instructions(
    run: HeldRun,
    check: Check,
    count_group: list[FindingCount],
    ledgers: Mapping[str, PermittedLedgers],
    writable_bookies: Collection[str] | None,
    planned_stops: _PlannedStops,
) -> tuple[list[Action], list[ForbiddenAction]]:
    assert check.do_now is not None
    if "{bookies}" in check.do_now:
        return _make_bookie_actions(run, check, count_group, writable_bookies, planned_stops)
    if "{ledgers}" in check.do_now and check.action is not None:
        return _make_ledger_actions(run, check, count_group, ledgers.get(check.id))
    return [
        _make_action(
            check, count_group, {"ledgers": _ledger_names(count_group[0], _count_findings(count_group))}
        )
    ], []


def _make_bookie_actions(
    run: HeldRun,
    check: Check,
    count_group: list[FindingCount],
    writable_bookies: Collection[str] | None,
    planned_stops: _PlannedStops,
) -> tuple[list[Action], list[ForbiddenAction]]:
    counts_by_bookie: dict[str, list[FindingCount]] = {}
    for count in count_group:
        for name in _instructed_bookies(run, check, count):
            counts_by_bookie.setdefault(name, []).append(count._replace(bookie_id=name))
    permitted_bookies: list[str] = []
    refusals_by_bookie: dict[str, list[Refused]] = {}
    for name in counts_by_bookie:
        answers = [permit(run, kind, [bookie(name)]) for kind in _action_kinds(check)]
        if refusals := [answer for answer in answers if isinstance(answer, Refused)]:
            refusals_by_bookie[name] = refusals
        elif name in planned_stops.last_holders and _action_kinds(check) == (ActionKind.STOP,):
            refusals_by_bookie[name] = []
        else:
            permitted_bookies.append(name)
    actions = []
    if permitted_bookies:
        counts = [count for name in permitted_bookies for count in counts_by_bookie[name]]
        actions.append(
            _make_action(check, counts, {"bookies": first_names(permitted_bookies, MAX_BOOKIES_NAMED)})
        )
    forbidden_actions = []
    for name, refusals in refusals_by_bookie.items():
        first_refusal = next((refusal for refusal in refusals if not _ends_when_copied(refusal)), None)
        copy_answer = permit(run, ActionKind.RECOVER, [bookie(name)])
        if first_refusal is None and isinstance(copy_answer, Refused):
            first_refusal = copy_answer
        if (
            first_refusal is None
            and writable_bookies is not None
            and counts_by_bookie.keys() | planned_stops.bookies >= {*writable_bookies}
        ):
            start_answer = permit(run, ActionKind.START, [bookie(name)])
            if not refusals and check.id in DANGEROUS_CHECKS and not isinstance(start_answer, Refused):
                actions.append(_restart_without_collection(check, counts_by_bookie[name], name))
                continue
            # A copy made before one stop would be on a bookie that must stop too, and so on without end.
            first_refusal = Refused(ActionKind.STOP, (bookie(name),), why=ALL_STOP_REFUSAL_TEXT)
        if first_refusal is None:
            holders = planned_stops.last_holders.get(name, (name,))
            actions.append(_copy_then_stop(check, counts_by_bookie[name], name, holders))
        else:
            forbidden_actions.append(_forbidden_action(check, name, first_refusal))
    return actions, forbidden_actions


def _restart_without_collection(check: Check, counts: list[FindingCount], name: str) -> Action:
    """Return the instruction to restart a bookie without garbage collection, instead of a stop."""
    action_text = (
        f"restart {name} alone, with {NO_COLLECTION} in its configuration: the bookie deletes "
        "nothing meanwhile"
    )
    return _make_action(check, counts, {}, action_text)


def _ends_when_copied(refusal: Refused) -> bool:
    """Return whether a refusal of a stop ends as soon as other bookies serve copies of the entries."""
    reasons = [hold.reason for hold in refusal.holds]
    if refusal.unfit is not None:
        return False
    return (
        refusal.kind is ActionKind.STOP
        and bool(reasons)
        and all(reason in REASONS_TO_COPY_FIRST for reason in reasons)
    )


def _action_kinds(check: Check) -> tuple[ActionKind, ...]:
    """Return the kinds of action in a check's instruction: stop and start for a restart, else at most one."""
    if check.action is None:
        return ()
    is_restart = check.action is ActionKind.STOP and (check.do_now or "").startswith("restart ")
    return (ActionKind.STOP, ActionKind.START) if is_restart else (check.action,)


def _instructed_bookies(run: HeldRun, check: Check, count: FindingCount) -> list[str]:
    """Return the bookies that an instruction names.

    They are the bookie of the finding, or its other ids if the check is about a bookie with several ids.
    """
    if count.bookie_id is None:
        return []
    if not any(hold_rule.target is HoldTarget.IDENTITY for hold_rule in check.holds):
        return [count.bookie_id]
    bookie_ids = {
        key
        for (object, key), holds in run.holds.holds_by_key.items()
        if object == HoldObject.BOOKIE and any(hold.reason == check.id for hold in holds)
    }
    return sorted(bookie_ids - {count.bookie_id})


def _copy_then_stop(check: Check, counts: list[FindingCount], name: str, holders: Sequence[str]) -> Action:
    """Return the instruction to copy entries to other bookies and then to stop the bookie.

    ``holders`` are the only bookies that have or serve the entries. The bookie is one of them.
    """
    assert check.do_now is not None
    stop_text = check.do_now.format(bookies=name, ledgers="")
    holder_names, verb = first_names(holders, MAX_BOOKIES_NAMED), "serves" if len(holders) == 1 else "serve"
    return _make_action(
        check,
        counts,
        {},
        f"copy the entries that {holder_names} alone {verb} to other bookies, then {stop_text}",
    )


def _make_ledger_actions(
    run: HeldRun, check: Check, count_group: list[FindingCount], permitted_ledgers: PermittedLedgers | None
) -> tuple[list[Action], list[ForbiddenAction]]:
    assert check.action is not None
    finding_total = _count_findings(count_group)
    answer = permit(run, check.action, [])
    if isinstance(answer, Refused):
        return [], [_forbidden_action(check, _ledger_names(count_group[0], finding_total), answer)]
    if permitted_ledgers is None:
        reason_text = (
            "each of these ledgers has a hold that forbids it (bkaudit explain ledger ID shows the holds)"
        )
        refusal = Refused(check.action, (), why=reason_text)
        return [], [_forbidden_action(check, _ledger_names(count_group[0], finding_total), refusal)]
    first_count = count_group[0]._replace(
        scope_id=permitted_ledgers.scope_id, ledger_id=permitted_ledgers.ledger_id
    )
    names = _ledger_names(first_count, min(permitted_ledgers.count, finding_total))
    action = _make_action(check, [first_count, *count_group[1:]], {"ledgers": names})
    action["count"] = finding_total
    return [action], []


def _make_action(
    check: Check,
    count_group: Sequence[FindingCount],
    names: Mapping[str, str],
    action_text: str | None = None,
) -> Action:
    first_count = count_group[0]
    return Action(
        kind=None if check.action is None else str(check.action),
        text=action_text if action_text is not None else (check.do_now or "").format_map(names),
        checks=[check.id],
        urgency=first_count.urgency,
        severity=first_count.severity,
        count=_count_findings(count_group),
        unsure=sum(count.findings for count in count_group if count.confidence != Confidence.CONFIRMED),
        bookies=list(dict.fromkeys(count.bookie_id for count in count_group if count.bookie_id is not None)),
        bookie_id=first_count.bookie_id,
        scope_id=decimal(first_count.scope_id),
        ledger_id=decimal(first_count.ledger_id),
    )


def _forbidden_action(check: Check, names: str, answer: Refused) -> ForbiddenAction:
    return ForbiddenAction(
        kind=str(answer.kind), objects=names, why=answer.sentence, way_out=answer.way_out, checks=[check.id]
    )


def _count_findings(count_group: Sequence[FindingCount]) -> int:
    return sum(count.findings for count in count_group)


def _ledger_names(first_count: FindingCount, count: int) -> str:
    if first_count.ledger_id is None:
        return f"{count:,} ledgers"
    rest_text = f" and {count - 1:,} more" if count > 1 else ""
    return LedgerId(first_count.ledger_id, first_count.scope_id or 0).display_name + rest_text


LEDGER_ACTIONS = tuple(
    (check.id, check.action)
    for check in BY_ID.values()
    if check.action is not None and "{ledgers}" in (check.do_now or "")
)
"""Pairs (check id, kind of action) of the checks with an action on ledgers."""
