"""What the Auditor and a worker make of one ledger, entry by entry: the plain truth of a rehearsal."""

from __future__ import annotations

from dataclasses import dataclass

from auditor.decommission.targets import BATCH_ENTRIES
from auditor.model.decommission import Cause
from tests.simulate.small_clusters import Ledger


@dataclass(frozen=True)
class Fate:
    """``waits``: the command waits for the ledger; ``cause`` is the first that keeps it.

    ``needed`` and ``copied`` are copies of a ledger that moves; ``doubtful`` says that it may not.
    """

    named: bool
    waits: bool
    cause: Cause | None
    doubtful: bool
    needed: int
    copied: int


def fate_of(ledger: Ledger, asked: set[str], absent: set[str], spares: set[str], unread: set[str]) -> Fate:
    """One ledger, once the bookies ``asked`` are stopped beside those that are absent."""
    found = _with(ledger, asked, asked | absent, spares, unread)
    if found.cause and absent and _with(ledger, asked, asked, spares, unread).cause is None:
        return Fate(found.named, found.waits, Cause.ABSENT, False, 0, 0)
    return found


def _with(ledger: Ledger, asked: set[str], gone: set[str], spares: set[str], unread: set[str]) -> Fate:
    causes, doubtful, needed, copied, waits, named = set(), False, 0, 0, False, False
    for number, (_, ensemble) in enumerate(ledger.segments):
        final = number + 1 == len(ledger.segments) and not ledger.closed
        entries = _entries(ledger, number)
        named |= bool({*ensemble} & asked)
        its = {entry for entry, bookies in entries.items() if {*bookies} & asked}
        stands = bool(its) or (final and bool({*ensemble} & asked))
        waits |= stands
        out = sum(name in gone for name in ensemble)
        if stands and len(spares - {*ensemble}) < out:
            causes.add(Cause.NO_SPARE_BOOKIE)
        if final and _uncovered(ledger, ensemble, gone):
            causes.add(Cause.NO_QUORUM_COVERAGE)
        for entry, bookies in entries.items():
            left = [name for name in bookies if name not in gone]
            sure = [name for name in left if not _lacks(ledger, name, entry, unread, surely=False)]
            perhaps = [name for name in left if not _lacks(ledger, name, entry, unread, surely=True)]
            needed += len(bookies) - len(left)
            if not stands:
                continue
            if not left:
                causes.add(Cause.ONLY_COPY)
            elif not perhaps and len(left) < len(bookies):
                causes.add(Cause.UNREADABLE_ENTRY)
            doubtful |= not sure
        copied += _copied(entries, gone) * out
    if not waits:
        causes.clear()
    for cause in (Cause.ONLY_COPY, Cause.UNREADABLE_ENTRY, Cause.NO_SPARE_BOOKIE, Cause.NO_QUORUM_COVERAGE):
        if cause in causes:
            return Fate(named, waits, cause, False, 0, 0)
    return Fate(named, waits, None, waits and doubtful, needed if waits else 0, copied if waits else 0)


def _entries(ledger: Ledger, number: int) -> dict[int, list[str]]:
    first, _ = ledger.segments[number]
    end = ledger.segments[number + 1][0] if number + 1 < len(ledger.segments) else None
    known = dict(ledger.entries())
    return {entry: known[entry] for entry in known if entry >= first and (end is None or entry < end)}


def _uncovered(ledger: Ledger, ensemble: tuple[str, ...], gone: set[str]) -> bool:
    windows = ([ensemble[(at + i) % ledger.size] for i in range(ledger.write)] for at in range(ledger.size))
    return any(sum(name in gone for name in window) >= ledger.ack for window in windows)


def _lacks(ledger: Ledger, name: str, entry: int, unread: set[str], surely: bool) -> bool:
    missing = entry in ledger.missing.get(name, ())
    if missing and not ledger.doubted:
        return True
    return not surely and (missing or name in unread or name in ledger.unknown)


def _copied(entries: dict[int, list[str]], gone: set[str]) -> int:
    total, first = 0, min(entries, default=0)
    for start in range(first, max(entries, default=-1) + 1, BATCH_ENTRIES):
        stored = [e for e in range(start, start + BATCH_ENTRIES) if e in entries and {*entries[e]} & gone]
        total += stored[-1] - stored[0] + 1 if stored else 0
    return total
