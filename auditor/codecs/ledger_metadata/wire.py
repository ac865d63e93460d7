"""Metadata of format 3, of many ledgers at once: where each field lies."""

from __future__ import annotations

import numpy as np

from auditor.codecs.byte_column import ByteColumn
from auditor.codecs.ledger_metadata.wellformed import (
    ACK,
    CTIME,
    CUSTOM,
    DIGEST,
    ENSEMBLE,
    FIRST,
    KEY,
    LAST,
    LENGTH,
    MEMBER,
    PASSWORD,
    QUORUM,
    SEGMENT,
    STATE,
    VALUE,
    LedgerFields,
)
from auditor.codecs.protobuf.fields import read_fields, varints
from auditor.codecs.protobuf.pb.ledger_metadata_pb2 import LedgerMetadataFormat
from auditor.codecs.protobuf.wire import MAX_MESSAGE_BYTES

_TOKEN = LedgerMetadataFormat.DESCRIPTOR.fields_by_name["cToken"].number
_SCALARS = (QUORUM, ENSEMBLE, LENGTH, LAST, STATE, DIGEST, ACK, CTIME, _TOKEN)


def read_wire(values: ByteColumn, start: int) -> LedgerFields:
    """The fields of ledgers of format 3, whose lengths are at byte ``start`` of each.

    >>> body = bytes.fromhex("08011001180020012805320c0a08626b313a333138311000")
    >>> read = read_wire(ByteColumn.of([bytes([len(body)]) + body, b"?"]), 0)
    >>> read.ledgers.odd.tolist(), read.ledgers.numbers[STATE].tolist()
    ([False, True], [5, 0])
    """
    octets = values.octets
    size, begin, fine = varints(octets, values.starts + start)
    fine &= (size > 0) & (size <= MAX_MESSAGE_BYTES) & (size <= values.ends - begin)
    ends = np.where(fine, begin + size, begin)
    ledgers = read_fields(octets, begin, ends, _SCALARS, (SEGMENT, PASSWORD, CUSTOM))
    ledgers.odd[~fine] = True
    segments, custom = ledgers.blobs[SEGMENT], ledgers.blobs[CUSTOM]
    return LedgerFields(
        3,
        octets,
        ledgers,
        read_fields(octets, segments.starts, segments.ends, (FIRST,), (MEMBER,)),
        read_fields(octets, custom.starts, custom.ends, (), (KEY, VALUE)),
    )
