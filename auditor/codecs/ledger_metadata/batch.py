"""The metadata of many ledgers at once, in any mix of formats, damaged or not."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from auditor.codecs.availability.groups import Longs
from auditor.codecs.byte_column import ByteColumn, begin_with
from auditor.codecs.ledger_metadata import one as ledger_metadata
from auditor.codecs.ledger_metadata.columns import (
    DIGEST_NAMES,
    STATE_NAMES,
    CustomField,
    LedgerColumns,
    LedgerField,
    LedgerFields,
    SegmentField,
    merge_columns,
)
from auditor.codecs.ledger_metadata.lines_v2 import read_lines
from auditor.codecs.ledger_metadata.wellformed import sound_ledgers
from auditor.codecs.protobuf.fields import read_fields, varints
from auditor.codecs.protobuf.wire import MAX_MESSAGE_BYTES
from auditor.errors import DecodeError
from auditor.model.ledger_metadata import BrokenRule, LedgerMetadata, broken_rules

_WIRE_NUMBERS = (
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
        octets, begin, ends, _WIRE_NUMBERS, (LedgerField.SEGMENT, LedgerField.PASSWORD, LedgerField.CUSTOM)
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


_HEADER = len(ledger_metadata.MAGIC) + 2
"""Bytes before the body, where the version has one digit, as servers write it."""

READERS = {2: read_lines, 3: read_wire}
"""By format; no server has written format 1 since 4.2, and one by one it is read 50,000 times a second."""


def decode_batch(values: Sequence[bytes]) -> LedgerColumns:
    """Read the metadata of many ledgers, one value each.

    Those that are in good order are read together, format by format; every other one is read alone.

    >>> columns = decode_batch([b"BookieMetadataFormatVersion\\t1\\n1\\n1\\n0\\n0\\tbk1:3181\\n", b"?"])
    >>> columns.state.tolist(), columns.bookies, columns.damage
    ([1, 0], ['bk1:3181'], {1: ('the header is not that of ledger metadata', 0)})
    """
    column = ByteColumn.of(values)
    left = np.ones(len(column), np.bool_)
    parts: list[tuple[Longs, LedgerColumns]] = []
    versions = _versions(column)
    for version, read in READERS.items():
        rows = np.flatnonzero(versions == version)
        if len(rows):
            sound, columns = sound_ledgers(read(column.taken(rows), _HEADER))
            parts.append((rows[sound], columns))
            left[rows[sound]] = False
    alone = np.flatnonzero(left)
    # Of no values at all there is still one part, so that the columns have their types.
    if len(alone) or not parts:
        parts.append((alone, _alone(column.taken(alone))))
    return merge_columns(parts)


def _versions(values: ByteColumn) -> Longs:
    """The format that each value's header says; 0 where that is not as servers write it."""
    versions = np.zeros(len(values), np.int64)
    whole = values.ends - values.starts >= _HEADER
    rows = np.flatnonzero(whole & begin_with(values.octets, values.starts, ledger_metadata.MAGIC))
    at = values.starts[rows] + len(ledger_metadata.MAGIC)
    # One digit and a newline: no server has written a version of two digits.
    digits = values.octets[at].astype(np.int64) - ord("0")
    versions[rows] = np.where(values.octets[at + 1] == ord("\n"), digits, 0)
    return versions


def _alone(values: Sequence[bytes]) -> LedgerColumns:
    """The columns of ledgers that are read one after another."""
    rows = _Rows()
    for value in values:
        try:
            rows.put(ledger_metadata.parse(value))
        except DecodeError as error:
            rows.put_damage(error)
    return rows.columns()


class _Rows:
    """Ledgers gathered one by one."""

    def __init__(self) -> None:
        # Of each row what `LedgerColumns` keeps in arrays of one item a row, in its order.
        self.scalars: list[tuple[int, ...]] = []
        self.damage: dict[int, tuple[str, int]] = {}
        self.rules: dict[int, tuple[BrokenRule, ...]] = {}
        self.firsts: list[int] = []
        self.ensembles: list[tuple[str, ...]] = []
        self.custom: list[tuple[str, bytes]] = []

    def put_damage(self, error: DecodeError) -> None:
        self.damage[len(self.scalars)] = (error.reason, error.offset)
        self.scalars.append((0,) * 13)

    def put(self, read: LedgerMetadata) -> None:
        row = len(self.scalars)
        if broken := broken_rules(read):
            self.rules[row] = broken
        self.firsts += [segment.first_entry_id for segment in read.segments]
        self.ensembles += [segment.ensemble for segment in read.segments]
        self.custom += read.custom_metadata.items()
        self.scalars.append(
            (
                read.format_version,
                read.ensemble_size,
                read.write_quorum,
                read.ack_quorum,
                STATE_NAMES.index(read.state.value),
                read.length,
                read.last_entry_id,
                DIGEST_NAMES.index(read.digest_type),
                read.ctime or 0,
                read.ctime is not None,
                read.has_password,
                len(read.segments),
                len(read.custom_metadata),
            )
        )

    def columns(self) -> LedgerColumns:
        (
            format_,
            ensemble_size,
            write_quorum,
            ack_quorum,
            state,
            length,
            last_entry_id,
            digest_type,
            ctime,
            has_ctime,
            has_password,
            segment_counts,
            custom_counts,
        ) = np.array(self.scalars, np.int64).reshape(-1, 13).T
        members, bookies = _places([member for ensemble in self.ensembles for member in ensemble])
        keys, key_names = _places([key for key, _ in self.custom])
        return LedgerColumns(
            damage=self.damage,
            rules=self.rules,
            format=format_,
            ensemble_size=ensemble_size,
            write_quorum=write_quorum,
            ack_quorum=ack_quorum,
            state=state,
            length=length,
            last_entry_id=last_entry_id,
            digest_type=digest_type,
            ctime=ctime,
            has_ctime=has_ctime.astype(np.bool_),
            has_password=has_password.astype(np.bool_),
            segment_counts=segment_counts,
            segment_firsts=np.array(self.firsts, np.int64),
            member_counts=np.array([len(ensemble) for ensemble in self.ensembles], np.int64),
            members=members,
            bookies=bookies,
            custom_counts=custom_counts,
            custom_keys=keys,
            key_names=key_names,
            custom_values=pa.array([value for _, value in self.custom], pa.binary()),
        )


def _places(words: list[str]) -> tuple[Longs, list[str]]:
    """Each word as a place in a list of the different ones."""
    places: dict[str, int] = {}
    found = [places.setdefault(word, len(places)) for word in words]
    return np.array(found, np.int64), list(places)
