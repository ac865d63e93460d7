"""The true state of a cluster, found the slow way: every entry of every ledger, one by one.

The rule of striping is the definition itself: entry e goes to the members (e + w) mod E, w = 0 .. Qw - 1.
This module imports nothing from the product.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.corpora.plain_readers import (
    PlainIndex,
    PlainLedger,
    bookie_of,
    ledger_znodes,
    locks,
    marks,
    read_dump,
    read_indexes,
    read_metadata,
)

Entries = dict[str, set[int]]


GREATEST = 2**63 - 1
"""No ledger id is greater."""


@dataclass(frozen=True)
class Verdict:
    """A ledger's replication. ``unknown``: bookies whose copies could not be checked, with the entries."""

    state: str
    name: str
    potential: str
    m: int
    mu: int
    missing: Mapping[str, frozenset[int]]
    unknown: Mapping[str, frozenset[int]]
    lagging: Mapping[str, frozenset[int]]
    in_class: frozenset[int]
    """The entries that are themselves in the ledger's class."""

    @property
    def unhealthy(self) -> bool:
        return self.name not in ("healthy", "not-closed")


@dataclass
class World:
    """A cluster: its readable metadata, and the entries that its readable bookies hold."""

    ledgers: dict[int, PlainLedger]
    undecodable: set[int]
    indexes: Mapping[tuple[int, str], PlainIndex]
    read: set[str]
    marks: dict[int, list[str]] = field(default_factory=dict)
    locks: set[int] = field(default_factory=set)
    own_close: set[int] = field(default_factory=set)
    """Ledgers that their writer closed, and nobody changed since, by the version of their znode."""

    @classmethod
    def from_files(cls, dump: Path, bookies: Path, unread: set[str] | None = None) -> World:
        znodes = read_dump(dump)
        ledgers, undecodable = {}, set()
        for ledger, data in ledger_znodes(znodes).items():
            try:
                ledgers[ledger] = read_metadata(data)
            except (ValueError, KeyError, IndexError):
                undecodable.add(ledger)
        read_bookies = {bookie_of(path.name) for path in bookies.iterdir()} - (unread or set())
        return cls(ledgers, undecodable, read_indexes(bookies), read_bookies, marks(znodes), locks(znodes))

    def held(self, ledger: int, bookie: str) -> frozenset[int]:
        index = self.indexes.get((ledger, bookie))
        return index.entries if index else frozenset()

    def knows(self, ledger: int, bookie: str) -> bool:
        """Return whether an entry that the bookie does not hold is known to be absent."""
        index = self.indexes.get((ledger, bookie))
        return bookie in self.read and (index is None or index.readable)


def write_set(ledger: PlainLedger, ensemble: tuple[str, ...], entry: int) -> list[str]:
    return [ensemble[(entry + w) % ledger.ensemble_size] for w in range(ledger.write_quorum)]


def segment_ranges(ledger: PlainLedger) -> Iterator[tuple[range | None, tuple[str, ...], bool]]:
    """Yield each segment's entries (None: the end is not known), its ensemble, and whether it is the last."""
    for index, (first, ensemble) in enumerate(ledger.segments):
        last = index == len(ledger.segments) - 1
        if last:
            end = None if ledger.last is None else ledger.last + 1
        else:
            end = ledger.segments[index + 1][0]
            if ledger.last is not None:
                end = min(end, ledger.last + 1)
        yield (None if end is None else range(first, end)), ensemble, last


def has_judged_entries(ledger: PlainLedger) -> bool:
    """Return whether the ledger is closed, or has entries that its writer certainly sends no more."""
    if ledger.last is not None:
        return True
    return ledger.segments[-1][0] - ledger.write_quorum > ledger.segments[0][0]


def ledger_coverage(world: World) -> dict[str, int]:
    """Return the ledger counts of a report."""
    judged = [ledger for ledger, plain in world.ledgers.items() if has_judged_entries(plain)]
    verdicts = [judge(world, ledger) for ledger in judged]
    return {
        "total": len(world.ledgers),
        "decided": sum(verdict.name == verdict.potential for verdict in verdicts),
        "open": len(world.ledgers) - len(judged),
    }


def class_of(ledger: PlainLedger, m: int) -> str:
    """Return the class of a ledger whose worst entry lacks m copies; only a closed one can lose an entry."""
    copies, closed = ledger.write_quorum - m, ledger.state == "CLOSED"
    if m == 0:
        return "healthy" if closed else "not-closed"
    if copies == 0 and closed:
        return "entry-lost"
    return "below-ack-quorum" if copies < ledger.ack_quorum else "below-write-quorum"


def judge(world: World, ledger_id: int) -> Verdict:
    ledger = world.ledgers[ledger_id]
    missing: Entries = defaultdict(set)
    unknown: Entries = defaultdict(set)
    lagging: Entries = defaultdict(set)
    m = mu = 0
    lacking: dict[int, int] = {}
    for entries, ensemble, last in segment_ranges(ledger):
        if entries is None:
            highest = max((max(world.held(ledger_id, b), default=-1) for b in ensemble), default=-1)
            first = ledger.segments[-1][0]
            for entry in range(first, highest + 1):
                copies = write_set(ledger, ensemble, entry)
                having = [b for b in copies if entry in world.held(ledger_id, b)]
                late = set(copies) - set(having) if len(having) >= ledger.ack_quorum else set()
                for bookie in late:
                    if world.knows(ledger_id, bookie):
                        lagging[bookie].add(entry)
            continue
        if ledger.last is None and not last:
            # The writer may still be sending the final entries of the history to a replacement bookie.
            unsure = ledger.segments[-1][0] - ledger.write_quorum
            entries = range(entries.start, min(entries.stop, unsure))
        for entry in entries:
            absent = dark = 0
            for bookie in write_set(ledger, ensemble, entry):
                if entry in world.held(ledger_id, bookie):
                    continue
                if world.knows(ledger_id, bookie):
                    missing[bookie].add(entry)
                    absent += 1
                else:
                    unknown[bookie].add(entry)
                    dark += 1
            lacking[entry] = absent
            m, mu = max(m, absent), max(mu, absent + dark)
    classes = class_of(ledger, m), class_of(ledger, mu)
    in_class = frozenset(
        entry for entry, absent in lacking.items() if absent and class_of(ledger, absent) == classes[0]
    )
    sets = _frozen(missing), _frozen(unknown), _frozen(lagging)
    return Verdict(ledger.state, *classes, m, mu, *sets, in_class)


def _frozen(entries: Mapping[str, set[int]]) -> dict[str, frozenset[int]]:
    return {bookie: frozenset(entries[bookie]) for bookie in sorted(entries)}


def undecided(world: World, ledger_id: int) -> bool:
    """Return whether an unreadable index, on a bookie that was read, hides a worse class."""
    verdict = judge(world, ledger_id)
    return verdict.name != verdict.potential and bool(verdict.unknown.keys() & world.read)


def members(ledger: PlainLedger) -> set[str]:
    return {bookie for _, ensemble in ledger.segments for bookie in ensemble}


def deleted_by_overflow(world: World) -> set[tuple[int, str]]:
    """Return ledgers that collectors wrongly delete, by bookie, because the store has the id 2^63 - 1.

    The collector compares ids up to the last id of each listed range, and continues with the next one. After
    the greatest long, the next id is the least long. The listing is then empty, so the collector deletes all
    data of the bookie. It asks its index for ids below 2^63 - 1 (ScanAndCompareGarbageCollector.gc).
    """
    if GREATEST not in world.ledgers.keys() | world.undecodable:
        return set()
    copies = ((ledger, bookie) for ledger, bookie in world.indexes if ledger in world.ledgers)
    return {
        (ledger, bookie)
        for ledger, bookie in copies
        if ledger < GREATEST and bookie in members(world.ledgers[ledger]) and bookie in world.read
    }


def orphans(world: World) -> set[tuple[int, str]]:
    """Return ledgers on a bookie that have no metadata record, whether decodable or not."""
    return {
        (ledger, bookie)
        for (ledger, bookie), index in world.indexes.items()
        if index.served and ledger not in world.ledgers and ledger not in world.undecodable
    }


def foreign(world: World) -> set[tuple[int, str]]:
    """Return ledgers on a bookie that is in none of their ensembles."""
    return {
        (ledger, bookie)
        for (ledger, bookie), index in world.indexes.items()
        if index.served and ledger in world.ledgers and bookie not in members(world.ledgers[ledger])
    }


def past_end(world: World) -> dict[tuple[int, str], set[int]]:
    """Return the run of entries after a closed ledger's end that an ack quorum of their write sets holds."""
    entries_by_copy: dict[tuple[int, str], set[int]] = defaultdict(set)
    for ledger_id, ledger in world.ledgers.items():
        if ledger.last is None or ledger_id in world.own_close:
            continue
        entry = ledger.last + 1
        while True:
            ensemble = [bookies for first, bookies in ledger.segments if first <= entry][-1:]
            writers = set(write_set(ledger, ensemble[0], entry)) if ensemble else set()
            holders = {bookie for bookie in writers if entry in world.held(ledger_id, bookie)}
            if not holders or len(holders) < ledger.ack_quorum:
                break
            for bookie in holders:
                entries_by_copy[ledger_id, bookie].add(entry)
            entry += 1
    return dict(entries_by_copy)


def stale(world: World) -> dict[tuple[int, str], set[int]]:
    """Return the entries that a member holds from a segment whose ensemble does not contain it."""
    return _extra(world, stale=True)


def surplus(world: World) -> dict[tuple[int, str], set[int]]:
    """Return a member's entries beyond the end of a closed ledger, or not striped to it in their segment.

    The result excludes the entries of `past_end`.
    """
    tails = past_end(world)
    extras = {pair: extra - tails.get(pair, set()) for pair, extra in _extra(world, stale=False).items()}
    return {pair: extra for pair, extra in extras.items() if extra}


def _extra(world: World, stale: bool) -> dict[tuple[int, str], set[int]]:
    entries_by_copy: dict[tuple[int, str], set[int]] = defaultdict(set)
    for (ledger_id, bookie), index in world.indexes.items():
        ledger = world.ledgers.get(ledger_id)
        if ledger is None or bookie not in members(ledger):
            continue
        for entry in index.entries:
            started = [ensemble for first, ensemble in ledger.segments if first <= entry]
            beyond = ledger.last is not None and entry > ledger.last
            if beyond or not started:
                is_stale, is_surplus = False, True
            elif bookie not in started[-1]:
                is_stale, is_surplus = True, False
            else:
                is_stale, is_surplus = False, bookie not in write_set(ledger, started[-1], entry)
            if is_stale if stale else is_surplus:
                entries_by_copy[ledger_id, bookie].add(entry)
    return dict(entries_by_copy)


def assert_classes(world: World, rows: Mapping[int, Mapping[str, Any]]) -> None:
    """Assert that an audit's verdicts, by ledger, equal the true ones."""
    assert set(rows) == set(world.ledgers)
    for ledger, row in rows.items():
        verdict = judge(world, ledger)
        actual = (row["class"], row["potential_class"], row["m"], row["mu"], row["unread_bookies"])
        expected = (verdict.name, verdict.potential, verdict.m, verdict.mu, list(verdict.unknown))
        assert actual == expected, ledger
