"""The metadata of many ledgers at once, column by column.

Creating an object for every ledger and segment takes several times as long as reading the bytes. So each
field is one array for the whole batch here. Nested fields are flat arrays, with arrays of counts. Every row
equals the result of `auditor.codecs.ledger_metadata.one`. A damaged value becomes a row and never raises an
exception.

Formats 2 and 3 are read into `LedgerFields`, by the field numbers of the message:

    LedgerMetadataFormat               Segment                          cMetadataMapEntry
     1 quorumSize      7 digestType    1 ensembleMember (repeated)      1 key
     2 ensembleSize    8 password      2 firstEntryId                   2 value
     3 length          9 ackQuorumSize
     4 lastEntryId    10 ctime
     5 state          11 customMetadata (repeated cMetadataMapEntry)
     6 segment        12 cToken

A value of format 3 contains these numbers. A value of format 2 contains the names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from auditor.codecs.availability.groups import Longs
from auditor.codecs.ledger_metadata.message import DIGESTS, STATES
from auditor.codecs.protobuf.fields import Fields
from auditor.codecs.protobuf.pb.ledger_metadata_pb2 import LedgerMetadataFormat
from auditor.model.ledger_metadata import BrokenRule

STATE_NAMES = (None, *(STATES[number].value for number in sorted(STATES)))
"""State names by the number in a message. The first is None, for a ledger that could not be read."""

DIGEST_NAMES = (None, *(DIGESTS[number] for number in sorted(DIGESTS)))
"""Digest types by the number in a message. The first is None, for a ledger without a password."""

Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class LedgerColumns:
    """The metadata of many ledgers as arrays. Arrays of scalar fields have one item per row.

    Rows are in the order of the decoded values. ``damage`` contains the reason and the byte offset for each
    damaged row. ``rules`` contains the broken rules of each row that breaks any. A damaged row has 0 or
    False in its scalar fields, and no items in the nested columns. A row that breaks rules keeps its
    values. ``state`` and ``digest_type`` are indexes into `STATE_NAMES` and `DIGEST_NAMES`. ``ctime`` is
    the creation time in the metadata itself, in ms.

    Nested columns are flat. Row i owns the next ``segment_counts[i]`` items of ``segment_firsts`` and
    ``member_counts``, and the next ``custom_counts[i]`` items of ``custom_keys`` and ``custom_values``.
    Each segment owns as many items of ``members`` as its member count says. ``members`` are indexes into
    ``bookies``. ``custom_keys`` are indexes into ``key_names``.
    """

    damage: dict[int, tuple[str, int]]
    rules: dict[int, tuple[BrokenRule, ...]]
    format: Longs
    ensemble_size: Longs
    write_quorum: Longs
    ack_quorum: Longs
    state: Longs
    length: Longs
    last_entry_id: Longs
    digest_type: Longs
    ctime: Longs
    has_ctime: Bools
    has_password: Bools
    segment_counts: Longs
    segment_firsts: Longs
    member_counts: Longs
    members: Longs
    bookies: list[str]
    custom_counts: Longs
    custom_keys: Longs
    key_names: list[str]
    custom_values: pa.BinaryArray


SCALAR_COLUMNS = (
    "format",
    "ensemble_size",
    "write_quorum",
    "ack_quorum",
    "state",
    "length",
    "last_entry_id",
    "digest_type",
    "ctime",
    "has_ctime",
    "has_password",
    "segment_counts",
    "custom_counts",
)
"""Names of the arrays with one item per row."""


def merge_columns(parts: Sequence[tuple[Longs, LedgerColumns]]) -> LedgerColumns:
    """Merge several parts into the columns of all rows.

    A part is a pair: the final positions of some rows, and the columns of these rows. Every position occurs
    once. Items within a row keep their order. If there is only one part, its columns are returned unchanged.
    Its rows must therefore already be in order.
    """
    parts = [part for part in parts if len(part[0])] or list(parts[:1])
    if len(parts) == 1:
        return parts[0][1]
    columns = [column for _, column in parts]
    # Of every item the row that it ends in: in order of these, rows are in order, and the items within each
    # as they were. Members are two steps down: rows of segments first, then of each segment's members.
    segment_rows = [np.repeat(part_rows, part_columns.segment_counts) for part_rows, part_columns in parts]
    member_rows = [
        np.repeat(part_rows, part_columns.member_counts)
        for part_rows, part_columns in zip(segment_rows, columns, strict=True)
    ]
    row_order = _row_order([part_rows for part_rows, _ in parts])
    segment_order, member_order = _row_order(segment_rows), _row_order(member_rows)
    custom_order = _row_order(
        [np.repeat(part_rows, part_columns.custom_counts) for part_rows, part_columns in parts]
    )
    return LedgerColumns(
        damage=_merge_by_row(parts, "damage"),
        rules=_merge_by_row(parts, "rules"),
        **{name: _concatenate(columns, name)[row_order] for name in SCALAR_COLUMNS},
        segment_firsts=_concatenate(columns, "segment_firsts")[segment_order],
        member_counts=_concatenate(columns, "member_counts")[segment_order],
        members=_renumber(columns, "members", "bookies")[member_order],
        bookies=list(chain.from_iterable(part_columns.bookies for part_columns in columns)),
        custom_keys=_renumber(columns, "custom_keys", "key_names")[custom_order],
        key_names=list(chain.from_iterable(part_columns.key_names for part_columns in columns)),
        custom_values=pa.concat_arrays([part_columns.custom_values for part_columns in columns]).take(
            pa.array(custom_order)
        ),
    )


def _row_order(rows: Sequence[Longs]) -> NDArray[np.intp]:
    return np.argsort(np.concatenate(rows), kind="stable")


def _concatenate(columns: Sequence[LedgerColumns], name: str) -> Any:
    return np.concatenate([getattr(part_columns, name) for part_columns in columns])


def _renumber(columns: Sequence[LedgerColumns], name: str, names_field: str) -> Longs:
    """Join the column ``name`` of all parts, which contains indexes of the list ``names_field``.

    Each part has its own list. In the result, the indexes refer to the joined lists of all parts.
    """
    row_starts = np.cumsum([0, *(len(getattr(part_columns, names_field)) for part_columns in columns[:-1])])
    return np.concatenate(
        [getattr(part_columns, name) + start for part_columns, start in zip(columns, row_starts, strict=True)]
    )


def _merge_by_row(parts: Sequence[tuple[Longs, LedgerColumns]], name: str) -> dict[int, Any]:
    """Merge the small dictionaries ``name`` of all parts into one.

    Each element of ``parts`` begins with the final positions of the part's rows, which become the keys.
    """
    return {
        int(part_rows[row]): row_value
        for part_rows, part_columns in parts
        for row, row_value in getattr(part_columns, name).items()
    }


_FIELD_NUMBER = {name: field.number for name, field in LedgerMetadataFormat.DESCRIPTOR.fields_by_name.items()}


class LedgerField(IntEnum):
    """Numbers of the fields of the message LedgerMetadataFormat."""

    WRITE_QUORUM = _FIELD_NUMBER["quorumSize"]
    ENSEMBLE = _FIELD_NUMBER["ensembleSize"]
    LENGTH = _FIELD_NUMBER["length"]
    LAST_ENTRY = _FIELD_NUMBER["lastEntryId"]
    STATE = _FIELD_NUMBER["state"]
    SEGMENT = _FIELD_NUMBER["segment"]
    DIGEST = _FIELD_NUMBER["digestType"]
    PASSWORD = _FIELD_NUMBER["password"]
    ACK_QUORUM = _FIELD_NUMBER["ackQuorumSize"]
    CTIME = _FIELD_NUMBER["ctime"]
    CUSTOM = _FIELD_NUMBER["customMetadata"]
    C_TOKEN = _FIELD_NUMBER["cToken"]


class SegmentField(IntEnum):
    """Numbers of the fields of a segment."""

    MEMBER = 1
    FIRST = 2


class CustomField(IntEnum):
    """Numbers of the fields of a custom metadata item."""

    KEY = 1
    VALUE = 2


@dataclass(frozen=True, slots=True)
class LedgerFields:
    """The fields of many ledgers, and of their segments and custom metadata.

    Segments and custom metadata are messages inside the ledgers' messages. A blob is a byte field, such as
    one of these inner messages. All blobs are in ``octets``. Blob i of ``ledgers.blobs[LedgerField.SEGMENT]``
    is message i of ``segments``. The owner of this blob is the ledger that contains the segment.
    """

    format: int
    octets: NDArray[np.uint8]
    ledgers: Fields
    segments: Fields
    custom: Fields
