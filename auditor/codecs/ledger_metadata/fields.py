"""The fields of a ledger's metadata by their numbers: what the readers of formats 2 and 3 fill.

    LedgerMetadataFormat               Segment                          cMetadataMapEntry
     1 quorumSize      7 digestType    1 ensembleMember (repeated)      1 key
     2 ensembleSize    8 password      2 firstEntryId                   2 value
     3 length          9 ackQuorumSize
     4 lastEntryId    10 ctime
     5 state          11 customMetadata (repeated cMetadataMapEntry)
     6 segment        12 cToken

Format 3 has the numbers, format 2 the names.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from auditor.codecs.protobuf.fields import Fields
from auditor.codecs.protobuf.pb.ledger_metadata_pb2 import LedgerMetadataFormat

_NUMBER = {name: each.number for name, each in LedgerMetadataFormat.DESCRIPTOR.fields_by_name.items()}


class LedgerField(IntEnum):
    """The fields of the message itself, by their numbers."""

    QUORUM = _NUMBER["quorumSize"]
    ENSEMBLE = _NUMBER["ensembleSize"]
    LENGTH = _NUMBER["length"]
    LAST = _NUMBER["lastEntryId"]
    STATE = _NUMBER["state"]
    SEGMENT = _NUMBER["segment"]
    DIGEST = _NUMBER["digestType"]
    PASSWORD = _NUMBER["password"]
    ACK = _NUMBER["ackQuorumSize"]
    CTIME = _NUMBER["ctime"]
    CUSTOM = _NUMBER["customMetadata"]
    TOKEN = _NUMBER["cToken"]


class SegmentField(IntEnum):
    """The fields of a segment."""

    MEMBER = 1
    FIRST = 2


class CustomField(IntEnum):
    """The fields of an item of the custom metadata."""

    KEY = 1
    VALUE = 2


@dataclass(frozen=True, slots=True)
class LedgerFields:
    """The fields of many ledgers, and of their segments and custom metadata; all blobs lie in ``octets``.

    Of the ledgers' own blobs only the owners are used: item i of `LedgerField.SEGMENT` is message i of
    ``segments``. ``unescaped`` are the keys and the values of custom metadata not lying there as they are, by
    place.
    """

    format: int
    octets: NDArray[np.uint8]
    ledgers: Fields
    segments: Fields
    custom: Fields
    unescaped: dict[CustomField, dict[int, bytes]] = field(
        default_factory=lambda: {CustomField.KEY: {}, CustomField.VALUE: {}}
    )
