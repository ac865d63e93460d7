"""Rows of ``availability`` from one index directory of a bookie with DbLedgerStorage.

Each index directory has two databases: the location of each entry (``locations``), and the ledgers that the
bookie knows (``ledgers``). The program reads both side by side in the order of their keys, in bounded
memory. If a ledger is missing in ``ledgers``, the bookie does not serve it, even if ``locations`` contains
its entries. A bookie looks for a ledger in only one directory, which the ledger's id determines. Ledgers with
ids over 64 bits (BP-35) are in a third database (`auditor.sources.bookies.rocksdb.ledgers`).

A bookie writes the locations of a new ledger before the ledger itself. Therefore, the program opens
``locations`` first. A new ledger then seems to be missing in ``ledgers`` only if the databases are opened
between these two writes. If the program opened ``ledgers`` first, many new ledgers would seem to be missing.
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
from auditor.model.columns import make_batch
from auditor.model.states import IndexState
from auditor.sources.bookies.availability import MAX_BATCH_BYTES, MAX_BATCH_ROWS, SCHEMA, combine_stamps
from auditor.sources.bookies.index_files.listing import STRAY_REASON, SkippedPath
from auditor.sources.bookies.parts import ROCKSDB, IndexDirectory, list_current
from auditor.sources.bookies.rocksdb.ledgers import (
    DAMAGED,
    SCOPED_DATABASE_NAME,
    JoinedLedgers,
    StorageFlags,
    group_locations,
    indexed_ledgers,
    join_ledgers,
    scoped_ledgers,
)
from auditor.sources.bookies.rocksdb.scan import UnexpectedRows, file_statuses, open_rocksdb, scan

INTEGRITY_CHECK_REASON = "NEEDS_INTEGRITY_CHECK is set: the bookie has yet to check which entries it lost"
UNCLEAR_STORAGE_REASON = (
    "index files next to a DbLedgerStorage index: it is unclear which of the two the bookie uses"
)

# State and reason for each state in the index of ledgers: EXISTING, LIMBO, NONEXISTENT, UNLISTED.
_STATE_REASONS: tuple[tuple[str, str | None], ...] = (
    (IndexState.OK, None),
    (IndexState.LIMBO, "in limbo: the bookie does not know which entries of the ledger it should have"),
    (IndexState.NOT_INDEXED, "the index of ledgers says that this ledger does not exist"),
    (
        IndexState.NOT_INDEXED,
        "entries of this ledger have locations, but the index of ledgers does not list the ledger",
    ),
)


def read_databases(
    bookie_id: str, directory: IndexDirectory, skipped_paths: list[SkippedPath]
) -> Iterator[pa.RecordBatch]:
    """Yield one row per ledger in the databases of an index directory.

    This adds to ``skipped_paths`` the paths that belong to no ledger. Their states are gap (not read),
    damaged, or stray (not written by a bookie).
    """
    current_path = f"{directory.path}/current"
    locations_path, ledgers_path = f"{current_path}/locations", f"{current_path}/ledgers"
    directory_faults = list(find_directory_faults(directory.path))
    skipped_paths.extend(directory_faults)
    if any(skipped_path.state != IndexState.STRAY for skipped_path in directory_faults):
        return
    database_stamp = read_database_stamp(current_path)
    unexpected_locations, unexpected_ledgers = UnexpectedRows(locations_path), UnexpectedRows(ledgers_path)
    storage_flags = StorageFlags()

    def read_default_scope() -> Iterator[tuple[int, JoinedLedgers]]:
        with open_rocksdb(locations_path) as locations_db, open_rocksdb(ledgers_path) as ledgers_db:
            entry_sets = group_locations(scan(locations_db, locations_path), unexpected_locations)
            ledgers_in_index = indexed_ledgers(
                scan(ledgers_db, ledgers_path), storage_flags, unexpected_ledgers
            )
            yield from ((0, ledger_batch) for ledger_batch in join_ledgers(entry_sets, ledgers_in_index))

    yield from _RowBuffer(bookie_id, directory, locations_path, database_stamp).read_batches(
        read_default_scope(), skipped_paths
    )
    other_scopes_path = f"{current_path}/{SCOPED_DATABASE_NAME}"
    if Path(other_scopes_path).exists():
        unexpected_other_scopes = UnexpectedRows(other_scopes_path)

        def read_other_scopes() -> Iterator[tuple[int, JoinedLedgers]]:
            with open_rocksdb(other_scopes_path) as database:
                yield from scoped_ledgers(scan(database, other_scopes_path), unexpected_other_scopes)

        yield from _RowBuffer(bookie_id, directory, other_scopes_path, database_stamp).read_batches(
            read_other_scopes(), skipped_paths
        )
        skipped_paths.extend(unexpected_other_scopes.rows())
    skipped_paths.extend([*unexpected_locations.rows(), *unexpected_ledgers.rows()])
    if storage_flags.needs_integrity_check and directory.position == 0:
        skipped_paths.append(SkippedPath(None, ledgers_path, IndexState.GAP, INTEGRITY_CHECK_REASON))


def read_database_stamp(current_path: str) -> int | None:
    """Return one stamp for all databases in an index directory. Call this before reading the databases.

    An equal stamp in a later run shows that no database file has changed. Return None if a file has no
    stamp, or if the status of a file cannot be read.
    """
    start_ns = time.time_ns()
    named_statuses: list[tuple[str, os.stat_result]] = []
    for database_name in ("locations", "ledgers", SCOPED_DATABASE_NAME):
        if database_name != SCOPED_DATABASE_NAME or Path(current_path, database_name).exists():
            try:
                named_statuses += [
                    (f"{database_name}/{file}", status)
                    for file, status in file_statuses(f"{current_path}/{database_name}").items()
                ]
            except UnreadError:
                return None  # the reader of the database reports the reason
    return combine_stamps(named_statuses, start_ns)


def find_directory_faults(directory: str) -> Iterator[SkippedPath]:
    """Yield stray rows (files that no bookie writes), and gap or damaged rows for unreliable databases."""
    current_path = f"{directory}/current"
    try:
        index_directory_names, unknown_names = list_current(directory)
        index_patterns = ("*/*.idx", "*/*/*/*.idx")  # of scope 0, and of other scopes
        has_index_files = any(
            True
            for name in index_directory_names
            for pattern in index_patterns
            for _ in Path(current_path, name).glob(pattern)
        )
    except OSError as error:
        yield SkippedPath(None, current_path, IndexState.GAP, error.strerror or str(error))
        return
    yield from (
        SkippedPath(None, f"{current_path}/{name}", IndexState.STRAY, STRAY_REASON) for name in unknown_names
    )
    if has_index_files:
        yield SkippedPath(None, current_path, IndexState.GAP, UNCLEAR_STORAGE_REASON)
    for database_name, other_name in (("locations", "ledgers"), ("ledgers", "locations")):
        if not Path(current_path, database_name).is_dir():
            yield SkippedPath(
                None,
                f"{current_path}/{database_name}",
                IndexState.DAMAGED,
                f"missing, although {other_name} exists",
            )


class _RowBuffer:
    """A buffer of rows. It stores the state and reason of a row as a code.

    The code is the position of the pair (state, reason) in the list of all pairs so far.
    """

    def __init__(
        self, bookie_id: str, directory: IndexDirectory, path: str, database_stamp: int | None
    ) -> None:
        self._bookie_id = bookie_id
        self._directory = directory
        self._path = path
        self._stamp = database_stamp
        self._clear()

    def _clear(self) -> None:
        self.count = 0
        self._scope_ids: list[Longs] = []
        self._ledger_ids: list[Longs] = []
        self._state_codes: list[NDArray[np.int64]] = []
        self._entry_groups: list[bytes] = []
        self._group_bytes: list[Longs] = []
        self._code_by_state = {
            state_and_reason: state_code for state_code, state_and_reason in enumerate(_STATE_REASONS)
        }

    @property
    def is_full(self) -> bool:
        return self.count >= MAX_BATCH_ROWS or sum(map(len, self._entry_groups)) > MAX_BATCH_BYTES

    def read_batches(
        self, ledgers: Iterator[tuple[int, JoinedLedgers]], skipped_paths: list[SkippedPath]
    ) -> Iterator[pa.RecordBatch]:
        """Yield one row per ledger in ``ledgers``.

        Each item of ``ledgers`` is a scope (the upper 64 bits of ledger ids) and some of its ledgers. If
        reading fails, this adds the fault to ``skipped_paths``, and yields no rows of later ledgers.
        """
        try:
            for scope_id, ledger_batch in ledgers:
                if self.is_full:
                    yield self.take_batch()
                self.add(ledger_batch, scope_id)
        except DamagedError as error:
            skipped_paths.append(
                SkippedPath(None, error.path, IndexState.DAMAGED, error.reason, error.offset)
            )
        except UnreadError as error:
            skipped_paths.append(SkippedPath(None, error.path, IndexState.GAP, error.reason))
        if self.count:
            yield self.take_batch()

    def add(self, ledger_batch: JoinedLedgers, scope_id: int) -> None:
        directory = self._directory
        state_codes = ledger_batch.states.astype(np.int64)
        for row in np.flatnonzero(ledger_batch.states == DAMAGED):
            state_codes[row] = self._state_code(
                IndexState.UNREADABLE, ledger_batch.reasons[int(ledger_batch.ids[row])]
            )
        if directory.directory_count > 1:
            expected_directory_numbers = ledger_batch.ids % directory.directory_count
            for expected_directory_number in np.unique(
                expected_directory_numbers[expected_directory_numbers != directory.position]
            ):
                reason = (
                    f"in index directory {directory.position + 1} of {directory.directory_count}, "
                    f"but the bookie looks for this ledger in directory {expected_directory_number + 1}"
                )
                state_codes[expected_directory_numbers == expected_directory_number] = self._state_code(
                    IndexState.WRONG_DIRECTORY, reason
                )
        entry_groups, entry_group_counts = ledger_batch.groups.groups(), np.diff(ledger_batch.groups.offsets)
        is_unreadable = state_codes >= len(_STATE_REASONS)
        if is_unreadable.any():
            entry_groups = entry_groups[np.repeat(~is_unreadable, entry_group_counts)]
            entry_group_counts = np.where(is_unreadable, 0, entry_group_counts)
        self.count += len(ledger_batch.ids)
        self._scope_ids.append(np.full(len(ledger_batch.ids), scope_id))
        self._ledger_ids.append(ledger_batch.ids)
        self._state_codes.append(state_codes)
        self._entry_groups.append(entry_groups.tobytes())
        self._group_bytes.append(entry_group_counts * GROUP.itemsize)

    def _state_code(self, state: str, reason: str) -> int:
        return self._code_by_state.setdefault((state, reason), len(self._code_by_state))

    def take_batch(self) -> pa.RecordBatch:
        """Return all rows as one record batch, and empty the buffer."""
        row_count, group_end_offsets = self.count, offsets_of(np.concatenate(self._group_bytes))
        state_codes = pa.array(np.concatenate(self._state_codes))
        states, reasons = (pa.array(column, pa.string()) for column in zip(*self._code_by_state, strict=True))
        columns = {
            "bookie_id": self._bookie_id,
            "scope_id": np.concatenate(self._scope_ids),
            "ledger_id": np.concatenate(self._ledger_ids),
            "groups": binary_array(b"".join(self._entry_groups), group_end_offsets),
            "state": states.take(state_codes),
            "reason": reasons.take(state_codes),
            "path": self._path,
            "storage": ROCKSDB,
            "stamp": self._stamp,
            "reused": False,
        }
        self._clear()
        return make_batch(SCHEMA, row_count, columns)
