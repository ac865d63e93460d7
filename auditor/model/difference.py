"""How two runs differ, small enough to keep: counts in full, findings one after the other."""

from __future__ import annotations

from dataclasses import dataclass

from auditor.model.history import RunSummary


@dataclass(frozen=True, slots=True)
class ChangedFinding:
    """A finding of one of two runs that is not the same in the other.

    ``change`` is new, worse, better, fixed or unseen (neither found nor ruled out). Severity, confidence and
    ``missing`` (entries confirmed absent) are those of the newer run that found it; the ``previous_`` ones
    are of the older run, None where it is new. Times are milliseconds since 1970, as the newer run that found
    it knows them; ``suppressed`` is the reason of a suppression there.
    """

    change: str
    id: str
    severity: str
    previous_severity: str | None
    confidence: str
    previous_confidence: str | None
    scope_id: int | None
    ledger_id: int | None
    bookie_id: str | None
    missing: int
    previous_missing: int | None
    first_seen: int
    last_seen: int
    suppressed: str | None
    fingerprint: str


@dataclass(frozen=True, slots=True)
class ChangeTally:
    """How many findings of one id and severity changed in one way."""

    change: str
    id: str
    severity: str
    count: int


@dataclass(frozen=True, slots=True)
class Difference:
    """Two runs, what changed in numbers, and sentences that a reader of those numbers should know.

    ``counts`` has a number for each of new, worse, better, fixed, unseen and same; ``tally`` those by id and
    severity, all but the same ones, in the order of ``counts`` and then the worst first.
    """

    old: RunSummary
    new: RunSummary
    counts: dict[str, int]
    tally: tuple[ChangeTally, ...]
    warnings: tuple[str, ...]
