"""The journal position up to which a bookie's directories are flushed: ``lastMark``, 16 bytes (LogMark).

    byte  0          8
          file id    offset in the file
          int64      int64        big-endian

Everything before the mark is already in the entry logs and the index. If a bookie's ledger directories have
different marks, the greatest mark counts. Marks are compared by file id, then by offset.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from auditor.errors import DecodeError

_MARK_STRUCT = struct.Struct(">qq")


class LastMark(NamedTuple):
    """A position in the journal: a file id and a byte offset in that file."""

    file_id: int
    offset: int

    @property
    def file_name(self) -> str:
        """Return the name of the journal file that the mark points to.

        >>> LastMark(0x1A1FC8020C3, 0x1A00).file_name
        '1a1fc8020c3.txn'
        """
        return f"{self.file_id & (2**64 - 1):x}.txn"


START = LastMark(0, 0)


def decode(data: bytes) -> LastMark:
    """Read a mark from the first 16 bytes, as the server does.

    Raises `DecodeError` if there are fewer bytes.

    >>> decode(bytes.fromhex("000001a1fc8020c30000000000001a00"))
    LastMark(file_id=1795237617859, offset=6656)
    """
    if len(data) < _MARK_STRUCT.size:
        raise DecodeError("last mark", len(data), f"{_MARK_STRUCT.size} bytes expected, {len(data)} present")
    return LastMark(*_MARK_STRUCT.unpack_from(data))
