"""Rows of ``availability`` from one index directory of a bookie on DbLedgerStorage.

Each index directory has two databases: the location of each entry (``locations``), and the ledgers that the
bookie knows (``ledgers``). The program reads both side by side in the order of keys, in bounded memory. The
bookie does not serve a ledger that is missing in ``ledgers``, even if ``locations`` has its entries. A bookie
looks for a ledger in one directory only, which depends on the ledger's id. Ledgers of scopes other than 0
have a third database: `auditor.sources.bookies.rocksdb.ledgers`.

The program opens ``locations`` first. A bookie writes the locations of a new ledger before the ledger itself.
In the other order, many new ledgers of a running bookie would look not indexed. In this order, a ledger looks
not indexed only while the bookie is between the two writes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from auditor.codecs.availability.groups import GROUP, Longs, offsets_of
from auditor.codecs.byte_column import binary_array
from auditor.errors import DamagedError, UnreadError
from auditor.model.columns import rows_of_columns
from auditor.model.states import IndexState
from auditor.sources.bookies.availability import MAX_BATCH_BYTES, MAX_BATCH_ROWS, SCHEMA, files_stamp
from auditor.sources.bookies.index_files.listing import NOT_OURS, SkippedPath
from auditor.sources.bookies.parts import ROCKSDB, IndexDirectory, list_current
from auditor.sources.bookies.rocksdb.ledgers import (
    BROKEN,
    JoinedLedgers,
    StorageFlags,
    fold_locations,
    indexed_ledgers,
    join_ledgers,
    scoped_ledgers,
)
from auditor.sources.bookies.rocksdb.ledgers import NAME as SCOPED
from auditor.sources.bookies.rocksdb.scan import UnexpectedRows, open_rocksdb, scan, states

CHECK_NEEDED_REASON = "NEEDS_INTEGRITY_CHECK is set: the bookie has yet to check which entries it lost"
UNCLEAR_STORAGE = "index files beside a DbLedgerStorage index: unclear which of the two the bookie uses"

# State and reason for each state in the index of ledgers: EXISTING, LIMBO, NONEXISTENT, UNLISTED.
_STATE_REASONS: tuple[tuple[str, str | None], ...] = (
    (IndexState.OK, None),
    (IndexState.LIMBO, "in limbo: the bookie does not know which entries of the ledger it should have"),
    (IndexState.NOT_INDEXED, "the index of ledgers has this ledger as not existing"),
    (
        IndexState.NOT_INDEXED,
        "entries of this ledger have locations, but the index of ledgers does not list the ledger",
    ),
)


def read_databases(
    bookie_id: str, directory: IndexDirectory, passed: list[SkippedPath]
) -> Iterator[pa.RecordBatch]:
    """Yield one row per ledger. Paths that belong to no ledger (gap, damaged, stray) go to ``passed``."""
    current = f"{directory.path}/current"
    locations, ledgers = f"{current}/locations", f"{current}/ledgers"
    skipped_paths = list(index_files_beside(directory.path))
    passed.extend(skipped_paths)
    if any(skipped.state != IndexState.STRAY for skipped in skipped_paths):
        return
    stamp = stamp_databases(current)
    odd_locations, odd_ledgers = UnexpectedRows(locations), UnexpectedRows(ledgers)
    flags = StorageFlags()

    def unscoped_rows() -> Iterator[tuple[int, JoinedLedgers]]:
        with open_rocksdb(locations) as locations_db, open_rocksdb(ledgers) as ledgers_db:
            location_sets = fold_locations(scan(locations_db, locations), odd_locations)
            ledgers_in_index = indexed_ledgers(scan(ledgers_db, ledgers), flags, odd_ledgers)
            yield from (
                (0, joined_ledgers) for joined_ledgers in join_ledgers(location_sets, ledgers_in_index)
            )

    yield from _Rows(bookie_id, directory, locations, stamp).gather(unscoped_rows(), passed)
    scoped_database = f"{current}/{SCOPED}"
    if Path(scoped_database).exists():
        unexpected = UnexpectedRows(scoped_database)

        def scoped_rows() -> Iterator[tuple[int, JoinedLedgers]]:
            with open_rocksdb(scoped_database) as database:
                yield from scoped_ledgers(scan(database, scoped_database), unexpected)

        yield from _Rows(bookie_id, directory, scoped_database, stamp).gather(scoped_rows(), passed)
        passed.extend(unexpected.rows())
    passed.extend([*odd_locations.rows(), *odd_ledgers.rows()])
    if flags.needs_integrity_check and directory.position == 0:
        passed.append(SkippedPath(None, ledgers, IndexState.GAP, CHECK_NEEDED_REASON))


def stamp_databases(current: str) -> int | None:
    """Return the stamp of all databases in one index directory before they are read.

    Returns None if they have no stamp.
    """
    start_ns = time.time_ns()
    file_states: list[tuple[str, os.stat_result]] = []
    for name in ("locations", "ledgers", SCOPED):
        if name != SCOPED or Path(current, name).exists():
            try:
                file_states += [
                    (f"{name}/{file}", state) for file, state in states(f"{current}/{name}").items()
                ]
            except UnreadError:
                return None  # the reader of the database reports the reason
    return files_stamp(file_states, start_ns)


def index_files_beside(directory: str) -> Iterator[SkippedPath]:
    """Yield the strays in ``current``. Yield a gap or damage too if the databases there cannot be trusted."""
    current = f"{directory}/current"
    try:
        level_names, strays = list_current(directory)
        files = ("*/*.idx", "*/*/*/*.idx")  # of scope 0, and of other scopes
        has_index_files = any(
            True for name in level_names for pattern in files for _ in Path(current, name).glob(pattern)
        )
    except OSError as error:
        yield SkippedPath(None, current, IndexState.GAP, error.strerror or str(error))
        return
    yield from (SkippedPath(None, f"{current}/{name}", IndexState.STRAY, NOT_OURS) for name in strays)
    if has_index_files:
        yield SkippedPath(None, current, IndexState.GAP, UNCLEAR_STORAGE)
    for name, other_name in (("locations", "ledgers"), ("ledgers", "locations")):
        if not Path(current, name).is_dir():
            yield SkippedPath(
                None, f"{current}/{name}", IndexState.DAMAGED, f"missing, though {other_name} exists"
            )


class _Rows:
    """A buffer of rows. A row's code is the number of its pair (state, reason) in the list of pairs."""

    def __init__(self, bookie_id: str, directory: IndexDirectory, path: str, stamp: int | None) -> None:
        self._bookie_id = bookie_id
        self._directory = directory
        self._path = path
        self._stamp = stamp
        self._clear()

    def _clear(self) -> None:
        self.count = 0
        self._scopes: list[Longs] = []
        self._ids: list[Longs] = []
        self._codes: list[NDArray[np.int64]] = []
        self._groups: list[bytes] = []
        self._group_bytes: list[Longs] = []
        self._kinds = {kind: code for code, kind in enumerate(_STATE_REASONS)}

    @property
    def full(self) -> bool:
        return self.count >= MAX_BATCH_ROWS or sum(map(len, self._groups)) > MAX_BATCH_BYTES

    def gather(
        self, ledgers: Iterator[tuple[int, JoinedLedgers]], skipped_paths: list[SkippedPath]
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of ledgers with their scopes. If reading fails, all later ledgers are unknown."""
        try:
            for scope_id, joined_ledgers in ledgers:
                if self.full:
                    yield self.take()
                self.add(joined_ledgers, scope_id)
        except DamagedError as error:
            skipped_paths.append(
                SkippedPath(None, error.path, IndexState.DAMAGED, error.reason, error.offset)
            )
        except UnreadError as error:
            skipped_paths.append(SkippedPath(None, error.path, IndexState.GAP, error.reason))
        if self.count:
            yield self.take()

    def add(self, joined_ledgers: JoinedLedgers, scope_id: int) -> None:
        directory = self._directory
        codes = joined_ledgers.states.astype(np.int64)
        for row in np.flatnonzero(joined_ledgers.states == BROKEN):
            codes[row] = self._code(
                IndexState.UNREADABLE, joined_ledgers.reasons[int(joined_ledgers.ids[row])]
            )
        if directory.directory_count > 1:
            places = joined_ledgers.ids % directory.directory_count
            for place in np.unique(places[places != directory.position]):
                reason = (
                    f"in index directory {directory.position + 1} of {directory.directory_count}, "
                    f"but the bookie looks for this ledger in directory {place + 1}"
                )
                codes[places == place] = self._code(IndexState.WRONG_DIRECTORY, reason)
        groups, counts = joined_ledgers.groups.groups(), np.diff(joined_ledgers.groups.offsets)
        unreadable = codes >= len(_STATE_REASONS)
        if unreadable.any():
            groups = groups[np.repeat(~unreadable, counts)]
            counts = np.where(unreadable, 0, counts)
        self.count += len(joined_ledgers.ids)
        self._scopes.append(np.full(len(joined_ledgers.ids), scope_id))
        self._ids.append(joined_ledgers.ids)
        self._codes.append(codes)
        self._groups.append(groups.tobytes())
        self._group_bytes.append(counts * GROUP.itemsize)

    def _code(self, state: str, reason: str) -> int:
        return self._kinds.setdefault((state, reason), len(self._kinds))

    def take(self) -> pa.RecordBatch:
        """Return all rows as one record batch, and empty the buffer."""
        count, ends = self.count, offsets_of(np.concatenate(self._group_bytes))
        codes = pa.array(np.concatenate(self._codes))
        states, reasons = (pa.array(column, pa.string()) for column in zip(*self._kinds, strict=True))
        columns = {
            "bookie_id": self._bookie_id,
            "scope_id": np.concatenate(self._scopes),
            "ledger_id": np.concatenate(self._ids),
            "groups": binary_array(b"".join(self._groups), ends),
            "state": states.take(codes),
            "reason": reasons.take(codes),
            "path": self._path,
            "storage": ROCKSDB,
            "stamp": self._stamp,
            "reused": False,
        }
        self._clear()
        return rows_of_columns(SCHEMA, count, columns)
