"""The records of an entry log: ids and lengths of its entries, without their payloads.

    byte 0 ... 1024    header (`auditor.codecs.bookie.entry_log`)
    record    0         4          12        20
              size      ledger id  entry id  rest of the entry      size counts from byte 4
              int32     int64      int64
    padding   a size of 0 or below: the scan tries the next byte, one after another

In an entry of BP-35 (format v2), the size is followed by one byte of flags, which is 0x80 or above. Scope,
ledger and entry follow as int64 (`auditor.codecs.bookie.entry`). A record with ledger id -1 is not an
entry. It is the ledgers map, or the record with which the direct logger fills its first block after the
header. If the direct logger (DirectEntryLogger, blocks of 4096 bytes) must flush a block that is not full,
it fills the block with bytes 0xf0. A log that a bookie still writes to may end in zeros, or inside a
record.

The rules are those of the server's scan (``DefaultEntryLogger.scanEntryLog``). In some cases, that scan
silently reads wrong records, for example after a size that no entry can have. This module raises an error
instead.

`extract_ledgers` returns the ledgers that a garbage collector finds if a log's header or ledgers map is
damaged. The server reads the map to which the header points. If it notices that the map is wrong, it reads
the entries instead (``DefaultEntryLogger.getEntryLogMetadata``). But it does not compare the map with the
entries, and its checks are weaker than those of `auditor.codecs.bookie.entry_log`. Three cases mislead the
server:

- A ledgers map offset a little below 0, if the reader's buffer is larger than the header
  (readBufferSizeBytes: 512 by default, 4096 in Pulsar). The read at this offset fails, but the reader has
  already stored the offset as the position of its buffer (``BufferedReadChannel``). The buffer contains the
  start of the file. The scan that follows treats these bytes as the bytes at the stored position. So the
  scan begins inside a record, and finds ledgers that do not exist. The server deletes a log if none of its
  ledgers exists. With any other wrong offset, the server rejects the map and reads the entries.
- A readable map that belongs to another log. The server does not check where the map lies.
- With the direct logger (``LogMetadata.read``), a map without any readable record. Its offset is at or
  after the end of the file, or points to a size of 0 or below. The server then finds no ledgers in the log,
  and deletes it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from auditor.codecs.bookie.entry_log import HEADER_BYTES, LEDGER_DTYPE, EntryLogHeader
from auditor.codecs.bookie.length_prefixed import (
    HEAD_DTYPE,
    LENGTH_STRUCT,
    RECORD_ID_BYTES,
    V2_HEAD_DTYPE,
    V2_HEADER_BYTES,
    V2_PREFIX_BYTES,
    LengthPrefixed,
    Longs,
    ReadAt,
    count_equal_lengths,
    has_v2_flags,
    next_block_bytes,
    read_heads,
)
from auditor.errors import DecodeError

NO_ENTRY = -1
"""Ledger id of records that are not entries."""

_FORMAT_NAME = "entry log"
_MIN_EQUAL_LENGTHS = 8  # records of one length after which it is worth to look for more of them at once
# The next place where four bytes are a size above 0: neither negative nor four zeros.
_POSITIVE_SIZE = re.compile(rb"(?!\x00{4})[\x00-\x7f]", re.DOTALL)


class LogEntries(NamedTuple):
    """Some entries of a log, in the order of the log, as int64 arrays of the same length.

    ``offsets`` are the starts of the entries' records. A bookie's index contains these offsets plus 4.
    ``sizes`` are the sizes of the whole records, including the 4-byte size field. A ledgers map contains
    sums of such sizes.
    """

    offsets: Longs
    sizes: Longs
    scope_ids: Longs
    ledger_ids: Longs
    entry_ids: Longs


@dataclass
class EntryLogRecords(LengthPrefixed):
    """The records of an entry log up to byte ``size``. `entries` reads them once, in file order.

    After `entries` has ended, ``end`` is the offset after the last whole record. ``is_cut`` is True if
    another record follows that extends beyond ``size``. This record starts at ``cut_offset``.
    ``non_entry_bytes`` is the number of bytes of records that are not entries. ``padding_bytes`` is the
    number of bytes between records. Both numbers, and the bytes of the header, of the entries and after
    ``end``, add up to the size of the file.

    >>> data = bytes(1024) + bytes.fromhex("00000010 0000000000000007 0000000000000002 f0f0f0f0")
    >>> log = EntryLogRecords(lambda offset, length: data[offset : offset + length], len(data))
    >>> [(found.ledger_ids.tolist(), found.sizes.tolist()) for found in log.entries()], log.end, log.is_cut
    ([([7], [20])], 1044, False)
    """

    end: int = HEADER_BYTES
    is_cut: bool = False
    cut_offset: int | None = None
    non_entry_bytes: int = 0
    padding_bytes: int = 0

    def entries(self, start: int = HEADER_BYTES) -> Iterator[LogEntries]:
        """Yield all entries from byte ``start`` on, block by block.

        If a record cannot have been written by any server, first yields all earlier entries and then raises
        `DecodeError`.
        """
        self.end = start
        for block, block_offset, record_starts in self._records(start):
            yield from self._entries_of(block, block_offset, record_starts)

    def collected_records(self, start: int) -> Iterator[tuple[Longs, Longs, Longs]]:
        """Yield offsets, ledger ids and sizes of whole records from byte ``start`` on: 3 arrays per block.

        Sizes are in bytes and include the size field. The result includes records that no server can have
        written, because a garbage collector's scan does not check for them. It leaves out records with a
        negative ledger id.
        """
        for block, block_offset, record_starts in self._records(start):
            record_heads = read_heads(block, record_starts, HEAD_DTYPE)
            ledgers, sizes = (record_heads[name].astype(np.int64) for name in ("ledger_id", "length"))
            # It reads twelve bytes of each, and ends where they are not there.
            is_readable = (ledgers >= 0) & (
                block_offset + record_starts + LENGTH_STRUCT.size + 8 <= self.size
            )
            yield (
                block_offset + record_starts[is_readable],
                ledgers[is_readable],
                sizes[is_readable] + LENGTH_STRUCT.size,
            )

    def _records(self, start: int) -> Iterator[tuple[bytes, int, Longs]]:
        """Yield the file block by block: the bytes, the block's offset, and the starts of its whole records.

        Starts are positions in the block. Blocks without a whole record are left out.
        """
        offset, block_size = start, next_block_bytes(0)
        while offset < self.size and not self.is_cut:
            block = self._block(offset, block_size)
            record_starts, next_start = self._find_records(block, offset)
            if len(record_starts):
                yield block, offset, record_starts
            block_size = next_block_bytes(next_start - len(block))
            offset += next_start

    def _find_records(self, block: bytes, block_offset: int) -> tuple[Longs, int]:
        """Return the starts of a block's whole records, and the position at which the next block begins."""
        start_arrays: list[Longs] = []
        starts: list[int] = []
        append_start, unpack_length = starts.append, LENGTH_STRUCT.unpack_from
        search_offset, last_position, bytes_left = 0, len(block) - V2_PREFIX_BYTES, self.size - block_offset
        previous_length = equal_count = 0
        while search_offset <= last_position:
            (length,) = unpack_length(block, search_offset)
            if length == previous_length and equal_count == _MIN_EQUAL_LENGTHS:
                # Writers often write entries of one length: such a run needs no steps.
                run_length = min(
                    count_equal_lengths(block, search_offset, length),
                    (last_position - search_offset) // (4 + length) + 1,
                )
                start_arrays += [
                    np.array(starts, np.int64),
                    np.arange(search_offset, search_offset + run_length * (4 + length), 4 + length),
                ]
                starts.clear()
                search_offset += run_length * (4 + length)
                equal_count = 0
            elif length > 0:
                append_start(search_offset)
                search_offset += 4 + length
                equal_count = equal_count + 1 if length == previous_length else 0
                previous_length = length
            else:
                next_size = _POSITIVE_SIZE.search(block, search_offset)
                search_offset = min(next_size.start() if next_size else len(block), last_position + 1)
        record_starts = np.concatenate([*start_arrays, np.array(starts, np.int64)])
        if (
            search_offset > bytes_left
            and len(record_starts)
            and _record_end(block, int(record_starts[-1])) > bytes_left
        ):
            search_offset = int(record_starts[-1])
            record_starts = record_starts[:-1]
            self.is_cut, self.cut_offset = True, block_offset + search_offset
        return record_starts, search_offset

    def _entries_of(self, block: bytes, block_offset: int, record_starts: Longs) -> Iterator[LogEntries]:
        """Yield the entries in a block. Add the bytes of its other records to ``non_entry_bytes``."""
        heads = read_heads(block, record_starts, HEAD_DTYPE)
        sizes, ledgers, entries = (
            heads[name].astype(np.int64) for name in ("length", "ledger_id", "entry_id")
        )
        records = LogEntries(
            block_offset + record_starts, sizes, np.zeros(len(sizes), np.int64), ledgers, entries
        )
        if ledgers.min() >= 0 and entries.min() >= 0 and sizes.min() >= RECORD_ID_BYTES:
            self._count_padding(records)
            yield records
            return
        is_non_entry_record, fault = _classify_records(records, block, record_starts)
        valid_record_count = len(sizes) if fault is None else fault[0]
        records = LogEntries(*(column[:valid_record_count] for column in records))
        if valid_record_count:
            self._count_padding(records)
            entry_rows = np.flatnonzero(~is_non_entry_record[:valid_record_count])
            self.non_entry_bytes += int(records.sizes.sum() - records.sizes[entry_rows].sum())
            yield LogEntries(*(column[entry_rows] for column in records))
        if fault is not None:
            raise DecodeError(_FORMAT_NAME, block_offset + int(record_starts[valid_record_count]), fault[1])

    def _count_padding(self, records: LogEntries) -> None:
        """Add the padding before and between ``records`` to ``padding_bytes``.

        Also add the four bytes of the size field to each of ``records.sizes``.
        """
        records.sizes[:] += LENGTH_STRUCT.size
        first_offset, end = int(records.offsets[0]), int(records.offsets[-1] + records.sizes[-1])
        gap_bytes = end - first_offset - int(records.sizes.sum())
        self.padding_bytes += first_offset - self.end + gap_bytes
        self.end = end


_RecordFault = tuple[int, str]


def _classify_records(
    records: LogEntries, block: bytes, record_starts: Longs
) -> tuple[NDArray[np.bool_], _RecordFault | None]:
    """Return a mask of the records that are not entries, and the first record that no server can write.

    The second result is None if there is no such record. The function also corrects the ids of BP-35 entries
    in ``records``.
    """
    _, sizes, scopes, ledgers, entries = records
    is_non_entry_record = ledgers == NO_ENTRY
    is_v2 = ledgers < NO_ENTRY
    v2_heads = read_heads(block, record_starts, V2_HEAD_DTYPE)
    flags = v2_heads["flags"]
    for column, name in ((scopes, "scope"), (ledgers, "ledger"), (entries, "entry")):
        column[is_v2] = v2_heads[name][is_v2]
    has_known_flags = has_v2_flags(flags)
    is_short = sizes < np.where(is_v2, V2_HEADER_BYTES, np.where(is_non_entry_record, 8, RECORD_ID_BYTES))
    fault_rows = np.flatnonzero(
        is_short | is_v2 & ~has_known_flags | ~is_v2 & ~is_non_entry_record & (entries < 0)
    )
    if not fault_rows.size:
        return is_non_entry_record, None
    first_row = int(fault_rows[0])
    if is_short[first_row]:
        return is_non_entry_record, (
            first_row,
            f"a record of {sizes[first_row]} bytes, shorter than its header",
        )
    if is_v2[first_row]:
        return is_non_entry_record, (
            first_row,
            f"an entry with flags {int(flags[first_row]):#04x}, which no known format uses",
        )
    return is_non_entry_record, (first_row, "an entry with a negative id")


def _record_end(block: bytes, start: int) -> int:
    """Return the position at which the record at ``start`` ends."""
    return start + LENGTH_STRUCT.size + int(LENGTH_STRUCT.unpack_from(block, start)[0])


LARGER_BUFFER_BYTES = 4096
"""Size of the read buffer of entry logs in Pulsar, in bytes (readBufferSizeBytes). The default is 512."""

_MAP_HEADER_BYTES = 20  # of a map's record: ledger, entry, number of ledgers
_MAP_IDS = (-1).to_bytes(8, signed=True) + (-2).to_bytes(8, signed=True)
_MAX_DIRECT_RECORD_BYTES = 24 + LEDGER_DTYPE.itemsize * 10_000
_MAX_INT = 2**31 - 1

BytesByLedger = dict[int, int]
"""Number of bytes of each ledger, by ledger id."""


def extract_ledgers(
    read_at: ReadAt,
    size: int,
    header: EntryLogHeader,
    is_direct: bool,
    buffer_bytes: int = LARGER_BUFFER_BYTES,
) -> BytesByLedger | None:
    """Return each ledger's number of bytes, as a garbage collector finds it by ``header`` and ledgers map.

    The log may be damaged. Returns None if the collector reads all entries of the log instead. Also returns
    None if the collector leaves the log unchanged after an error.
    """
    if header.version < 1 or header.map_offset == 0:
        return None
    if is_direct:
        is_valid_offset = 0 < header.map_offset <= _MAX_INT
        return _sum_map(read_at, size, header.map_offset, is_direct) if is_valid_offset else None
    if header.map_offset < 0:
        return _sum_misplaced_buffer_ledgers(read_at, size, -header.map_offset, buffer_bytes)
    bytes_by_ledger = _sum_map(read_at, size, header.map_offset, is_direct)
    return bytes_by_ledger if bytes_by_ledger and len(bytes_by_ledger) == header.map_ledgers else None


def _sum_map(read_at: ReadAt, size: int, offset: int, is_direct: bool) -> BytesByLedger | None:
    """Return the number of bytes of each ledger, summed over the ledgers map that begins at ``offset``.

    Returns None if the server rejects one of the map's records.
    """
    bytes_by_ledger: BytesByLedger = {}
    # What the direct logger reads from before a file's end goes on in zeros, where its buffer was new.
    readable_end = size + _MAX_DIRECT_RECORD_BYTES if is_direct else size

    def read_part(position: int, length: int) -> bytes:
        return read_at(position, min(length, size - position)).ljust(length if is_direct else 0, b"\0")

    while offset < size:
        length = int.from_bytes(start := read_part(offset, LENGTH_STRUCT.size), signed=True)
        offset += LENGTH_STRUCT.size
        if len(start) == LENGTH_STRUCT.size and length <= 0:
            break
        if offset >= size or (is_direct and length >= _MAX_DIRECT_RECORD_BYTES):
            return None
        # The other reads a record that the file cuts as one that ends there.
        record_bytes = min(length, readable_end - offset)
        ids = read_part(offset, min(_MAP_HEADER_BYTES, record_bytes))
        count = int.from_bytes(ids[16:], signed=True)
        if ids[:16] != _MAP_IDS or record_bytes - _MAP_HEADER_BYTES != LEDGER_DTYPE.itemsize * max(0, count):
            return None
        for ledger, ledger_bytes in np.frombuffer(
            read_part(offset + _MAP_HEADER_BYTES, record_bytes - _MAP_HEADER_BYTES), LEDGER_DTYPE
        ).tolist():
            bytes_by_ledger[ledger] = bytes_by_ledger.get(ledger, 0) + ledger_bytes
            if ledger < 0 or not 0 <= bytes_by_ledger[ledger] < 2**63:
                return None
        offset += length
    return bytes_by_ledger


def _sum_misplaced_buffer_ledgers(
    read_at: ReadAt, size: int, buffer_shift: int, buffer_bytes: int
) -> BytesByLedger | None:
    """Return the number of bytes of each ledger, as the server's scan with a misplaced buffer finds them.

    The buffer contains the start of the file, but the scan treats it as the bytes from offset
    ``-buffer_shift`` on. Returns None if the scan does not use the buffer.
    """
    buffer = read_at(0, buffer_bytes)
    buffer_end = len(buffer) - buffer_shift  # where it reads on, from where it is
    if buffer_end <= HEADER_BYTES:
        return None
    bytes_by_ledger: BytesByLedger = {}
    offset = HEADER_BYTES
    for ledger, length in _misplaced_records(read_at, buffer, buffer_end):
        offset += LENGTH_STRUCT.size + length if length > 0 else 1
        if ledger >= 0 and length > 0:
            if offset > size:
                return bytes_by_ledger
            bytes_by_ledger[ledger] = bytes_by_ledger.get(ledger, 0) + LENGTH_STRUCT.size + length
    for _, ledgers, sizes in EntryLogRecords(read_at, size).collected_records(offset):
        for ledger, length in zip(ledgers.tolist(), sizes.tolist(), strict=True):
            bytes_by_ledger[ledger] = bytes_by_ledger.get(ledger, 0) + length
    return bytes_by_ledger


def _misplaced_records(read_at: ReadAt, buffer: bytes, buffer_end: int) -> Iterator[tuple[int, int]]:
    """Yield ledger id and length of each record that a scan finds in the misplaced buffer.

    The scan treats the buffer as bytes from a different offset. A length of 0 or below means that the scan
    skips one byte.
    """
    offset, buffer_shift = HEADER_BYTES, len(buffer) - buffer_end
    while offset < buffer_end:
        head = buffer[offset + buffer_shift : offset + buffer_shift + 12]
        crosses_buffer = len(head) < 12
        head += read_at(buffer_end, 12 - len(head))
        if len(head) < 12:
            return
        length, ledger = (int.from_bytes(part_bytes, signed=True) for part_bytes in (head[:4], head[4:]))
        yield ledger, length
        if crosses_buffer:
            return
        offset += LENGTH_STRUCT.size + length if length > 0 else 1
