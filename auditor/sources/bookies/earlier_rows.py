"""What an earlier run read of bookies' indexes, and which of their files are as it read them (``--since``).

The rows lie in some Parquet files of that run's table ``availability``; their number in the order of these
files is what rows are known by here. They are gone through twice, batch by batch: once for paths and stamps,
which decide, and once for those that may stay. In between one bit a row is kept, no row.

A file is unchanged if its stamp is (`auditor.sources.bookies.availability`). A directory of them need not be
listed again either: making, removing or renaming a file in a directory dates the directory. So one that was
last dated well before the earlier run listed it, and whose files are all unchanged, has the same files; that
they are unchanged also proves that it is the same disk. Whatever else is found is listed, and looked at,
anew.

What only reading shows stays unseen: a sector that has gone bad under a file that nobody wrote to.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
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
from auditor.sources.bookies.parts import Earlier, IndexPart
from auditor.sources.file_systems import open_earlier_file

BATCH_ROWS = 4096
"""Rows in memory at once, where `auditor.model.batch_bounds.MAX_BATCH_BYTES` allows as many."""


class EarlierRows:
    """The rows of one bookie in an earlier run; what is marked comes again.

    Raises:
        RunError: from any method, where a file is missing, cut, damaged, or of another schema.
    """

    def __init__(self, earlier: Earlier, bookie_id: str) -> None:
        self._earlier = earlier
        self._bookie_id = bookie_id
        self._marked = np.zeros(0, np.bool_)

    @property
    def began(self) -> int:
        """When that run began to list, in ms."""
        return self._earlier.began

    def scan(self, columns: Sequence[str]) -> Iterator[tuple[NDArray[np.int64], pa.RecordBatch]]:
        """The bookie's rows and their numbers, batch by batch, some columns of them."""
        column_names = ["bookie_id", *(name for name in columns if name != "bookie_id")]
        for first, batch in self._batches(column_names):
            own = np.asarray(pc.equal(batch["bookie_id"], self._bookie_id).fill_null(False))
            if own.any():
                yield first + np.flatnonzero(own), batch.filter(pa.array(own))

    def narrow(self, columns: Sequence[str], matches: Callable[[pa.RecordBatch], NDArray[np.bool_]]) -> int:
        """Pass over files without a row that is ``matches`` from here on; returns how many rows are.

        It changes the numbers of rows. The rows themselves decide, for their pages have checksums, and the
        least and greatest values in a file's footer have none.
        """
        count, files = 0, []
        for name in self._earlier.files:
            only = EarlierRows(replace(self._earlier, files=(name,)), self._bookie_id)
            match_count = sum(int(np.count_nonzero(matches(batch))) for _, batch in only.scan(columns))
            count += match_count
            if match_count:
                files.append(name)
        self._earlier = replace(self._earlier, files=tuple(files))
        return count

    def mark(self, numbers: NDArray[np.int64]) -> None:
        """Let the rows with these numbers come again."""
        if len(numbers) and (last := int(numbers.max())) >= len(self._marked):
            self._marked = np.append(self._marked, np.zeros(last + 1, np.bool_))
        self._marked[numbers] = True

    def rows(self) -> Iterator[pa.RecordBatch]:
        """What was marked, as rows of ``availability``."""
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
        """All rows of all files, and the number of the first row of each batch."""
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
                    raise RunError(f"{abs(last - first)} rows more or fewer than it says")


QUIET_MS = 3_600_000
"""A directory that was dated no longer than this before the earlier run is listed: clocks may differ so."""

GROUP_ROWS = 250_000
"""Earlier rows that are held at once: about 100 MB of paths."""

SLICE_FILES = 256
"""Files whose state a thread asks for at once."""

WAIT_S = 10e-6
"""For the state of a file: what takes longer comes from a disk or a server. From memory it takes 3 us."""

AT_ONCE = 4
"""So many are asked for side by side where each is waited for."""

_FIRST_LEVELS = 256


class UnchangedFiles:
    """What of some files needs no reading; what the listing shows to be still in its place is kept.

    ``paths`` are the files that an earlier run read, ``numbers`` their rows there; of each is known whether
    it is the ``same``, and the directories that are ``quiet`` have these files and no others.
    """

    def __init__(
        self, paths: Sequence[bytes], numbers: NDArray[np.int64], same: NDArray[np.bool_], began: int
    ) -> None:
        places: dict[bytes, int] = {}
        place = np.array(
            [places.setdefault(path.rpartition(b"/")[0], len(places)) for path in paths], np.intp
        )
        whole = np.bincount(place[~same], minlength=len(places)) == 0
        order = np.argsort(place, kind="stable")
        ends = np.searchsorted(place[order], np.arange(len(places) + 1)).tolist()
        self._numbers = numbers[order]
        self._is_unchanged = np.zeros(len(paths), np.bool_)
        self._paths, self._same, self._order, self._ends, self._places = paths, same, order, ends, places
        self._quiet = {
            directory for directory, which in places.items() if whole[which] and _is_quiet(directory, began)
        }

    def skips(self, directory: bytes) -> bool:
        """Whether a directory need not be listed; if so, all of its rows are kept."""
        if directory not in self._quiet:
            return False
        which = self._places[directory]
        self._is_unchanged[self._ends[which] : self._ends[which + 1]] = True
        return True

    def changed(self, paths: Sequence[bytes]) -> NDArray[np.bool_]:
        """Which of the files that a listing found must be read; the rows of the others are kept."""
        # Looked up by directory: nearly all are quiet, and none of their files is ever asked for.
        place_of_path: dict[bytes, int] = {}
        for directory in {path.rpartition(b"/")[0] for path in paths}:
            if (which := self._places.get(directory)) is not None:
                for place in range(self._ends[which], self._ends[which + 1]):
                    if self._same[row := self._order[place]]:
                        place_of_path[self._paths[row]] = place
        file_places = np.array([place_of_path.get(path, -1) for path in paths], np.intp)
        self._is_unchanged[file_places[file_places >= 0]] = True
        return file_places < 0

    @property
    def kept(self) -> NDArray[np.int64]:
        """The numbers of the rows to keep, once all is listed."""
        return self._numbers[self._is_unchanged]


def list_changed(part: IndexPart, rows: EarlierRows) -> Iterator[IndexFiles | SkippedPath]:
    """List what one part covers, as `list_part` does, but for unchanged files: their rows are marked."""
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
    """The part cut by its first-level names, each piece with no more than about `GROUP_ROWS` earlier rows."""
    name_mask = _names_read_by(part)
    count = rows.narrow(["scope_id", "ledger_id", "state"], lambda batch: _near(name_mask, batch))
    pieces = max(1, min(len(part.names), round(count / GROUP_ROWS)))
    hands = [part.names[start::pieces] for start in range(pieces)]
    for hand in hands:
        elsewhere = part.elsewhere
        if elsewhere is not None:
            elsewhere = (
                *elsewhere,
                *(name for other_hand in hands if other_hand is not hand for name in other_hand),
            )
        yield replace(part, names=hand, elsewhere=elsewhere if hand is hands[0] else None)


def find_unchanged(part: IndexPart, rows: EarlierRows) -> UnchangedFiles:
    """Ask for the state of all files that the earlier run read below the names of ``part``."""
    paths: list[bytes] = []
    numbers, earlier_stamps = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    usable = [np.zeros(0, np.bool_)]
    name_mask = _names_read_by(part)
    for own, batch in rows.scan(["scope_id", "ledger_id", "path", "state", "stamp"]):
        near = _near(name_mask, batch)
        near_rows = batch.filter(pa.array(near))
        paths += near_rows["path"].cast(pa.binary()).to_pylist()
        numbers.append(own[near])
        earlier_stamps.append(np.asarray(near_rows["stamp"].fill_null(0)))
        usable.append(
            np.asarray(pc.and_(pc.equal(near_rows["state"], IndexState.OK), near_rows["stamp"].is_valid()))
        )
    same = np.concatenate(usable)
    same_rows = np.flatnonzero(same)
    value, is_present = _current_stamps([paths[row] for row in same_rows], part.threads)
    same[same_rows] = is_present & (value == np.concatenate(earlier_stamps)[same_rows])
    return UnchangedFiles(paths, np.concatenate(numbers), same, rows.began)


def database_unchanged(directory: str, stamp: int, rows: EarlierRows) -> bool:
    """Whether the databases of an index directory are as they were read, to their end; their rows are kept.

    ``stamp`` is that of all their files now. What lies beside them says nothing of them.
    """
    numbers = []
    for own, batch in rows.scan(["path", "state", "stamp"]):
        path = batch["path"].fill_null("")
        inside = pc.or_(pc.starts_with(path, f"{directory}/current/"), pc.equal(path, f"{directory}/current"))
        is_index_row = np.asarray(pc.and_(inside, pc.not_equal(batch["state"], IndexState.STRAY)))
        if not np.asarray(pc.equal(batch["stamp"], stamp).fill_null(False))[is_index_row].all():
            return False
        numbers.append(own[is_index_row])
    if not any(map(len, numbers)):
        return False  # nothing that would carry a stamp
    rows.mark(np.concatenate(numbers))
    return True


def _near(name_mask: NDArray[np.bool_], batch: pa.RecordBatch) -> NDArray[np.bool_]:
    """Which rows may lie below the ``name_mask`` names of a part: all of them, and few others."""
    ledgers = np.asarray(batch["ledger_id"].fill_null(-1)).view(np.uint64)
    # Scopes lie in trees of their own, and what is not in its place may lie anywhere.
    odd = pc.or_(
        pc.not_equal(batch["scope_id"].fill_null(-1), 0), pc.not_equal(batch["state"], IndexState.OK)
    )
    near: NDArray[np.bool_] = np.asarray(odd)
    return near | name_mask[(ledgers >> np.uint64(8) & np.uint64(0xFF)).astype(np.intp)]


def _names_read_by(part: IndexPart) -> NDArray[np.bool_]:
    """Which of the first-level names of stock ledgers a part reads, by number."""
    names = [f"{first:x}" for first in range(_FIRST_LEVELS)]
    elsewhere_names = part.elsewhere
    return np.array(
        [
            name in part.names or (elsewhere_names is not None and name not in elsewhere_names)
            for name in names
        ]
    )


def _is_quiet(directory: bytes, began: int) -> bool:
    """Whether a directory has the files that it had when it was listed, and never a directory."""
    try:
        status = os.stat(directory)  # noqa: PTH116 -- hot: no Path a directory
    except OSError:
        return False
    dated = max(status.st_mtime_ns, status.st_ctime_ns) // 1_000_000
    # An inner directory, which may fill without a trace here, is one more link.
    return stat.S_ISDIR(status.st_mode) and status.st_nlink == 2 and dated < began - QUIET_MS


def _current_stamps(paths: Sequence[bytes], threads: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The stamps of files as they are now, and whether there is such a file at all."""
    slices = [paths[start : start + SLICE_FILES] for start in range(0, len(paths), SLICE_FILES)]
    begin = perf_counter()
    file_states = [state for first in slices[:1] for state in _states(first)]
    if perf_counter() - begin > len(file_states) * WAIT_S:
        threads = max(threads, AT_ONCE)
    with ThreadPoolExecutor(threads) as pool:
        state_slices = pool.map(_states, slices[1:]) if threads > 1 else map(_states, slices[1:])
        file_states += [state for states in state_slices for state in states]
    columns = np.array(file_states, np.int64).reshape(-1, 4).T
    value = stamps(columns[0], columns[1], columns[2], columns[3], 0).value
    return value, columns[0] != _NO_INODE


_NO_INODE = -1


def _states(paths: Sequence[bytes]) -> list[tuple[int, int, int, int]]:
    states = []
    look = os.stat
    for path in paths:
        try:
            status = look(path)
        except OSError:
            states.append((_NO_INODE, 0, 0, 0))
        else:
            states.append((status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns))
    return states
