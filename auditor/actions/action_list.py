"""The ordered list of actions of a run: every screen, page, plan and alert prints from it.

Each check says what to do first about its findings (``do_now``) and of which kind that is (``action``). An
instruction is on the list for those objects on which the gate permits it; what holds forbid is on a list of
its own, with the reason. Actions on one object stand together, in the order in which they are taken, and
objects come in the order of the most urgent finding.

A stop that is needed and that a hold forbids, because the bookie alone has or serves entries, becomes an
order: copy these entries first, then stop it. So does a stop of one more bookie where those that stop would
together be the last that serve an entry.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from auditor.actions.gate import HeldRun, Refused, permit
from auditor.actions.objects import bookie
from auditor.actions.stop_set import DANGERS, NO_COLLECTION, StopSet
from auditor.checks import BY_ID, Check, place_of_check
from auditor.findings.table import BOOKIES_NAMED, FindingCount
from auditor.model.action_facts import Action, ForbiddenAction
from auditor.model.amounts import first_names
from auditor.model.finding import Confidence, Severity, Urgency, decimal
from auditor.model.holds import ActionKind, FactReason, HoldObject, HoldTarget
from auditor.model.ledger_id import LedgerId

COPY_FIRST = (FactReason.LAST_KNOWN_COPY, FactReason.LAST_SERVED_COPY)
"""Holds on a stop that end once the entries have another copy that is served."""
ALL_WOULD_STOP = "every bookie that takes writes should stop: mend what all have in common, and audit again"
"""Why nothing is copied before a stop: there is no bookie that copies could stay on."""
JointHolders = Callable[[Collection[str]], Iterable[Collection[str]] | None]
"""Of bookies that would stop, the sets that alone serve an entry together, as `StopSet` takes them."""
_KINDS = list(ActionKind)


@dataclass(frozen=True, slots=True)
class PermittedLedgers:
    """Of the ledgers that one check's findings are about, those on which an action is permitted."""

    count: int
    scope_id: int
    ledger_id: int


@dataclass(frozen=True, slots=True)
class ActionList:
    """What to do, in order; and what findings ask for although holds forbid it."""

    actions: tuple[Action, ...]
    forbidden: tuple[ForbiddenAction, ...]

    @property
    def texts(self) -> dict[str, str]:
        """The first instruction of each check."""
        found: dict[str, str] = {}
        for action in self.actions:
            for id in action["checks"]:
                found.setdefault(id, action["text"])
        return found


def build_action_list(
    run: HeldRun,
    counts: Iterable[FindingCount],
    ledgers: Mapping[str, PermittedLedgers],
    writable: Collection[str] | None = None,
    joint_holders: JointHolders | None = None,
) -> ActionList:
    """The list for what a run found and nothing suppresses.

    Args:
        run: The run, whose holds are finished.
        counts: How many findings have what in common.
        ledgers: By check, of those whose action is on ledgers: the ledgers on which it is permitted. A check
            that is not among them has none.
        writable: The bookies that take writes; None if that was not seen.
        joint_holders: Of bookies that would stop, those that alone serve an entry together; None: not known.
    """
    groups: dict[tuple[str, str], list[FindingCount]] = {}
    for count in counts:
        if count.suppression is None:
            groups.setdefault((count.urgency, count.id), []).append(count)
    actions: list[Action] = []
    forbidden: list[ForbiddenAction] = []
    pressing = [
        (check, _in_order(group))
        for group in groups.values()
        if (check := BY_ID.get(group[0].id)) is not None and check.do_now is not None and _is_pressing(group)
    ]
    together = _stops_together(run, pressing, joint_holders)
    for check, group in pressing:
        permitted, refused = _instructions(run, check, group, ledgers, writable, together)
        actions += permitted
        forbidden += refused
    return ActionList(tuple(_sorted(_united(actions))), tuple(_united_refusals(forbidden)))


@dataclass(frozen=True, slots=True)
class _StopsTogether:
    """The bookies that the list would stop, and with whom each of some would be the last to serve entries."""

    bookies: frozenset[str] = frozenset()
    last_holders: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def _stops_together(
    run: HeldRun,
    pressing: Sequence[tuple[Check, list[FindingCount]]],
    joint_holders: JointHolders | None,
) -> _StopsTogether:
    """All stops of the list as one set: confirmed and urgent ones may stop, the others are the last ones."""
    ordered = sorted(
        (not count.confirmed, place_of_check(count.urgency, count.severity, count.id), name)
        for check, group in pressing
        if "{bookies}" in (check.do_now or "") and _kinds_of(check) == (ActionKind.STOP,)
        for count in group
        for name in _bookies_of(run, check, count)
    )
    names = list(dict.fromkeys(name for *_, name in ordered if _may_stop(run, name)))
    stops = StopSet(joint_holders(names) if joint_holders is not None and len(names) > 1 else ())
    last_holders: dict[str, tuple[str, ...]] = {}
    for name in names:
        if holders := stops.last_holders(name):
            last_holders[name] = holders
        else:
            stops.add(name)
    return _StopsTogether(frozenset(names), last_holders)


def _may_stop(run: HeldRun, name: str) -> bool:
    """Whether the list may have a stop of a bookie, at once or after copies."""
    answer = permit(run, ActionKind.STOP, [bookie(name)])
    return not isinstance(answer, Refused) or _ends_with_copies(answer)


def _united(actions: Iterable[Action]) -> list[Action]:
    """Equal instructions of several checks as one, with the urgency of the most urgent check."""
    found: dict[tuple[str | None, str], Action] = {}
    for action in sorted(actions, key=_place):
        same = found.setdefault((action["kind"], action["text"]), action)
        if same is not action:
            same["checks"] = [*same["checks"], *action["checks"]]
            same["count"] += action["count"]
            same["unsure"] += action["unsure"]
    return list(found.values())


def _united_refusals(forbidden: Iterable[ForbiddenAction]) -> list[ForbiddenAction]:
    """Refusals of one kind on the same objects as one."""
    found: dict[tuple[str, str, str], ForbiddenAction] = {}
    for refused in forbidden:
        same = found.setdefault((refused["kind"], refused["objects"], refused["why"]), refused)
        if same is not refused:
            same["checks"] = [*same["checks"], *refused["checks"]]
    return list(found.values())


def _place(action: Action) -> tuple[int, int, int, str]:
    return place_of_check(action["urgency"], action["severity"], action["checks"][0])


def _is_pressing(group: Sequence[FindingCount]) -> bool:
    worst = min(group, key=lambda count: Severity(count.severity).rank)
    return Severity(worst.severity).at_least(Severity.WARNING) or worst.urgency == Urgency.UNSEEN


def _in_order(group: Sequence[FindingCount]) -> list[FindingCount]:
    """The most severe first, of these the confirmed ones, then by object."""
    return sorted(
        group,
        key=lambda count: (
            place_of_check(count.urgency, count.severity, count.id),
            not count.confirmed,
            count.bookie_id or "",
            count.scope_id or 0,
            count.ledger_id or 0,
        ),
    )


def _instructions(
    run: HeldRun,
    check: Check,
    group: list[FindingCount],
    ledgers: Mapping[str, PermittedLedgers],
    writable: Collection[str] | None,
    together: _StopsTogether,
) -> tuple[list[Action], list[ForbiddenAction]]:
    assert check.do_now is not None
    if "{bookies}" in check.do_now:
        return _on_bookies(run, check, group, writable, together)
    if "{ledgers}" in check.do_now and check.action is not None:
        return _on_ledgers(run, check, group, ledgers.get(check.id))
    return [_action(check, group, {"ledgers": _ledger_names(group[0], _total(group))})], []


def _on_bookies(
    run: HeldRun,
    check: Check,
    group: list[FindingCount],
    writable: Collection[str] | None,
    together: _StopsTogether,
) -> tuple[list[Action], list[ForbiddenAction]]:
    by_bookie: dict[str, list[FindingCount]] = {}
    for count in group:
        for name in _bookies_of(run, check, count):
            by_bookie.setdefault(name, []).append(count._replace(bookie_id=name))
    permitted: list[str] = []
    refused: dict[str, list[Refused]] = {}
    for name in by_bookie:
        answers = [permit(run, kind, [bookie(name)]) for kind in _kinds_of(check)]
        if refusals := [answer for answer in answers if isinstance(answer, Refused)]:
            refused[name] = refusals
        elif name in together.last_holders and _kinds_of(check) == (ActionKind.STOP,):
            refused[name] = []
        else:
            permitted.append(name)
    actions = []
    if permitted:
        counts = [count for name in permitted for count in by_bookie[name]]
        actions.append(_action(check, counts, {"bookies": first_names(permitted, BOOKIES_NAMED)}))
    forbidden = []
    for name, refusals in refused.items():
        first = next((refusal for refusal in refusals if not _ends_with_copies(refusal)), None)
        copying = permit(run, ActionKind.RECOVER, [bookie(name)])
        if first is None and isinstance(copying, Refused):
            first = copying
        if first is None and writable is not None and by_bookie.keys() | together.bookies >= {*writable}:
            start = permit(run, ActionKind.START, [bookie(name)])
            if not refusals and check.id in DANGERS and not isinstance(start, Refused):
                actions.append(_collect_nothing(check, by_bookie[name], name))
                continue
            # Copies for one stop would be made again for the next one, without end.
            first = Refused(ActionKind.STOP, (bookie(name),), why=ALL_WOULD_STOP)
        if first is None:
            holders = together.last_holders.get(name, (name,))
            actions.append(_copy_then_stop(check, by_bookie[name], name, holders))
        else:
            forbidden.append(_forbidden(check, name, first))
    return actions, forbidden


def _collect_nothing(check: Check, counts: list[FindingCount], name: str) -> Action:
    """What a bookie does whose collector would delete needed data, and that serves on while others stop."""
    text = f"restart {name} alone, with {NO_COLLECTION} in its configuration: it deletes nothing meanwhile"
    return _action(check, counts, {}, text)


def _ends_with_copies(refusal: Refused) -> bool:
    """Whether a stop is refused, and by nothing but holds that end once its entries have other copies."""
    reasons = [hold.reason for hold in refusal.holds]
    if refusal.unfit is not None:
        return False
    return refusal.kind is ActionKind.STOP and bool(reasons) and all(each in COPY_FIRST for each in reasons)


def _kinds_of(check: Check) -> tuple[ActionKind, ...]:
    """What an instruction does: a restart is a stop and a start."""
    if check.action is None:
        return ()
    restarts = check.action is ActionKind.STOP and (check.do_now or "").startswith("restart ")
    return (ActionKind.STOP, ActionKind.START) if restarts else (check.action,)


def _bookies_of(run: HeldRun, check: Check, count: FindingCount) -> list[str]:
    """The bookies that an instruction is about: of one that goes by several ids, the other ones."""
    if count.bookie_id is None:
        return []
    if not any(rule.on is HoldTarget.IDENTITY for rule in check.holds):
        return [count.bookie_id]
    ids = {
        key
        for (object, key), holds in run.holds.by_key.items()
        if object == HoldObject.BOOKIE and any(hold.reason == check.id for hold in holds)
    }
    return sorted(ids - {count.bookie_id})


def _copy_then_stop(check: Check, counts: list[FindingCount], name: str, holders: Sequence[str]) -> Action:
    """An order for two holds that conflict: one wants the bookie stopped, the other wants its copies.

    ``holders`` are the bookies of the list that alone serve these entries, the bookie among them.
    """
    assert check.do_now is not None
    stop = check.do_now.format(bookies=name, ledgers="")
    names, serve = first_names(holders, BOOKIES_NAMED), "serves" if len(holders) == 1 else "serve"
    return _action(
        check, counts, {}, f"copy the entries that {names} alone {serve} to other bookies, then {stop}"
    )


def _on_ledgers(
    run: HeldRun, check: Check, group: list[FindingCount], permitted: PermittedLedgers | None
) -> tuple[list[Action], list[ForbiddenAction]]:
    assert check.action is not None
    total = _total(group)
    answer = permit(run, check.action, [])
    if isinstance(answer, Refused):
        return [], [_forbidden(check, _ledger_names(group[0], total), answer)]
    if permitted is None:
        why = "each of them is held (bkaudit explain ledger ID says why)"
        held = Refused(check.action, (), why=why)
        return [], [_forbidden(check, _ledger_names(group[0], total), held)]
    first = group[0]._replace(scope_id=permitted.scope_id, ledger_id=permitted.ledger_id)
    names = _ledger_names(first, min(permitted.count, total))
    action = _action(check, [first, *group[1:]], {"ledgers": names})
    action["count"] = total
    return [action], []


def _action(
    check: Check, group: Sequence[FindingCount], names: Mapping[str, str], text: str | None = None
) -> Action:
    first = group[0]
    return Action(
        kind=None if check.action is None else str(check.action),
        text=text if text is not None else (check.do_now or "").format_map(names),
        checks=[check.id],
        urgency=first.urgency,
        severity=first.severity,
        count=_total(group),
        unsure=sum(count.findings for count in group if count.confidence != Confidence.CONFIRMED),
        bookies=list(dict.fromkeys(count.bookie_id for count in group if count.bookie_id is not None)),
        bookie_id=first.bookie_id,
        scope_id=decimal(first.scope_id),
        ledger_id=decimal(first.ledger_id),
    )


def _forbidden(check: Check, objects: str, answer: Refused) -> ForbiddenAction:
    return ForbiddenAction(
        kind=str(answer.kind),
        objects=objects,
        why=answer.sentence,
        way_out=answer.way_out,
        checks=[check.id],
    )


def _total(group: Sequence[FindingCount]) -> int:
    return sum(count.findings for count in group)


def _ledger_names(first: FindingCount, count: int) -> str:
    if first.ledger_id is None:
        return f"{count:,} ledgers"
    more = f" and {count - 1:,} more" if count > 1 else ""
    return LedgerId(first.ledger_id, first.scope_id or 0).in_words + more


def _sorted(actions: Sequence[Action]) -> list[Action]:
    """Actions on one object together, in the order in which they are taken; the most urgent object first."""

    def subject(action: Action) -> tuple[str | None, ...]:
        return action["bookie_id"], action["scope_id"], action["ledger_id"]

    first: dict[tuple[str | None, ...], tuple[int, int, int, str]] = {}
    for action in actions:
        first[subject(action)] = min(_place(action), first.get(subject(action), _place(action)))
    return sorted(actions, key=lambda action: (first[subject(action)], _phase(action), _place(action)))


def _phase(action: Action) -> int:
    """When an action on an object is taken: what changes nothing comes between the stop and the start."""
    kind = ActionKind.RESTORE_METADATA if action["kind"] is None else ActionKind(action["kind"])
    return _KINDS.index(kind)


LEDGER_ACTIONS = tuple(
    (check.id, check.action)
    for check in BY_ID.values()
    if check.action is not None and "{ledgers}" in (check.do_now or "")
)
"""Checks whose action is on ledgers, with its kind; whether it is permitted is asked of each ledger."""
