"""A reader of ledger index files in batches.

It needs only a few system calls per file, and one pass of arithmetic per batch.

    byte  0        1024
          header   slot 0   slot 1   ...      slot e is an int64: the location of entry e, or 0 if it has none

One ``preadv`` reads a whole file into the buffer, at the next multiple of 1024 bytes after the previous file.
The reader checks the headers and then replaces them with zeros. Without these zeros, the entries at the end
of one file and at the start of the next could look like one run of entries. Then `fold_slots` computes the
entries of all files of the batch at once, as sequence groups (BP-34). Byte order does not matter, because the
only question is whether a slot is 0.

The reader does not ask for the size of a file. If a file fills all of its space in the buffer
(`MAX_SLOT_BYTES`), the file counts as large. The reader reads a large file separately and in chunks, to
limit memory, and skips its holes.
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
from auditor.model.states import DELETED_REASON, IndexState
from auditor.sources.bookies.availability import FileFault, IndexBatch, IndexFiles, modification_times
from auditor.sources.regular_file import open_descriptor

BATCH_UNITS = 4096
"""Size of a batch in KiB, about as much as CPU caches hold. Each file takes at least one KiB in a batch."""

UNIT_BYTES = HEADER_BYTES

MAX_SLOT_BYTES = (1 << 20) + UNIT_BYTES
"""Space for the slots of one file in a batch, in bytes.

It is no multiple of a page. So a read that fills the space differs from a short read at the end of a page.
"""

FETCH_AHEAD_BYTES = 128 << 10
"""Number of bytes at the start of each file to fetch ahead. The system fetches the rest by itself."""

CHUNK_BYTES = 4 << 20
"""Number of bytes of a large file that are read at once."""

SLOT_BYTES = 8
PAGE_BYTES = 8192
"""Default size of a page of slots, in bytes."""


class IndexReader:
    """A reader with buffers of about 5 MiB, reused for every batch. Each thread needs its own reader.

    Set ``should_prefetch`` for files that are not in the page cache. The reader then asks the operating
    system to fetch all files of an `IndexFiles` before it reads the first one. The system can fetch many
    files at the same time.
    """

    def __init__(self, should_prefetch: bool = False) -> None:
        self._should_prefetch = should_prefetch
        self._slots = np.zeros(
            max(BATCH_UNITS * UNIT_BYTES + 2 * UNIT_BYTES + MAX_SLOT_BYTES, CHUNK_BYTES) // SLOT_BYTES,
            np.int64,
        )
        self._byte_array = self._slots.view(np.uint8)
        self._buffer_units = self._byte_array.reshape(-1, UNIT_BYTES)
        self._byte_view = self._slots.data.cast("B")
        # The buffers for preadv, one list for each unit, made only once.
        self._read_buffers = [
            [self._byte_view[offset : offset + HEADER_BYTES + MAX_SLOT_BYTES]]
            for offset in range(0, BATCH_UNITS * UNIT_BYTES, UNIT_BYTES)
        ]

    def read(self, file_groups: Iterable[IndexFiles]) -> Iterator[IndexBatch]:
        """Read files in the given order.

        If a file cannot be read, its batch contains a fault, and no error is raised.
        """
        batch = _UnfinishedBatch()
        for files in file_groups:
            if self._should_prefetch:
                for path in files.paths:
                    _prefetch(path)
            file_index, file_count = 0, len(files.paths)
            while file_index < file_count:
                earlier_file_count = len(batch.first_units)
                is_large = self._fill_batch(batch, files.paths[file_index:] if file_index else files.paths)
                read_count = len(batch.first_units) - earlier_file_count
                batch.add(files, file_index, file_index + read_count)
                file_index += read_count
                if is_large or batch.end_unit >= BATCH_UNITS:
                    if batch.first_units:
                        yield self._finish_batch(batch)
                    batch = _UnfinishedBatch()
                if is_large:
                    yield self._read_large(files, file_index)
                    file_index += 1
        if batch.first_units:
            yield self._finish_batch(batch)

    def _fill_batch(self, batch: _UnfinishedBatch, paths: list[bytes]) -> bool:
        """Read files until no file remains, the batch is full, or a large file is found.

        Return whether a large file was found.
        """
        # Hot: this loop runs once per file, so it calls little except the system.
        preadv, close, read_buffers = os.preadv, os.close, self._read_buffers
        first_buffer_units, lengths, statuses, next_buffer_unit = (
            batch.first_units,
            batch.lengths,
            batch.statuses,
            batch.end_unit,
        )
        is_large = False
        for path in paths:
            if next_buffer_unit >= BATCH_UNITS:
                break
            read_bytes = 0
            try:
                # Status before reading: a later change gives another stamp.
                descriptor, status = open_descriptor(path)
                try:
                    read_bytes = preadv(descriptor, read_buffers[next_buffer_unit], 0)
                    # A read error can first show as a short read; only an empty read is the end of a file.
                    # A file of whole pages needs no second read: it ends 1024 bytes after a block boundary,
                    # and a failing read ends at a block boundary.
                    if read_bytes % PAGE_BYTES != HEADER_BYTES and os.pread(descriptor, 1, read_bytes):
                        is_large = True
                        break
                finally:
                    close(descriptor)
                statuses.append(status)
            except OSError as error:
                batch.read_errors[len(first_buffer_units)] = (_error_reason(error), read_bytes)
                read_bytes = 0
                statuses.append(None)
            first_buffer_units.append(next_buffer_unit)
            lengths.append(read_bytes)
            next_buffer_unit += (read_bytes + UNIT_BYTES - 1) // UNIT_BYTES or 1
        batch.end_unit = next_buffer_unit
        return is_large

    def _finish_batch(self, batch: _UnfinishedBatch) -> IndexBatch:
        lengths, first_buffer_units = np.array(batch.lengths, np.int64), np.array(batch.first_units, np.int64)
        faults = _file_faults(self._byte_array, first_buffer_units * UNIT_BYTES, lengths, batch.read_errors)
        self._buffer_units[first_buffer_units] = 0
        self._buffer_units[batch.end_unit] = 0
        area_end_slots = np.append(first_buffer_units[1:], batch.end_unit) * UNIT_BYTES // SLOT_BYTES
        data_end_slots = (first_buffer_units * UNIT_BYTES + lengths) // SLOT_BYTES
        data_end_slots[[row for row, fault in faults.items() if fault.state == IndexState.UNREADABLE]] = 0
        for row in np.flatnonzero(data_end_slots != area_end_slots).tolist():
            self._slots[
                max(data_end_slots[row], first_buffer_units[row] * UNIT_BYTES // SLOT_BYTES) : area_end_slots[
                    row
                ]
            ] = 0
        mtimes, stamps = modification_times(batch.statuses, batch.start_ns)
        return IndexBatch(
            scope_ids=np.repeat(batch.scope_ids, batch.file_counts),
            ledger_ids=np.concatenate(batch.ledger_ids),
            paths=batch.paths,
            groups=fold_slots(
                self._slots,
                np.append(first_buffer_units, batch.end_unit) * (UNIT_BYTES // SLOT_BYTES)
                + HEADER_BYTES // SLOT_BYTES,
            ),
            faults=faults,
            page_bytes=np.maximum(lengths - HEADER_BYTES, 0),
            mtimes=mtimes,
            stamps=stamps.with_invalid_rows(faults),
        )

    def _read_large(self, files: IndexFiles, file_number: int) -> IndexBatch:
        """Read one large file in chunks.

        This overwrites the buffers. So the caller must finish the current batch first.
        """
        groups, length, start_ns = _NO_GROUPS, 0, time.time_ns()
        status: os.stat_result | None = None
        read_errors: dict[int, tuple[str, int]] = {}
        header = np.zeros(HEADER_BYTES, np.uint8)
        try:
            descriptor, status = open_descriptor(files.paths[file_number])
            try:
                length = _read_whole(descriptor, header.data, 0)
                if not check_headers(header, _ZERO_OFFSETS, np.array([length])):
                    incremental_fold = IncrementalFold()
                    for offset, slots in self._read_chunks(descriptor):
                        incremental_fold.add(_chunk_groups(offset, slots))
                        length = offset + slots.nbytes
                    groups = incremental_fold.result()
                length = os.lseek(descriptor, 0, os.SEEK_END)
            finally:
                os.close(descriptor)
        except OSError as error:
            groups, read_errors[0] = _NO_GROUPS, (_error_reason(error), length)
        except CoverageLimitError as error:
            groups, read_errors[0] = _NO_GROUPS, (str(error), length)
        faults = _file_faults(header, _ZERO_OFFSETS, np.array([length]), read_errors)
        mtimes, stamps = modification_times([status], start_ns)
        return IndexBatch(
            scope_ids=np.array([files.scope_id]),
            ledger_ids=files.ledger_ids[file_number : file_number + 1],
            paths=[files.paths[file_number]],
            groups=groups,
            faults=faults,
            page_bytes=np.array([max(length - HEADER_BYTES, 0)]),
            mtimes=mtimes,
            stamps=stamps.with_invalid_rows(faults),
        )

    def _read_chunks(self, descriptor: int) -> Iterator[tuple[int, NDArray[np.int64]]]:
        """Yield the slots of a large file in chunks, each with its byte offset. Skip holes in the file."""
        offset = HEADER_BYTES
        while (offset := next_data_offset(descriptor, offset)) >= 0:
            read_bytes = _read_whole(descriptor, self._byte_view[:CHUNK_BYTES], offset)
            if read_bytes >= SLOT_BYTES:
                yield offset, self._slots[: read_bytes // SLOT_BYTES]
            if read_bytes < CHUNK_BYTES:
                return
            offset += read_bytes


class _UnfinishedBatch:
    """The files of an unfinished batch, with their positions (KiB) and lengths (bytes) in the buffer."""

    def __init__(self) -> None:
        self.start_ns = time.time_ns()
        self.first_units: list[int] = []
        self.lengths: list[int] = []
        self.statuses: list[os.stat_result | None] = []
        self.read_errors: dict[int, tuple[str, int]] = {}
        self.end_unit = 0
        self.paths: list[bytes] = []
        self.ledger_ids: list[Longs] = []
        self.scope_ids: list[int] = []
        self.file_counts: list[int] = []

    def add(self, files: IndexFiles, start: int, end: int) -> None:
        """Add the ledgers and paths of the files ``start:end``, which were read."""
        self.paths += files.paths[start:end]
        self.ledger_ids.append(files.ledger_ids[start:end])
        self.scope_ids.append(files.scope_id)
        self.file_counts.append(end - start)


_NO_GROUPS = GroupBatch.from_tuples([[]])
_ZERO_OFFSETS = np.zeros(1, np.int64)


def _error_reason(error: OSError) -> str:
    """Return the reason why a file could not be read, as text."""
    return DELETED_REASON if isinstance(error, FileNotFoundError) else error.strerror or str(error)


def _chunk_groups(offset: int, slots: NDArray[np.int64]) -> GroupBatch:
    """Return a chunk's entries as sequence groups (BP-34). ``offset`` is its byte in the index file."""
    chunk_groups = fold_slots(slots, np.array([0, len(slots)], np.int64))
    first_entry = (offset - HEADER_BYTES) // SLOT_BYTES
    return GroupBatch(
        chunk_groups.first + first_entry,
        chunk_groups.last + first_entry,
        chunk_groups.size,
        chunk_groups.period,
        chunk_groups.offsets,
    )


def _file_faults(
    header_bytes: NDArray[np.uint8],
    start_offsets: Longs,
    lengths: Longs,
    read_errors: dict[int, tuple[str, int]],
) -> dict[int, FileFault]:
    """Return the fault of each faulty file, by the file's position in the batch.

    If a file has several faults, a read error takes precedence over a damaged header. A damaged header
    takes precedence over an incomplete last slot.
    """
    cut_files = {
        row: FileFault(IndexState.CUT, "ends inside a slot", int(lengths[row] // SLOT_BYTES * SLOT_BYTES))
        for row in np.flatnonzero(lengths % SLOT_BYTES).tolist()
    }
    header_errors = {
        row: FileFault(IndexState.UNREADABLE, error.reason, error.offset)
        for row, error in check_headers(header_bytes, start_offsets, lengths).items()
    }
    return (
        cut_files
        | header_errors
        | {row: FileFault(IndexState.UNREADABLE, *read_error) for row, read_error in read_errors.items()}
    )


def _prefetch(path: bytes) -> None:
    """Ask the operating system to fetch the start of a file, and do not wait for it."""
    try:
        descriptor, _ = open_descriptor(path)
        try:
            os.posix_fadvise(descriptor, 0, FETCH_AHEAD_BYTES, os.POSIX_FADV_WILLNEED)
        finally:
            os.close(descriptor)
    except OSError:
        return  # reading the file reports its error


def _read_whole(descriptor: int, read_buffer: memoryview, offset: int) -> int:
    """Read until the buffer is full or the file ends. Return the number of bytes that were read.

    This calls ``preadv`` repeatedly, because one call may return fewer bytes than the file contains.
    """
    total_bytes = 0
    while total_bytes < len(read_buffer) and (
        read_bytes := os.preadv(descriptor, [read_buffer[total_bytes:]], offset + total_bytes)
    ):
        total_bytes += read_bytes
    return total_bytes


def next_data_offset(descriptor: int, offset: int) -> int:
    """Return the offset of the first data at or after ``offset``, rounded down to the start of a slot.

    Return -1 if there is no more data.
    """
    try:
        data_offset = os.lseek(descriptor, offset, os.SEEK_DATA)
    except OSError as error:
        if error.errno == errno.ENXIO:
            return -1
        if error.errno == errno.EINVAL:
            return offset  # the file system does not support holes
        raise
    return data_offset - data_offset % SLOT_BYTES
