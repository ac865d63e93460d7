"""A ZooKeeper snapshot: the whole tree in one file, after decompression.

    header            int 'ZKSN', int version 2, long dbId
    sessions          int count, then long session, int timeout each
    ACL cache         int count, then long id, int n, n x (int permissions, string scheme, string name) each
    znodes            string path, buffer data, long acl, stat 60 bytes; the root's path is empty
    end               string '/'
    seal              long Adler-32, string '/'
    [tree digest]     long zxid, int digest version, long digest, seal      (3.6 and later, when enabled)
    [last zxid]       long zxid, seal                                       (3.9 and later, when enabled)

    stat              long czxid, mzxid, ctime, mtime, int version, cversion, aversion, long owner, pzxid

The checksum of a seal is the Adler-32 of every byte before it, including earlier seals. No mark shows where a
record begins. So one pass finds the boundaries of the records (`boundaries`). Everything else is read from
the boundaries, many records at a time (`tails`). Java: ``FileSnap``, ``DataTree``.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from auditor.codecs.byte_column import windows
from auditor.codecs.zookeeper.encodings import JuteReader
from auditor.errors import DecodeError

MAGIC = 0x5A4B534E
VERSION = 2
WHAT = "ZooKeeper snapshot"

TAIL = np.dtype(
    [
        ("acl", ">i8"),
        ("czxid", ">i8"),
        ("mzxid", ">i8"),
        ("ctime", ">i8"),
        ("mtime", ">i8"),
        ("version", ">i4"),
        ("cversion", ">i4"),
        ("aversion", ">i4"),
        ("ephemeral_owner", ">i8"),
        ("pzxid", ">i8"),
    ]
)
"""Fields after a znode's data, 68 bytes."""

_CONTAINER = -(2**63)
_TTL_FLAG, _TTL_BITS = -(2**16), 40  # three bytes ff0000, then the time in ms
_INT = struct.Struct(">i")
_SEAL_BYTES = 8 + 5
_DIGEST_BYTES = 8 + 4 + 8 + _SEAL_BYTES
_ZXID_BYTES = 8 + _SEAL_BYTES
_ADLER_PIECE = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Boundaries:
    """The offsets of some records: ``begin`` of the first record, and the data and tail of each record.

    ``next`` is where the next record begins. If ``ended``, the end mark begins there instead.
    """

    begin: int
    data_at: NDArray[np.int64]
    tail_at: NDArray[np.int64]
    next: int
    ended: bool

    @property
    def path_at(self) -> NDArray[np.int64]:
        """Return where each path begins."""
        begins = np.append(self.begin, self.tail_at[:-1] + TAIL.itemsize)[: len(self.tail_at)]
        return begins + _INT.size

    @property
    def path_end(self) -> NDArray[np.int64]:
        """Return where each path ends."""
        return self.data_at - _INT.size


def nodes_begin(data: memoryview) -> int:
    """Return where the first znode's record begins.

    Raises:
        DecodeError: ``data`` is not a snapshot, has another version, or is cut before the first znode.
    """
    reader = JuteReader(data, WHAT)
    if (magic := reader.int32()) != MAGIC:
        raise DecodeError(WHAT, 0, f"it begins with {magic & 0xFFFFFFFF:08x}, not with ZKSN")
    if (version := reader.int32()) != VERSION:
        raise DecodeError(WHAT, 4, f"version {version}, {VERSION} is the only one known")
    reader.int64()
    reader.skip(reader.count(12) * 12)
    for _ in range(reader.count(12)):
        reader.int64()
        for _ in range(reader.count(12)):
            reader.int32()
            reader.buffer()
            reader.buffer()
    return reader.offset


def boundaries(data: memoryview, begin: int, limit: int, byte_limit: int) -> Boundaries:
    """Find the offsets of up to ``limit`` records, of about ``byte_limit`` bytes together, from ``begin`` on.

    Raises:
        DecodeError: At the record that does not fit in the file.
    """
    stop = begin + byte_limit
    ends: list[int] = []
    offset, ended = begin, False
    while len(ends) < limit and offset < stop:
        length, end = _record(data, offset)
        if end is None:
            ended = True
            break
        ends.append(end)
        if length > 1:  # as long as the end mark is: never passed over
            _add_equal_records(data, length, ends, limit, stop)
        offset = ends[-1]
    begins = np.append(begin, np.array(ends[:-1], np.int64))[: len(ends)]
    lengths = windows(np.frombuffer(data, np.uint8), begins, _INT.size).view(">i4")
    data_at = begins + _INT.size + lengths + _INT.size
    return Boundaries(begin, data_at, np.array(ends, np.int64) - TAIL.itemsize, offset, ended)


def _record(data: memoryview, offset: int) -> tuple[int, int | None]:
    """Return the path length and the end of the record at ``offset``. The end is None for the end mark."""
    try:
        (length,) = _INT.unpack_from(data, offset)
        if length == 1 and data[offset + 4] == 0x2F:
            return length, None
        (width,) = _INT.unpack_from(data, offset + 4 + length)
    except (struct.error, IndexError) as error:
        raise DecodeError(WHAT, min(offset, len(data)), "cut before its end mark") from error
    end = offset + 4 + length + 4 + max(width, 0) + TAIL.itemsize
    if length < 0 or width < -1 or end > len(data):
        present = len(data) - offset
        raise DecodeError(WHAT, offset, f"a record of {length} and {width} bytes, {present} are present")
    return length, end


def _add_equal_records(data: memoryview, length: int, ends: list[int], limit: int, stop: int) -> None:
    """Add the ends of the following records while their paths have the same length, as nearly all paths have.

    The path length and data length of a record are then read in one step. `_record` reads unusual records.
    """
    unpack = _lengths(length).unpack_from
    fixed_bytes = _INT.size + length + _INT.size + TAIL.itemsize
    add, offset = ends.append, ends[-1]
    try:
        for _ in range(limit - len(ends)):
            path_length, width = unpack(data, offset)
            if path_length != length or width < 0 or offset >= stop:
                break
            offset += fixed_bytes + width
            add(offset)
    except struct.error:
        pass  # too near the end of the file
    if offset > len(data):
        ends.pop()


@lru_cache(maxsize=64)
def _lengths(of_path: int) -> struct.Struct:
    """Return the struct of a record's path length and data length, with the path between them."""
    return struct.Struct(f">i{of_path}xi")


def tails(data: memoryview, offsets: NDArray[np.int64]) -> NDArray[np.void]:
    """Return the fixed parts of many records, which begin at ``offsets``, as an array of `TAIL`."""
    return windows(np.frombuffer(data, np.uint8), offsets, TAIL.itemsize).view(TAIL)


def owners(fixed_fields: NDArray[np.void]) -> NDArray[np.int64]:
    """Return the session that owns each znode, as a server shows the session to clients. 0 if there is none.

    On disk, the owner field can also mark a znode as a container, or hold its time to live.
    """
    owner: NDArray[np.int64] = fixed_fields["ephemeral_owner"].astype(np.int64)
    owner[(owner == _CONTAINER) | (owner >> _TTL_BITS == _TTL_FLAG)] = 0
    return owner


def check_seals(data: memoryview, end: int) -> None:
    """Verify everything after the znodes; ``end`` is where the end mark begins.

    Raises:
        DecodeError: At the checksum that differs, or the section that does not fit.
    """
    offset = end + 5
    adler = _read_seal(data, offset, _adler(data, 0, offset, 1))
    remaining_bytes = len(data) - offset - _SEAL_BYTES
    sections = [_DIGEST_BYTES] * (remaining_bytes in (_DIGEST_BYTES, _DIGEST_BYTES + _ZXID_BYTES))
    sections += [_ZXID_BYTES] * (remaining_bytes in (_ZXID_BYTES, _DIGEST_BYTES + _ZXID_BYTES))
    if sum(sections) != remaining_bytes:
        raise DecodeError(
            WHAT, offset + _SEAL_BYTES, f"{remaining_bytes} bytes after the seal are no known section"
        )
    begin = offset
    for section in sections:
        offset = begin + section
        adler = _read_seal(data, offset, _adler(data, begin, offset, adler))
        begin = offset


def _adler(data: memoryview, begin: int, end: int, value: int) -> int:
    for offset in range(begin, end, _ADLER_PIECE):
        value = zlib.adler32(data[offset : min(end, offset + _ADLER_PIECE)], value)
    return value


def _read_seal(data: memoryview, offset: int, adler: int) -> int:
    reader = JuteReader(data, WHAT, offset)
    if (stored := reader.int64()) != adler:
        raise DecodeError(
            WHAT,
            offset,
            f"the seal has the checksum {stored:08x}, the bytes before the seal have {adler:08x}",
        )
    if reader.buffer() != b"/":
        raise DecodeError(WHAT, offset + 8, "a seal without its end mark")
    return adler
