"""RocksDB's log format, of which write-ahead logs and MANIFEST files are made; and a log's write batches.

A file is a row of blocks of 32 KiB, the last one shorter. A block holds physical records; what is left of it
is zeros if the 7 or 11 bytes before a payload do not fit. A record that does not fit goes in fragments:

    byte  0            4        6       7            11
          CRC-32C      length   type    payload
          CRC-32C      length   type    log number   payload        types 5 to 8, 11 and 131
          u32, masked  u16      u8      u32                         little-endian

    type  1 full   2 first   3 middle   4 last       5 to 8 the same, in a log file that is used again
          9 compression      10, 11 sizes of timestamps      130, 131 the log before; from 128 on passed over

The checksum covers type, log number and payload, and is masked: rotated right by 15 bits, 0xa282ead8 added.
In a log file that is used again a record with another log number is what was there before: the end. So is the
rest of an old record, in whose midst the last new one ended, if no later block begins with a new one.

A record of a write-ahead log is a write batch: first sequence number (u64), number of writes (u32), writes.

RocksDB reads up to the first bad record and says nothing of the rest. Here a bad record is an error, and so
is a gap in the sequence numbers. What cannot be noticed: that the last log ends earlier than it once did, at
the end of a record; in a file that is used again, that its last block was cut or names another log. C++:
``db/log_format.h``, ``db/log_reader.cc``, ``db/write_batch.cc``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

import google_crc32c

from auditor.errors import DecodeError

BLOCK_BYTES = 32 << 10

_HEADER = struct.Struct("<IHB")
_LOG_NUMBER = struct.Struct("<I")
_LONG_HEADER_BYTES = _HEADER.size + _LOG_NUMBER.size
_BATCH = struct.Struct("<QI")
_ZERO, _FULL, _FIRST, _MIDDLE, _LAST = range(5)
_RECYCLED = {5: _FULL, 6: _FIRST, 7: _MIDDLE, 8: _LAST}
_COMPRESSION = 9
_TIMESTAMPS = (10, 11)
_WITH_LOG_NUMBER = (*_RECYCLED, 11, 131)
_MAY_BE_PASSED = 0x80


class Record(NamedTuple):
    """A whole record, and where its first fragment begins."""

    offset: int
    payload: bytes


class RecordSpan(NamedTuple):
    """The sequence numbers of the writes of a log: from ``first`` up to and without ``end``."""

    first: int
    end: int


def records(data: bytes, what: str, log_number: int | None = None) -> Iterator[Record]:
    """The records of a log file, in order; ``log_number`` is the file's, for one that may be used again.

    Raises:
        DecodeError: at a record that is cut, fails its checksum, or cannot follow the one before it.

    >>> [record.payload.hex() for record in records(bytes.fromhex("1db82faa0400018840010a"), "MANIFEST")]
    ['8840010a']
    """
    begun: int | None = None
    fragments: list[bytes] = []
    for at, kind, payload in _physical_records(data, what, log_number):
        if kind in (_FULL, _FIRST):
            # Old writers left an empty first fragment at the end of a block.
            if begun is not None and any(fragments):
                raise DecodeError(what, begun, "a record without an end")
            begun, fragments = at, [payload]
        elif kind in (_MIDDLE, _LAST):
            if begun is None:
                raise DecodeError(what, at, "a fragment without a beginning")
            fragments.append(payload)
        elif kind == _COMPRESSION:
            if any(payload):
                raise DecodeError(what, at, "the log is compressed, which is not supported")
        elif kind not in _TIMESTAMPS and not kind & _MAY_BE_PASSED:
            raise DecodeError(what, at, f"a record of unknown type {kind}")
        if kind in (_FULL, _LAST):
            assert begun is not None
            yield Record(begun, fragments[0] if kind == _FULL else b"".join(fragments))
            begun = None
    if begun is not None and any(fragments):
        raise DecodeError(what, begun, "cut: a record without an end")


def batches(data: bytes, what: str, log_number: int) -> RecordSpan | None:
    """Check a write-ahead log to its end; the sequence numbers of its writes, None if it has no batch.

    Raises:
        DecodeError: as `records`; and for a batch that does not go on where the one before it ended.

    >>> batches(b"", "000009.log", 9) is None
    True
    """
    first = end = None
    for offset, payload in records(data, what, log_number):
        if len(payload) < _BATCH.size:
            raise DecodeError(what, offset, f"a write batch of {len(payload)} bytes")
        sequence, count = _BATCH.unpack_from(payload)
        if end is not None and sequence != end:
            raise DecodeError(what, offset, f"writes are missing: {end} is followed by {sequence}")
        first = sequence if first is None else first
        end = sequence + count
    return None if first is None or end is None else RecordSpan(first, end)


def _physical_records(data: bytes, what: str, log_number: int | None) -> Iterator[tuple[int, int, bytes]]:
    """Where each physical record of this log begins, its type as in a file used once, and its payload."""
    at, numbered = 0, False
    while at < len(data):
        left = BLOCK_BYTES - at % BLOCK_BYTES
        # Too little room for a header: the writer filled it with zeros and went to the next block.
        if left < _HEADER.size or (numbered and left < _LONG_HEADER_BYTES and not any(data[at : at + left])):
            at += left
            continue
        try:
            kind, payload, after = _physical(data, at, min(at + left, len(data)), what)
        except DecodeError:
            begins_here = _is_of(data, at, log_number)
            if numbered and not begins_here and not _goes_on(data, at + left, what, log_number):
                return
            raise
        numbered = kind in _WITH_LOG_NUMBER
        if numbered:
            if not _is_of(data, at, log_number):
                return
            payload = payload[_LOG_NUMBER.size :]
            kind = _RECYCLED.get(kind, kind)
        yield at, kind, payload
        at = after


def _is_of(data: bytes, at: int, log_number: int | None) -> bool:
    """Whether what lies at ``at`` names this log, and none that was in its file before."""
    if at + _LONG_HEADER_BYTES > len(data) or data[at + _HEADER.size - 1] not in _WITH_LOG_NUMBER:
        return False
    # Only the lower half of the number is written.
    return (
        log_number is None or _LOG_NUMBER.unpack_from(data, at + _HEADER.size)[0] == log_number & 0xFFFFFFFF
    )


def _goes_on(data: bytes, block: int, what: str, log_number: int | None) -> bool:
    """Whether this block or a later one begins with a record of this log: what lies before it is damaged."""
    for at in range(block, len(data), BLOCK_BYTES):
        if _is_of(data, at, log_number):
            with suppress(DecodeError):
                _physical(data, at, min(at + BLOCK_BYTES, len(data)), what)
                return True
    return False


def _physical(data: bytes, at: int, block_end: int, what: str) -> tuple[int, bytes, int]:
    """Type, payload (with the log number, where it has one) and end of the physical record at ``at``."""
    if block_end - at < _HEADER.size:
        raise DecodeError(what, at, "cut inside a record's header")
    masked, length, kind = _HEADER.unpack_from(data, at)
    if kind == _ZERO and length == 0:
        raise DecodeError(what, at, "zeros where a record should be")
    if kind in _WITH_LOG_NUMBER:
        length += _LOG_NUMBER.size
    after = at + _HEADER.size + length
    if after > block_end:
        raise DecodeError(what, at, f"cut: a record of {length} bytes, {block_end - at} left")
    checked = data[at + _HEADER.size - 1 : after]
    crc: int = google_crc32c.value(checked)
    if ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF != masked:
        raise DecodeError(what, at, "the checksum does not match")
    return kind, checked[1:], after
