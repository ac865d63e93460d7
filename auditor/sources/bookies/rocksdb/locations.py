"""The entries of each ledger from DbLedgerStorage's RocksDB ``locations`` (EntryLocationIndex).

    key    ledger id, entry id: i64, i64, big-endian          value    where the entry lies: i64; 0 nowhere

Keys come in order, so a ledger's entries come together, and are folded batch by batch. Of a ledger that goes
on in the next batch only its groups are kept: memory follows the groups of one ledger, never its entries.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from auditor.codecs.availability.fold import fold_entries
from auditor.codecs.availability.groups import GroupBatch, Longs
from auditor.codecs.availability.incremental_fold import IncrementalFold
from auditor.errors import CoverageLimitError
from auditor.sources.bookies.rocksdb.scan import Rows, UnexpectedRows

KEY_BYTES, VALUE_BYTES = 16, 8


class LedgerSets(NamedTuple):
    """Whole ledgers, ids ascending, and the entries of each; ``failed``: why one is too irregular, by id."""

    ids: Longs
    groups: GroupBatch
    failed: dict[int, str]

    def part(self, start: int, stop: int) -> LedgerSets:
        """Ledgers ``start:stop`` of them.

        >>> sets = LedgerSets(np.array([5, 7]), GroupBatch.of([[], [(1, 1, 1, 0)]]), {})
        >>> sets.part(1, 2).groups.first.tolist()
        [1]
        """
        offsets, groups = self.groups.offsets[start : stop + 1], self.groups
        held = slice(offsets[0], offsets[-1])
        part = GroupBatch(
            groups.first[held],
            groups.last[held],
            groups.size[held],
            groups.period[held],
            offsets - offsets[0],
        )
        return LedgerSets(self.ids[start:stop], part, self.failed)


def fold_locations(
    batches: Iterable[Rows], odd: UnexpectedRows, signed_ids: bool = False
) -> Iterator[LedgerSets]:
    """Fold the rows of ``locations`` into one set a ledger; what is none of its rows goes to ``odd``.

    ``signed_ids``: negative ids are ledgers too, after all others, as in scopes other than 0. Their entries
    are not negative: `auditor.sources.bookies.rocksdb.ledgers` sees to that.
    """
    open_ledger: _Open | None = None
    for rows in batches:
        ledgers, entries = _split_keys(rows, odd, signed_ids)
        if not len(ledgers):
            continue
        bounds = _bounds(ledgers)
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
            open_ledger = _Open(int(ids[last]))
            open_ledger.add(sets.part(last, last + 1).groups)
    if open_ledger is not None:
        yield open_ledger.close_sets()


class _Open:
    """The ledger that may go on in the next batch."""

    def __init__(self, ledger_id: int) -> None:
        self.ledger_id = ledger_id
        self._gathered = IncrementalFold()
        self._failed: dict[int, str] = {}

    def add(self, groups: GroupBatch) -> None:
        if not self._failed:
            try:
                self._gathered.add(groups)
            except CoverageLimitError as error:
                self._fail(error)

    def close_sets(self) -> LedgerSets:
        groups = GroupBatch.of([[]])
        if not self._failed:
            try:
                groups = self._gathered.result()
            except CoverageLimitError as error:
                self._fail(error)
        return LedgerSets(np.array([self.ledger_id]), groups, self._failed)

    def _fail(self, error: CoverageLimitError) -> None:
        self._failed[self.ledger_id] = str(error)
        self._gathered = IncrementalFold()


BigLongs = NDArray[np.int64]
"""Big-endian, as they lie in the key."""


def _split_keys(rows: Rows, odd: UnexpectedRows, signed_ids: bool) -> tuple[BigLongs, BigLongs]:
    """Ledger and entry of each row that holds an entry."""
    keys, values = rows
    if keys.all_of(KEY_BYTES) and values.all_of(VALUE_BYTES):
        key_bytes = keys.data[keys.offsets[0] : keys.offsets[-1]]
        value_bytes = values.data[values.offsets[0] : values.offsets[-1]]
        at: NDArray[np.intp] | None = None
    else:
        sound = (np.diff(keys.offsets) == KEY_BYTES) & (np.diff(values.offsets) == VALUE_BYTES)
        odd.add(rows, np.flatnonzero(~sound), "a key or value of another length, key")
        at = np.flatnonzero(sound)
        key_bytes = keys.data[keys.offsets[at][:, None] + np.arange(KEY_BYTES)].ravel()
        value_bytes = values.data[values.offsets[at][:, None] + np.arange(VALUE_BYTES)].ravel()
    pairs = key_bytes.view(">i8").reshape(-1, 2)
    # Negative numbers sort last: whether there are any shows at the end, or at the end of a ledger.
    if not signed_ids and len(pairs) and (pairs[-1, 0] < 0 or (pairs[:, 1] < 0).any()):
        sound = (pairs >= 0).all(axis=1)
        negative = np.flatnonzero(~sound)
        odd.add(rows, negative if at is None else at[negative], "a negative ledger or entry id, key")
        pairs, value_bytes = pairs[sound], value_bytes.reshape(-1, VALUE_BYTES)[sound].ravel()
    held = value_bytes.view(np.int64) != 0
    if not held.all():
        pairs = pairs[held]
    return pairs[:, 0], pairs[:, 1]


def _bounds(ledgers: BigLongs) -> Longs:
    """Where each ledger begins, and where the last one ends. Ids ascend: if the ends are one, all are."""
    if ledgers[0] == ledgers[-1]:
        return np.array([0, len(ledgers)])
    changes = np.flatnonzero(ledgers[1:] != ledgers[:-1]) + 1
    return np.concatenate(([0], changes, [len(ledgers)]))
