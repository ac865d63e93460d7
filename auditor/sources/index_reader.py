"""Reads ledger index files in batches: a few system calls a file, one pass of arithmetic a batch.

    byte  0        1024
          header   slot 0   slot 1   ...      a slot is an int64: where entry e lies, 0 when it is not there

One ``preadv`` puts a file's header into a row of a byte array and its slots behind those of the file
before, a zero slot between them, in one int64 array that `fold_slots` folds at once. Byte order does not
matter: a slot is 0 or not. No file is asked for its size: one that fills the room offered to it is large,
and is read on its own in chunks, so that memory stays bounded; its holes are skipped.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from auditor.codecs.fold import fold_slots
from auditor.codecs.gathered import Gathered
from auditor.codecs.groups import GroupBatch
from auditor.codecs.index_file import HEADER_BYTES, check_headers
from auditor.errors import CoverageLimitError
from auditor.sources.index_batch import CUT, OK, UNREADABLE, IndexBatch, IndexFile

BATCH_FILES = 4096
BATCH_BYTES = 4 << 20
"""What one pass of arithmetic takes on: what caches hold. With 32 MiB files cost half as much again."""

ROOM = 1 << 20
"""What one file is offered in a batch; 128Ki entries."""

CHUNK_BYTES = 4 << 20
"""What is read of a large file at once."""

SLOT = 8
PAGE = 8192
"""A page of slots, as a bookie writes them unless it is told otherwise."""


class IndexReader:
    """Buffers of about 9 MiB, used again for every batch; one reader a thread.

    ``want_mtime`` asks for each file's mtime.
    """

    def __init__(self, want_mtime: bool = False) -> None:
        self._want_mtime = want_mtime
        self._headers = np.zeros((BATCH_FILES, HEADER_BYTES), np.uint8)
        self._header_rows = [row.data for row in self._headers]
        self._slots = np.zeros((BATCH_BYTES + ROOM) // SLOT + 1, np.int64)
        self._longs = self._slots.data
        self._bytes = self._longs.cast("B")

    def read(self, files: Iterable[IndexFile]) -> Iterator[IndexBatch]:
        """Read ``files`` in order. One that cannot be read is a row that says so, never an error."""
        batch = _Filling()
        for file in files:
            if len(batch.files) == BATCH_FILES or batch.end > BATCH_BYTES // SLOT:
                yield self._finish(batch)
                batch = _Filling()
            if not self._add(batch, file):
                if batch.files:
                    yield self._finish(batch)
                    batch = _Filling()
                yield self._read_large(file)
        if batch.files:
            yield self._finish(batch)

    def _add(self, batch: _Filling, file: IndexFile) -> bool:
        """Read a file into the batch; False if it did not fit, and the batch is as it was."""
        row, start = len(batch.files), batch.end
        got, mtime, failure = 0, None, None
        room = self._bytes[start * SLOT : start * SLOT + ROOM]
        try:
            descriptor = os.open(file.path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                got = os.preadv(descriptor, [self._header_rows[row], room], 0)
                # A read error can show as a short read first; only an empty one is the end. That is not asked
                # for where whole pages came: they end 1024 bytes behind any block, where reads break off.
                if got == HEADER_BYTES + ROOM or (
                    (got - HEADER_BYTES) % PAGE and os.pread(descriptor, 1, got)
                ):
                    return False
                if self._want_mtime:
                    mtime = os.fstat(descriptor).st_mtime_ns // 1_000_000
            finally:
                os.close(descriptor)
        except OSError as error:
            failure, got = (error.strerror or str(error), got), 0
        if got < HEADER_BYTES:
            self._headers[row, got:] = 0
        page_bytes = max(got - HEADER_BYTES, 0)
        batch.end = start + page_bytes // SLOT + 1
        self._longs[batch.end - 1] = 0
        batch.files.append(file)
        batch.lengths.append(got)
        batch.ends.append(batch.end)
        batch.mtimes.append(mtime)
        if failure is not None:
            batch.failures[row] = failure
        return True

    def _finish(self, batch: _Filling) -> IndexBatch:
        count = len(batch.files)
        states, reasons, offsets = _judge(self._headers[:count], batch.lengths, batch.failures)
        bounds = np.array(batch.ends, np.int64)  # ends[0] is 0, so item i is where file i starts
        for row, state in enumerate(states):
            if state == UNREADABLE:
                self._slots[bounds[row] : bounds[row + 1]] = 0
        return IndexBatch(
            files=batch.files,
            groups=fold_slots(self._slots[: batch.end], bounds),
            states=states,
            reasons=reasons,
            offsets=offsets,
            page_bytes=[max(length - HEADER_BYTES, 0) for length in batch.lengths],
            mtimes=batch.mtimes,
        )

    def _read_large(self, file: IndexFile) -> IndexBatch:
        """Read one file in chunks; the buffers hold nothing else meanwhile."""
        groups, length, mtime = _NOTHING, 0, None
        failures: dict[int, tuple[str, int]] = {}
        try:
            descriptor = os.open(file.path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                length = _fill(descriptor, self._header_rows[0], 0)
                if self._want_mtime:
                    mtime = os.fstat(descriptor).st_mtime_ns // 1_000_000
                if check_headers(self._headers[:1], np.array([length]))[0] is None:
                    gathered = Gathered()
                    for at, slots in self._chunks(descriptor):
                        gathered.add(_chunk_groups(at, slots))
                        length = at + slots.nbytes
                    groups = gathered.folded()
                length = os.lseek(descriptor, 0, os.SEEK_END)
            finally:
                os.close(descriptor)
        except OSError as error:
            groups, failures[0] = _NOTHING, (error.strerror or str(error), length)
        except CoverageLimitError as error:
            groups, failures[0] = _NOTHING, (str(error), length)
        states, reasons, offsets = _judge(self._headers[:1], [length], failures)
        return IndexBatch([file], groups, states, reasons, offsets, [max(length - HEADER_BYTES, 0)], [mtime])

    def _chunks(self, descriptor: int) -> Iterator[tuple[int, NDArray[np.int64]]]:
        """The slots of a large file that are no holes, chunk by chunk, each with its byte offset."""
        at = HEADER_BYTES
        while (at := _next_data(descriptor, at)) >= 0:
            got = _fill(descriptor, self._bytes[:CHUNK_BYTES], at)
            if got >= SLOT:
                yield at, self._slots[: got // SLOT]
            if got < CHUNK_BYTES:
                return
            at += got


class _Filling:
    """The files of a batch that is being read. Slots end at ``end``; a file's own at its item of ``ends``."""

    def __init__(self) -> None:
        self.files: list[IndexFile] = []
        self.lengths: list[int] = []
        self.ends: list[int] = [0]
        self.mtimes: list[int | None] = []
        self.failures: dict[int, tuple[str, int]] = {}
        self.end = 0


_NOTHING = GroupBatch.of([[]])


def _chunk_groups(at: int, slots: NDArray[np.int64]) -> GroupBatch:
    """The entries of a chunk of a large file that begins at byte ``at``."""
    piece = fold_slots(slots, np.array([0, len(slots)], np.int64))
    base = (at - HEADER_BYTES) // SLOT
    return GroupBatch(piece.first + base, piece.last + base, piece.size, piece.period, piece.offsets)


def _judge(
    headers: NDArray[np.uint8], lengths: list[int], failures: dict[int, tuple[str, int]]
) -> tuple[list[str], list[str | None], list[int | None]]:
    """State, reason and offset of each file, from its header, its length and what the system said."""
    states = [OK] * len(lengths)
    reasons: list[str | None] = [None] * len(lengths)
    offsets: list[int | None] = [None] * len(lengths)
    damages = check_headers(headers, np.array(lengths, np.int64))
    for row, (length, damage) in enumerate(zip(lengths, damages, strict=True)):
        if row in failures:
            states[row], (reasons[row], offsets[row]) = UNREADABLE, failures[row]
        elif damage is not None:
            states[row], reasons[row], offsets[row] = UNREADABLE, damage.reason, damage.offset
        elif length % SLOT:
            states[row], reasons[row], offsets[row] = CUT, "ends inside a slot", length - length % SLOT
    return states, reasons, offsets


def _fill(descriptor: int, buffer: memoryview, at: int) -> int:
    """Read until the buffer is full or the file ends; a read may give less than is there."""
    total = 0
    while total < len(buffer) and (got := os.preadv(descriptor, [buffer[total:]], at + total)):
        total += got
    return total


def _next_data(descriptor: int, at: int) -> int:
    """Where data goes on at or after ``at``, at the start of a slot; -1 if there is none."""
    try:
        found = os.lseek(descriptor, at, os.SEEK_DATA)
    except OSError as error:
        if error.errno == errno.ENXIO:
            return -1
        if error.errno == errno.EINVAL:
            return at  # a file system that knows no holes
        raise
    return found - found % SLOT
