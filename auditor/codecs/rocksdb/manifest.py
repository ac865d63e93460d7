"""The MANIFEST of a RocksDB database, which is a log of version edits, and the format of RocksDB's logs.

An edit is a row of fields, each a tag (varint) and its value; strings have a varint length before them:

    1    comparator: string               2    log number: varint      3    next file number: varint
    4    last sequence: varint            5    level: varint, key: string
    6    deleted file: level, number      9    previous log number    10   least log number to keep
    7    new file: level, number, bytes, least key, greatest key
    100  the same, then least and greatest sequence number
    102  level, number, path, then as 100
    103  as 100, then fields of tag and string up to tag 1; bit 6 of a tag: readers must know the field
    200  column family: varint  201  its name: string  202  dropped  203  greatest  300  edits that follow
    8192 bit: readers skip an unknown field by its length; the old forms 8196 and 8197 have no length:
    8196, 8199  log file added             8197, 8200  log files below a number deleted

Edits are applied in order. Within one edit, files are deleted before files are added. If a log's number is
below the default column family's log number or the least number to keep, tables contain all its writes.
Only the default column family counts: DbLedgerStorage has no other. C++: ``db/version_edit.cc``,
``db/wal_edit.cc``, ``db/version_edit_handler.cc``.

Write-ahead logs and MANIFEST files have one format. A file is a sequence of blocks of 32 KiB, the last one
shorter. A block holds physical records. If the 7 or 11 bytes before a payload do not fit, the rest of the
block is zeros. A record that does not fit is split into fragments:

    byte  0            4        6       7            11
          CRC-32C      length   type    payload
          CRC-32C      length   type    log number   payload        types 5 to 8, 11 and 131
          u32, masked  u16      u8      u32                         little-endian

The checksum covers type, log number and payload, and is masked: rotated right by 15 bits, 0xa282ead8 added.
If a log file is used again, a record with another log number is from the earlier use, and the log ends there.
The last new record may overwrite part of an old record. The log ends there too, if no later block begins with
a new record.

RocksDB reads up to the first bad record and does not report the rest. Here a bad record is an error, and so
is a gap in the sequence numbers. Two losses cannot be noticed. (1) The last log was cut at the end of a
record. (2) In a file that is used again, the last block was cut, or names another log. C++:
``db/log_format.h``, ``db/log_reader.cc``, ``db/write_batch.cc``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

import google_crc32c

from auditor.codecs.protobuf.wire import varint
from auditor.errors import DecodeError

BLOCK_BYTES = 32 << 10

_RECORD_HEADER = struct.Struct("<IHB")
_RECORD_LOG_NUMBER = struct.Struct("<I")
_LONG_HEADER_BYTES = _RECORD_HEADER.size + _RECORD_LOG_NUMBER.size
_BATCH_HEADER = struct.Struct("<QI")
_ZERO_RECORD, _FULL_RECORD, _FIRST_FRAGMENT, _MIDDLE_FRAGMENT, _LAST_FRAGMENT = range(5)
_PLAIN_TYPE_OF_RECYCLED = {5: _FULL_RECORD, 6: _FIRST_FRAGMENT, 7: _MIDDLE_FRAGMENT, 8: _LAST_FRAGMENT}
_COMPRESSION_TYPE = 9
_TIMESTAMP_TYPES = (10, 11)
_TYPES_WITH_LOG_NUMBER = (*_PLAIN_TYPE_OF_RECYCLED, 11, 131)
_IGNORABLE_TYPE_BIT = 0x80


class Record(NamedTuple):
    """A whole record, and the offset at which its first fragment begins."""

    offset: int
    payload: bytes


class RecordSpan(NamedTuple):
    """The sequence numbers of the writes in a log, from ``first`` (inclusive) to ``end`` (exclusive)."""

    first: int
    end: int


def records(data: bytes, format_name: str, log_number: int | None = None) -> Iterator[Record]:
    """Yield the records of a log file, in order.

    For a write-ahead log, ``log_number`` is its number, because its file may have been used before. For a
    MANIFEST, it is None.

    Raises:
        DecodeError: A record is cut, fails its checksum, or cannot follow the record before it.

    >>> [record.payload.hex() for record in records(bytes.fromhex("1db82faa0400018840010a"), "MANIFEST")]
    ['8840010a']
    """
    record_start: int | None = None
    fragments: list[bytes] = []
    for offset, kind, payload in _physical_records(data, format_name, log_number):
        if kind in (_FULL_RECORD, _FIRST_FRAGMENT):
            # Old writers left an empty first fragment at the end of a block.
            if record_start is not None and any(fragments):
                raise DecodeError(format_name, record_start, "a record without an end")
            record_start, fragments = offset, [payload]
        elif kind in (_MIDDLE_FRAGMENT, _LAST_FRAGMENT):
            if record_start is None:
                raise DecodeError(format_name, offset, "a fragment without a beginning")
            fragments.append(payload)
        elif kind == _COMPRESSION_TYPE:
            if any(payload):
                raise DecodeError(format_name, offset, "the log is compressed, which is not supported")
        elif kind not in _TIMESTAMP_TYPES and not kind & _IGNORABLE_TYPE_BIT:
            raise DecodeError(format_name, offset, f"a record of unknown type {kind}")
        if kind in (_FULL_RECORD, _LAST_FRAGMENT):
            assert record_start is not None
            yield Record(record_start, fragments[0] if kind == _FULL_RECORD else b"".join(fragments))
            record_start = None
    if record_start is not None and any(fragments):
        raise DecodeError(format_name, record_start, "cut off: a record without an end")


def check_wal(data: bytes, format_name: str, log_number: int) -> RecordSpan | None:
    """Check a write-ahead log to its end. Return the sequence numbers of its writes; None if it has no write.

    Raises:
        DecodeError: A record is invalid (see `records`), or a batch does not continue the one before it.

    >>> check_wal(b"", "000009.log", 9) is None
    True
    """
    first_sequence = end_sequence = None
    for offset, payload in records(data, format_name, log_number):
        if len(payload) < _BATCH_HEADER.size:
            raise DecodeError(
                format_name, offset, f"a write batch of {len(payload)} bytes, shorter than its header"
            )
        sequence, count = _BATCH_HEADER.unpack_from(payload)
        if end_sequence is not None and sequence != end_sequence:
            raise DecodeError(
                format_name,
                offset,
                f"writes are missing: sequence number {end_sequence} expected, {sequence} found",
            )
        first_sequence = sequence if first_sequence is None else first_sequence
        end_sequence = sequence + count
    return (
        None if first_sequence is None or end_sequence is None else RecordSpan(first_sequence, end_sequence)
    )


def _physical_records(
    data: bytes, format_name: str, log_number: int | None
) -> Iterator[tuple[int, int, bytes]]:
    """Yield the offset, type and payload of each physical record of this log.

    A type with a log number is replaced with the corresponding type without a log number.
    """
    offset, has_log_number = 0, False
    while offset < len(data):
        remaining_bytes = BLOCK_BYTES - offset % BLOCK_BYTES
        # Too little room for a header: the writer filled it with zeros and went to the next block.
        if remaining_bytes < _RECORD_HEADER.size or (
            has_log_number
            and remaining_bytes < _LONG_HEADER_BYTES
            and not any(data[offset : offset + remaining_bytes])
        ):
            offset += remaining_bytes
            continue
        try:
            kind, payload, next_offset = _physical_record(
                data, offset, min(offset + remaining_bytes, len(data)), format_name
            )
        except DecodeError:
            is_first_fragment = _is_of_this_log(data, offset, log_number)
            if (
                has_log_number
                and not is_first_fragment
                and not _has_later_record(data, offset + remaining_bytes, format_name, log_number)
            ):
                return
            raise
        has_log_number = kind in _TYPES_WITH_LOG_NUMBER
        if has_log_number:
            if not _is_of_this_log(data, offset, log_number):
                return
            payload = payload[_RECORD_LOG_NUMBER.size :]
            kind = _PLAIN_TYPE_OF_RECYCLED.get(kind, kind)
        yield offset, kind, payload
        offset = next_offset


def _is_of_this_log(data: bytes, offset: int, log_number: int | None) -> bool:
    """Return whether the record at ``offset`` belongs to this log, and not to an earlier use of the file."""
    if (
        offset + _LONG_HEADER_BYTES > len(data)
        or data[offset + _RECORD_HEADER.size - 1] not in _TYPES_WITH_LOG_NUMBER
    ):
        return False
    # Only the lower half of the number is written.
    return (
        log_number is None
        or _RECORD_LOG_NUMBER.unpack_from(data, offset + _RECORD_HEADER.size)[0] == log_number & 0xFFFFFFFF
    )


def _has_later_record(data: bytes, block_offset: int, format_name: str, log_number: int | None) -> bool:
    """Return whether a block from ``block_offset`` on begins with a record of this log.

    If so, the bytes before that block are damaged.
    """
    for offset in range(block_offset, len(data), BLOCK_BYTES):
        if _is_of_this_log(data, offset, log_number):
            with suppress(DecodeError):
                _physical_record(data, offset, min(offset + BLOCK_BYTES, len(data)), format_name)
                return True
    return False


def _physical_record(data: bytes, offset: int, block_end: int, format_name: str) -> tuple[int, bytes, int]:
    """Return type, payload (with the log number, if any) and end of the physical record at ``offset``."""
    if block_end - offset < _RECORD_HEADER.size:
        raise DecodeError(format_name, offset, "cut off inside a record's header")
    masked_crc, length, kind = _RECORD_HEADER.unpack_from(data, offset)
    if kind == _ZERO_RECORD and length == 0:
        raise DecodeError(format_name, offset, "zeros where a record should be")
    if kind in _TYPES_WITH_LOG_NUMBER:
        length += _RECORD_LOG_NUMBER.size
    next_offset = offset + _RECORD_HEADER.size + length
    if next_offset > block_end:
        raise DecodeError(
            format_name,
            offset,
            f"cut off: a record of {length} bytes, but only {block_end - offset} bytes left",
        )
    checked_bytes = data[offset + _RECORD_HEADER.size - 1 : next_offset]
    crc: int = google_crc32c.value(checked_bytes)
    if ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF != masked_crc:
        raise DecodeError(format_name, offset, "the checksum does not match")
    return kind, checked_bytes[1:], next_offset


COMPARATOR = b"leveldb.BytewiseComparator"

_UNUSED_VARINT_TAGS = (3, 203, 300)
_COMPARATOR, _LOG_NUMBER, _LAST_SEQUENCE = 1, 2, 4
_COMPACTION_CURSOR, _DELETED_FILE = 5, 6
_PREVIOUS_LOG_NUMBER, _LEAST_LOG_NUMBER = 9, 10
_NEW_FILE, _NEW_FILE_2, _NEW_FILE_3, _NEW_FILE_4 = 7, 100, 102, 103
_FAMILY, _FAMILY_NAME, _FAMILY_DROP = 200, 201, 202
_LOG_ADDED_OLD, _LOG_DELETED_OLD, _LOG_ADDED, _LOG_DELETED = 8196, 8197, 8199, 8200
_IGNORABLE_TAG_BIT = 1 << 13
_END_TAG, _REQUIRED_TAG_BIT, _PATH_TAG = 1, 1 << 6, 65
_SYNCED_BYTES = 2


@dataclass(frozen=True, slots=True)
class TableFile:
    """A table file (``<number>.sst``), its length, and the offset of the MANIFEST edit that added it."""

    number: int
    bytes: int
    offset: int


@dataclass(slots=True)
class Manifest:
    """The state at the end of a MANIFEST.

    Log files with a number below ``log_number`` are no longer needed. No sequence number in the tables is
    greater than ``last_sequence``. ``logs`` contains the number of synced bytes of each log file, in the
    few databases that track it.
    """

    log_number: int = 0
    last_sequence: int = 0
    tables: dict[int, TableFile] = field(default_factory=dict)
    logs: dict[int, int] = field(default_factory=dict)


def decode(data: bytes, format_name: str = "MANIFEST") -> Manifest:
    """Read a MANIFEST.

    Raises:
        DecodeError: A record is invalid (see `records`), an edit is cut, or an edit has an unknown field that
            readers must understand.

    >>> decode(b"").log_number
    0
    """
    manifest = Manifest()
    for record in records(data, format_name):
        _Edit(record, format_name).apply(manifest)
    return manifest


class _Edit:
    """A version edit. It is read to its end before it is applied, because its column family may come last."""

    def __init__(self, record: Record, format_name: str) -> None:
        self._data, self._offset, self._name = record.payload, record.offset, format_name
        self._position = 0
        self._family_id = 0
        self._tag_values: dict[int, int] = {}
        self._deleted_ids: list[int] = []
        self._new_files: list[TableFile] = []
        self._wal_logs: dict[int, int] = {}
        self._least_log = 0
        while self._position < len(self._data):
            self._read_field(self._read_varint())

    def apply(self, manifest: Manifest) -> None:
        # Tables and log numbers of other families say nothing of the default one.
        if self._family_id == 0:
            manifest.log_number = max(manifest.log_number, self._tag_values.get(_LOG_NUMBER, 0))
            for number in self._deleted_ids:
                manifest.tables.pop(number, None)
            manifest.tables.update((table.number, table) for table in self._new_files)
        # These two are the whole database's, whichever family the edit is of.
        manifest.log_number = max(manifest.log_number, self._tag_values.get(_LEAST_LOG_NUMBER, 0))
        manifest.last_sequence = max(manifest.last_sequence, self._tag_values.get(_LAST_SEQUENCE, 0))
        for number, synced_bytes in self._wal_logs.items():
            manifest.logs[number] = max(synced_bytes, manifest.logs.get(number, 0))
        for number in [number for number in manifest.logs if number < self._least_log]:
            del manifest.logs[number]

    def _read_field(self, tag: int) -> None:
        if tag in (_LOG_NUMBER, _LAST_SEQUENCE, _PREVIOUS_LOG_NUMBER, _LEAST_LOG_NUMBER):
            self._tag_values[tag] = self._read_varint()
        elif tag in _UNUSED_VARINT_TAGS:
            self._read_varint()
        elif tag == _COMPARATOR:
            if (name := self._read_string()) != COMPARATOR:
                raise self._error(f"unknown comparator (order of keys) {name[:80]!r}")
        # Where the next compaction of a level begins: no file depends on it.
        elif tag == _COMPACTION_CURSOR:
            self._read_varint()
            self._read_string()
        elif tag == _DELETED_FILE:
            self._read_varint()
            self._deleted_ids.append(self._read_varint())
        elif tag in (_NEW_FILE, _NEW_FILE_2, _NEW_FILE_3, _NEW_FILE_4):
            self._read_new_file(tag)
        elif tag == _FAMILY:
            self._family_id = self._read_varint()
        elif tag == _FAMILY_NAME:
            self._read_string()
        elif tag in (_LOG_ADDED, _LOG_ADDED_OLD):
            self._read_added_log(has_length_prefix=tag == _LOG_ADDED)
        elif tag in (_LOG_DELETED, _LOG_DELETED_OLD):
            if tag == _LOG_DELETED:
                self._read_varint()
            self._least_log = self._read_varint()
        elif tag & _IGNORABLE_TAG_BIT:
            self._read_string()
        elif tag != _FAMILY_DROP:
            raise self._error(f"unknown tag {tag}")

    def _read_new_file(self, tag: int) -> None:
        # The level. Which files there are is asked here, not where in the tree they are.
        self._read_varint()
        number = self._read_varint()
        if tag == _NEW_FILE_3:
            self._read_varint()
        size = self._read_varint()
        self._read_string()
        self._read_string()
        if tag != _NEW_FILE:
            self._read_varint()
            self._read_varint()
        if tag == _NEW_FILE_4:
            while (custom_tag := self._read_varint()) != _END_TAG:
                # Of the fields that must be known, a path can be passed over: a bookie has only one.
                if custom_tag & _REQUIRED_TAG_BIT and custom_tag != _PATH_TAG:
                    raise self._error(f"unknown field {custom_tag} of a new file")
                self._read_string()
        self._new_files.append(TableFile(number, size, self._offset))

    def _read_added_log(self, has_length_prefix: bool) -> None:
        if has_length_prefix:
            self._read_varint()
        number = self._read_varint()
        while (tag := self._read_varint()) != _END_TAG:
            if tag != _SYNCED_BYTES:
                raise self._error(f"unknown field {tag} of a log file")
            self._wal_logs[number] = self._read_varint()

    def _read_varint(self) -> int:
        number_and_end = varint(self._data, self._position, len(self._data))
        if number_and_end is None:
            raise self._error("a number that is cut off")
        value, self._position = number_and_end
        return value

    def _read_string(self) -> bytes:
        length = self._read_varint()
        if length > len(self._data) - self._position:
            raise self._error("a string that is cut off")
        self._position += length
        return self._data[self._position - length : self._position]

    def _error(self, reason: str) -> DecodeError:
        """Return an error with the edit's start as its offset, because the edit may be in fragments."""
        return DecodeError(self._name, self._offset, f"{reason}, at byte {self._position} of a version edit")
