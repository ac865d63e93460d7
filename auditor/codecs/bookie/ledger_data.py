"""DbLedgerStorage's record of a ledger: keys and values of its RocksDB database ``ledgers``.

    key     ledger id: i64, big-endian               value     LedgerData (schemas/ledger_data.proto)
            the same and 8 zero bytes                          the same: the offline rebuild tool wrote it
            ffffffffffff1103                                   flags: i64; bit 0 NEEDS_INTEGRITY_CHECK
            any other negative number                          reserved

The server's class is LedgerMetadataIndex. It reads only the first 8 bytes of a key. A ledger may have a key
of 8 bytes and a key of 16 bytes. The value of the longer key then counts, because the server reads it later.
A ledger is in limbo if the bookie itself does not know which entries of the ledger it should have.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from auditor.codecs.protobuf import wire as proto_wire
from auditor.codecs.protobuf.pb.ledger_data_pb2 import LedgerData as Wire
from auditor.errors import DecodeError

FLAGS_KEY = -0xEEFD
"""Key of the storage's flags. Only the database in the first configured directory has it."""

NEEDS_INTEGRITY_CHECK = 1
"""Flag bit: the bookie must first find out which entries it has lost."""

KEY_BYTES = (8, 16)

FORMAT_NAME = "ledger data"

_REQUIRED_FIELDS = np.array([0x08, 1, 0x10, 0, 0x1A], np.uint8)
"""First bytes of a value that has only the required fields. Byte 3 says whether the ledger is fenced."""
_MIN_VALUE_BYTES = 6


@dataclass(frozen=True, slots=True)
class LedgerData:
    """The fields of a ledger's record, without the master key. Only `stored_key` returns that key."""

    exists: bool
    fenced: bool
    has_master_key: bool
    has_explicit_lac: bool
    limbo: bool


def decode(data: bytes) -> LedgerData:
    """Read a ledger's record, which is a value in ``ledgers``. Raises `DecodeError` if it is damaged.

    >>> decode(bytes.fromhex("080110001a00")).limbo
    False
    """
    message = proto_wire.parse(Wire, data, FORMAT_NAME)
    return LedgerData(
        message.exists,
        message.fenced,
        bool(message.masterKey),
        message.HasField("explicitLac"),
        message.limbo,
    )


def stored_key(data: bytes) -> bytes:
    """Return the master key, which is a secret, from a ledger's record.

    Raises `DecodeError` if the record is damaged.

    >>> stored_key(bytes.fromhex("080110001a02abcd")).hex()
    'abcd'
    """
    return bytes(proto_wire.parse(Wire, data, FORMAT_NAME).masterKey)


def flags(data: bytes) -> int:
    """Read the storage's flags, the value of `FLAGS_KEY`.

    Raises `DecodeError` if the value is not 8 bytes long.

    >>> flags(bytes.fromhex("0000000000000001")) & NEEDS_INTEGRITY_CHECK
    1
    """
    if len(data) != 8:
        raise DecodeError("storage flags", min(len(data), 8), f"8 bytes expected, {len(data)} present")
    return int.from_bytes(data, "big", signed=True)


def have_required_fields_only(values: NDArray[np.uint8], offsets: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return a mask of the values that contain only the required fields. Nearly all values do.

    Value i is ``values[offsets[i]:offsets[i + 1]]``. The other values must be read with `decode`.

    >>> values = np.frombuffer(bytes.fromhex("080110001a00"), np.uint8)
    >>> have_required_fields_only(values, np.array([0, 6])).tolist()
    [True]
    """
    starts, lengths = offsets[:-1], np.diff(offsets)
    has_required_fields_only = (lengths >= _MIN_VALUE_BYTES) & (lengths < 0x80)
    starts, lengths = starts[has_required_fields_only], lengths[has_required_fields_only]
    value_heads = values[starts[:, None] + np.arange(_MIN_VALUE_BYTES)]
    is_required_byte = value_heads[:, :5] == _REQUIRED_FIELDS
    is_required_byte[:, 3] |= value_heads[:, 3] == 1
    has_required_fields_only[has_required_fields_only] = is_required_byte.all(axis=1) & (
        value_heads[:, 5] == lengths - _MIN_VALUE_BYTES
    )
    return has_required_fields_only
