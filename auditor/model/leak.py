"""A ledger that belongs to nobody, as whoever is to decide about it needs it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Leak:
    """One finding `ledger-unowned`: ``owner`` is the last known one, in words, and ``claim`` its path.

    ``made`` is in ms, None where nothing says it; ``bytes`` and ``entries`` are those of a closed ledger, one
    copy of it. ``why`` is what makes it a leak, ``doubt`` what speaks against it.
    """

    ledger_id: int
    confidence: str
    owner: str
    claim: str
    made: int | None
    bytes: int | None
    entries: int | None
    state: str | None
    why: str
    doubt: str | None


@dataclass(frozen=True, slots=True)
class LeakTotals:
    """What all leaks of a run add up to; ``confirmed`` are those that two runs agree on."""

    ledgers: int = 0
    confirmed: int = 0
    bytes: int = 0
    confirmed_bytes: int = 0
    entries: int = 0
