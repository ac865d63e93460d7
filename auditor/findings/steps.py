"""What to do about findings, in order: a step for each check and urgency, with the first objects by name.

The first step with an action is what to do now. It is made of counts by bookie, which are bounded by bookies
and checks however many findings there are.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from auditor.checks import BY_ID, place_of_check
from auditor.model.amounts import first_names
from auditor.model.finding import Confidence, Severity, Urgency
from auditor.model.run_facts import Step

BOOKIES_NAMED = 2


class FindingCount(NamedTuple):
    """How many findings have all of this in common, and the first ledger that they are about.

    ``suppression`` is the number of the entry that names them, None for none.
    """

    change: str
    urgency: str
    severity: str
    id: str
    confidence: str
    suppression: int | None
    bookie_id: str | None
    findings: int
    scope_id: int | None = None
    ledger_id: int | None = None

    @property
    def confirmed(self) -> bool:
        """Whether these are certain."""
        return self.confidence == Confidence.CONFIRMED


def next_steps(counts: Iterable[FindingCount]) -> list[Step]:
    """The steps of what was found and nothing suppresses, the most urgent first; of one check the certain
    objects first.

    >>> counts = [FindingCount("new", "destroys-data", "critical", "gc-would-delete-live", "confirmed", None,
    ...                        f"bk-{name}", 1) for name in "abc"]
    >>> next_steps(counts)[0]["action"]
    'stop garbage collection on bk-a, bk-b and 1 more'
    """
    groups: dict[tuple[str, str], list[FindingCount]] = {}
    for each in counts:
        if each.suppression is None:
            groups.setdefault((each.urgency, each.id), []).append(each)
    steps = [_step(group) for group in groups.values()]
    return sorted(steps, key=lambda step: place_of_check(step["urgency"], step["severity"], step["id"]))


def _step(group: list[FindingCount]) -> Step:
    group = sorted(group, key=lambda each: (place_of_check(*each[1:4]), not each.confirmed, _object(each)))
    first = group[0]
    check, count = BY_ID.get(first.id), sum(each.findings for each in group)
    bookies = list(dict.fromkeys(each.bookie_id for each in group if each.bookie_id is not None))
    presses = Severity(first.severity).at_least(Severity.WARNING) or first.urgency == Urgency.UNSEEN
    action = check.do_now if presses and check is not None else None
    if action is not None and "{bookies}" in action and not bookies:
        action = None  # one finding of all bookies, where none was to be read
    if action is not None:
        names = {"bookies": first_names(bookies, BOOKIES_NAMED), "ledgers": _ledgers(first, count)}
        action = action.format_map(names)
    return Step(
        id=first.id,
        urgency=first.urgency,
        severity=first.severity,
        count=count,
        unsure=sum(each.findings for each in group if not each.confirmed),
        action=action,
        bookie_id=first.bookie_id,
        scope_id=_decimal(first.scope_id),
        ledger_id=_decimal(first.ledger_id),
    )


def _object(of: FindingCount) -> tuple[str, int, int]:
    return of.bookie_id or "", of.scope_id or 0, of.ledger_id or 0


def _ledgers(first: FindingCount, count: int) -> str:
    if first.ledger_id is None:
        return f"{count:,} ledgers"
    scope = f" of scope {first.scope_id}" if first.scope_id else ""
    more = f" and {count - 1:,} more" if count > 1 else ""
    return f"ledger {first.ledger_id}{scope}{more}"


def _decimal(number: int | None) -> str | None:
    return None if number is None else str(number)
