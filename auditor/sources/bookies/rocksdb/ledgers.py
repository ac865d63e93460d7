"""The ledgers of a bookie on DbLedgerStorage, and the entries of each (EntryLocationIndex).

    ledgers            ledger id: i64                          ledger data
    locations          ledger id, entry id: i64, i64           location of the entry: i64; 0 if it has none
    locations-scoped   scope, ledger id, entry id: 3 * i64     as in ``locations``

All numbers are big-endian. The program reads the databases side by side, in the order of keys. So the entries
of a ledger follow one another. The program combines them into sequence groups (BP-34), batch by batch. If a
ledger continues in the next batch, the program keeps only its groups. Memory grows with the groups of one
ledger, never with its entries.

``locations-scoped`` is for ids over 64 bits (BP-35); the scope is their upper half. BP-35 gives the database
no name; this program chose one. BP-35 also has no index of these ledgers. So each ledger with a location
counts as existing. None is in the state `LIMBO` (entries not known yet). No server writes this database yet.
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


class EntrySets(NamedTuple):
    """Complete ledgers in ascending order of ids, and their entries as sequence groups (BP-34).

    ``failure_by_id`` has the reason for each ledger with entries too irregular to fold into groups.
    """

    ids: Longs
    groups: GroupBatch
    failure_by_id: dict[int, str]

    def slice_ledgers(self, start: int, end: int) -> EntrySets:
        """Return the ledgers at the positions ``start:end``.

        >>> sets = EntrySets(np.array([5, 7]), GroupBatch.from_tuples([[], [(1, 1, 1, 0)]]), {})
        >>> sets.slice_ledgers(1, 2).groups.first.tolist()
        [1]
        """
        offsets, groups = self.groups.offsets[start : end + 1], self.groups
        group_rows = slice(offsets[0], offsets[-1])
        sliced_groups = GroupBatch(
            groups.first[group_rows],
            groups.last[group_rows],
            groups.size[group_rows],
            groups.period[group_rows],
            offsets - offsets[0],
        )
        return EntrySets(self.ids[start:end], sliced_groups, self.failure_by_id)


def group_locations(
    batches: Iterable[Rows], unexpected_rows: UnexpectedRows, signed_ids: bool = False
) -> Iterator[EntrySets]:
    """Combine the rows of ``locations`` into one set of entries per ledger.

    Args:
        batches: The rows, in the order of keys.
        unexpected_rows: Receives the rows that the server cannot have written.
        signed_ids: Whether negative ledger ids are valid, as in the lower half of ids over 64 bits. Negative
            ids come last. If True, no row may have a negative entry id: `scoped_ledgers` removes these rows.
    """
    open_ledger: _OpenLedger | None = None
    for rows in batches:
        ledger_of_row, entry_ids = _split_keys(rows, unexpected_rows, signed_ids)
        if not len(ledger_of_row):
            continue
        ledger_bounds = _ledger_bounds(ledger_of_row)
        ledger_ids = ledger_of_row[ledger_bounds[:-1]].astype(np.int64)
        entry_sets = EntrySets(ledger_ids, fold_entries(entry_ids.astype(np.int64), ledger_bounds), {})
        first_row = 0
        if open_ledger is not None:
            if open_ledger.ledger_id == ledger_ids[0]:
                open_ledger.add(entry_sets.slice_ledgers(0, 1).groups)
                first_row = 1
            if first_row == 0 or len(ledger_ids) > 1:
                yield open_ledger.finish()
                open_ledger = None
        if first_row < len(ledger_ids):
            last_row = len(ledger_ids) - 1
            if first_row < last_row:
                yield entry_sets.slice_ledgers(first_row, last_row)
            open_ledger = _OpenLedger(int(ledger_ids[last_row]))
            open_ledger.add(entry_sets.slice_ledgers(last_row, last_row + 1).groups)
    if open_ledger is not None:
        yield open_ledger.finish()


class _OpenLedger:
    """The last ledger of a batch, which may continue in the next batch."""

    def __init__(self, ledger_id: int) -> None:
        self.ledger_id = ledger_id
        self._grouping = IncrementalFold()
        self._failures: dict[int, str] = {}

    def add(self, groups: GroupBatch) -> None:
        if not self._failures:
            try:
                self._grouping.add(groups)
            except CoverageLimitError as error:
                self._record_failure(error)

    def finish(self) -> EntrySets:
        groups = GroupBatch.from_tuples([[]])
        if not self._failures:
            try:
                groups = self._grouping.result()
            except CoverageLimitError as error:
                self._record_failure(error)
        return EntrySets(np.array([self.ledger_id]), groups, self._failures)

    def _record_failure(self, error: CoverageLimitError) -> None:
        self._failures[self.ledger_id] = str(error)
        self._grouping = IncrementalFold()


BigEndianLongs = NDArray[np.int64]
"""Big-endian int64 numbers, as in the keys."""


def _split_keys(
    rows: Rows, unexpected_rows: UnexpectedRows, signed_ids: bool
) -> tuple[BigEndianLongs, BigEndianLongs]:
    """Return the ledger ids and the entry ids of the valid rows that have a location."""
    keys, values = rows
    if keys.all_have_length(KEY_BYTES) and values.all_have_length(VALUE_BYTES):
        key_bytes = keys.data[keys.offsets[0] : keys.offsets[-1]]
        value_bytes = values.data[values.offsets[0] : values.offsets[-1]]
        row_numbers: NDArray[np.intp] | None = None
    else:
        row_numbers = _valid_rows(rows, unexpected_rows, KEY_BYTES)
        key_bytes, value_bytes = (
            keys.leading_bytes(row_numbers, KEY_BYTES).ravel(),
            values.leading_bytes(row_numbers, VALUE_BYTES).ravel(),
        )
    key_pairs = key_bytes.view(">i8").reshape(-1, 2)
    # Negative ids sort last: if any ledger id is negative, the last one is. Entry ids are all checked.
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


def _valid_rows(rows: Rows, unexpected_rows: UnexpectedRows, key_bytes: int) -> NDArray[np.intp]:
    """Return the numbers of rows with a key of ``key_bytes`` bytes and a location. Count all invalid rows."""
    is_valid = rows.has_lengths(key_bytes, VALUE_BYTES)
    unexpected_rows.add(rows, np.flatnonzero(~is_valid), "a key or value of the wrong length")
    return np.flatnonzero(is_valid)


def _ledger_bounds(ledger_of_row: BigEndianLongs) -> Longs:
    """Return the row where each ledger begins, and the row after the last ledger.

    The ids are in ascending order. So if the first and the last row have the same id, all rows do.
    """
    if ledger_of_row[0] == ledger_of_row[-1]:
        return np.array([0, len(ledger_of_row)])
    first_ledger_rows = np.flatnonzero(ledger_of_row[1:] != ledger_of_row[:-1]) + 1
    return np.concatenate(([0], first_ledger_rows, [len(ledger_of_row)]))


EXISTING, LIMBO, NONEXISTENT, UNLISTED, DAMAGED = range(5)
"""The states of a ledger in the bookie's index of ledgers.

EXISTING: the bookie has the ledger. LIMBO: the bookie does not know which entries of the ledger it should
have. NONEXISTENT: the bookie no longer has the ledger. UNLISTED: the index does not list the ledger. BROKEN:
the data of the ledger cannot be read.
"""


class IndexedLedgers(NamedTuple):
    """Ledgers in ascending order of ids, and ``states``. ``reasons`` says why a ledger is broken, by id."""

    ids: Longs
    states: NDArray[np.uint8]
    reasons: dict[int, str]

    def slice_ledgers(self, start: int, end: int) -> IndexedLedgers:
        """Return the ledgers at the positions ``start:end``.

        >>> ledgers = IndexedLedgers(np.array([5, 7]), np.array([EXISTING, LIMBO], np.uint8), {})
        >>> ledgers.slice_ledgers(1, 2).ids.tolist()
        [7]
        """
        return IndexedLedgers(self.ids[start:end], self.states[start:end], self.reasons)


class StorageFlags:
    """The flags of a bookie's storage. They are complete only after all rows of ``ledgers`` were read."""

    def __init__(self) -> None:
        self.flag_bits = 0

    @property
    def needs_integrity_check(self) -> bool:
        """Whether the bookie still has to check which entries it has lost."""
        return bool(self.flag_bits & ledger_data.NEEDS_INTEGRITY_CHECK)


def indexed_ledgers(
    batches: Iterable[Rows], flags: StorageFlags, unexpected_rows: UnexpectedRows
) -> Iterator[IndexedLedgers]:
    """Yield the ledgers of database ``ledgers``. Set ``flags``. Bad rows go to ``unexpected_rows``."""
    open_ledgers = IndexedLedgers(np.zeros(0, np.int64), np.zeros(0, np.uint8), {})
    for rows in batches:
        ledgers_of_batch = _read_rows(rows, flags, unexpected_rows)
        ledger_ids = np.concatenate((open_ledgers.ids, ledgers_of_batch.ids))
        states = np.concatenate((open_ledgers.states, ledgers_of_batch.states))
        # A ledger can have keys of both lengths. The last one counts, and may be in the next batch.
        is_last_key = (
            np.append(ledger_ids[1:] != ledger_ids[:-1], True) if len(ledger_ids) else np.zeros(0, np.bool_)
        )
        batch = IndexedLedgers(
            ledger_ids[is_last_key], states[is_last_key], open_ledgers.reasons | ledgers_of_batch.reasons
        )
        complete_count = max(len(batch.ids) - 1, 0)
        yield batch.slice_ledgers(0, complete_count)
        open_ledgers = batch.slice_ledgers(complete_count, len(batch.ids))
    yield open_ledgers


def _read_rows(rows: Rows, flags: StorageFlags, unexpected_rows: UnexpectedRows) -> IndexedLedgers:
    keys, values = rows
    lengths = np.diff(keys.offsets)
    is_valid = np.isin(lengths, ledger_data.KEY_BYTES)
    unexpected_rows.add(rows, np.flatnonzero(~is_valid), "a key of the wrong length")
    row_numbers = np.flatnonzero(is_valid)
    ledger_ids = keys.leading_bytes(row_numbers, 8).ravel().view(">i8").astype(np.int64)
    for row in row_numbers[ledger_ids == ledger_data.FLAGS_KEY]:
        try:
            flags.flag_bits |= ledger_data.flags(values.string(int(row)))
        except DecodeError as error:
            unexpected_rows.add(rows, np.array([row]), f"invalid storage flags ({error.reason})")
    is_ledger_key = ledger_ids >= 0  # all other negative numbers are reserved
    ledger_ids, row_numbers = ledger_ids[is_ledger_key], row_numbers[is_ledger_key]
    states = np.full(len(ledger_ids), EXISTING, np.uint8)
    reason_by_id = {}
    has_plain_data = ledger_data.have_required_fields_only(values.data, values.offsets.astype(np.int64))[
        row_numbers
    ]
    for ledger_position in np.flatnonzero(~has_plain_data):
        try:
            ledger = ledger_data.decode(values.string(int(row_numbers[ledger_position])))
        except DecodeError as error:
            states[ledger_position] = DAMAGED
            reason_by_id[int(ledger_ids[ledger_position])] = str(error)
        else:
            states[ledger_position] = LIMBO if ledger.limbo else EXISTING if ledger.exists else NONEXISTENT
    return IndexedLedgers(ledger_ids, states, reason_by_id)


class JoinedLedgers(NamedTuple):
    """Ledgers from the databases ``locations`` and ``ledgers`` together, in ascending order of ids.

    Each ledger has its entries and a state. A broken ledger also has a reason.
    """

    ids: Longs
    groups: GroupBatch
    states: NDArray[np.uint8]
    reasons: dict[int, str]


def join_ledgers(
    locations: Iterator[EntrySets], ledgers: Iterator[IndexedLedgers]
) -> Iterator[JoinedLedgers]:
    """Yield every ledger that is in at least one of the two databases, once each.

    This reads both databases side by side. It keeps in memory only those ledgers of one database that the
    other database has not reached yet.
    """
    unjoined_sets, index_ledgers = next(locations, None), next(ledgers, None)
    while unjoined_sets is not None or index_ledgers is not None:
        if unjoined_sets is not None and not len(unjoined_sets.ids):
            unjoined_sets = next(locations, None)
            continue
        if index_ledgers is not None and not len(index_ledgers.ids):
            index_ledgers = next(ledgers, None)
            continue
        # Both sides are complete up to this id: later batches have only greater ids.
        last_ids = [
            int(sorted_ledgers.ids[-1])
            for sorted_ledgers in (unjoined_sets, index_ledgers)
            if sorted_ledgers is not None
        ]
        last_id = min(last_ids)
        sets_to_join, unjoined_sets = (
            _split_after(unjoined_sets, last_id) if unjoined_sets is not None else (_NO_ENTRY_SETS, None)
        )
        ledgers_to_join, index_ledgers = (
            _split_after(index_ledgers, last_id) if index_ledgers is not None else (_NO_INDEXED_LEDGERS, None)
        )
        yield _join_entry_sets(sets_to_join, ledgers_to_join)


_NO_ENTRY_SETS = EntrySets(np.zeros(0, np.int64), GroupBatch.from_tuples([]), {})
_NO_INDEXED_LEDGERS = IndexedLedgers(np.zeros(0, np.int64), np.zeros(0, np.uint8), {})


SortedLedgers = TypeVar("SortedLedgers", EntrySets, IndexedLedgers)


def _split_after(sorted_ledgers: SortedLedgers, last_id: int) -> tuple[SortedLedgers, SortedLedgers]:
    end = int(np.searchsorted(sorted_ledgers.ids, last_id, side="right"))
    return sorted_ledgers.slice_ledgers(0, end), sorted_ledgers.slice_ledgers(end, len(sorted_ledgers.ids))


def _join_entry_sets(entry_sets: EntrySets, index_ledgers: IndexedLedgers) -> JoinedLedgers:
    reason_by_id = index_ledgers.reasons | entry_sets.failure_by_id
    if np.array_equal(entry_sets.ids, index_ledgers.ids):
        ledger_ids, groups, states = entry_sets.ids, entry_sets.groups, index_ledgers.states
    else:
        ledger_ids = np.union1d(entry_sets.ids, index_ledgers.ids)
        group_counts = np.zeros(len(ledger_ids), np.int64)
        group_counts[np.searchsorted(ledger_ids, entry_sets.ids)] = np.diff(entry_sets.groups.offsets)
        set_groups = entry_sets.groups
        groups = GroupBatch(
            set_groups.first, set_groups.last, set_groups.size, set_groups.period, offsets_of(group_counts)
        )
        states = np.full(len(ledger_ids), UNLISTED, np.uint8)
        states[np.searchsorted(ledger_ids, index_ledgers.ids)] = index_ledgers.states
    if entry_sets.failure_by_id:
        states = np.where(np.isin(ledger_ids, list(entry_sets.failure_by_id)), np.uint8(DAMAGED), states)
    return JoinedLedgers(ledger_ids, groups, states, reason_by_id)


SCOPED_DATABASE_NAME = "locations-scoped"
SCOPED_KEY_BYTES = 8 + KEY_BYTES


def scoped_ledgers(
    batches: Iterable[Rows], unexpected_rows: UnexpectedRows
) -> Iterator[tuple[int, JoinedLedgers]]:
    """Yield each scope (upper half of the ids) with its ledgers. Bad rows go to ``unexpected_rows``."""
    rows_by_scope = (
        scope_and_rows for rows in batches for scope_and_rows in _split_by_scope(rows, unexpected_rows)
    )
    for scope_id, rows_of_scope in groupby(rows_by_scope, key=lambda scope_and_rows: scope_and_rows[0]):
        for batch in group_locations((rows for _, rows in rows_of_scope), unexpected_rows, signed_ids=True):
            states = np.full(len(batch.ids), EXISTING, np.uint8)
            states[np.isin(batch.ids, list(batch.failure_by_id))] = DAMAGED
            yield (scope_id, JoinedLedgers(batch.ids, batch.groups, states, batch.failure_by_id))


def _split_by_scope(rows: Rows, unexpected_rows: UnexpectedRows) -> Iterator[tuple[int, Rows]]:
    """Yield each scope (upper half of 128-bit ids) and its rows, with keys as in database ``locations``."""
    keys, values = rows
    row_numbers = _valid_rows(rows, unexpected_rows, SCOPED_KEY_BYTES)
    scoped_keys, location_bytes = (
        keys.leading_bytes(row_numbers, SCOPED_KEY_BYTES),
        values.leading_bytes(row_numbers, VALUE_BYTES),
    )
    key_numbers = np.ascontiguousarray(scoped_keys).view(">i8").reshape(-1, 3)
    is_negative = key_numbers[:, 2] < 0
    unexpected_rows.add(rows, row_numbers[is_negative], "a negative entry id")
    scoped_keys, location_bytes, key_numbers = (
        scoped_keys[~is_negative],
        location_bytes[~is_negative],
        key_numbers[~is_negative],
    )
    if not len(key_numbers):
        return
    scope_ids = key_numbers[:, 0].astype(np.int64)
    scope_starts = np.flatnonzero(np.append(True, scope_ids[1:] != scope_ids[:-1]))
    for start, end in zip(scope_starts, np.append(scope_starts[1:], len(scope_ids)), strict=True):
        yield (
            int(scope_ids[start]),
            Rows(
                _to_strings(scoped_keys[start:end, 8:], KEY_BYTES),
                _to_strings(location_bytes[start:end], VALUE_BYTES),
            ),
        )


def _to_strings(byte_rows: np.ndarray[tuple[int, ...], np.dtype[np.uint8]], length: int) -> Strings:
    return Strings(
        np.ascontiguousarray(byte_rows).ravel(), np.arange(0, byte_rows.size + 1, length, dtype=np.int32)
    )
