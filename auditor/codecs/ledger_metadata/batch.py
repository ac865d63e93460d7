"""Decoder of the metadata of many ledgers at once, in any mix of formats, damaged or not.

A ledger is sound if its fields break no rule. Most ledgers of a cluster are sound. Sound ledgers of formats
2 and 3 become columns, without a Python object per ledger. All other ledgers are read one by one with
`auditor.codecs.ledger_metadata.one`, which reports the damage or the broken rule.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from auditor.codecs.availability.groups import Longs
from auditor.codecs.byte_column import ByteColumn, arrow_column, have_prefix
from auditor.codecs.ledger_metadata import one as ledger_metadata
from auditor.codecs.ledger_metadata.columns import (
    DIGEST_NAMES,
    SCALAR_COLUMNS,
    STATE_NAMES,
    Bools,
    CustomField,
    LedgerColumns,
    LedgerField,
    LedgerFields,
    SegmentField,
    merge_columns,
)
from auditor.codecs.ledger_metadata.text import read_as_written
from auditor.codecs.protobuf.fields import Blobs, read_fields, varints
from auditor.codecs.protobuf.pb.ledger_metadata_pb2 import LedgerMetadataFormat
from auditor.codecs.protobuf.wire import MAX_MESSAGE_BYTES, is_text
from auditor.errors import DecodeError
from auditor.model.bookie_id import is_accepted
from auditor.model.ledger_metadata import NO_ENTRY, BrokenRule, LedgerMetadata, broken_rules

CLOSED = LedgerMetadataFormat.CLOSED

_MAX_ITEMS = 16
"""Largest ensemble, and largest number of custom metadata items, of ledgers that are read together.

The limit exists because all pairs of members, and of items, are compared.
"""


def decode_sound_ledgers(fields: LedgerFields) -> tuple[Bools, LedgerColumns]:
    """Return a mask of the ledgers that break no rule (sound ledgers), and the columns of these ledgers."""
    numbers, is_present = fields.ledgers.numbers, fields.ledgers.is_present
    write_quorum = numbers[LedgerField.WRITE_QUORUM]
    # Where no ack quorum is written it is the write quorum, as the server reads it.
    ack_quorum = np.where(is_present[LedgerField.ACK_QUORUM], numbers[LedgerField.ACK_QUORUM], write_quorum)
    state, digest = (
        numbers[LedgerField.STATE],
        np.where(is_present[LedgerField.DIGEST], numbers[LedgerField.DIGEST], 1),
    )
    is_sound = ~fields.ledgers.needs_strict_parser
    for required_field in (
        LedgerField.WRITE_QUORUM,
        LedgerField.ENSEMBLE,
        LedgerField.LENGTH,
        LedgerField.STATE,
        LedgerField.SEGMENT,
    ):
        is_sound &= is_present[required_field]
    is_sound &= (ack_quorum > 0) & (ack_quorum <= write_quorum)
    is_sound &= (write_quorum <= numbers[LedgerField.ENSEMBLE]) & (
        numbers[LedgerField.ENSEMBLE] <= _MAX_ITEMS
    )
    is_sound &= (state >= 1) & (state < len(STATE_NAMES)) & (digest >= 1) & (digest < len(DIGEST_NAMES))

    segment_ledgers = fields.ledgers.blobs[LedgerField.SEGMENT].owners
    first_entries, members = (
        fields.segments.numbers[SegmentField.FIRST],
        fields.segments.blobs[SegmentField.MEMBER],
    )
    bookie_codes, bookies = _read_members(fields, is_sound)
    _check_segments(fields, is_sound)

    custom_ledgers = fields.ledgers.blobs[LedgerField.CUSTOM].owners
    keys, key_names, values = _read_custom(fields, custom_ledgers, is_sound)
    rows = np.flatnonzero(is_sound)
    is_sound_segment, is_sound_custom = is_sound[segment_ledgers], is_sound[custom_ledgers]
    is_closed = state[rows] == CLOSED
    return is_sound, LedgerColumns(
        damage={},
        rules={},
        format=np.full(len(rows), fields.format),
        ensemble_size=numbers[LedgerField.ENSEMBLE][rows],
        write_quorum=write_quorum[rows],
        ack_quorum=ack_quorum[rows],
        state=state[rows],
        length=np.where(is_closed, numbers[LedgerField.LENGTH][rows], 0),
        last_entry_id=np.where(is_closed, numbers[LedgerField.LAST_ENTRY][rows], NO_ENTRY),
        digest_type=np.where(is_present[LedgerField.PASSWORD], digest, 0)[rows],
        ctime=numbers[LedgerField.CTIME][rows],
        has_ctime=is_present[LedgerField.CTIME][rows],
        has_password=is_present[LedgerField.PASSWORD][rows],
        segment_counts=np.bincount(segment_ledgers, minlength=len(is_sound))[rows],
        segment_firsts=first_entries[is_sound_segment],
        member_counts=numbers[LedgerField.ENSEMBLE][segment_ledgers[is_sound_segment]],
        members=bookie_codes[is_sound_segment[members.owners]],
        bookies=[name.decode("utf-8", "replace") for name in bookies],
        custom_counts=np.bincount(custom_ledgers, minlength=len(is_sound))[rows],
        custom_keys=keys[is_sound_custom],
        key_names=[name.decode("utf-8", "replace") for name in key_names],
        custom_values=arrow_column(
            fields.octets, values.starts[is_sound_custom], values.ends[is_sound_custom]
        ).cast(pa.binary()),
    )


def _read_members(fields: LedgerFields, is_sound: Bools) -> tuple[Longs, list[bytes]]:
    """Return the members of all segments as indexes into a list of bookie ids, and this list.

    Set ``is_sound`` to False for ledgers that have an invalid bookie id, or the same bookie twice in a
    segment.
    """
    segment_ledgers = fields.ledgers.blobs[LedgerField.SEGMENT].owners
    members = fields.segments.blobs[SegmentField.MEMBER]
    bookie_codes, bookies = _dictionary_encode(fields.octets, members)
    is_valid_bookie = _test_values(bookies, lambda name: is_text(name) and is_accepted(name.decode()))
    _exclude_ledgers(is_sound, segment_ledgers[members.owners], ~is_valid_bookie[bookie_codes])
    _exclude_ledgers(
        is_sound, segment_ledgers, _find_repeats(members.owners, bookie_codes, len(segment_ledgers))
    )
    return bookie_codes, bookies


def _check_segments(fields: LedgerFields, is_sound: Bools) -> None:
    """Set ``is_sound`` to False for ledgers with invalid segments.

    The segments of a ledger must have as many members as its ensemble size. Their first entries must ascend
    strictly, starting at entry 0.
    """
    segment_ledgers = fields.ledgers.blobs[LedgerField.SEGMENT].owners
    first_entries, members = (
        fields.segments.numbers[SegmentField.FIRST],
        fields.segments.blobs[SegmentField.MEMBER],
    )
    _exclude_ledgers(
        is_sound,
        segment_ledgers,
        fields.segments.needs_strict_parser | ~fields.segments.is_present[SegmentField.FIRST],
    )
    # One array holds the segments of all ledgers: where the owner changes, a ledger's first one stands.
    has_same_ledger = segment_ledgers[1:] == segment_ledgers[:-1]
    _exclude_ledgers(
        is_sound, segment_ledgers[1:], has_same_ledger & (first_entries[1:] <= first_entries[:-1])
    )
    _exclude_ledgers(
        is_sound,
        segment_ledgers,
        np.append(True, ~has_same_ledger)[: len(first_entries)] & (first_entries != 0),
    )
    member_counts = np.bincount(members.owners, minlength=len(first_entries))
    _exclude_ledgers(
        is_sound,
        segment_ledgers,
        member_counts != fields.ledgers.numbers[LedgerField.ENSEMBLE][segment_ledgers],
    )


def _read_custom(
    fields: LedgerFields, item_ledgers: Longs, is_sound: Bools
) -> tuple[Longs, list[bytes], Blobs]:
    """Return three values for all items of custom metadata: key numbers, key names, and values.

    A key number is an index into the list of key names. ``item_ledgers`` has the index of each item's ledger.
    Set ``is_sound`` to False for ledgers with invalid items, repeated keys or too many items.
    """
    keys, values = fields.custom.blobs[CustomField.KEY], fields.custom.blobs[CustomField.VALUE]
    count = len(item_ledgers)
    has_one_blob = [np.bincount(blobs.owners, minlength=count) == 1 for blobs in (keys, values)]
    _exclude_ledgers(
        is_sound, item_ledgers, fields.custom.needs_strict_parser | ~(has_one_blob[0] & has_one_blob[1])
    )
    is_sound &= np.bincount(item_ledgers, minlength=len(is_sound)) <= _MAX_ITEMS
    codes, names = _dictionary_encode(fields.octets, keys)
    _exclude_ledgers(is_sound, item_ledgers[keys.owners], ~_test_values(names, is_text)[codes])
    # One item a key and value: what is not so was left out above, and its place holds anything.
    key_codes, starts, ends = (np.zeros(count, np.int64) for _ in range(3))
    key_codes[keys.owners], starts[values.owners], ends[values.owners] = codes, values.starts, values.ends
    is_sound &= ~_find_repeats(item_ledgers, key_codes, len(is_sound))
    return key_codes, names, Blobs(item_ledgers, starts, ends)


def _exclude_ledgers(is_sound: Bools, ledgers_of_items: Longs, is_broken: Bools) -> None:
    """Set ``is_sound`` to False for each ledger that owns a broken item.

    ``ledgers_of_items`` has the index of each item's ledger. ``is_broken`` flags the broken items.
    """
    is_sound[ledgers_of_items[is_broken]] = False


def _find_repeats(owners: Longs, item_codes: Longs, count: int) -> Bools:
    """Return, for each of ``count`` ledgers or segments, whether two of its items have the same code.

    ``owners`` has the index of each item's ledger or segment. Items with the same owner must be adjacent.
    Items beyond `_MAX_ITEMS` are not compared, because a ledger with so many items is unusual anyway.
    """
    has_repeat = np.zeros(count, np.bool_)
    max_items = int(np.bincount(owners, minlength=1).max())
    for repeat_distance in range(1, min(max_items, _MAX_ITEMS)):
        is_repeat = (owners[repeat_distance:] == owners[:-repeat_distance]) & (
            item_codes[repeat_distance:] == item_codes[:-repeat_distance]
        )
        has_repeat[owners[repeat_distance:][is_repeat]] = True
    return has_repeat


def _dictionary_encode(octets: NDArray[np.uint8], blobs: Blobs) -> tuple[Longs, list[bytes]]:
    """Return the values in ``blobs`` as indexes into a list of the distinct values, and this list."""
    distinct_blobs = arrow_column(octets, blobs.starts, blobs.ends).dictionary_encode()
    return np.asarray(distinct_blobs.indices).astype(np.int64), distinct_blobs.dictionary.to_pylist()


def _test_values(values: list[bytes], predicate: Callable[[bytes], bool]) -> Bools:
    return np.fromiter(map(predicate, values), np.bool_, len(values))


_BLOB_FIELDS = (LedgerField.SEGMENT, LedgerField.PASSWORD, LedgerField.CUSTOM)
_NUMBER_FIELDS = tuple(field for field in LedgerField if field not in _BLOB_FIELDS)


def read_wire(values: ByteColumn, start: int) -> LedgerFields:
    """Read the fields of ledgers of format 3.

    In each value, the length of the message is at byte ``start``.

    >>> body = bytes.fromhex("08011001180020012805320c0a08626b313a333138311000")
    >>> read = read_wire(ByteColumn.from_values([bytes([len(body)]) + body, b"?"]), 0)
    >>> read.ledgers.needs_strict_parser.tolist(), read.ledgers.numbers[LedgerField.STATE].tolist()
    ([False, True], [5, 0])
    """
    octets = values.octets
    message_sizes, message_starts, is_valid = varints(octets, values.starts + start)
    is_valid &= (
        (message_sizes > 0)
        & (message_sizes <= MAX_MESSAGE_BYTES)
        & (message_sizes <= values.ends - message_starts)
    )
    fields = _read_messages(
        3, octets, message_starts, np.where(is_valid, message_starts + message_sizes, message_starts)
    )
    fields.ledgers.needs_strict_parser[~is_valid] = True
    return fields


def read_text(values: ByteColumn, start: int) -> LedgerFields:
    r"""Read the fields of ledgers of format 2.

    In each value, the text begins at byte ``start``.

    >>> text = b"quorumSize: 1\nensembleSize: 3\nlength: 0\nstate: OPEN\n"
    >>> read_text(ByteColumn.from_values([text]), 0).ledgers.numbers[LedgerField.ENSEMBLE].tolist()
    [3]
    """
    messages = (read_as_written(value, start) for value in values)
    # Of an empty message what is required is not there, so that it is not sound.
    written_messages = ByteColumn.from_values(
        [b"" if message is None else message.SerializeToString() for message in messages]
    )
    return _read_messages(2, written_messages.octets, written_messages.starts, written_messages.ends)


def _read_messages(version: int, octets: NDArray[np.uint8], starts: Longs, ends: Longs) -> LedgerFields:
    ledgers = read_fields(octets, starts, ends, _NUMBER_FIELDS, _BLOB_FIELDS)
    segments, custom_fields = ledgers.blobs[LedgerField.SEGMENT], ledgers.blobs[LedgerField.CUSTOM]
    return LedgerFields(
        version,
        octets,
        ledgers,
        read_fields(octets, segments.starts, segments.ends, (SegmentField.FIRST,), (SegmentField.MEMBER,)),
        read_fields(
            octets, custom_fields.starts, custom_fields.ends, (), (CustomField.KEY, CustomField.VALUE)
        ),
    )


_HEADER = len(ledger_metadata.MAGIC) + 2
"""Number of bytes before the body. The version has one digit, as servers write it."""

READER_BY_VERSION = {2: read_text, 3: read_wire}
"""Readers by format. Ledgers of format 1, which no server has written since 4.2, are read one by one."""


def decode_batch(values: Sequence[bytes]) -> LedgerColumns:
    """Read the metadata of many ledgers, one value each.

    Ledgers of one format that break no rule are read together. Every other ledger is read alone.

    >>> columns = decode_batch([b"BookieMetadataFormatVersion\\t1\\n1\\n1\\n0\\n0\\tbk1:3181\\n", b"?"])
    >>> columns.state.tolist(), columns.bookies, columns.damage
    ([1, 0], ['bk1:3181'], {1: ('the header is not that of ledger metadata', 0)})
    """
    column = ByteColumn.from_values(values)
    is_undecoded = np.ones(len(column), np.bool_)
    parts: list[tuple[Longs, LedgerColumns]] = []
    long_enough_rows = np.flatnonzero(column.ends - column.starts >= _HEADER)
    for version, read_format in READER_BY_VERSION.items():
        header = b"%s%d\n" % (ledger_metadata.MAGIC, version)
        rows = long_enough_rows[have_prefix(column.octets, column.starts[long_enough_rows], header)]
        if len(rows):
            is_sound, columns = decode_sound_ledgers(read_format(column.take_rows(rows), _HEADER))
            parts.append((rows[is_sound], columns))
            is_undecoded[rows[is_sound]] = False
    unread_rows = np.flatnonzero(is_undecoded)
    # Of no values at all there is still one part, so that the columns have their types.
    if len(unread_rows) or not parts:
        parts.append((unread_rows, _read_singly(column.take_rows(unread_rows))))
    return merge_columns(parts)


def _read_singly(values: Sequence[bytes]) -> LedgerColumns:
    """Read ledgers one after another, and return their columns."""
    rows = _SingleLedgers()
    for value in values:
        try:
            rows.add_ledger(ledger_metadata.parse(value))
        except DecodeError as error:
            rows.add_damage(error)
    return rows.columns()


class _SingleLedgers:
    """A collector of ledgers that are read one by one. It returns them as columns."""

    def __init__(self) -> None:
        # Of each row its `SCALAR_COLUMNS`.
        self.scalar_rows: list[tuple[int, ...]] = []
        self.damage: dict[int, tuple[str, int]] = {}
        self.rules: dict[int, tuple[BrokenRule, ...]] = {}
        self.first_entry_ids: list[int] = []
        self.ensembles: list[tuple[str, ...]] = []
        self.custom: list[tuple[str, bytes]] = []

    def add_damage(self, error: DecodeError) -> None:
        self.damage[len(self.scalar_rows)] = (error.reason, error.offset)
        self.scalar_rows.append((0,) * len(SCALAR_COLUMNS))

    def add_ledger(self, metadata: LedgerMetadata) -> None:
        row = len(self.scalar_rows)
        if rule_faults := broken_rules(metadata):
            self.rules[row] = rule_faults
        self.first_entry_ids += [segment.first_entry_id for segment in metadata.segments]
        self.ensembles += [segment.ensemble for segment in metadata.segments]
        self.custom += metadata.custom_metadata.items()
        self.scalar_rows.append(
            (
                metadata.format_version,
                metadata.ensemble_size,
                metadata.write_quorum,
                metadata.ack_quorum,
                STATE_NAMES.index(metadata.state.value),
                metadata.length,
                metadata.last_entry_id,
                DIGEST_NAMES.index(metadata.digest_type),
                metadata.ctime or 0,
                metadata.ctime is not None,
                metadata.has_password,
                len(metadata.segments),
                len(metadata.custom_metadata),
            )
        )

    def columns(self) -> LedgerColumns:
        columns = np.array(self.scalar_rows, np.int64).reshape(-1, len(SCALAR_COLUMNS)).T
        scalars: dict[str, Any] = dict(zip(SCALAR_COLUMNS, columns, strict=True))
        for flag_column in ("has_ctime", "has_password"):
            scalars[flag_column] = scalars[flag_column].astype(np.bool_)
        members, bookies = _number_texts([member for ensemble in self.ensembles for member in ensemble])
        keys, key_names = _number_texts([key for key, _ in self.custom])
        return LedgerColumns(
            damage=self.damage,
            rules=self.rules,
            **scalars,
            segment_firsts=np.array(self.first_entry_ids, np.int64),
            member_counts=np.array([len(ensemble) for ensemble in self.ensembles], np.int64),
            members=members,
            bookies=bookies,
            custom_keys=keys,
            key_names=key_names,
            custom_values=pa.array([value for _, value in self.custom], pa.binary()),
        )


def _number_texts(texts: list[str]) -> tuple[Longs, list[str]]:
    """Return the texts as indexes into a list of the distinct texts, and this list."""
    number_by_text: dict[str, int] = {}
    text_numbers = [number_by_text.setdefault(text, len(number_by_text)) for text in texts]
    return np.array(text_numbers, np.int64), list(number_by_text)
