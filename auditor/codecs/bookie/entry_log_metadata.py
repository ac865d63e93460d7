"""What a bookie remembers of an entry log: a value of DbLedgerStorage's RocksDB ``metadata-cache``.

    key     log id: i64                                value     byte 0    version, int16: 0
                                                                 2    log id, int64
                                                                10    bytes of its entries, int64
                                                                18    of these, of ledgers that remain, int64
                                                                26    number of ledgers k, int64
                                                                34    k times: ledger, bytes: int64, int64

All numbers are big-endian (``EntryLogMetadata.EntryLogMetadataRecyclable``). The cache exists only where
``gcEntryLogMetadataCacheEnabled`` is set. Ledgers that the collector has dropped are no longer in it, so
``total`` minus the ledgers' bytes is what collection has freed and the log still holds.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from auditor.codecs.bookie.entry_log import LEDGER
from auditor.errors import DecodeError

KEY_BYTES = 8

_WHAT = "entry log metadata"
_HEAD = struct.Struct(">hqqqq")


@dataclass(frozen=True, slots=True, eq=False)
class EntryLogMetadata:
    """One log as its collector knows it; ``ledgers`` is an array of `LEDGER`, in no order."""

    log_id: int
    total: int
    remaining: int
    ledgers: NDArray[np.void]


def decode_key(data: bytes) -> int:
    """Read a key: the log's id. Raises `DecodeError`.

    >>> decode_key(bytes.fromhex("000000000000001f"))
    31
    """
    if len(data) != KEY_BYTES:
        raise DecodeError(_WHAT, min(len(data), KEY_BYTES), f"a key of {len(data)} bytes, not {KEY_BYTES}")
    return int.from_bytes(data, "big", signed=True)


def decode(data: bytes) -> EntryLogMetadata:
    """Read a value. Raises `DecodeError`.

    >>> value = decode(struct.pack(">hqqqqqq", 0, 31, 66, 22, 1, 9, 22))
    >>> value.log_id, value.total, value.remaining, value.ledgers.tolist()
    (31, 66, 22, [(9, 22)])
    """
    if len(data) < _HEAD.size:
        raise DecodeError(_WHAT, len(data), f"{len(data)} of {_HEAD.size} bytes before the ledgers")
    version, log_id, total, remaining, count = _HEAD.unpack_from(data)
    if version != 0:
        raise DecodeError(_WHAT, 0, f"version {version} is not 0")
    if total < 0 or not 0 <= remaining <= total:
        raise DecodeError(_WHAT, 10 if total < 0 else 18, f"{remaining} of {total} bytes remain")
    if count < 0 or len(data) - _HEAD.size != count * LEDGER.itemsize:
        rest = len(data) - _HEAD.size
        raise DecodeError(_WHAT, 26, f"{rest} bytes for {count} ledgers of {LEDGER.itemsize} bytes")
    return EntryLogMetadata(log_id, total, remaining, np.frombuffer(data, LEDGER, count, _HEAD.size))
