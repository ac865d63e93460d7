"""The common format of journals and entry logs: records that consist of a length and as many bytes.

    byte 0       4           12          20
         length  ledger id   entry id    rest        length counts from byte 4
         int32   int64       int64

In an entry of BP-35, byte 4 contains flags and is 0x80 or above. Scope (the upper 64 bits of the ledger id),
ledger and entry follow as int64.
The start of a record depends on the length of the record before it, so a loop finds the starts. The fields
at the starts are then read for a whole block at once. Payloads are never examined. Payloads larger than a
block are not even read.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from auditor.codecs.bookie.entry import DIGESTS

LENGTH_STRUCT = struct.Struct(">i")
RECORD_ID_BYTES = 16
"""Length of the ledger id and entry id that follow the length of a record, in bytes."""

V2_HEADER_BYTES = 41
"""Length of the header of a BP-35 entry, in bytes (`auditor.codecs.bookie.entry`)."""
V2_PREFIX_BYTES = LENGTH_STRUCT.size + 25
"""Number of bytes from a record's start to the end of its ids, if it is a BP-35 entry."""

BLOCK_BYTES = 1 << 20
"""Number of bytes that are read at once if records are small."""

HEAD_DTYPE = np.dtype([("length", ">i4"), ("ledger_id", ">i8"), ("entry_id", ">i8")])
V2_HEAD_DTYPE = np.dtype(
    [("size", ">i4"), ("flags", "u1"), ("scope", ">i8"), ("ledger", ">i8"), ("entry", ">i8")]
)

Longs = NDArray[np.int64]
ReadAt = Callable[[int, int], bytes]
"""A function that returns bytes of a file by offset and length. It returns fewer at the end of the file."""

# A payload that reaches so far past its block is skipped, and the next block is short.
_LONG_PAYLOAD_BYTES = 1 << 16
_SPARSE_BLOCK_BYTES = 4096


def next_block_bytes(overrun_bytes: int) -> int:
    """Return how many bytes to read next if the last record ends ``overrun_bytes`` bytes after its block.

    If payloads are long, the next block is short, but long enough for the ids of the next record.

    >>> next_block_bytes(100), next_block_bytes(1 << 20)
    (1048576, 4096)
    """
    return BLOCK_BYTES if overrun_bytes < _LONG_PAYLOAD_BYTES else _SPARSE_BLOCK_BYTES


@dataclass
class LengthPrefixed:
    """A file of ``size`` bytes that consists of length-prefixed records.

    ``size`` becomes smaller if a read finds that the file is shorter.
    """

    read_at: ReadAt
    size: int

    def _block(self, offset: int, block_size: int) -> bytes:
        """Return the bytes from ``offset`` on.

        At the end of the file, append zeros, which are not read as a record.
        """
        block_size = min(block_size, max(0, self.size - offset))
        block = self.read_at(offset, block_size) if block_size else b""
        if len(block) < block_size:
            self.size = offset + len(block)
        return block if offset + len(block) < self.size else block + bytes(V2_PREFIX_BYTES)


def read_heads(block: bytes, starts: Longs, head_dtype: np.dtype[np.void]) -> NDArray[np.void]:
    """Return the first fields of the record at each start, one item of dtype ``head_dtype`` per record.

    >>> data = bytes(2) + bytes.fromhex("00000010") + bytes(16)
    >>> read_heads(data, np.array([2]), HEAD_DTYPE)["length"].tolist()
    [16]
    """
    all_heads = np.ndarray((len(block) - head_dtype.itemsize + 1,), head_dtype, block, strides=(1,))
    return all_heads[starts]


def has_v2_flags(flags: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Return, for the first byte of each entry, whether it contains valid flags of BP-35.

    All bytes in ``flags`` must be 0x80 or above.

    >>> has_v2_flags(np.array([0xA3, 0x81, 0xB3, 0xFF], np.uint8)).tolist()
    [True, True, False, False]
    """
    return np.isin(flags >> 4 & 7, (0, 2)) & np.isin(flags & 15, list(DIGESTS))


def count_equal_lengths(block: bytes, start: int, length: int) -> int:
    """Return how many consecutive records from ``start`` on have the length ``length``.

    >>> count_equal_lengths(bytes.fromhex("00000001aa 00000001bb 00000002"), 0, 1)
    2
    """
    record_bytes = LENGTH_STRUCT.size + length
    count = (len(block) - start - LENGTH_STRUCT.size) // record_bytes + 1
    lengths = np.ndarray((count,), ">i4", block, start, (record_bytes,))
    is_different = lengths != length
    first_difference = int(is_different.argmax())
    return first_difference if is_different[first_difference] else count
