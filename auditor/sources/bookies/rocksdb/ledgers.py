"""The ledgers of a bookie on DbLedgerStorage: which it knows, and both of its databases merged.

RocksDB ``ledgers`` is read in order of ids, and so is ``locations``. BP-35 has a database for ledgers outside
scope 0, ``locations-scoped``:

    key    scope, ledger id, entry id: i64, i64, i64, big-endian       value    as in ``locations``

Its name is this program's choice, for the proposal has none. It names no index of ledgers for them: a ledger
that has a location is known, and none is in limbo. No server writes it yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from auditor.codecs.availability.groups import GroupBatch, Longs, offsets_of
from auditor.codecs.bookie import ledger_data
from auditor.errors import DecodeError
from auditor.sources.bookies.rocksdb.locations import KEY_BYTES, VALUE_BYTES, LedgerSets, fold_locations
from auditor.sources.bookies.rocksdb.scan import Rows, Strings, UnexpectedRows

KNOWN, LIMBO, GONE, UNLISTED, BROKEN = range(5)
"""What the bookie says of a ledger: it has it; it does not know what it should have; it no longer has it;
nothing; something that cannot be read."""


class IndexedLedgers(NamedTuple):
    """Ledgers, ids ascending, what is said of each, and the ``reasons`` of those that are broken, by id."""

    ids: Longs
    said: NDArray[np.uint8]
    reasons: dict[int, str]

    def part(self, start: int, stop: int) -> IndexedLedgers:
        """Ledgers ``start:stop`` of them.

        >>> IndexedLedgers(np.array([5, 7]), np.array([KNOWN, LIMBO], np.uint8), {}).part(1, 2).ids.tolist()
        [7]
        """
        return IndexedLedgers(self.ids[start:stop], self.said[start:stop], self.reasons)


class StorageFlags:
    """The flags of the storage, once its rows have been read to the end: they come last."""

    def __init__(self) -> None:
        self.value = 0

    @property
    def needs_integrity_check(self) -> bool:
        """Whether the bookie must first find out what it has lost."""
        return bool(self.value & ledger_data.NEEDS_INTEGRITY_CHECK)


def indexed_ledgers(
    batches: Iterable[Rows], flags: StorageFlags, odd: UnexpectedRows
) -> Iterator[IndexedLedgers]:
    """Read the rows of ``ledgers``; sets ``flags``; what is none of its rows goes to ``odd``."""
    waiting = IndexedLedgers(np.zeros(0, np.int64), np.zeros(0, np.uint8), {})
    for rows in batches:
        read = _read_rows(rows, flags, odd)
        ids = np.concatenate((waiting.ids, read.ids))
        said = np.concatenate((waiting.said, read.said))
        # A ledger can have a key of either length; the last one counts, and may be in the next batch.
        last = np.append(ids[1:] != ids[:-1], True) if len(ids) else np.zeros(0, np.bool_)
        both = IndexedLedgers(ids[last], said[last], waiting.reasons | read.reasons)
        whole = max(len(both.ids) - 1, 0)
        yield both.part(0, whole)
        waiting = both.part(whole, len(both.ids))
    yield waiting


def _read_rows(rows: Rows, flags: StorageFlags, odd: UnexpectedRows) -> IndexedLedgers:
    keys, values = rows
    lengths = np.diff(keys.offsets)
    sound = np.isin(lengths, ledger_data.KEY_BYTES)
    odd.add(rows, np.flatnonzero(~sound), "a key of another length")
    at = np.flatnonzero(sound)
    ids = keys.data[keys.offsets[at][:, None] + np.arange(8)].ravel().view(">i8").astype(np.int64)
    for row in at[ids == ledger_data.FLAGS_KEY]:
        try:
            flags.value |= ledger_data.flags(values.item(int(row)))
        except DecodeError as error:
            odd.add(rows, np.array([row]), f"the flags of the storage ({error.reason}), key")
    ledgers = ids >= 0  # all other negative numbers are reserved
    ids, at = ids[ledgers], at[ledgers]
    said = np.full(len(ids), KNOWN, np.uint8)
    reasons = {}
    plain = ledger_data.are_plain(values.data, values.offsets.astype(np.int64))[at]
    for index in np.flatnonzero(~plain):
        try:
            data = ledger_data.decode(values.item(int(at[index])))
        except DecodeError as error:
            said[index] = BROKEN
            reasons[int(ids[index])] = str(error)
        else:
            said[index] = LIMBO if data.limbo else KNOWN if data.exists else GONE
    return IndexedLedgers(ids, said, reasons)


class JoinedLedgers(NamedTuple):
    """Ledgers of either database, ids ascending: their entries, what is said of each, why it is broken."""

    ids: Longs
    groups: GroupBatch
    said: NDArray[np.uint8]
    reasons: dict[int, str]


def join_ledgers(
    locations: Iterator[LedgerSets], ledgers: Iterator[IndexedLedgers]
) -> Iterator[JoinedLedgers]:
    """Every ledger once. No more of either side is held than what the other has not come to yet."""
    left, right = next(locations, None), next(ledgers, None)
    while left is not None or right is not None:
        if left is not None and not len(left.ids):
            left = next(locations, None)
            continue
        if right is not None and not len(right.ids):
            right = next(ledgers, None)
            continue
        # Up to here both are known: neither has anything more that comes before.
        ends = [int(side.ids[-1]) for side in (left, right) if side is not None]
        upto = min(ends)
        held, left = _split(left, upto) if left is not None else (_NO_SETS, None)
        listed, right = _split(right, upto) if right is not None else (_NONE_LISTED, None)
        yield _both(held, listed)


_NO_SETS = LedgerSets(np.zeros(0, np.int64), GroupBatch.of([]), {})
_NONE_LISTED = IndexedLedgers(np.zeros(0, np.int64), np.zeros(0, np.uint8), {})


Side = TypeVar("Side", LedgerSets, IndexedLedgers)


def _split(side: Side, upto: int) -> tuple[Side, Side]:
    at = int(np.searchsorted(side.ids, upto, side="right"))
    return side.part(0, at), side.part(at, len(side.ids))


def _both(held: LedgerSets, listed: IndexedLedgers) -> JoinedLedgers:
    reasons = listed.reasons | held.failed
    if np.array_equal(held.ids, listed.ids):
        ids, groups, said = held.ids, held.groups, listed.said
    else:
        ids = np.union1d(held.ids, listed.ids)
        counts = np.zeros(len(ids), np.int64)
        counts[np.searchsorted(ids, held.ids)] = np.diff(held.groups.offsets)
        columns = held.groups
        groups = GroupBatch(columns.first, columns.last, columns.size, columns.period, offsets_of(counts))
        said = np.full(len(ids), UNLISTED, np.uint8)
        said[np.searchsorted(ids, listed.ids)] = listed.said
    if held.failed:
        said = np.where(np.isin(ids, list(held.failed)), np.uint8(BROKEN), said)
    return JoinedLedgers(ids, groups, said, reasons)


NAME = "locations-scoped"
SCOPED_KEY_BYTES = 8 + KEY_BYTES


def scoped_ledgers(batches: Iterable[Rows], odd: UnexpectedRows) -> Iterator[tuple[int, JoinedLedgers]]:
    """Fold the rows of `NAME`, scope by scope; what is none of its rows goes to ``odd``."""
    pieces = (piece for rows in batches for piece in _by_scope(rows, odd))
    for scope, of_scope in groupby(pieces, key=lambda piece: piece[0]):
        for sets in fold_locations((rows for _, rows in of_scope), odd, signed_ids=True):
            said = np.full(len(sets.ids), KNOWN, np.uint8)
            said[np.isin(sets.ids, list(sets.failed))] = BROKEN
            yield scope, JoinedLedgers(sets.ids, sets.groups, said, sets.failed)


def _by_scope(rows: Rows, odd: UnexpectedRows) -> Iterator[tuple[int, Rows]]:
    """The rows of each scope, keys as ``locations`` has them. Keys ascend, so a scope's come together."""
    keys, values = rows
    sound = (np.diff(keys.offsets) == SCOPED_KEY_BYTES) & (np.diff(values.offsets) == VALUE_BYTES)
    odd.add(rows, np.flatnonzero(~sound), "a key or value of another length, key")
    at = np.flatnonzero(sound)
    names = keys.data[keys.offsets[at][:, None] + np.arange(SCOPED_KEY_BYTES)]
    places = values.data[values.offsets[at][:, None] + np.arange(VALUE_BYTES)]
    numbers = np.ascontiguousarray(names).view(">i8").reshape(-1, 3)
    negative = numbers[:, 2] < 0
    odd.add(rows, at[negative], "a negative entry id, key")
    names, places, numbers = names[~negative], places[~negative], numbers[~negative]
    if not len(numbers):
        return
    scopes = numbers[:, 0].astype(np.int64)
    starts = np.flatnonzero(np.append(True, scopes[1:] != scopes[:-1]))
    for start, end in zip(starts, np.append(starts[1:], len(scopes)), strict=True):
        yield (
            int(scopes[start]),
            Rows(_strings(names[start:end, 8:], KEY_BYTES), _strings(places[start:end], VALUE_BYTES)),
        )


def _strings(octets: np.ndarray[tuple[int, ...], np.dtype[np.uint8]], length: int) -> Strings:
    return Strings(
        np.ascontiguousarray(octets).ravel(), np.arange(0, octets.size + 1, length, dtype=np.int32)
    )
