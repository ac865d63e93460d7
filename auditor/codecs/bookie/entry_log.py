"""The header and the ledgers map of a ``.log`` file. The map contains the number of bytes of each ledger.

    byte 0       4        8              16           20     1024
         "BKLO"  version  map offset     map ledgers  zeros  entries ... map
                 int32    int64          int32

    map, from its offset to the end of the file, in records of at most 10,000 ledgers:

    byte 0       4          12         20      24
         size    ledger -1  entry -2   k       k times: ledger, bytes
         int32   int64      int64      int32            int64   int64      size = 20 + 16 * k

The direct logger fills the rest of its first block of 4096 bytes with a record that is not an entry. This
record begins at byte 1024 with its size, 3068, and a ledger id of -1.

All numbers are big-endian. An offset of 0 means that there is no map. The bookie still writes to the log, or
stopped before it closed the log. A log of version 0 never has a map. A size of 0 or below ends the map. The
padding that fills a file up to its block has a negative size. In the map, the bytes of a ledger include the
4-byte size of each entry.

The rules are those of the server (``DefaultEntryLogger.extractEntryLogMetadataFromIndex``). If the map
contradicts the header, the server reads the whole log instead. Nothing in this module reads an entry.

A bookie caches the metadata of an entry log in DbLedgerStorage's RocksDB ``metadata-cache``:

    key     log id: i64                                value     byte 0    version, int16: 0
                                                                 2    log id, int64
                                                                10    bytes of all entries, int64
                                                                18    bytes of the ledgers that remain, int64
                                                                26    number of ledgers k, int64
                                                                34    k times: ledger, bytes: int64, int64

All numbers are big-endian (``EntryLogMetadata.EntryLogMetadataRecyclable``). The cache exists only if
``gcEntryLogMetadataCacheEnabled`` is set. The value does not contain ledgers that the garbage collector has
dropped. So ``total`` minus the sum of the ledgers' bytes is the number of dropped bytes that are still in
the log.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from auditor.errors import DecodeError

HEADER_BYTES = 1024
HEADER_NUMBERS_BYTES = 20
"""Length of the numbers in the header, in bytes. The rest is zeros, or leftover server memory (#4607)."""
DIRECT_HEADER_BYTES = 4096
"""Number of bytes before the first entry of a log of the direct logger (dbStorage_directIOEntryLogger)."""
MAGIC = b"BKLO"
NEWEST_VERSION = 1
MAX_MAP_BYTES = 256 << 20
"""Largest ledgers map to read, in bytes. Even a log of 2 GB with the shortest entries has no larger map."""
LEDGER_DTYPE = np.dtype([("ledger_id", ">i8"), ("bytes", ">i8")])
"""A ledger in a ledgers map, and its number of bytes."""

_FORMAT_NAME = "entry log"
_HEADER_STRUCT = struct.Struct(">4siqi")
_RECORD_STRUCT = struct.Struct(">iqqi")
_SIZE_STRUCT = struct.Struct(">i")
_MAP_RECORD_IDS = (-1, -2)
_DIRECT_FILLER_HEAD = struct.pack(">iq", DIRECT_HEADER_BYTES - HEADER_BYTES - 4, -1)


@dataclass(frozen=True, slots=True)
class EntryLogHeader:
    """The header of an entry log. ``map_offset`` is 0 if there is no map."""

    version: int
    map_offset: int
    map_ledgers: int

    @property
    def has_map(self) -> bool:
        """Return whether the server would look for a map."""
        return self.version > 0 and self.map_offset > 0 and self.map_ledgers > 0

    @property
    def longest_map(self) -> int:
        """Return the largest possible size of the map, in bytes.

        The map is largest if each of its records contains one ledger.
        """
        return (_RECORD_STRUCT.size + LEDGER_DTYPE.itemsize) * self.map_ledgers


def decode_unchecked_header(data: bytes) -> EntryLogHeader:
    """Read the header without checking its numbers.

    Raises `DecodeError` if ``data`` is not from an entry log.
    """
    if len(data) < HEADER_BYTES:
        raise DecodeError(_FORMAT_NAME, len(data), f"only {len(data)} of {HEADER_BYTES} header bytes")
    magic, *numbers = _HEADER_STRUCT.unpack_from(data)
    if magic != MAGIC:
        raise DecodeError(_FORMAT_NAME, 0, f"starts with {magic.hex()}, not {MAGIC.decode()}")
    return EntryLogHeader(*numbers)


def check_header(header: EntryLogHeader) -> None:
    """Raise `DecodeError` if the header contains numbers that no server writes."""
    version, offset, ledgers = header.version, header.map_offset, header.map_ledgers
    if not 0 <= version <= NEWEST_VERSION:
        raise DecodeError(_FORMAT_NAME, 4, f"version {version} is not one of 0 to {NEWEST_VERSION}")
    # 0 is how the header stays until the log is closed; anything else in the header's own bytes is damage.
    if offset != 0 and offset < HEADER_BYTES:
        raise DecodeError(_FORMAT_NAME, 8, f"a ledgers map at byte {offset}, inside the header")
    if ledgers < 0:
        raise DecodeError(_FORMAT_NAME, 16, f"a ledgers map with a negative number of ledgers: {ledgers}")


def is_direct(data: bytes) -> bool:
    """Return whether the direct logger wrote a log.

    ``data`` contains the first `DIRECT_HEADER_BYTES` of the log.

    >>> is_direct(bytes(4096))
    False
    """
    return len(data) >= DIRECT_HEADER_BYTES and data.startswith(_DIRECT_FILLER_HEAD, HEADER_BYTES)


def decode_map(data: bytes, header: EntryLogHeader) -> NDArray[np.void]:
    """Read the ledgers map as an array of dtype `LEDGER_DTYPE`.

    ``data`` is the content of the file from ``header.map_offset`` on. The ledgers stay in the server's
    order, which is that of a hash table. Raises `DecodeError` if the map is damaged. Offsets in errors
    count from the start of the file.

    >>> header = EntryLogHeader(1, 1090, 1)
    >>> record = "00000024 ffffffffffffffff fffffffffffffffe 00000001 0000000000000009 0000000000000016"
    >>> decode_map(bytes.fromhex(record), header).tolist()
    [(9, 22)]
    """
    records: list[NDArray[np.void]] = []
    offset, total = 0, 0
    while offset + _SIZE_STRUCT.size <= len(data) and _SIZE_STRUCT.unpack_from(data, offset)[0] > 0:
        ledgers = _decode_map_record(data, offset, header.map_offset)
        records.append(ledgers)
        total += len(ledgers)
        offset += _RECORD_STRUCT.size + ledgers.nbytes
        # More ledgers than declared are an error: stop here and leave the rest of a damaged file unread.
        if total > header.map_ledgers:
            break
    if total != header.map_ledgers:
        raise DecodeError(
            _FORMAT_NAME,
            header.map_offset + offset,
            f"{header.map_ledgers} ledgers declared, {total} in the map",
        )
    ledgers_map = np.concatenate(records) if records else np.empty(0, LEDGER_DTYPE)
    if len(np.unique(ledgers_map["ledger_id"])) != total:
        raise DecodeError(_FORMAT_NAME, header.map_offset, "a ledger that appears twice in the map")
    return ledgers_map


def _decode_map_record(data: bytes, offset: int, start: int) -> NDArray[np.void]:
    """Return the ledgers in the map's record at ``offset``.

    ``start`` is the offset of the map in the file. It is added to ``offset`` in errors.
    """
    if len(data) - offset < _RECORD_STRUCT.size:
        raise DecodeError(_FORMAT_NAME, start + len(data), "the file ends inside a record of the ledgers map")
    size, ledger, entry, count = _RECORD_STRUCT.unpack_from(data, offset)
    if (ledger, entry) != _MAP_RECORD_IDS:
        raise DecodeError(
            _FORMAT_NAME, start + offset + 4, f"entry {entry} of ledger {ledger} instead of a ledgers map"
        )
    if count < 0 or size != _RECORD_STRUCT.size - _SIZE_STRUCT.size + LEDGER_DTYPE.itemsize * count:
        raise DecodeError(
            _FORMAT_NAME, start + offset, f"a ledgers map of {count} ledgers cannot have {size} bytes"
        )
    if len(data) - offset < _SIZE_STRUCT.size + size:
        raise DecodeError(_FORMAT_NAME, start + len(data), "the file ends inside a record of the ledgers map")
    ledgers: NDArray[np.void] = np.frombuffer(data, LEDGER_DTYPE, count, offset + _RECORD_STRUCT.size)
    if (negative_rows := np.flatnonzero((ledgers["bytes"] < 0) | (ledgers["ledger_id"] < 0))).size:
        fault_offset = start + offset + _RECORD_STRUCT.size + LEDGER_DTYPE.itemsize * int(negative_rows[0])
        ledger, size = ledgers[negative_rows[0]].tolist()
        if ledger < 0:
            raise DecodeError(_FORMAT_NAME, fault_offset, f"a negative ledger id in the map: {ledger}")
        raise DecodeError(_FORMAT_NAME, fault_offset + 8, f"a negative number of bytes for a ledger: {size}")
    return ledgers


METADATA_KEY_BYTES = 8

_METADATA_FORMAT_NAME = "entry log metadata"
_METADATA_STRUCT = struct.Struct(">hqqqq")


@dataclass(frozen=True, slots=True, eq=False)
class EntryLogMetadata:
    """The metadata of one entry log in the garbage collector's cache.

    ``ledgers`` is an unsorted array of dtype `LEDGER_DTYPE`. ``total`` is the number of bytes of all entries.
    ``remaining`` is the number of bytes of the ledgers that were not dropped.
    """

    log_id: int
    total: int
    remaining: int
    ledgers: NDArray[np.void]


def decode_metadata(data: bytes) -> EntryLogMetadata:
    """Read a value of the metadata cache. Raises `DecodeError` if it is invalid.

    >>> value = decode_metadata(struct.pack(">hqqqqqq", 0, 31, 66, 22, 1, 9, 22))
    >>> value.log_id, value.total, value.remaining, value.ledgers.tolist()
    (31, 66, 22, [(9, 22)])
    """
    if len(data) < _METADATA_STRUCT.size:
        raise DecodeError(
            _METADATA_FORMAT_NAME,
            len(data),
            f"only {len(data)} of the {_METADATA_STRUCT.size} bytes before the list of ledgers",
        )
    version, log_id, total, remaining, count = _METADATA_STRUCT.unpack_from(data)
    if version != 0:
        raise DecodeError(_METADATA_FORMAT_NAME, 0, f"version {version} is not 0")
    if total < 0 or not 0 <= remaining <= total:
        raise DecodeError(
            _METADATA_FORMAT_NAME,
            10 if total < 0 else 18,
            f"impossible sizes: {remaining} of {total} bytes remain",
        )
    if count < 0 or len(data) - _METADATA_STRUCT.size != count * LEDGER_DTYPE.itemsize:
        ledger_bytes = len(data) - _METADATA_STRUCT.size
        raise DecodeError(
            _METADATA_FORMAT_NAME,
            26,
            f"{count} ledgers of {LEDGER_DTYPE.itemsize} bytes each declared, {ledger_bytes} bytes present",
        )
    return EntryLogMetadata(
        log_id, total, remaining, np.frombuffer(data, LEDGER_DTYPE, count, _METADATA_STRUCT.size)
    )
