"""One entry of a stopped or saved bookie, found through its index: where it lies, its header and its digest.

    RocksDB locations   ledger id, entry id: i64, i64, big-endian -> location: i64
    .idx file           slot e, at byte 1024 + 8 e: location: i64
    location            entry log's id << 32 | where the entry begins; its size, i32, stands before it
    entry               header of 32 bytes (`auditor.codecs.bookie.entry`), digest, body
    digest              `auditor.codecs.bookie.entry`

For what applications keep in entries of their own bookkeeping, never for what their users wrote. An HMAC
needs a password, and is not checked.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

from auditor.codecs.bookie.entry import DIGEST_BYTES, decode_header, digest_matches
from auditor.codecs.bookie.index_file import HEADER_BYTES
from auditor.errors import DecodeError, UnreadError
from auditor.sources.bookies.parts import ROCKSDB
from auditor.sources.bookies.rocksdb.scan import open_rocksdb
from auditor.sources.regular_file import open_regular

WHAT = "entry"
MAX_ENTRY_BYTES = 16 << 20
"""Larger ones are refused: a bookie takes 5 MB by default."""

_HEADER = 32
_LOCATION, _SIZE, _KEY = struct.Struct(">q"), struct.Struct(">i"), struct.Struct(">qq")
_OFFSET_BITS = 32


def find_location(index: str, storage: str, ledger_id: int, entry_id: int) -> int | None:
    """Where an index says that an entry lies; None where it says nowhere.

    ``index`` is the path of a database of locations, or of the ledger's index file.

    Raises:
        UnreadError, DamagedError: the index cannot be read.
    """
    if storage == ROCKSDB:
        with open_rocksdb(index) as database:
            value = database.get(_KEY.pack(ledger_id, entry_id))
    else:
        value = _part(Path(index), HEADER_BYTES + _LOCATION.size * entry_id, _LOCATION.size)
    if value is None or len(value) != _LOCATION.size:
        return None
    return int(_LOCATION.unpack(value)[0]) or None


def read_body(
    directories: Sequence[str], location: int, ledger_id: int, entry_id: int, digest_type: str
) -> bytes:
    """The body of the entry at a location, which lies in one of some ledger directories.

    Raises:
        DecodeError: another entry is there, or one that does not match its digest.
        UnreadError: there is no such entry log, or it cannot be read.
    """
    name = f"{location >> _OFFSET_BITS:x}.log"
    logs = [path for each in directories if (path := Path(each, "current", name)).exists()]
    if len(logs) != 1:
        raise UnreadError(name, f"{len(logs)} entry logs of this name")
    begins = location & (1 << _OFFSET_BITS) - 1
    (size,) = _SIZE.unpack(_whole(logs[0], begins - _SIZE.size, _SIZE.size))
    if not _HEADER <= size <= MAX_ENTRY_BYTES:
        raise DecodeError(WHAT, begins - _SIZE.size, f"{size} bytes of an entry")
    data = _whole(logs[0], begins, size)
    header = decode_header(data)
    if (header.version, header.ledger.id, header.entry_id) != (1, ledger_id, entry_id):
        raise DecodeError(WHAT, begins, f"not entry {entry_id} of ledger {ledger_id}")
    return _check_digest(data, digest_type, begins)


def _check_digest(data: bytes, digest_type: str, begins: int) -> bytes:
    """What follows an entry's digest, if that is right."""
    if digest_matches(data, _HEADER, digest_type) is False:
        raise DecodeError(WHAT, begins + _HEADER, f"its {digest_type} does not match")
    return data[_HEADER + DIGEST_BYTES[digest_type] :]


def _whole(path: Path, at: int, length: int) -> bytes:
    data = _part(path, at, length)
    if len(data) != length:
        raise DecodeError(WHAT, at, f"{length} bytes expected, {len(data)} present")
    return data


def _part(path: Path, at: int, length: int) -> bytes:
    try:
        with open_regular(path) as file:
            file.seek(max(0, at))
            return file.read(length)
    except OSError as error:
        raise UnreadError(str(path), error.strerror or str(error)) from error
