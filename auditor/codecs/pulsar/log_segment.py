"""Segments of a DistributedLog log, in which Pulsar stores function packages (``LogSegmentMetadata``).

    znode ROOT/LOG/IDENTIFIER/ledgers/SEGMENT: UTF-8 text, fields joined by ";"

    field 0   a number: bits 0-7 version (1 to 5), 8-15 status, 28-31 region, 32-63 record count
    field 1   the ledger's id
    field 2   the first transaction id

    version                        1     2     3 and 4     5
    fields while it is written     3     4     6           7
    fields when it is complete     5     8     10          11

    znode ROOT/LOG/IDENTIFIER/allocation: as decimal text, the id of a ledger created in advance; or empty

The fields after field 2 do not matter for the ledger, and are not read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from auditor.errors import DecodeError

FORMAT_NAME = "DistributedLog segment"
ALLOCATION_FORMAT_NAME = "DistributedLog allocation"

_NUMBER_PATTERN = re.compile(rb"-?[0-9]{1,19}")
_VERSIONS = range(1, 6)
_MIN_FIELDS = 3


@dataclass(frozen=True, slots=True)
class LogSegment:
    """A segment of a log, and the ledger that contains its records."""

    version: int
    ledger_id: int
    first_transaction: int
    records: int


def decode(data: bytes) -> LogSegment:
    """Read the value of a segment's znode. Raises `DecodeError` if it is damaged.

    >>> decode(b"5;17;1;0;0;0;0").ledger_id
    17
    """
    fields = data.split(b";")
    if len(fields) < _MIN_FIELDS:
        raise DecodeError(
            FORMAT_NAME, len(data), f"{_MIN_FIELDS} fields or more expected, {len(fields)} present"
        )
    numbers, offset = [], 0
    for field_text in fields[:_MIN_FIELDS]:
        if not _NUMBER_PATTERN.fullmatch(field_text):
            raise DecodeError(FORMAT_NAME, offset, "a field is not a number")
        numbers.append(int(field_text))
        offset += len(field_text) + 1
    version_word, ledger_id, first_transaction = numbers
    version = version_word & 0xFF
    if version not in _VERSIONS:
        raise DecodeError(FORMAT_NAME, 0, f"version {version} is not one of 1 to 5")
    return LogSegment(version, ledger_id, first_transaction, version_word >> 32 & 0xFFFFFFFF)


def decode_allocation(data: bytes) -> int | None:
    """Return the id of the ledger that was created in advance for a log, or None if there is none.

    Raises `DecodeError` if the value is not a ledger id.

    >>> decode_allocation(b"17"), decode_allocation(b"")
    (17, None)
    """
    if not data:
        return None
    if not _NUMBER_PATTERN.fullmatch(data):
        raise DecodeError(ALLOCATION_FORMAT_NAME, 0, "not the id of a ledger")
    return int(data)
