"""The header of a ledger's index file (``.idx``).

    byte 0       4        8        12           12+m     16+m     20+m        1024
         "BKLE"  version  m        master key   state    k        explicit    slots ...
                 int32    int32    m bytes      int32    int32    LAC, k      int64 each

All numbers are big-endian, and the header is padded with zeros to 1024 bytes. Bit 0 of the state means that
the ledger is fenced. ``k`` and the fields after it exist from version 1 on (4.8). ``k`` is 0 if there is no
explicit LAC. Otherwise ``k`` is at least 16, for the ledger id, the LAC and the digest of the LAC. Slot e,
at byte 1024 + 8 * e, is 0 if the bookie does not hold entry e.
`auditor.codecs.availability.fold.fold_slots` reads the slots.

The rules are those of the server's ``FileInfo.readHeader``: it rejects versions above 1, and treats a
negative version as version 0. Only `header_key` returns the master key. No other result of this module
contains it.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from auditor.errors import DecodeError

HEADER_BYTES = 1024
MAGIC = b"BKLE"
NEWEST_VERSION = 1
LAC_BYTES = 16
"""Smallest size of an explicit LAC, in bytes: ledger id and LAC, without the digest."""

_FORMAT_NAME = "index file"
_MAGIC_NUMBER = int.from_bytes(MAGIC, "big")
_HEADER_START = struct.Struct(">4sii")
_INT_STRUCT = struct.Struct(">i")
_LAC_STRUCT = struct.Struct(">qq")


@dataclass(frozen=True, slots=True)
class IndexHeader:
    """The fields of an index file's header, without the master key."""

    version: int
    fenced: bool
    explicit_lac: int | None
    has_master_key: bool


def check_headers(
    header_bytes: NDArray[np.uint8], starts: NDArray[np.int64], lengths: NDArray[np.int64]
) -> dict[int, DecodeError]:
    """Check the headers of many index files at once. Return the error of each damaged file, by file number.

    The header of file i starts at ``header_bytes[starts[i]]``, and the file has ``lengths[i]`` bytes. The
    buffer must have 1024 bytes for each file. If a file is shorter, the bytes after its end may have any
    value. An error contains the offset of the wrong field.

    >>> damaged = check_headers(np.zeros(1024, np.uint8), np.array([0]), np.array([2048]))
    >>> {row: str(error) for row, error in damaged.items()}
    {0: 'index file: starts with 00000000, not BKLE (at byte 0)'}
    """
    magic_number, version, key_length = (
        header_bytes[starts[:, None] + np.arange(12)].view(">i4").T.astype(np.int64)
    )
    has_lac = version >= 1
    has_valid_key_length = (key_length >= 0) & (key_length <= HEADER_BYTES - np.where(has_lac, 20, 16))
    # 0, where the magic is, stands for no LAC: every row can then be read at some place of its own header.
    lac_offset = np.where(has_valid_key_length & has_lac, 16 + key_length, 0)
    lac_length = header_bytes[(starts + lac_offset)[:, None] + np.arange(4)].view(">i4").ravel()
    has_bad_lac = (
        (lac_offset > 0)
        & (lac_length != 0)
        & ((lac_length < LAC_BYTES) | (lac_length > HEADER_BYTES - 20 - key_length))
    )
    is_damaged = (
        (magic_number != _MAGIC_NUMBER) | (version > NEWEST_VERSION) | ~has_valid_key_length | has_bad_lac
    )
    damaged_rows = np.flatnonzero(is_damaged | (lengths < HEADER_BYTES)).tolist()
    return {
        file_number: _header_error(
            header_bytes[starts[file_number] : starts[file_number] + HEADER_BYTES].tobytes(),
            int(lengths[file_number]),
            int(lac_offset[file_number]),
        )
        for file_number in damaged_rows
    }


def decode_header(data: bytes) -> IndexHeader:
    """Read the header at the start of an index file. Raises `DecodeError` if the header is damaged.

    >>> decode_header(bytes.fromhex("424b4c45 00000000 00000000 00000001").ljust(1024, bytes(1)))
    IndexHeader(version=0, fenced=True, explicit_lac=None, has_master_key=False)
    """
    header = np.frombuffer(data[:HEADER_BYTES].ljust(HEADER_BYTES, b"\0"), np.uint8)
    for error in check_headers(header, np.array([0]), np.array([len(data)])).values():
        raise error
    _, version, key_length = _HEADER_START.unpack_from(data)
    [state] = _INT_STRUCT.unpack_from(data, 12 + key_length)
    has_lac = version >= 1 and _INT_STRUCT.unpack_from(data, 16 + key_length)[0] > 0
    explicit_lac = _LAC_STRUCT.unpack_from(data, 20 + key_length)[1] if has_lac else None
    return IndexHeader(version, bool(state & 1), explicit_lac, key_length > 0)


def header_key(data: bytes) -> bytes:
    """Return the master key, which is a secret, from the start of an index file.

    Raises `DecodeError` if the header is damaged.

    >>> header_key(bytes.fromhex("424b4c45 00000000 00000002 abcd").ljust(1024, bytes(1))).hex()
    'abcd'
    """
    decode_header(data)
    return data[_HEADER_START.size : _HEADER_START.size + _HEADER_START.unpack_from(data)[2]]


def _header_error(header: bytes, length: int, lac_offset: int) -> DecodeError:
    """Return the error for the first wrong field of a damaged header."""
    if length < HEADER_BYTES:
        return DecodeError(_FORMAT_NAME, length, f"only {length} of {HEADER_BYTES} header bytes")
    magic_number, version, key_length = _HEADER_START.unpack_from(header)
    if magic_number != MAGIC:
        return DecodeError(_FORMAT_NAME, 0, f"starts with {magic_number.hex()}, not {MAGIC.decode()}")
    if version > NEWEST_VERSION:
        return DecodeError(_FORMAT_NAME, 4, f"version {version} is newer than {NEWEST_VERSION}")
    if not lac_offset:
        return DecodeError(
            _FORMAT_NAME, 8, f"invalid master key length: {key_length} bytes; the header has {HEADER_BYTES}"
        )
    [lac_length] = _INT_STRUCT.unpack_from(header, lac_offset)
    return DecodeError(_FORMAT_NAME, lac_offset, f"invalid explicit LAC length: {lac_length} bytes")
