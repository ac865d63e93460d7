"""Ordered list of actions of a run; all screens, pages, plans and alerts print from it.

A check has an instruction for its findings (``do_now``) and the kind of that action (``action``). The list
has the instruction for the objects on which the gate permits it. Forbidden instructions are on a second list,
with the reason. Actions on one object are together, in the order in which a person takes them. Objects are
ordered by their most urgent finding.

A hold can forbid a necessary stop because the bookie alone has or serves entries. The list then says: copy
these entries first, then stop the bookie. It says the same if several bookies on the list alone serve entries
together, so that not all of them may stop.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

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
"""Reasons of holds on a stop that end once other bookies serve copies of the entries."""
ALL_STOP_REFUSAL = (
    "findings ask to stop every writable bookie: repair the common fault instead, and audit again"
)
"""Reason, in a refusal, why no entry is copied before a stop: no bookie would remain to take copies."""
JointHolders = Callable[[Collection[str]], Iterable[Collection[str]] | None]
"""Function of the bookies that stop. Returns their sets that are the only servers of an entry (`StopSet`)."""
_ACTION_KINDS = list(ActionKind)


@dataclass(frozen=True, slots=True)
class PermittedLedgers:
    """Ledgers on which a check's action is permitted: their number, and the ids of the first one."""

    count: int
    scope_id: int
    ledger_id: int


@dataclass(frozen=True, slots=True)
class ActionList:
    """Actions in order, and the instructions that findings ask for and that holds forbid."""

    actions: tuple[Action, ...]
    forbidden: tuple[ForbiddenAction, ...]

    @property
    def texts(self) -> dict[str, str]:
        """First instruction of each check, by check id."""
        text_by_check: dict[str, str] = {}
        for action in self.actions:
            for id in action["checks"]:
                text_by_check.setdefault(id, action["text"])
        return text_by_check


def build_action_list(
    run: HeldRun,
    counts: Iterable[FindingCount],
    ledgers: Mapping[str, PermittedLedgers],
    writable: Collection[str] | None = None,
    joint_holders: JointHolders | None = None,
) -> ActionList:
    """Build the list from the findings that are not suppressed.

    Args:
        run: the run, whose holds are finished.
        counts: numbers of findings with the same check, urgency and object.
        ledgers: the ledgers on which a check's action is permitted, by check id. A missing check has none.
        writable: the bookies that take writes; None if that is not known.
        joint_holders: the function that finds sets of bookies that are the only servers of an entry; None if
            these sets are not known.
    """
    groups: dict[tuple[str, str], list[FindingCount]] = {}
    for count in counts:
        if count.suppression is None:
            groups.setdefault((count.urgency, count.id), []).append(count)
    actions: list[Action] = []
    forbidden: list[ForbiddenAction] = []
    urgent_groups = [
        (check, _sort_counts(group))
        for group in groups.values()
        if (check := BY_ID.get(group[0].id)) is not None
        and check.do_now is not None
        and _is_urgent_group(group)
    ]
    planned_stops = _plan_stops(run, urgent_groups, joint_holders)
    for check, group in urgent_groups:
        permitted, refusals = _decide_instructions(run, check, group, ledgers, writable, planned_stops)
        actions += permitted
        forbidden += refusals
    return ActionList(tuple(_sort_actions(_merge_actions(actions))), tuple(_merge_refusals(forbidden)))


@dataclass(frozen=True, slots=True)
class _PlannedStops:
    """Bookies that the list would stop, and sets of them that must not all stop.

    ``last_holders`` maps a bookie to a set of bookies, itself included, that alone serve some entries.
    """

    bookies: frozenset[str] = frozenset()
    last_holders: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def _plan_stops(
    run: HeldRun,
    urgent_groups: Sequence[tuple[Check, list[FindingCount]]],
    joint_holders: JointHolders | None,
) -> _PlannedStops:
    """Collect the bookies that the list would stop; confirmed and urgent findings come first."""
    ordered = sorted(
        (not count.confirmed, check_order(count.urgency, count.severity, count.id), name)
        for check, group in urgent_groups
        if "{bookies}" in (check.do_now or "") and _action_kinds(check) == (ActionKind.STOP,)
        for count in group
        for name in _instructed_bookies(run, check, count)
    )
    names = list(dict.fromkeys(name for *_, name in ordered if _may_stop(run, name)))
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


def _merge_actions(actions: Iterable[Action]) -> list[Action]:
    """Merge equal instructions of several checks; the result has the urgency of the most urgent check."""
    merged_actions: dict[tuple[str | None, str], Action] = {}
    for action in sorted(actions, key=_sort_key):
        merged_action = merged_actions.setdefault((action["kind"], action["text"]), action)
        if merged_action is not action:
            merged_action["checks"] = [*merged_action["checks"], *action["checks"]]
            merged_action["count"] += action["count"]
            merged_action["unsure"] += action["unsure"]
    return list(merged_actions.values())


def _merge_refusals(refusals: Iterable[ForbiddenAction]) -> list[ForbiddenAction]:
    """Merge refusals of one kind on the same objects."""
    merged: dict[tuple[str, str, str], ForbiddenAction] = {}
    for refusal in refusals:
        merged_refusal = merged.setdefault((refusal["kind"], refusal["objects"], refusal["why"]), refusal)
        if merged_refusal is not refusal:
            merged_refusal["checks"] = [*merged_refusal["checks"], *refusal["checks"]]
    return list(merged.values())


def _sort_key(action: Action) -> tuple[int, int, int, str]:
    return check_order(action["urgency"], action["severity"], action["checks"][0])


def _is_urgent_group(group: Sequence[FindingCount]) -> bool:
    worst_count = min(group, key=lambda count: Severity(count.severity).rank)
    return Severity(worst_count.severity).at_least(Severity.WARNING) or worst_count.urgency == Urgency.UNSEEN


def _sort_counts(group: Sequence[FindingCount]) -> list[FindingCount]:
    """Sort counts by severity, confirmed findings before others, and then by object."""
    return sorted(
        group,
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
    group: list[FindingCount],
    ledgers: Mapping[str, PermittedLedgers],
    writable: Collection[str] | None,
    planned_stops: _PlannedStops,
) -> tuple[list[Action], list[ForbiddenAction]]:
    assert check.do_now is not None
    if "{bookies}" in check.do_now:
        return _make_bookie_actions(run, check, group, writable, planned_stops)
    if "{ledgers}" in check.do_now and check.action is not None:
        return _make_ledger_actions(run, check, group, ledgers.get(check.id))
    return [_make_action(check, group, {"ledgers": _ledger_names(group[0], _count_findings(group))})], []


def _make_bookie_actions(
    run: HeldRun,
    check: Check,
    group: list[FindingCount],
    writable: Collection[str] | None,
    planned_stops: _PlannedStops,
) -> tuple[list[Action], list[ForbiddenAction]]:
    by_bookie: dict[str, list[FindingCount]] = {}
    for count in group:
        for name in _instructed_bookies(run, check, count):
            by_bookie.setdefault(name, []).append(count._replace(bookie_id=name))
    permitted: list[str] = []
    refusals_by_bookie: dict[str, list[Refused]] = {}
    for name in by_bookie:
        answers = [permit(run, kind, [bookie(name)]) for kind in _action_kinds(check)]
        if refusals := [answer for answer in answers if isinstance(answer, Refused)]:
            refusals_by_bookie[name] = refusals
        elif name in planned_stops.last_holders and _action_kinds(check) == (ActionKind.STOP,):
            refusals_by_bookie[name] = []
        else:
            permitted.append(name)
    actions = []
    if permitted:
        counts = [count for name in permitted for count in by_bookie[name]]
        actions.append(_make_action(check, counts, {"bookies": first_names(permitted, MAX_BOOKIES_NAMED)}))
    forbidden = []
    for name, refusals in refusals_by_bookie.items():
        first_refusal = next((refusal for refusal in refusals if not _ends_when_copied(refusal)), None)
        copy_answer = permit(run, ActionKind.RECOVER, [bookie(name)])
        if first_refusal is None and isinstance(copy_answer, Refused):
            first_refusal = copy_answer
        if (
            first_refusal is None
            and writable is not None
            and by_bookie.keys() | planned_stops.bookies >= {*writable}
        ):
            start_answer = permit(run, ActionKind.START, [bookie(name)])
            if not refusals and check.id in DANGEROUS_CHECKS and not isinstance(start_answer, Refused):
                actions.append(_restart_without_collection(check, by_bookie[name], name))
                continue
            # Copying for one stop would move the data to the next bookie that stops, without end.
            first_refusal = Refused(ActionKind.STOP, (bookie(name),), why=ALL_STOP_REFUSAL)
        if first_refusal is None:
            holders = planned_stops.last_holders.get(name, (name,))
            actions.append(_copy_then_stop(check, by_bookie[name], name, holders))
        else:
            forbidden.append(_forbidden_action(check, name, first_refusal))
    return actions, forbidden


def _restart_without_collection(check: Check, counts: list[FindingCount], name: str) -> Action:
    """Return the restart, without garbage collection, of a bookie that must serve while others stop."""
    text = (
        f"restart {name} alone, with {NO_COLLECTION} in its configuration: the bookie deletes "
        "nothing meanwhile"
    )
    return _make_action(check, counts, {}, text)


def _ends_when_copied(refusal: Refused) -> bool:
    """Return whether a stop is refused only by holds that end once its entries have other copies."""
    reasons = [hold.reason for hold in refusal.holds]
    if refusal.unfit is not None:
        return False
    return (
        refusal.kind is ActionKind.STOP
        and bool(reasons)
        and all(reason in REASONS_TO_COPY_FIRST for reason in reasons)
    )


def _action_kinds(check: Check) -> tuple[ActionKind, ...]:
    """Return the kinds of action of a check's instruction; a restart is a stop and a start."""
    if check.action is None:
        return ()
    is_restart = check.action is ActionKind.STOP and (check.do_now or "").startswith("restart ")
    return (ActionKind.STOP, ActionKind.START) if is_restart else (check.action,)


def _instructed_bookies(run: HeldRun, check: Check, count: FindingCount) -> list[str]:
    """Return the bookies of an instruction; for a bookie with several ids these are the further ids."""
    if count.bookie_id is None:
        return []
    if not any(rule.target is HoldTarget.IDENTITY for rule in check.holds):
        return [count.bookie_id]
    ids = {
        key
        for (object, key), holds in run.holds.by_key.items()
        if object == HoldObject.BOOKIE and any(hold.reason == check.id for hold in holds)
    }
    return sorted(ids - {count.bookie_id})


def _copy_then_stop(check: Check, counts: list[FindingCount], name: str, holders: Sequence[str]) -> Action:
    """Return the instruction to copy a bookie's entries and then stop it.

    ``holders`` are the bookies of the list, including this one, that alone serve the entries.
    """
    assert check.do_now is not None
    stop_text = check.do_now.format(bookies=name, ledgers="")
    names, verb = first_names(holders, MAX_BOOKIES_NAMED), "serves" if len(holders) == 1 else "serve"
    return _make_action(
        check, counts, {}, f"copy the entries that {names} alone {verb} to other bookies, then {stop_text}"
    )


def _make_ledger_actions(
    run: HeldRun, check: Check, group: list[FindingCount], permitted: PermittedLedgers | None
) -> tuple[list[Action], list[ForbiddenAction]]:
    assert check.action is not None
    total = _count_findings(group)
    answer = permit(run, check.action, [])
    if isinstance(answer, Refused):
        return [], [_forbidden_action(check, _ledger_names(group[0], total), answer)]
    if permitted is None:
        why = "each of these ledgers has a hold that forbids it (bkaudit explain ledger ID shows the holds)"
        refusal = Refused(check.action, (), why=why)
        return [], [_forbidden_action(check, _ledger_names(group[0], total), refusal)]
    first_ledger_count = group[0]._replace(scope_id=permitted.scope_id, ledger_id=permitted.ledger_id)
    names = _ledger_names(first_ledger_count, min(permitted.count, total))
    action = _make_action(check, [first_ledger_count, *group[1:]], {"ledgers": names})
    action["count"] = total
    return [action], []


def _make_action(
    check: Check, group: Sequence[FindingCount], names: Mapping[str, str], text: str | None = None
) -> Action:
    first_ledger_count = group[0]
    return Action(
        kind=None if check.action is None else str(check.action),
        text=text if text is not None else (check.do_now or "").format_map(names),
        checks=[check.id],
        urgency=first_ledger_count.urgency,
        severity=first_ledger_count.severity,
        count=_count_findings(group),
        unsure=sum(count.findings for count in group if count.confidence != Confidence.CONFIRMED),
        bookies=list(dict.fromkeys(count.bookie_id for count in group if count.bookie_id is not None)),
        bookie_id=first_ledger_count.bookie_id,
        scope_id=decimal(first_ledger_count.scope_id),
        ledger_id=decimal(first_ledger_count.ledger_id),
    )


def _forbidden_action(check: Check, objects: str, answer: Refused) -> ForbiddenAction:
    return ForbiddenAction(
        kind=str(answer.kind), objects=objects, why=answer.sentence, way_out=answer.way_out, checks=[check.id]
    )


def _count_findings(group: Sequence[FindingCount]) -> int:
    return sum(count.findings for count in group)


def _ledger_names(first_ledger_count: FindingCount, count: int) -> str:
    if first_ledger_count.ledger_id is None:
        return f"{count:,} ledgers"
    more_text = f" and {count - 1:,} more" if count > 1 else ""
    return LedgerId(first_ledger_count.ledger_id, first_ledger_count.scope_id or 0).display_name + more_text


def _sort_actions(actions: Sequence[Action]) -> list[Action]:
    """Sort actions: the most urgent object first, and the actions on one object in the order of execution."""

    def object_key(action: Action) -> tuple[str | None, ...]:
        return action["bookie_id"], action["scope_id"], action["ledger_id"]

    first_keys: dict[tuple[str | None, ...], tuple[int, int, int, str]] = {}
    for action in actions:
        first_keys[object_key(action)] = min(
            _sort_key(action), first_keys.get(object_key(action), _sort_key(action))
        )
    return sorted(
        actions, key=lambda action: (first_keys[object_key(action)], _action_phase(action), _sort_key(action))
    )


def _action_phase(action: Action) -> int:
    """Return the position of an action among the actions on one object.

    An action that changes nothing (kind None) comes between the stop and the start.
    """
    kind = ActionKind.RESTORE_METADATA if action["kind"] is None else ActionKind(action["kind"])
    return _ACTION_KINDS.index(kind)


LEDGER_ACTIONS = tuple(
    (check.id, check.action)
    for check in BY_ID.values()
    if check.action is not None and "{ledgers}" in (check.do_now or "")
)
"""Pairs (check, kind of action) of checks with an action on ledgers; the gate decides for each ledger."""
