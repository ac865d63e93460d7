"""A reader of ledger index files in batches: a few system calls per file, one pass of arithmetic per batch.

    byte  0        1024
          header   slot 0   slot 1   ...      slot e is an int64: the location of entry e, 0 without one

One ``preadv`` puts a whole file into the buffer, at the next multiple of 1024 bytes after the previous file.
After the headers have been checked, zeros replace them, so that no run of entries goes on from file to file.
Then `fold_slots` folds all files of the batch at once. Byte order does not matter, because a slot only counts
as 0 or not 0. The reader does not ask for the size of a file. A file that fills its room in the buffer is
large. The reader reads it separately in chunks, so that memory is bounded, and skips its holes.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from auditor.codecs.availability.fold import IncrementalFold, fold_slots
from auditor.codecs.availability.groups import GroupBatch, Longs
from auditor.codecs.bookie.index_file import HEADER_BYTES, check_headers
from auditor.errors import CoverageLimitError
from auditor.model.states import VANISHED, IndexState
from auditor.sources.bookies.availability import FileFault, IndexBatch, IndexFiles, modification_times
from auditor.sources.regular_file import open_descriptor

BATCH_UNITS = 4096
"""Size of a batch in KiB, about as much as CPU caches hold. Each file takes at least one KiB of it."""

UNIT_BYTES = HEADER_BYTES

MAX_SLOT_BYTES = (1 << 20) + UNIT_BYTES
"""Room for the slots of one file in a batch, in bytes.

It is no multiple of a page, so that a read that fills the room differs from a short read at a page's end.
"""

AHEAD_BYTES = 128 << 10
"""Number of bytes of each file that are fetched ahead. The system itself fetches the rest of longer files."""

CHUNK_BYTES = 4 << 20
"""Number of bytes of a large file that are read at once."""

SLOT_BYTES = 8
PAGE_BYTES = 8192
"""Default size of a page of slots, in bytes."""


class IndexReader:
    """A reader with buffers of about 5 MiB, which it reuses for every batch. Each thread needs its own.

    Set ``ahead`` for files that are not in the page cache. The reader then asks the system to fetch all files
    of an `IndexFiles` before it reads the first one, because the system fetches many at a time.
    """

    def __init__(self, ahead: bool = False) -> None:
        self._ahead = ahead
        self._slots = np.zeros(
            max(BATCH_UNITS * UNIT_BYTES + 2 * UNIT_BYTES + MAX_SLOT_BYTES, CHUNK_BYTES) // SLOT_BYTES,
            np.int64,
        )
        self._octets = self._slots.view(np.uint8)
        self._units = self._octets.reshape(-1, UNIT_BYTES)
        self._bytes = self._slots.data.cast("B")
        # The buffers for preadv, one list for each unit, made only once.
        self._rooms = [
            [self._bytes[offset : offset + HEADER_BYTES + MAX_SLOT_BYTES]]
            for offset in range(0, BATCH_UNITS * UNIT_BYTES, UNIT_BYTES)
        ]

    def read(self, pieces: Iterable[IndexFiles]) -> Iterator[IndexBatch]:
        """Read files in order. A file that cannot be read becomes a fault in its batch, never an error."""
        batch = _UnfinishedBatch()
        for files in pieces:
            if self._ahead:
                for path in files.paths:
                    _prefetch(path)
            file_index, count = 0, len(files.paths)
            while file_index < count:
                earlier_count = len(batch.units)
                is_large = self._fill_batch(batch, files.paths[file_index:] if file_index else files.paths)
                read_count = len(batch.units) - earlier_count
                batch.add(files, file_index, file_index + read_count)
                file_index += read_count
                if is_large or batch.end >= BATCH_UNITS:
                    if batch.units:
                        yield self._finish_batch(batch)
                    batch = _UnfinishedBatch()
                if is_large:
                    yield self._read_large(files, file_index)
                    file_index += 1
        if batch.units:
            yield self._finish_batch(batch)

    def _fill_batch(self, batch: _UnfinishedBatch, paths: list[bytes]) -> bool:
        """Read files until no file is left, the batch is full, or a file is large.

        Return whether a file is large.
        """
        # Hot: this loop runs once per file, so it calls little except the system.
        preadv, close, rooms = os.preadv, os.close, self._rooms
        units, lengths, states, unit = batch.units, batch.lengths, batch.states, batch.end
        is_large = False
        for path in paths:
            if unit >= BATCH_UNITS:
                break
            read_bytes = 0
            try:
                # Status before reading: a later change gives another stamp.
                descriptor, state = open_descriptor(path)
                try:
                    read_bytes = preadv(descriptor, rooms[unit], 0)
                    # A read error can first show as a short read; only an empty read is the end of a file.
                    # After whole pages no second read is needed: they end 1024 bytes after a block
                    # boundary, and a failing read ends at one.
                    if read_bytes % PAGE_BYTES != HEADER_BYTES and os.pread(descriptor, 1, read_bytes):
                        is_large = True
                        break
                finally:
                    close(descriptor)
                states.append(state)
            except OSError as error:
                batch.failures[len(units)] = (_reason(error), read_bytes)
                read_bytes = 0
                states.append(None)
            units.append(unit)
            lengths.append(read_bytes)
            unit += (read_bytes + UNIT_BYTES - 1) // UNIT_BYTES or 1
        batch.end = unit
        return is_large

    def _finish_batch(self, batch: _UnfinishedBatch) -> IndexBatch:
        lengths, starts = np.array(batch.lengths, np.int64), np.array(batch.units, np.int64)
        faults = _faults(self._octets, starts * UNIT_BYTES, lengths, batch.failures)
        self._units[starts] = 0
        self._units[batch.end] = 0
        ends = np.append(starts[1:], batch.end) * UNIT_BYTES // SLOT_BYTES
        slot_ends = (starts * UNIT_BYTES + lengths) // SLOT_BYTES
        slot_ends[[row for row, fault in faults.items() if fault.state == IndexState.UNREADABLE]] = 0
        for row in np.flatnonzero(slot_ends != ends).tolist():
            self._slots[max(slot_ends[row], starts[row] * UNIT_BYTES // SLOT_BYTES) : ends[row]] = 0
        mtimes, stamps = modification_times(batch.states, batch.began)
        return IndexBatch(
            scope_ids=np.repeat(batch.scope_ids, batch.counts),
            ledger_ids=np.concatenate(batch.ledger_ids),
            paths=batch.paths,
            groups=fold_slots(
                self._slots,
                np.append(starts, batch.end) * (UNIT_BYTES // SLOT_BYTES) + HEADER_BYTES // SLOT_BYTES,
            ),
            faults=faults,
            page_bytes=np.maximum(lengths - HEADER_BYTES, 0),
            mtimes=mtimes,
            stamps=stamps.but(faults),
        )

    def _read_large(self, files: IndexFiles, number: int) -> IndexBatch:
        """Read one large file in chunks. This overwrites the buffers, so no batch may be unfinished."""
        groups, length, start_ns = _NO_GROUPS, 0, time.time_ns()
        state: os.stat_result | None = None
        failures: dict[int, tuple[str, int]] = {}
        header = np.zeros(HEADER_BYTES, np.uint8)
        try:
            descriptor, state = open_descriptor(files.paths[number])
            try:
                length = _read_whole(descriptor, header.data, 0)
                if not check_headers(header, _FIRST_OFFSET, np.array([length])):
                    chunk_fold = IncrementalFold()
                    for offset, slots in self._chunks(descriptor):
                        chunk_fold.add(_chunk_groups(offset, slots))
                        length = offset + slots.nbytes
                    groups = chunk_fold.result()
                length = os.lseek(descriptor, 0, os.SEEK_END)
            finally:
                os.close(descriptor)
        except OSError as error:
            groups, failures[0] = _NO_GROUPS, (_reason(error), length)
        except CoverageLimitError as error:
            groups, failures[0] = _NO_GROUPS, (str(error), length)
        faults = _faults(header, _FIRST_OFFSET, np.array([length]), failures)
        mtimes, stamps = modification_times([state], start_ns)
        return IndexBatch(
            scope_ids=np.array([files.scope_id]),
            ledger_ids=files.ledger_ids[number : number + 1],
            paths=[files.paths[number]],
            groups=groups,
            faults=faults,
            page_bytes=np.array([max(length - HEADER_BYTES, 0)]),
            mtimes=mtimes,
            stamps=stamps.but(faults),
        )

    def _chunks(self, descriptor: int) -> Iterator[tuple[int, NDArray[np.int64]]]:
        """Yield the slots of a large file outside its holes, in chunks, each with its byte offset."""
        offset = HEADER_BYTES
        while (offset := next_data(descriptor, offset)) >= 0:
            read_bytes = _read_whole(descriptor, self._bytes[:CHUNK_BYTES], offset)
            if read_bytes >= SLOT_BYTES:
                yield offset, self._slots[: read_bytes // SLOT_BYTES]
            if read_bytes < CHUNK_BYTES:
                return
            offset += read_bytes


class _UnfinishedBatch:
    """The files of an unfinished batch, with the first KiB and the length of each in the buffer."""

    def __init__(self) -> None:
        self.began = time.time_ns()
        self.units: list[int] = []
        self.lengths: list[int] = []
        self.states: list[os.stat_result | None] = []
        self.failures: dict[int, tuple[str, int]] = {}
        self.end = 0
        self.paths: list[bytes] = []
        self.ledger_ids: list[Longs] = []
        self.scope_ids: list[int] = []
        self.counts: list[int] = []

    def add(self, files: IndexFiles, start: int, end: int) -> None:
        """Add the ledgers and paths of the files that were read."""
        self.paths += files.paths[start:end]
        self.ledger_ids.append(files.ledger_ids[start:end])
        self.scope_ids.append(files.scope_id)
        self.counts.append(end - start)


_NO_GROUPS = GroupBatch.from_tuples([[]])
_FIRST_OFFSET = np.zeros(1, np.int64)


def _reason(error: OSError) -> str:
    """Return why a file could not be read."""
    return VANISHED if isinstance(error, FileNotFoundError) else error.strerror or str(error)


def _chunk_groups(offset: int, slots: NDArray[np.int64]) -> GroupBatch:
    """Return the entries of a chunk of a large file that begins at byte ``offset``."""
    piece = fold_slots(slots, np.array([0, len(slots)], np.int64))
    first_entry = (offset - HEADER_BYTES) // SLOT_BYTES
    return GroupBatch(
        piece.first + first_entry, piece.last + first_entry, piece.size, piece.period, piece.offsets
    )


def _faults(
    octets: NDArray[np.uint8], starts: Longs, lengths: Longs, failures: dict[int, tuple[str, int]]
) -> dict[int, FileFault]:
    """Return the fault of each file that has one.

    A read error comes first, then a damaged header, then a last slot that is not whole.
    """
    cut_files = {
        row: FileFault(IndexState.CUT, "ends inside a slot", int(lengths[row] // SLOT_BYTES * SLOT_BYTES))
        for row in np.flatnonzero(lengths % SLOT_BYTES).tolist()
    }
    header_errors = {
        row: FileFault(IndexState.UNREADABLE, error.reason, error.offset)
        for row, error in check_headers(octets, starts, lengths).items()
    }
    return (
        cut_files
        | header_errors
        | {row: FileFault(IndexState.UNREADABLE, *failure) for row, failure in failures.items()}
    )


def _prefetch(path: bytes) -> None:
    """Ask the system to fetch the start of a file, without waiting for it."""
    try:
        descriptor, _ = open_descriptor(path)
        try:
            os.posix_fadvise(descriptor, 0, AHEAD_BYTES, os.POSIX_FADV_WILLNEED)
        finally:
            os.close(descriptor)
    except OSError:
        return  # reading the file reports its error


def _read_whole(descriptor: int, buffer: memoryview, offset: int) -> int:
    """Read until the buffer is full or the file ends. One ``preadv`` may return fewer bytes than exist."""
    read_total = 0
    while read_total < len(buffer) and (
        read_bytes := os.preadv(descriptor, [buffer[read_total:]], offset + read_total)
    ):
        read_total += read_bytes
    return read_total


def next_data(descriptor: int, offset: int) -> int:
    """Return the first offset with data from ``offset`` on, rounded down to a slot; -1 if there is none."""
    try:
        data_offset = os.lseek(descriptor, offset, os.SEEK_DATA)
    except OSError as error:
        if error.errno == errno.ENXIO:
            return -1
        if error.errno == errno.EINVAL:
            return offset  # the file system does not support holes
        raise
    return data_offset - data_offset % SLOT_BYTES
