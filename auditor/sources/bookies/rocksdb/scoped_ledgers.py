"""The entries of ledgers outside scope 0 from DbLedgerStorage's RocksDB ``locations-scoped`` (BP-35).

    key    scope, ledger id, entry id: i64, i64, i64, big-endian       value    as in ``locations``

The proposal asks for a new database with such keys; its name is this program's choice. It names no index of
ledgers for them: a ledger that has a location is known, and none is in limbo. No server writes it yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

import numpy as np

from auditor.sources.bookies.rocksdb.join import JoinedLedgers
from auditor.sources.bookies.rocksdb.ledgers import BROKEN, KNOWN
from auditor.sources.bookies.rocksdb.locations import KEY_BYTES, VALUE_BYTES, fold_locations
from auditor.sources.bookies.rocksdb.scan import Rows, Strings
from auditor.sources.bookies.rocksdb.unexpected_rows import UnexpectedRows

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
