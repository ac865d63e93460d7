"""A ZooKeeper snapshot, after decompression: a file that contains the whole tree of znodes.

    header            int 'ZKSN', int version 2, long dbId
    sessions          int count, then long session, int timeout each
    ACL cache         int count, then long id, int n, n x (int permissions, string scheme, string name) each
    znodes            string path, buffer data, long acl, stat 60 bytes; the root's path is empty
    end               string '/'
    seal              long Adler-32, string '/'
    [tree digest]     long zxid, int digest version, long digest, seal      (3.6 and later, when enabled)
    [last zxid]       long zxid, seal                                       (3.9 and later, when enabled)

    stat              long czxid, mzxid, ctime, mtime, int version, cversion, aversion, long owner, pzxid

The checksum of a seal is the Adler-32 of every byte before it, including earlier seals. Nothing marks the
beginning of a record. So one pass over the file finds the boundaries of the records (`find_record_offsets`).
Everything else is read at these boundaries, for many records at a time (`read_record_tails`). Java:
``FileSnap``, ``DataTree``.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from auditor.codecs.byte_column import read_windows
from auditor.codecs.zookeeper.encodings import JuteReader
from auditor.errors import DecodeError

MAGIC = 0x5A4B534E
VERSION = 2
FORMAT_NAME = "ZooKeeper snapshot"

TAIL_DTYPE = np.dtype(
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

_CONTAINER_OWNER = -(2**63)
_TTL_FLAG, _TTL_BITS = -(2**16), 40  # three bytes ff0000, then the time in ms
_INT_STRUCT = struct.Struct(">i")
_CHECKSUM_BYTES = 8 + 5
_DIGEST_BYTES = 8 + 4 + 8 + _CHECKSUM_BYTES
_ZXID_BYTES = 8 + _CHECKSUM_BYTES
_ADLER_PIECE_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class RecordOffsets:
    """The offsets of some consecutive records of znodes.

    ``first_record`` is the start of the first record. ``data_starts`` has the start of each record's data.
    ``tail_starts`` has the start of each record's tail (the fields after the data). ``next_record`` is the
    start of the next record, or of the end mark if ``has_end_mark`` is True.
    """

    first_record: int
    data_starts: NDArray[np.int64]
    tail_starts: NDArray[np.int64]
    next_record: int
    has_end_mark: bool

    @property
    def path_offsets(self) -> NDArray[np.int64]:
        """Return the offset at which the path of each record begins."""
        record_starts = np.append(self.first_record, self.tail_starts[:-1] + TAIL_DTYPE.itemsize)[
            : len(self.tail_starts)
        ]
        return record_starts + _INT_STRUCT.size

    @property
    def path_ends(self) -> NDArray[np.int64]:
        """Return the offset at which the path of each record ends."""
        return self.data_starts - _INT_STRUCT.size


def find_nodes(data: memoryview) -> int:
    """Return the offset at which the record of the first znode begins.

    Raises:
        DecodeError: ``data`` is not a snapshot, has a different version, or is cut before the first znode.
    """
    reader = JuteReader(data, FORMAT_NAME)
    if (magic := reader.int32()) != MAGIC:
        raise DecodeError(FORMAT_NAME, 0, f"the file begins with {magic & 0xFFFFFFFF:08x}, not with ZKSN")
    if (version := reader.int32()) != VERSION:
        raise DecodeError(FORMAT_NAME, 4, f"version {version}; only version {VERSION} is known")
    reader.int64()
    reader.skip(reader.count(12) * 12)
    for _ in range(reader.count(12)):
        reader.int64()
        for _ in range(reader.count(12)):
            reader.int32()
            reader.buffer()
            reader.buffer()
    return reader.offset


def find_record_offsets(
    data: memoryview, begin_offset: int, max_records: int, max_bytes: int
) -> RecordOffsets:
    """Find the offsets of up to ``max_records`` records from ``begin_offset`` on.

    The search stops after about ``max_bytes`` bytes.

    Raises:
        DecodeError: A record extends beyond the end of the file. The offset is that of the record.
    """
    stop_offset = begin_offset + max_bytes
    end_offsets: list[int] = []
    offset, has_end_mark = begin_offset, False
    while len(end_offsets) < max_records and offset < stop_offset:
        length, record_end = _read_record(data, offset)
        if record_end is None:
            has_end_mark = True
            break
        end_offsets.append(record_end)
        if length > 1:  # as long as the end mark is: never passed over
            _add_equal_records(data, length, end_offsets, max_records, stop_offset)
        offset = end_offsets[-1]
    record_starts = np.append(begin_offset, np.array(end_offsets[:-1], np.int64))[: len(end_offsets)]
    lengths = read_windows(np.frombuffer(data, np.uint8), record_starts, _INT_STRUCT.size).view(">i4")
    data_starts = record_starts + _INT_STRUCT.size + lengths + _INT_STRUCT.size
    return RecordOffsets(
        begin_offset, data_starts, np.array(end_offsets, np.int64) - TAIL_DTYPE.itemsize, offset, has_end_mark
    )


def _read_record(data: memoryview, offset: int) -> tuple[int, int | None]:
    """Return the path length and the end of the record at ``offset``.

    If the end mark is at ``offset``, the end is None.
    """
    try:
        (length,) = _INT_STRUCT.unpack_from(data, offset)
        if length == 1 and data[offset + 4] == 0x2F:
            return length, None
        (data_length,) = _INT_STRUCT.unpack_from(data, offset + 4 + length)
    except (struct.error, IndexError) as error:
        raise DecodeError(FORMAT_NAME, min(offset, len(data)), "cut off before its end mark") from error
    record_end = offset + 4 + length + 4 + max(data_length, 0) + TAIL_DTYPE.itemsize
    if length < 0 or data_length < -1 or record_end > len(data):
        present_bytes = len(data) - offset
        raise DecodeError(
            FORMAT_NAME,
            offset,
            f"a path of {length} bytes and data of {data_length} bytes; {present_bytes} bytes are present",
        )
    return length, record_end


def _add_equal_records(
    data: memoryview, length: int, end_offsets: list[int], max_records: int, stop_offset: int
) -> None:
    """Append the ends of the following records to ``end_offsets`` while their paths have this ``length``.

    Nearly all paths have the same length. So the path length and the data length of a record can be read in
    one step. `_read_record` reads all other records.
    """
    unpack_lengths = _lengths_struct(length).unpack_from
    fixed_bytes = _INT_STRUCT.size + length + _INT_STRUCT.size + TAIL_DTYPE.itemsize
    append_end, offset = end_offsets.append, end_offsets[-1]
    try:
        for _ in range(max_records - len(end_offsets)):
            path_length, data_length = unpack_lengths(data, offset)
            if path_length != length or data_length < 0 or offset >= stop_offset:
                break
            offset += fixed_bytes + data_length
            append_end(offset)
    except struct.error:
        pass  # too near the end of the file
    if offset > len(data):
        end_offsets.pop()


@lru_cache(maxsize=64)
def _lengths_struct(path_length: int) -> struct.Struct:
    """Return the struct that reads a record's path length and data length, and skips the path
    between them.
    """
    return struct.Struct(f">i{path_length}xi")


def read_record_tails(data: memoryview, offsets: NDArray[np.int64]) -> NDArray[np.void]:
    """Return the tails of many records (the fields after the data) as an array of dtype `TAIL_DTYPE`.

    ``offsets`` are the starts of the tails.
    """
    return read_windows(np.frombuffer(data, np.uint8), offsets, TAIL_DTYPE.itemsize).view(TAIL_DTYPE)


def session_owners(tail_fields: NDArray[np.void]) -> NDArray[np.int64]:
    """Return the session that owns each znode, as a server reports it to clients, or 0 if there is none.

    On disk, the owner field can also mark a znode as a container, or contain its time to live. The result
    is 0 for such znodes.
    """
    session_ids: NDArray[np.int64] = tail_fields["ephemeral_owner"].astype(np.int64)
    session_ids[(session_ids == _CONTAINER_OWNER) | (session_ids >> _TTL_BITS == _TTL_FLAG)] = 0
    return session_ids


def check_checksums(data: memoryview, end_mark_offset: int) -> None:
    """Verify the checksums and the sections after the end mark, which is at ``end_mark_offset``.

    Raises:
        DecodeError: A checksum differs, or a section has an unexpected size. The offset is that of the
            checksum or the section.
    """
    offset = end_mark_offset + 5
    checksum = _read_checksum(data, offset, _adler(data, 0, offset, 1))
    remaining_bytes = len(data) - offset - _CHECKSUM_BYTES
    section_sizes = [_DIGEST_BYTES] * (remaining_bytes in (_DIGEST_BYTES, _DIGEST_BYTES + _ZXID_BYTES))
    section_sizes += [_ZXID_BYTES] * (remaining_bytes in (_ZXID_BYTES, _DIGEST_BYTES + _ZXID_BYTES))
    if sum(section_sizes) != remaining_bytes:
        raise DecodeError(
            FORMAT_NAME,
            offset + _CHECKSUM_BYTES,
            f"{remaining_bytes} bytes after the seal are not a known section",
        )
    section_start = offset
    for section_bytes in section_sizes:
        offset = section_start + section_bytes
        checksum = _read_checksum(data, offset, _adler(data, section_start, offset, checksum))
        section_start = offset


def _adler(data: memoryview, begin_offset: int, end: int, checksum: int) -> int:
    for offset in range(begin_offset, end, _ADLER_PIECE_BYTES):
        checksum = zlib.adler32(data[offset : min(end, offset + _ADLER_PIECE_BYTES)], checksum)
    return checksum


def _read_checksum(data: memoryview, offset: int, checksum: int) -> int:
    reader = JuteReader(data, FORMAT_NAME, offset)
    if (stored_checksum := reader.int64()) != checksum:
        raise DecodeError(
            FORMAT_NAME,
            offset,
            f"the seal has the checksum {stored_checksum:08x}, the bytes before the seal have {checksum:08x}",
        )
    if reader.buffer() != b"/":
        raise DecodeError(FORMAT_NAME, offset + 8, "a seal without its end mark")
    return checksum
