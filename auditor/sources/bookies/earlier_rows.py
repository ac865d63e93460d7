"""The rows of an earlier run's indexes, and the files that did not change since that run (``--since``).

The rows lie in Parquet files of the earlier run's table ``availability``. A row's number is its position
across these files. The program reads the files twice, batch by batch: first the paths and stamps, to decide
which rows are still valid, then the valid rows themselves. Between the two passes it keeps one bit per row
and no rows.

A file is unchanged if its stamp is unchanged (`auditor.sources.bookies.availability`). Most directories need
no new listing either, because creating, removing or renaming a file changes the directory's own time. A
directory has the same files if its last change was well before the earlier run listed it, and if all its
files are unchanged. Unchanged files also prove that the disk is the same. Every other directory is listed and
read again.

A reused row does not show damage that only reading shows: a sector that went bad under an unchanged file.
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
from auditor.model.columns import rows_of_columns
from auditor.model.states import IndexState
from auditor.sources.bookies.availability import SCHEMA, IndexFiles, stamps
from auditor.sources.bookies.index_files.listing import SkippedPath, list_part
from auditor.sources.bookies.parts import IndexPart
from auditor.sources.file_systems import open_earlier_file

BATCH_ROWS = 4096
"""Largest number of rows in memory at once; `auditor.model.batch_bounds.MAX_BATCH_BYTES` can lower it."""


@dataclass(frozen=True, slots=True)
class Earlier:
    """The place of the rows of an earlier run that may be reused.

    Attributes:
        table: The path or URI of the earlier run's table ``availability``.
        files: The files of the table that may have rows of the bookie.
        began: When the earlier run began to list files, in ms.
    """

    table: str
    files: tuple[str, ...]
    began: int


class EarlierRows:
    """The rows of one bookie in an earlier run. The method `rows` returns the rows that `mark` selected.

    Raises:
        RunError: from any method, if a file is missing, truncated, damaged, or has another schema.
    """

    def __init__(self, earlier: Earlier, bookie_id: str) -> None:
        self._earlier = earlier
        self._bookie_id = bookie_id
        self._marked = np.zeros(0, np.bool_)

    @property
    def began(self) -> int:
        """The time when the earlier run began to list files, in ms."""
        return self._earlier.began

    def scan(self, columns: Sequence[str]) -> Iterator[tuple[NDArray[np.int64], pa.RecordBatch]]:
        """Yield the numbers and the given columns of the bookie's rows, batch by batch."""
        column_names = ["bookie_id", *(name for name in columns if name != "bookie_id")]
        for first, batch in self._batches(column_names):
            is_of_bookie = np.asarray(pc.equal(batch["bookie_id"], self._bookie_id).fill_null(False))
            if is_of_bookie.any():
                yield first + np.flatnonzero(is_of_bookie), batch.filter(pa.array(is_of_bookie))

    def narrow(self, columns: Sequence[str], matches: Callable[[pa.RecordBatch], NDArray[np.bool_]]) -> int:
        """Drop the Parquet files that have no row for which ``matches`` is true.

        Return the number of such rows.

        This method renumbers the rows. It reads the rows, not the minima and maxima in a file's footer,
        because pages have checksums and the footer has none.
        """
        count, files = 0, []
        for name in self._earlier.files:
            file_rows = EarlierRows(replace(self._earlier, files=(name,)), self._bookie_id)
            match_count = sum(int(np.count_nonzero(matches(batch))) for _, batch in file_rows.scan(columns))
            count += match_count
            if match_count:
                files.append(name)
        self._earlier = replace(self._earlier, files=tuple(files))
        return count

    def mark(self, row_numbers: NDArray[np.int64]) -> None:
        """Select the rows with these numbers for `rows`."""
        if len(row_numbers) and (last := int(row_numbers.max())) >= len(self._marked):
            self._marked = np.append(self._marked, np.zeros(last + 1, np.bool_))
        self._marked[row_numbers] = True

    def rows(self) -> Iterator[pa.RecordBatch]:
        """Yield the selected rows as rows of ``availability``."""
        remaining_count = int(self._marked.sum())
        for first, batch in self._batches(SCHEMA.names) if remaining_count else ():
            is_marked = np.zeros(batch.num_rows, np.bool_)
            marks = self._marked[first : first + batch.num_rows]
            is_marked[: len(marks)] = marks
            if is_marked.any():
                marked_rows = batch.filter(pa.array(is_marked))
                columns = {name: marked_rows[name] for name in SCHEMA.names} | {"reused": True}
                yield rows_of_columns(SCHEMA, marked_rows.num_rows, columns)
                remaining_count -= marked_rows.num_rows
        if remaining_count:
            raise RunError(f"{self._earlier.table}: {remaining_count} rows missing on re-read")

    def _batches(self, columns: Sequence[str]) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield all rows of all files in batches, each with the number of its first row."""
        first = 0
        for name in self._earlier.files:
            with open_earlier_file(self._earlier.table, name, SCHEMA) as file:
                last = first + file.metadata.num_rows
                for group in range(file.num_row_groups):
                    rows = whole_batch_rows(file.metadata, group, BATCH_ROWS)
                    for batch in file.iter_batches(rows, [group], list(columns), use_threads=False):
                        yield first, batch
                        first += batch.num_rows
                if first != last:
                    raise RunError(f"{abs(last - first)} rows more or fewer than its footer says")


QUIET_MS = 3_600_000
"""Smallest age of a directory's last change, in ms, that makes a new listing needless.

The age counts to the start of the earlier run.

The margin covers the difference between the clocks of the file system and of the run.
"""

GROUP_ROWS = 250_000
"""Largest number of earlier rows in memory at once: about 100 MB of paths."""

SLICE_FILES = 256
"""Number of files in one call of a thread that reads file status."""

WAIT_S = 10e-6
"""Limit for the mean time of one ``stat``, in seconds.

A longer time shows that the files lie on a disk or a server. In memory a ``stat`` takes 3 us.
"""

MIN_STAT_THREADS = 4
"""Least number of threads that call ``stat`` for files on a disk or a server, where each call waits."""

_FIRST_LEVELS = 256


class UnchangedFiles:
    """The files of an earlier run, and which of them are unchanged and still in their place.

    Args:
        paths: The files that the earlier run read.
        numbers: The number of each file's row in the earlier run.
        same: Whether each file is unchanged.
        began: When the earlier run began to list files, in ms.
    """

    def __init__(
        self, paths: Sequence[bytes], row_numbers: NDArray[np.int64], is_same: NDArray[np.bool_], began: int
    ) -> None:
        places: dict[bytes, int] = {}
        place = np.array(
            [places.setdefault(path.rpartition(b"/")[0], len(places)) for path in paths], np.intp
        )
        is_unchanged = np.bincount(place[~is_same], minlength=len(places)) == 0
        row_order = np.argsort(place, kind="stable")
        ends = np.searchsorted(place[row_order], np.arange(len(places) + 1)).tolist()
        self._numbers = row_numbers[row_order]
        self._is_unchanged = np.zeros(len(paths), np.bool_)
        self._paths, self._same, self._order, self._ends, self._places = (
            paths,
            is_same,
            row_order,
            ends,
            places,
        )
        self._quiet = {
            directory
            for directory, directory_number in places.items()
            if is_unchanged[directory_number] and _is_quiet(directory, began)
        }

    def skips(self, directory: bytes) -> bool:
        """Return whether a directory needs no new listing. If so, keep all rows of the directory."""
        if directory not in self._quiet:
            return False
        directory_number = self._places[directory]
        self._is_unchanged[self._ends[directory_number] : self._ends[directory_number + 1]] = True
        return True

    def changed(self, paths: Sequence[bytes]) -> NDArray[np.bool_]:
        """Return which of the listed files must be read. Keep the rows of the files that need no reading."""
        # Looked up by directory, because nearly all directories are skipped with all their files.
        place_of_path: dict[bytes, int] = {}
        for directory in {path.rpartition(b"/")[0] for path in paths}:
            if (directory_number := self._places.get(directory)) is not None:
                for place in range(self._ends[directory_number], self._ends[directory_number + 1]):
                    if self._same[row := self._order[place]]:
                        place_of_path[self._paths[row]] = place
        file_places = np.array([place_of_path.get(path, -1) for path in paths], np.intp)
        self._is_unchanged[file_places[file_places >= 0]] = True
        return file_places < 0

    @property
    def kept(self) -> NDArray[np.int64]:
        """The numbers of the rows to keep. Complete only after the whole listing."""
        return self._numbers[self._is_unchanged]


def list_changed(part: IndexPart, rows: EarlierRows) -> Iterator[IndexFiles | SkippedPath]:
    """List the changed and new files of one part, as `list_part` does.

    Select the rows of unchanged files in ``rows`` (`EarlierRows.mark`).
    """
    for piece in groups(part, rows):
        unchanged_files = find_unchanged(piece, rows)
        for listing in list_part(piece, unchanged_files.skips):
            if isinstance(listing, SkippedPath):
                yield listing
            elif (is_changed := unchanged_files.changed(listing.paths)).any():
                paths = [listing.paths[row] for row in np.flatnonzero(is_changed)]
                yield IndexFiles(listing.ledger_ids[is_changed], paths, listing.scope_id)
        rows.mark(unchanged_files.kept)


def groups(part: IndexPart, rows: EarlierRows) -> Iterator[IndexPart]:
    """Split a part into smaller parts of about `GROUP_ROWS` earlier rows each, by first-level names."""
    name_mask = _names_read_by(part)
    count = rows.narrow(["scope_id", "ledger_id", "state"], lambda batch: _find_candidates(name_mask, batch))
    pieces = max(1, min(len(part.names), round(count / GROUP_ROWS)))
    name_slices = [part.names[start::pieces] for start in range(pieces)]
    for slice_names in name_slices:
        elsewhere_names_of_part = part.elsewhere
        if elsewhere_names_of_part is not None:
            elsewhere_names_of_part = (
                *elsewhere_names_of_part,
                *(
                    name
                    for other_names in name_slices
                    if other_names is not slice_names
                    for name in other_names
                ),
            )
        yield replace(
            part,
            names=slice_names,
            elsewhere=elsewhere_names_of_part if slice_names is name_slices[0] else None,
        )


def find_unchanged(part: IndexPart, rows: EarlierRows) -> UnchangedFiles:
    """Read the status of all files that the earlier run read below the names of ``part``."""
    paths: list[bytes] = []
    numbers, earlier_stamps = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    usable_masks = [np.zeros(0, np.bool_)]
    name_mask = _names_read_by(part)
    for row_numbers, batch in rows.scan(["scope_id", "ledger_id", "path", "state", "stamp"]):
        is_candidate = _find_candidates(name_mask, batch)
        candidate_rows = batch.filter(pa.array(is_candidate))
        paths += candidate_rows["path"].cast(pa.binary()).to_pylist()
        numbers.append(row_numbers[is_candidate])
        earlier_stamps.append(np.asarray(candidate_rows["stamp"].fill_null(0)))
        usable_masks.append(
            np.asarray(
                pc.and_(pc.equal(candidate_rows["state"], IndexState.OK), candidate_rows["stamp"].is_valid())
            )
        )
    is_same = np.concatenate(usable_masks)
    same_rows = np.flatnonzero(is_same)
    value, is_present = _current_stamps([paths[row] for row in same_rows], part.threads)
    is_same[same_rows] = is_present & (value == np.concatenate(earlier_stamps)[same_rows])
    return UnchangedFiles(paths, np.concatenate(numbers), is_same, rows.began)


def database_unchanged(directory: str, stamp: int, rows: EarlierRows) -> bool:
    """Return whether an index directory's RocksDB databases are unchanged. If so, select their earlier rows.

    Args:
        directory: The index directory.
        stamp: The stamp of all files of the databases now.
        rows: The rows of the earlier run. Only rows of the files in the databases count.
    """
    numbers = []
    for row_numbers, batch in rows.scan(["path", "state", "stamp"]):
        path = batch["path"].fill_null("")
        is_below_current = pc.or_(
            pc.starts_with(path, f"{directory}/current/"), pc.equal(path, f"{directory}/current")
        )
        is_index_row = np.asarray(pc.and_(is_below_current, pc.not_equal(batch["state"], IndexState.STRAY)))
        if not np.asarray(pc.equal(batch["stamp"], stamp).fill_null(False))[is_index_row].all():
            return False
        numbers.append(row_numbers[is_index_row])
    if not any(map(len, numbers)):
        return False  # no row has a stamp
    rows.mark(np.concatenate(numbers))
    return True


def _find_candidates(name_mask: NDArray[np.bool_], batch: pa.RecordBatch) -> NDArray[np.bool_]:
    """Return a mask of the rows that may be below the first-level names in ``name_mask``.

    The mask has every row below these names, and a few more.
    """
    ledgers = np.asarray(batch["ledger_id"].fill_null(-1)).view(np.uint64)
    # Other scopes have trees of their own, and a misplaced file may lie anywhere.
    is_odd = pc.or_(
        pc.not_equal(batch["scope_id"].fill_null(-1), 0), pc.not_equal(batch["state"], IndexState.OK)
    )
    is_candidate: NDArray[np.bool_] = np.asarray(is_odd)
    return is_candidate | name_mask[(ledgers >> np.uint64(8) & np.uint64(0xFF)).astype(np.intp)]


def _names_read_by(part: IndexPart) -> NDArray[np.bool_]:
    """Return for each of the 256 first-level names of scope 0 whether a part reads it."""
    names = [f"{first:x}" for first in range(_FIRST_LEVELS)]
    elsewhere_names = part.elsewhere
    return np.array(
        [
            name in part.names or (elsewhere_names is not None and name not in elsewhere_names)
            for name in names
        ]
    )


def _is_quiet(directory: bytes, began: int) -> bool:
    """Return whether a directory did not change since the earlier run listed it and has no sub-directory."""
    try:
        status = os.stat(directory)  # noqa: PTH116 -- hot: no Path a directory
    except OSError:
        return False
    modified_ms = max(status.st_mtime_ns, status.st_ctime_ns) // 1_000_000
    # A sub-directory, which can fill without changing this directory's times, would be a third link.
    return stat.S_ISDIR(status.st_mode) and status.st_nlink == 2 and modified_ms < began - QUIET_MS


def _current_stamps(paths: Sequence[bytes], threads: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the stamps of files as they are now, and whether each file exists."""
    slices = [paths[start : start + SLICE_FILES] for start in range(0, len(paths), SLICE_FILES)]
    start_time = perf_counter()
    file_states = [state for first in slices[:1] for state in _states(first)]
    if perf_counter() - start_time > len(file_states) * WAIT_S:
        threads = max(threads, MIN_STAT_THREADS)
    with ThreadPoolExecutor(threads) as pool:
        state_slices = pool.map(_states, slices[1:]) if threads > 1 else map(_states, slices[1:])
        file_states += [state for states in state_slices for state in states]
    columns = np.array(file_states, np.int64).reshape(-1, 4).T
    value = stamps(columns[0], columns[1], columns[2], columns[3], 0).value
    return value, columns[0] != _NO_INODE


_NO_INODE = -1


def _states(paths: Sequence[bytes]) -> list[tuple[int, int, int, int]]:
    states = []
    stat_file = os.stat
    for path in paths:
        try:
            status = stat_file(path)
        except OSError:
            states.append((_NO_INODE, 0, 0, 0))
        else:
            states.append((status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns))
    return states
