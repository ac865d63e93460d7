"""The rows that an earlier run read from indexes, and the files that are unchanged since (``--since``).

The rows are in Parquet files of the earlier run's table ``availability``. A row's number is its position
across these files. The program reads these Parquet files twice, batch by batch: first the columns with paths
and stamps, to decide which rows are still valid, then the valid rows themselves. Between the two passes it
keeps one bit per row and no rows.

An index file is unchanged if its stamp (a value from its inode number, size and times) is unchanged
(`auditor.sources.bookies.availability`). Most directories need no new listing either, because creating,
removing or renaming a file changes the directory's own time. A directory has the same files if its last
change was well before the earlier run listed it, and all its files are unchanged. Unchanged files also prove
that the disk is the same. Every other directory is listed and read again.

A reused row does not show damage that only reading shows, such as a bad sector under an unchanged file.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from time import perf_counter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from auditor.errors import RunError
from auditor.model.batch_bounds import whole_batch_rows
from auditor.model.columns import make_batch
from auditor.model.states import IndexState
from auditor.sources.bookies.availability import SCHEMA, IndexFiles, compute_stamps
from auditor.sources.bookies.index_files.listing import SkippedPath, list_part
from auditor.sources.bookies.parts import IndexPart
from auditor.sources.file_systems import open_earlier_file

BATCH_ROWS = 4096
"""Largest number of rows in memory at once; `auditor.model.batch_bounds.MAX_BATCH_BYTES` can lower it."""


@dataclass(frozen=True, slots=True)
class EarlierTable:
    """The table ``availability`` of an earlier run, which contains the rows to reuse.

    Attributes:
        table: The path or URI of the table.
        files: The files of the table that may contain rows of the bookie.
        list_start_ms: The time when the earlier run began to list files, in ms.
    """

    table: str
    files: tuple[str, ...]
    list_start_ms: int


class EarlierRows:
    """The rows of one bookie in an earlier run. `rows` returns only the rows that `select_rows` selected.

    Raises:
        RunError: from any method, if a file is missing, truncated, damaged, or has another schema.
    """

    def __init__(self, earlier_table: EarlierTable, bookie_id: str) -> None:
        self._table = earlier_table
        self._bookie_id = bookie_id
        self._is_selected = np.zeros(0, np.bool_)

    @property
    def list_start_ms(self) -> int:
        """The time when the earlier run began to list files, in ms."""
        return self._table.list_start_ms

    def scan(self, columns: Sequence[str]) -> Iterator[tuple[NDArray[np.int64], pa.RecordBatch]]:
        """Yield the bookie's rows in batches: their numbers across the table's files, and ``columns``."""
        column_names = ["bookie_id", *(name for name in columns if name != "bookie_id")]
        for first_row, batch in self._batches(column_names):
            belongs_to_bookie = np.asarray(pc.equal(batch["bookie_id"], self._bookie_id).fill_null(False))
            if belongs_to_bookie.any():
                yield first_row + np.flatnonzero(belongs_to_bookie), batch.filter(pa.array(belongs_to_bookie))

    def drop_files_without_matches(
        self, columns: Sequence[str], find_matches: Callable[[pa.RecordBatch], NDArray[np.bool_]]
    ) -> int:
        """Drop the Parquet files that contain no matching row. Return the number of matching rows.

        ``find_matches`` returns a mask of the matching rows of a batch.

        The numbers of the remaining rows change. This method reads the rows themselves and does not use the
        minima and maxima in the footers of the files. Pages have checksums, but footers have none.
        """
        row_count, files = 0, []
        for name in self._table.files:
            file_rows = EarlierRows(replace(self._table, files=(name,)), self._bookie_id)
            match_count = sum(
                int(np.count_nonzero(find_matches(batch))) for _, batch in file_rows.scan(columns)
            )
            row_count += match_count
            if match_count:
                files.append(name)
        self._table = replace(self._table, files=tuple(files))
        return row_count

    def select_rows(self, row_numbers: NDArray[np.int64]) -> None:
        """Add the rows with these numbers to the selected rows, which `rows` yields."""
        if len(row_numbers) and (last_row := int(row_numbers.max())) >= len(self._is_selected):
            self._is_selected = np.append(self._is_selected, np.zeros(last_row + 1, np.bool_))
        self._is_selected[row_numbers] = True

    def rows(self) -> Iterator[pa.RecordBatch]:
        """Yield the selected rows in the schema of ``availability``, marked as reused."""
        remaining_row_count = int(self._is_selected.sum())
        for first_row, batch in self._batches(SCHEMA.names) if remaining_row_count else ():
            is_selected = np.zeros(batch.num_rows, np.bool_)
            batch_selection = self._is_selected[first_row : first_row + batch.num_rows]
            is_selected[: len(batch_selection)] = batch_selection
            if is_selected.any():
                selected_rows = batch.filter(pa.array(is_selected))
                columns = {name: selected_rows[name] for name in SCHEMA.names} | {"reused": True}
                yield make_batch(SCHEMA, selected_rows.num_rows, columns)
                remaining_row_count -= selected_rows.num_rows
        if remaining_row_count:
            raise RunError(f"{self._table.table}: {remaining_row_count} rows vanished while it was read")

    def _batches(self, columns: Sequence[str]) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield all rows of all files in batches, each with the number of the batch's first row."""
        first_row = 0
        for name in self._table.files:
            with open_earlier_file(self._table.table, name, SCHEMA) as file:
                end_row = first_row + file.metadata.num_rows
                for row_group in range(file.num_row_groups):
                    rows = whole_batch_rows(file.metadata, row_group, BATCH_ROWS)
                    for batch in file.iter_batches(rows, [row_group], list(columns), use_threads=False):
                        yield first_row, batch
                        first_row += batch.num_rows
                if first_row != end_row:
                    raise RunError(
                        f"{self._table.table}/{name}: the number of rows differs from the footer by "
                        f"{abs(end_row - first_row)}"
                    )


UNCHANGED_DIR_MS = 3_600_000
"""A directory needs no new listing if it last changed at least this long before the earlier run, in ms.

The time covers the difference between the clocks of the file system and of the run.
"""

MAX_EARLIER_ROWS = 250_000
"""Largest number of earlier rows in memory at once: about 100 MB of paths."""

SLICE_FILES = 256
"""Number of files in one call of a thread that reads file status."""

MAX_CACHED_STAT_SECONDS = 10e-6
"""Longest mean time of one ``stat`` of files whose status is in memory, in seconds. Measured: 3e-6 s.

A longer mean time shows that the status comes from a disk or a server.
"""

MIN_STAT_THREADS = 4
"""Least number of threads that call ``stat`` for files on a disk or a server. There each call waits."""

_FIRST_LEVEL_COUNT = 256


class UnchangedFiles:
    """The files that an earlier run read, and which of these are unchanged and still at the same path.

    Args:
        paths: The paths of the files that the earlier run read.
        row_numbers: The number of each file's row in the earlier run.
        has_same_stamp: For each file, whether its stamp (inode number, size and times) is unchanged.
        start_ms: The time when the earlier run began to list files, in ms.
    """

    def __init__(
        self,
        paths: Sequence[bytes],
        row_numbers: NDArray[np.int64],
        has_same_stamp: NDArray[np.bool_],
        start_ms: int,
    ) -> None:
        directory_numbers: dict[bytes, int] = {}
        row_dir_numbers = np.array(
            [
                directory_numbers.setdefault(path.rpartition(b"/")[0], len(directory_numbers))
                for path in paths
            ],
            np.intp,
        )
        is_directory_unchanged = (
            np.bincount(row_dir_numbers[~has_same_stamp], minlength=len(directory_numbers)) == 0
        )
        row_order = np.argsort(row_dir_numbers, kind="stable")
        directory_ends = np.searchsorted(
            row_dir_numbers[row_order], np.arange(len(directory_numbers) + 1)
        ).tolist()
        self._row_numbers = row_numbers[row_order]
        self._is_reused = np.zeros(len(paths), np.bool_)
        self._paths, self._has_same_stamp, self._row_order, self._dir_ends, self._directory_numbers = (
            paths,
            has_same_stamp,
            row_order,
            directory_ends,
            directory_numbers,
        )
        self._unchanged_directories = {
            directory
            for directory, directory_number in directory_numbers.items()
            if is_directory_unchanged[directory_number] and _is_unmodified(directory, start_ms)
        }

    def can_skip_listing(self, directory: bytes) -> bool:
        """Return whether a directory needs no new listing. If so, record its files' rows as reusable."""
        if directory not in self._unchanged_directories:
            return False
        directory_number = self._directory_numbers[directory]
        self._is_reused[self._dir_ends[directory_number] : self._dir_ends[directory_number + 1]] = True
        return True

    def must_read(self, paths: Sequence[bytes]) -> NDArray[np.bool_]:
        """Return a mask of the ``paths`` that must be read. Record rows of all other paths as reusable."""
        # Look up only files of the directories of ``paths``: nearly all directories need no new listing.
        position_by_path: dict[bytes, int] = {}
        for directory in {path.rpartition(b"/")[0] for path in paths}:
            if (directory_number := self._directory_numbers.get(directory)) is not None:
                for position in range(self._dir_ends[directory_number], self._dir_ends[directory_number + 1]):
                    if self._has_same_stamp[row := self._row_order[position]]:
                        position_by_path[self._paths[row]] = position
        file_positions = np.array([position_by_path.get(path, -1) for path in paths], np.intp)
        self._is_reused[file_positions[file_positions >= 0]] = True
        return file_positions < 0

    @property
    def reused_row_numbers(self) -> NDArray[np.int64]:
        """The numbers of the rows to reuse. They are complete only after the whole part was listed."""
        return self._row_numbers[self._is_reused]


def list_changed(part: IndexPart, rows: EarlierRows) -> Iterator[IndexFiles | SkippedPath]:
    """List the changed and new index files of a part (the work of one task), like `list_part`.

    Also select in ``rows`` the earlier rows of the unchanged files (`EarlierRows.select_rows`).
    """
    for subpart in split_part(part, rows):
        unchanged_files = find_unchanged(subpart, rows)
        for listing in list_part(subpart, unchanged_files.can_skip_listing):
            if isinstance(listing, SkippedPath):
                yield listing
            elif (must_be_read := unchanged_files.must_read(listing.paths)).any():
                paths = [listing.paths[row] for row in np.flatnonzero(must_be_read)]
                yield IndexFiles(listing.ledger_ids[must_be_read], paths, listing.scope_id)
        rows.select_rows(unchanged_files.reused_row_numbers)


def split_part(part: IndexPart, rows: EarlierRows) -> Iterator[IndexPart]:
    """Split a part by first-level directory names into parts of about `MAX_EARLIER_ROWS` earlier rows."""
    name_mask = _mask_part_names(part)
    row_count = rows.drop_files_without_matches(
        ["scope_id", "ledger_id", "state"], lambda batch: _find_candidates(name_mask, batch)
    )
    subpart_count = max(1, min(len(part.names), round(row_count / MAX_EARLIER_ROWS)))
    name_slices = [part.names[start::subpart_count] for start in range(subpart_count)]
    for name_slice in name_slices:
        names_of_other_parts = part.names_of_other_parts
        if names_of_other_parts is not None:
            names_of_other_parts = (
                *names_of_other_parts,
                *(
                    name
                    for other_names in name_slices
                    if other_names is not name_slice
                    for name in other_names
                ),
            )
        yield replace(
            part,
            names=name_slice,
            names_of_other_parts=names_of_other_parts if name_slice is name_slices[0] else None,
        )


def find_unchanged(part: IndexPart, rows: EarlierRows) -> UnchangedFiles:
    """Find the files of ``part`` with the same stamp (inode, size and times) as in the earlier run."""
    paths: list[bytes] = []
    row_number_arrays, earlier_stamps = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    stamp_masks = [np.zeros(0, np.bool_)]
    name_mask = _mask_part_names(part)
    for row_numbers, batch in rows.scan(["scope_id", "ledger_id", "path", "state", "stamp"]):
        is_candidate = _find_candidates(name_mask, batch)
        candidate_rows = batch.filter(pa.array(is_candidate))
        paths += candidate_rows["path"].cast(pa.binary()).to_pylist()
        row_number_arrays.append(row_numbers[is_candidate])
        earlier_stamps.append(np.asarray(candidate_rows["stamp"].fill_null(0)))
        stamp_masks.append(
            np.asarray(
                pc.and_(pc.equal(candidate_rows["state"], IndexState.OK), candidate_rows["stamp"].is_valid())
            )
        )
    has_same_stamp = np.concatenate(stamp_masks)
    stamped_rows = np.flatnonzero(has_same_stamp)
    current_stamps, is_present = _current_stamps([paths[row] for row in stamped_rows], part.threads)
    has_same_stamp[stamped_rows] = is_present & (
        current_stamps == np.concatenate(earlier_stamps)[stamped_rows]
    )
    return UnchangedFiles(paths, np.concatenate(row_number_arrays), has_same_stamp, rows.list_start_ms)


def database_unchanged(directory: str, stamp: int, rows: EarlierRows) -> bool:
    """Return whether an index directory's RocksDB databases are unchanged. If so, select their earlier rows.

    Args:
        directory: The index directory.
        stamp: One value for the present inodes, sizes and times of all files of the databases.
        rows: The rows of the earlier run. Only rows of the files in the databases count.
    """
    row_number_arrays = []
    for row_numbers, batch in rows.scan(["path", "state", "stamp"]):
        path = batch["path"].fill_null("")
        is_below_current = pc.or_(
            pc.starts_with(path, f"{directory}/current/"), pc.equal(path, f"{directory}/current")
        )
        is_index_row = np.asarray(pc.and_(is_below_current, pc.not_equal(batch["state"], IndexState.STRAY)))
        if not np.asarray(pc.equal(batch["stamp"], stamp).fill_null(False))[is_index_row].all():
            return False
        row_number_arrays.append(row_numbers[is_index_row])
    if not any(map(len, row_number_arrays)):
        return False  # the earlier run has no row of these databases
    rows.select_rows(np.concatenate(row_number_arrays))
    return True


def _find_candidates(name_mask: NDArray[np.bool_], batch: pa.RecordBatch) -> NDArray[np.bool_]:
    """Return a mask of rows whose file is, or may be, below a first-level name in ``name_mask``."""
    ledger_ids = np.asarray(batch["ledger_id"].fill_null(-1)).view(np.uint64)
    # Other scopes have trees of their own, and a misplaced file may lie anywhere.
    is_path_unpredictable = pc.or_(
        pc.not_equal(batch["scope_id"].fill_null(-1), 0), pc.not_equal(batch["state"], IndexState.OK)
    )
    is_candidate: NDArray[np.bool_] = np.asarray(is_path_unpredictable)
    return is_candidate | name_mask[(ledger_ids >> np.uint64(8) & np.uint64(0xFF)).astype(np.intp)]


def _mask_part_names(part: IndexPart) -> NDArray[np.bool_]:
    """Return a mask of the 256 first-level names of 64-bit ledger ids (scope 0) that a part reads."""
    names = [f"{name_number:x}" for name_number in range(_FIRST_LEVEL_COUNT)]
    names_of_other_parts = part.names_of_other_parts
    return np.array(
        [
            name in part.names or (names_of_other_parts is not None and name not in names_of_other_parts)
            for name in names
        ]
    )


def _is_unmodified(directory: bytes, start_ms: int) -> bool:
    """Return whether a directory has no sub-directory and no change since ``start_ms - UNCHANGED_DIR_MS``."""
    try:
        status = os.stat(directory)  # noqa: PTH116 -- hot: no Path a directory
    except OSError:
        return False
    modified_ms = max(status.st_mtime_ns, status.st_ctime_ns) // 1_000_000
    # A sub-directory would be a third link. Files in it do not change the times of this directory.
    return stat.S_ISDIR(status.st_mode) and status.st_nlink == 2 and modified_ms < start_ms - UNCHANGED_DIR_MS


def _current_stamps(paths: Sequence[bytes], threads: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the current stamp (from inode, size and times) of each file, and whether the file exists."""
    path_slices = [paths[start : start + SLICE_FILES] for start in range(0, len(paths), SLICE_FILES)]
    stat_start_seconds = perf_counter()
    file_stats = [file_stat for path_slice in path_slices[:1] for file_stat in _read_stats(path_slice)]
    if perf_counter() - stat_start_seconds > len(file_stats) * MAX_CACHED_STAT_SECONDS:
        threads = max(threads, MIN_STAT_THREADS)
    with ThreadPoolExecutor(threads) as pool:
        stat_slices = (
            pool.map(_read_stats, path_slices[1:]) if threads > 1 else map(_read_stats, path_slices[1:])
        )
        file_stats += [file_stat for stat_slice in stat_slices for file_stat in stat_slice]
    columns = np.array(file_stats, np.int64).reshape(-1, 4).T
    current_stamps = compute_stamps(columns[0], columns[1], columns[2], columns[3], 0).hashes
    return current_stamps, columns[0] != _NO_INODE


_NO_INODE = -1


def _read_stats(paths: Sequence[bytes]) -> list[tuple[int, int, int, int]]:
    file_stats = []
    stat_file = os.stat
    for path in paths:
        try:
            status = stat_file(path)
        except OSError:
            file_stats.append((_NO_INODE, 0, 0, 0))
        else:
            file_stats.append((status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns))
    return file_stats
