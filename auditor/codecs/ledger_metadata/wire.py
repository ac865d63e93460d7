"""Metadata of format 3, of many ledgers at once: where each field lies."""

from __future__ import annotations

import numpy as np

from auditor.codecs.byte_column import ByteColumn
from auditor.codecs.ledger_metadata.fields import CustomField, LedgerField, LedgerFields, SegmentField
from auditor.codecs.protobuf.fields import read_fields, varints
from auditor.codecs.protobuf.wire import MAX_MESSAGE_BYTES

_SCALARS = (
    LedgerField.QUORUM,
    LedgerField.ENSEMBLE,
    LedgerField.LENGTH,
    LedgerField.LAST,
    LedgerField.STATE,
    LedgerField.DIGEST,
    LedgerField.ACK,
    LedgerField.CTIME,
    LedgerField.TOKEN,
)


def read_wire(values: ByteColumn, start: int) -> LedgerFields:
    """The fields of ledgers of format 3, whose lengths are at byte ``start`` of each.

    >>> body = bytes.fromhex("08011001180020012805320c0a08626b313a333138311000")
    >>> read = read_wire(ByteColumn.of([bytes([len(body)]) + body, b"?"]), 0)
    >>> read.ledgers.odd.tolist(), read.ledgers.numbers[LedgerField.STATE].tolist()
    ([False, True], [5, 0])
    """
    octets = values.octets
    size, begin, fine = varints(octets, values.starts + start)
    fine &= (size > 0) & (size <= MAX_MESSAGE_BYTES) & (size <= values.ends - begin)
    ends = np.where(fine, begin + size, begin)
    ledgers = read_fields(
        octets, begin, ends, _SCALARS, (LedgerField.SEGMENT, LedgerField.PASSWORD, LedgerField.CUSTOM)
    )
    ledgers.odd[~fine] = True
    segments, custom = ledgers.blobs[LedgerField.SEGMENT], ledgers.blobs[LedgerField.CUSTOM]
    return LedgerFields(
        3,
        octets,
        ledgers,
        read_fields(octets, segments.starts, segments.ends, (SegmentField.FIRST,), (SegmentField.MEMBER,)),
        read_fields(octets, custom.starts, custom.ends, (), (CustomField.KEY, CustomField.VALUE)),
    )
