"""The work of the Auditor and a worker on one ledger, entry by entry: the reference for a rehearsal."""

from __future__ import annotations

from dataclasses import dataclass

from auditor.decommission.targets import BATCH_ENTRIES
from auditor.model.decommission import Cause
from tests.simulate.small_clusters import Ledger


@dataclass(frozen=True)
class Outcome:
    """The outcome for a ledger. ``waits``: the command waits for it. ``cause``: the first that keeps it.

    ``needed`` and ``copied`` count copies of a ledger that moves. ``doubtful``: it may not move.
    """

    named: bool
    waits: bool
    cause: Cause | None
    doubtful: bool
    needed: int
    copied: int


def judge(ledger: Ledger, names: set[str], absent: set[str], spares: set[str], unread: set[str]) -> Outcome:
    """Return the outcome for one ledger after the bookies ``names`` stop, beside those that are absent."""
    outcome = _judge(ledger, names, names | absent, spares, unread)
    if outcome.cause and absent and _judge(ledger, names, names, spares, unread).cause is None:
        return Outcome(outcome.named, outcome.waits, Cause.ABSENT, False, 0, 0)
    return outcome


def _judge(ledger: Ledger, names: set[str], down: set[str], spares: set[str], unread: set[str]) -> Outcome:
    causes, doubtful, needed, copied, waits, is_named = set(), False, 0, 0, False, False
    for number, (_, ensemble) in enumerate(ledger.segments):
        final = number + 1 == len(ledger.segments) and not ledger.closed
        entries = _entries(ledger, number)
        is_named |= bool({*ensemble} & names)
        entry_ids = {entry for entry, bookies in entries.items() if {*bookies} & names}
        must_wait = bool(entry_ids) or (final and bool({*ensemble} & names))
        waits |= must_wait
        out = sum(name in down for name in ensemble)
        if must_wait and len(spares - {*ensemble}) < out:
            causes.add(Cause.NO_SPARE_BOOKIE)
        if final and _uncovered(ledger, ensemble, down):
            causes.add(Cause.NO_QUORUM_COVERAGE)
        for entry, bookies in entries.items():
            survivors = [name for name in bookies if name not in down]
            sure = [name for name in survivors if not _lacks(ledger, name, entry, unread, surely=False)]
            possible = [name for name in survivors if not _lacks(ledger, name, entry, unread, surely=True)]
            needed += len(bookies) - len(survivors)
            if not must_wait:
                continue
            if not survivors:
                causes.add(Cause.ONLY_COPY)
            elif not possible and len(survivors) < len(bookies):
                causes.add(Cause.UNREADABLE_ENTRY)
            doubtful |= not sure
        copied += _copied(entries, down) * out
    if not waits:
        causes.clear()
    for cause in (Cause.ONLY_COPY, Cause.UNREADABLE_ENTRY, Cause.NO_SPARE_BOOKIE, Cause.NO_QUORUM_COVERAGE):
        if cause in causes:
            return Outcome(is_named, waits, cause, False, 0, 0)
    return Outcome(is_named, waits, None, waits and doubtful, needed if waits else 0, copied if waits else 0)


def _entries(ledger: Ledger, number: int) -> dict[int, list[str]]:
    first, _ = ledger.segments[number]
    end = ledger.segments[number + 1][0] if number + 1 < len(ledger.segments) else None
    bookies = dict(ledger.entries())
    return {entry: bookies[entry] for entry in bookies if entry >= first and (end is None or entry < end)}


def _uncovered(ledger: Ledger, ensemble: tuple[str, ...], down: set[str]) -> bool:
    windows = ([ensemble[(pos + i) % ledger.size] for i in range(ledger.write)] for pos in range(ledger.size))
    return any(sum(name in down for name in window) >= ledger.ack for window in windows)


def _lacks(ledger: Ledger, name: str, entry: int, unread: set[str], surely: bool) -> bool:
    missing = entry in ledger.missing.get(name, ())
    if missing and not ledger.doubted:
        return True
    return not surely and (missing or name in unread or name in ledger.unknown)


def _copied(entries: dict[int, list[str]], down: set[str]) -> int:
    total, first = 0, min(entries, default=0)
    for start in range(first, max(entries, default=-1) + 1, BATCH_ENTRIES):
        stored = [e for e in range(start, start + BATCH_ENTRIES) if e in entries and {*entries[e]} & down]
        total += stored[-1] - stored[0] + 1 if stored else 0
    return total
