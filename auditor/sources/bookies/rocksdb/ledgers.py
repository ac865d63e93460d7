"""The ledgers of a bookie on DbLedgerStorage, and the entries of each (EntryLocationIndex).

    ledgers            ledger id: i64                          ledger data
    locations          ledger id, entry id: i64, i64           location of the entry: i64; 0 if it has none
    locations-scoped   scope, ledger id, entry id: 3 * i64     as in ``locations``

All numbers are big-endian. The program reads the databases side by side, in the order of keys. So the entries
of a ledger come together. The program folds them into groups, batch by batch. If a ledger continues in the
next batch, it keeps only the groups. Memory grows with the groups of one ledger, never with its entries.

The database ``locations-scoped`` is for ledgers outside scope 0 (BP-35). The proposal gives it no name; this
program chose one. The proposal also has no index of ledgers for these scopes. So a ledger that has a location
exists, and none is in limbo. No server writes this database yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from auditor.codecs.availability.fold import IncrementalFold, fold_entries
from auditor.codecs.availability.groups import GroupBatch, Longs, offsets_of
from auditor.codecs.bookie import ledger_data
from auditor.errors import CoverageLimitError, DecodeError
from auditor.sources.bookies.rocksdb.scan import Rows, Strings, UnexpectedRows

KEY_BYTES, VALUE_BYTES = 16, 8


class LedgerSets(NamedTuple):
    """Complete ledgers in ascending order of ids, with the entries of each.

    ``failed`` gives, by ledger id, the reason why the entries are too irregular to fold.
    """

    ids: Longs
    groups: GroupBatch
    failed: dict[int, str]

    def part(self, start: int, stop: int) -> LedgerSets:
        """Return the ledgers ``start:stop``.

        >>> sets = LedgerSets(np.array([5, 7]), GroupBatch.from_tuples([[], [(1, 1, 1, 0)]]), {})
        >>> sets.part(1, 2).groups.first.tolist()
        [1]
        """
        offsets, groups = self.groups.offsets[start : stop + 1], self.groups
        group_rows = slice(offsets[0], offsets[-1])
        part = GroupBatch(
            groups.first[group_rows],
            groups.last[group_rows],
            groups.size[group_rows],
            groups.period[group_rows],
            offsets - offsets[0],
        )
        return LedgerSets(self.ids[start:stop], part, self.failed)


def fold_locations(
    batches: Iterable[Rows], unexpected_rows: UnexpectedRows, signed_ids: bool = False
) -> Iterator[LedgerSets]:
    """Fold the rows of ``locations`` into one set of entries per ledger.

    Args:
        batches: The rows, in the order of keys.
        unexpected_rows: Receives the rows that the server cannot have written.
        signed_ids: Whether negative ledger ids are valid, as in scopes other than 0. Negative ids come after
            all others. The rows must then have no negative entry ids: `scoped_ledgers` removes them.
    """
    open_ledger: _OpenLedger | None = None
    for rows in batches:
        ledgers, entries = _split_keys(rows, unexpected_rows, signed_ids)
        if not len(ledgers):
            continue
        bounds = _ledger_bounds(ledgers)
        ids = ledgers[bounds[:-1]].astype(np.int64)
        sets = LedgerSets(ids, fold_entries(entries.astype(np.int64), bounds), {})
        start = 0
        if open_ledger is not None:
            if open_ledger.ledger_id == ids[0]:
                open_ledger.add(sets.part(0, 1).groups)
                start = 1
            if start == 0 or len(ids) > 1:
                yield open_ledger.close_sets()
                open_ledger = None
        if start < len(ids):
            last = len(ids) - 1
            if start < last:
                yield sets.part(start, last)
            open_ledger = _OpenLedger(int(ids[last]))
            open_ledger.add(sets.part(last, last + 1).groups)
    if open_ledger is not None:
        yield open_ledger.close_sets()


class _OpenLedger:
    """The ledger that may continue in the next batch."""

    def __init__(self, ledger_id: int) -> None:
        self.ledger_id = ledger_id
        self._gathered = IncrementalFold()
        self._failed: dict[int, str] = {}

    def add(self, groups: GroupBatch) -> None:
        if not self._failed:
            try:
                self._gathered.add(groups)
            except CoverageLimitError as error:
                self._record_failure(error)

    def close_sets(self) -> LedgerSets:
        groups = GroupBatch.from_tuples([[]])
        if not self._failed:
            try:
                groups = self._gathered.result()
            except CoverageLimitError as error:
                self._record_failure(error)
        return LedgerSets(np.array([self.ledger_id]), groups, self._failed)

    def _record_failure(self, error: CoverageLimitError) -> None:
        self._failed[self.ledger_id] = str(error)
        self._gathered = IncrementalFold()


BigLongs = NDArray[np.int64]
"""Big-endian int64 numbers, as in the keys."""


def _split_keys(rows: Rows, unexpected_rows: UnexpectedRows, signed_ids: bool) -> tuple[BigLongs, BigLongs]:
    """Return the ledger and entry ids of the rows that have a location."""
    keys, values = rows
    if keys.all_of(KEY_BYTES) and values.all_of(VALUE_BYTES):
        key_bytes = keys.data[keys.offsets[0] : keys.offsets[-1]]
        value_bytes = values.data[values.offsets[0] : values.offsets[-1]]
        row_numbers: NDArray[np.intp] | None = None
    else:
        row_numbers = _sound_rows(rows, unexpected_rows, KEY_BYTES)
        key_bytes, value_bytes = (
            keys.octets(row_numbers, KEY_BYTES).ravel(),
            values.octets(row_numbers, VALUE_BYTES).ravel(),
        )
    key_pairs = key_bytes.view(">i8").reshape(-1, 2)
    # Negative ids sort last, so checking the last ledger id finds any. Entry ids are all checked.
    if not signed_ids and len(key_pairs) and (key_pairs[-1, 0] < 0 or (key_pairs[:, 1] < 0).any()):
        is_valid = (key_pairs >= 0).all(axis=1)
        negative_rows = np.flatnonzero(~is_valid)
        unexpected_rows.add(
            rows,
            negative_rows if row_numbers is None else row_numbers[negative_rows],
            "a negative ledger or entry id",
        )
        key_pairs, value_bytes = key_pairs[is_valid], value_bytes.reshape(-1, VALUE_BYTES)[is_valid].ravel()
    has_location = value_bytes.view(np.int64) != 0
    if not has_location.all():
        key_pairs = key_pairs[has_location]
    return key_pairs[:, 0], key_pairs[:, 1]


def _sound_rows(rows: Rows, unexpected_rows: UnexpectedRows, key_bytes: int) -> NDArray[np.intp]:
    """Return the rows whose key has ``key_bytes`` bytes and whose value has the length of a location."""
    is_valid = rows.of_lengths(key_bytes, VALUE_BYTES)
    unexpected_rows.add(rows, np.flatnonzero(~is_valid), "a key or value of the wrong length")
    return np.flatnonzero(is_valid)


def _ledger_bounds(ledgers: BigLongs) -> Longs:
    """Return the row where each ledger begins, and the row where the last one ends.

    Ids ascend: if the first and the last row have the same ledger, all rows have it.
    """
    if ledgers[0] == ledgers[-1]:
        return np.array([0, len(ledgers)])
    change_rows = np.flatnonzero(ledgers[1:] != ledgers[:-1]) + 1
    return np.concatenate(([0], change_rows, [len(ledgers)]))


EXISTING, LIMBO, NONEXISTENT, UNLISTED, BROKEN = range(5)
"""The states of a ledger in the bookie's index of ledgers.

EXISTING: the bookie has the ledger. LIMBO: the bookie does not know which of its entries it should have.
NONEXISTENT: the bookie no longer has the ledger. UNLISTED: the index does not list the ledger. BROKEN: the
data of the ledger cannot be read.
"""


class IndexedLedgers(NamedTuple):
    """Ledgers in ascending order of ids, their ``states``, and the ``reasons`` of broken ledgers by id."""

    ids: Longs
    states: NDArray[np.uint8]
    reasons: dict[int, str]

    def part(self, start: int, stop: int) -> IndexedLedgers:
        """Return the ledgers ``start:stop``.

        >>> ledgers = IndexedLedgers(np.array([5, 7]), np.array([EXISTING, LIMBO], np.uint8), {})
        >>> ledgers.part(1, 2).ids.tolist()
        [7]
        """
        return IndexedLedgers(self.ids[start:stop], self.states[start:stop], self.reasons)


class StorageFlags:
    """The flags of a bookie's storage. They are complete only after the last row of ``ledgers`` was read."""

    def __init__(self) -> None:
        self.value = 0

    @property
    def needs_integrity_check(self) -> bool:
        """Whether the bookie must first find out which entries it has lost."""
        return bool(self.value & ledger_data.NEEDS_INTEGRITY_CHECK)


def indexed_ledgers(
    batches: Iterable[Rows], flags: StorageFlags, unexpected_rows: UnexpectedRows
) -> Iterator[IndexedLedgers]:
    """Read the rows of ``ledgers``, and set ``flags``. Rows of no server go to ``unexpected_rows``."""
    carried_over = IndexedLedgers(np.zeros(0, np.int64), np.zeros(0, np.uint8), {})
    for rows in batches:
        read = _read_rows(rows, flags, unexpected_rows)
        ids = np.concatenate((carried_over.ids, read.ids))
        states = np.concatenate((carried_over.states, read.states))
        # A ledger can have keys of both lengths. The last one counts, and may be in the next batch.
        last = np.append(ids[1:] != ids[:-1], True) if len(ids) else np.zeros(0, np.bool_)
        batch = IndexedLedgers(ids[last], states[last], carried_over.reasons | read.reasons)
        settled_count = max(len(batch.ids) - 1, 0)
        yield batch.part(0, settled_count)
        carried_over = batch.part(settled_count, len(batch.ids))
    yield carried_over


def _read_rows(rows: Rows, flags: StorageFlags, unexpected_rows: UnexpectedRows) -> IndexedLedgers:
    keys, values = rows
    lengths = np.diff(keys.offsets)
    is_valid = np.isin(lengths, ledger_data.KEY_BYTES)
    unexpected_rows.add(rows, np.flatnonzero(~is_valid), "a key of the wrong length")
    row_numbers = np.flatnonzero(is_valid)
    ids = keys.octets(row_numbers, 8).ravel().view(">i8").astype(np.int64)
    for row in row_numbers[ids == ledger_data.FLAGS_KEY]:
        try:
            flags.value |= ledger_data.flags(values.item(int(row)))
        except DecodeError as error:
            unexpected_rows.add(rows, np.array([row]), f"invalid storage flags ({error.reason})")
    ledgers = ids >= 0  # all other negative numbers are reserved
    ids, row_numbers = ids[ledgers], row_numbers[ledgers]
    states = np.full(len(ids), EXISTING, np.uint8)
    reasons = {}
    is_plain = ledger_data.have_required_fields_only(values.data, values.offsets.astype(np.int64))[
        row_numbers
    ]
    for index in np.flatnonzero(~is_plain):
        try:
            data = ledger_data.decode(values.item(int(row_numbers[index])))
        except DecodeError as error:
            states[index] = BROKEN
            reasons[int(ids[index])] = str(error)
        else:
            states[index] = LIMBO if data.limbo else EXISTING if data.exists else NONEXISTENT
    return IndexedLedgers(ids, states, reasons)


class JoinedLedgers(NamedTuple):
    """Ledgers from ``locations`` and ``ledgers`` together, in ascending order of ids.

    Each ledger has its entries, its state, and the reason if it is broken.
    """

    ids: Longs
    groups: GroupBatch
    states: NDArray[np.uint8]
    reasons: dict[int, str]


def join_ledgers(
    locations: Iterator[LedgerSets], ledgers: Iterator[IndexedLedgers]
) -> Iterator[JoinedLedgers]:
    """Yield every ledger of either database once.

    From each database keep in memory only the ledgers that the other database has not reached yet.
    """
    location_sets, ledger_rows = next(locations, None), next(ledgers, None)
    while location_sets is not None or ledger_rows is not None:
        if location_sets is not None and not len(location_sets.ids):
            location_sets = next(locations, None)
            continue
        if ledger_rows is not None and not len(ledger_rows.ids):
            ledger_rows = next(ledgers, None)
            continue
        # Both sides are complete up to this id: later batches have only greater ids.
        ends = [
            int(sorted_ledgers.ids[-1])
            for sorted_ledgers in (location_sets, ledger_rows)
            if sorted_ledgers is not None
        ]
        last_id = min(ends)
        ready_sets, location_sets = (
            _split_after(location_sets, last_id) if location_sets is not None else (_NO_LEDGER_SETS, None)
        )
        ready_rows, ledger_rows = (
            _split_after(ledger_rows, last_id) if ledger_rows is not None else (_NO_INDEXED_LEDGERS, None)
        )
        yield _join_sets(ready_sets, ready_rows)


_NO_LEDGER_SETS = LedgerSets(np.zeros(0, np.int64), GroupBatch.from_tuples([]), {})
_NO_INDEXED_LEDGERS = IndexedLedgers(np.zeros(0, np.int64), np.zeros(0, np.uint8), {})


SortedLedgers = TypeVar("SortedLedgers", LedgerSets, IndexedLedgers)


def _split_after(sorted_ledgers: SortedLedgers, last_id: int) -> tuple[SortedLedgers, SortedLedgers]:
    end = int(np.searchsorted(sorted_ledgers.ids, last_id, side="right"))
    return sorted_ledgers.part(0, end), sorted_ledgers.part(end, len(sorted_ledgers.ids))


def _join_sets(sets: LedgerSets, indexed_ledgers_in_order: IndexedLedgers) -> JoinedLedgers:
    reasons = indexed_ledgers_in_order.reasons | sets.failed
    if np.array_equal(sets.ids, indexed_ledgers_in_order.ids):
        ids, groups, states = sets.ids, sets.groups, indexed_ledgers_in_order.states
    else:
        ids = np.union1d(sets.ids, indexed_ledgers_in_order.ids)
        set_counts = np.zeros(len(ids), np.int64)
        set_counts[np.searchsorted(ids, sets.ids)] = np.diff(sets.groups.offsets)
        columns = sets.groups
        groups = GroupBatch(columns.first, columns.last, columns.size, columns.period, offsets_of(set_counts))
        states = np.full(len(ids), UNLISTED, np.uint8)
        states[np.searchsorted(ids, indexed_ledgers_in_order.ids)] = indexed_ledgers_in_order.states
    if sets.failed:
        states = np.where(np.isin(ids, list(sets.failed)), np.uint8(BROKEN), states)
    return JoinedLedgers(ids, groups, states, reasons)


NAME = "locations-scoped"
SCOPED_KEY_BYTES = 8 + KEY_BYTES


def scoped_ledgers(
    batches: Iterable[Rows], unexpected_rows: UnexpectedRows
) -> Iterator[tuple[int, JoinedLedgers]]:
    """Fold the rows of ``locations-scoped``, scope by scope. Rows of no server go to ``unexpected_rows``."""
    pieces = (piece for rows in batches for piece in _split_by_scope(rows, unexpected_rows))
    for scope, of_scope in groupby(pieces, key=lambda piece: piece[0]):
        for sets in fold_locations((rows for _, rows in of_scope), unexpected_rows, signed_ids=True):
            states = np.full(len(sets.ids), EXISTING, np.uint8)
            states[np.isin(sets.ids, list(sets.failed))] = BROKEN
            yield scope, JoinedLedgers(sets.ids, sets.groups, states, sets.failed)


def _split_by_scope(rows: Rows, unexpected_rows: UnexpectedRows) -> Iterator[tuple[int, Rows]]:
    """Yield the rows of each scope, with keys as in ``locations``. The rows of a scope are adjacent."""
    keys, values = rows
    row_numbers = _sound_rows(rows, unexpected_rows, SCOPED_KEY_BYTES)
    names, places = keys.octets(row_numbers, SCOPED_KEY_BYTES), values.octets(row_numbers, VALUE_BYTES)
    numbers = np.ascontiguousarray(names).view(">i8").reshape(-1, 3)
    is_negative = numbers[:, 2] < 0
    unexpected_rows.add(rows, row_numbers[is_negative], "a negative entry id")
    names, places, numbers = names[~is_negative], places[~is_negative], numbers[~is_negative]
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
