"""Which ledgers a bookie on DbLedgerStorage knows, from its RocksDB ``ledgers``, in order of their ids."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from auditor.codecs.availability.groups import Longs
from auditor.codecs.bookie import ledger_data
from auditor.errors import DecodeError
from auditor.sources.bookies.rocksdb.scan import Rows
from auditor.sources.bookies.rocksdb.unexpected_rows import UnexpectedRows

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
