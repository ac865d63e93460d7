"""The records that a garbage collector finds when it scans an entry log that may be damaged.

The garbage collector reads the entries of a log that has no ledgers map. Compaction reads the entries of
every log that it rewrites. Both scan by the rules of ``DefaultEntryLogger.scanEntryLog`` or, for logs of
the direct logger, of ``LogReaderScan.scan``. Neither scan checks whether a record is plausible. So one
wrong size can hide later records. The bookie deletes the log as soon as all ledgers that the scan found are
deleted (bookkeeper #2264, #2373). The two scans treat wrong values as follows:

    value read             default logger                     direct logger
    ---------------------  ---------------------------------  ----------------------------------------------
    negative size          tries the next byte                goes on at the next block of 4096 bytes;
                                                              loops forever at the start of a block
    size 0                 tries the next byte                the log ends there
    size beyond the file   the log ends there                 fails; but if the read buffer extends to the
                                                              end of the record, the record counts in full
    size too large         fails for lack of Java memory      fails for lack of Java memory
                           (`MAX_SAFE_LEDGER_BYTES`)
    ledger id below 0      skips the record                   skips the record

If a scan fails, garbage collection and compaction leave the log unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from auditor.codecs.bookie.entry_log import DIRECT_HEADER_BYTES, HEADER_BYTES
from auditor.codecs.bookie.entry_log_records import EntryLogRecords
from auditor.codecs.bookie.length_prefixed import BLOCK_BYTES, LENGTH_STRUCT, Longs, ReadAt

DIRECT_BUFFER_BYTES = 8 << 20
"""Number of bytes that the direct logger reads at once (dbStorage_directIOEntryLoggerReadBufferSizeMB)."""

MAX_SAFE_LEDGER_BYTES = 64 << 20
"""Record size, in bytes, above which a scan may fail because Java lacks free direct memory."""

_LEDGER_BYTES = 8


class ScannedLog(NamedTuple):
    """The records that a garbage collector's scan counts, in the order of the log.

    The fields are arrays of the same length, except ``may_fail``. ``offsets`` are the starts of the
    records. ``sizes`` are the sizes of the whole records, including the four bytes of the size field.
    ``may_fail`` is True if a record has more than `MAX_SAFE_LEDGER_BYTES` bytes. The scan of a real server
    may then fail.
    """

    offsets: Longs
    ledger_ids: Longs
    sizes: Longs
    may_fail: bool

    def ledger_sums(self) -> dict[int, int]:
        """Return the number of bytes of each ledger, as the garbage collector adds them up."""
        ledgers, ledger_rows = np.unique(self.ledger_ids, return_inverse=True)
        ledger_bytes = np.zeros(len(ledgers), np.int64)
        np.add.at(ledger_bytes, ledger_rows, self.sizes)
        return dict(zip(ledgers.tolist(), ledger_bytes.tolist(), strict=True))

    def contains(self, offsets: Longs) -> NDArray[np.bool_]:
        """Return, for each offset of a record, whether the scan counts the record that starts there."""
        if not len(self.offsets):
            return np.zeros(len(offsets), np.bool_)
        row = np.minimum(np.searchsorted(self.offsets, offsets), len(self.offsets) - 1)
        is_counted: NDArray[np.bool_] = self.offsets[row] == offsets
        return is_counted


def scan_log(
    read_at: ReadAt, size: int, is_direct: bool, buffer_bytes: int = DIRECT_BUFFER_BYTES
) -> ScannedLog | None:
    """Scan a log of ``size`` bytes as the server does. Return None if the server's scan fails.

    Args:
        read_at: Returns bytes of the file.
        size: Length of the file in bytes.
        is_direct: Whether the server reads the log with its direct logger.
        buffer_bytes: Number of bytes that the direct logger reads at once.

    >>> data = bytes(1024) + bytes.fromhex("00000008 0000000000000007 80000008 0000000000000009")
    >>> scan_log(lambda at, length: data[at : at + length], len(data), is_direct=False).ledger_sums()
    {7: 12}
    """
    if is_direct:
        return _scan_direct(read_at, size, buffer_bytes)
    records = EntryLogRecords(read_at, size)
    empty_column = np.zeros(0, np.int64)
    record_columns = [(empty_column, empty_column, empty_column), *records.collected_records(HEADER_BYTES)]
    offsets, ledgers, sizes = (np.concatenate(column) for column in zip(*record_columns, strict=True))
    max_size = int(sizes.max(initial=0))
    if records.cut_offset is not None:
        max_size = max(max_size, int.from_bytes(read_at(records.cut_offset, LENGTH_STRUCT.size), signed=True))
    return ScannedLog(offsets, ledgers, sizes, max_size > MAX_SAFE_LEDGER_BYTES)


def _scan_direct(read_at: ReadAt, size: int, buffer_bytes: int) -> ScannedLog | None:
    try:
        rows = np.array(list(_direct_records(read_at, size, buffer_bytes)), np.int64).reshape(-1, 3)
    except EOFError:
        return None
    counted_rows = rows[rows[:, 1] >= 0]
    offsets, ledgers, sizes = (np.ascontiguousarray(column) for column in counted_rows.T)
    return ScannedLog(offsets, ledgers, sizes, int(rows[:, 2].max(initial=0)) > MAX_SAFE_LEDGER_BYTES)


def _direct_records(read_at: ReadAt, size: int, buffer_bytes: int) -> Iterator[tuple[int, int, int]]:
    """Yield the start, ledger id and size of each record. Raises EOFError if the server's scan fails."""
    # The last buffer that is read reaches past the end of the file, in zeros.
    buffered_end = -(-size // buffer_bytes) * buffer_bytes
    offset, id_buffer = HEADER_BYTES, bytes(_LEDGER_BYTES)
    block_offset, block = 0, b""
    while offset < size:
        if not block_offset <= offset <= block_offset + len(block) - LENGTH_STRUCT.size - _LEDGER_BYTES:
            block_offset, block = offset, read_at(offset, min(BLOCK_BYTES, size - offset))
            block = block.ljust(LENGTH_STRUCT.size + _LEDGER_BYTES, b"\0")
        position = offset - block_offset
        (length,) = LENGTH_STRUCT.unpack_from(block, position)
        if length < 0:
            if offset % DIRECT_HEADER_BYTES == 0:
                # The next block is this one: the server looks at the same four bytes for ever.
                raise EOFError
            offset += -offset % DIRECT_HEADER_BYTES
            continue
        if not length:
            return
        start = offset + LENGTH_STRUCT.size
        if start >= size or start + length > buffered_end:
            raise EOFError
        # Of a shorter record the server takes what the one before it left in the buffer.
        id_bytes = block[position + LENGTH_STRUCT.size :][: min(length, _LEDGER_BYTES)]
        id_buffer = id_bytes + id_buffer[len(id_bytes) :]
        yield offset, int.from_bytes(id_buffer, signed=True), LENGTH_STRUCT.size + length
        offset = start + length
