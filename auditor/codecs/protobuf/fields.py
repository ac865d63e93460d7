"""A reader of thousands of protobuf messages, which reads the next field of all messages in each step.

    tag     varint: field number << 3 | wire type      here one byte, so fields 1 to 15
    value   wire type 0: a varint                      wire type 2: a varint, then as many bytes

Messages of the same type usually have their fields in the same order. So a step needs only a few array
operations for all messages. A few messages may be much longer than the others. When only a few messages
are left, the reader walks through each of them to find where its fields begin. One more step then reads all
these fields.

The reader does not read unusual messages. It marks them in `Fields.needs_strict_parser`, and a slower,
stricter parser reads them one by one. A message is unusual if a field is cut, has an unexpected wire type, or
has a tag of several bytes. Unknown fields are skipped, as in the protobuf library. If a field occurs twice,
the last value counts.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from auditor.codecs.availability.groups import Longs

MIN_STEP_MESSAGES = 100
"""Number of messages below which each message is walked alone. One step takes as long as 100 walks."""

_MAX_VARINT_BYTES = 10


@dataclass(frozen=True, slots=True)
class Blobs:
    """Byte fields that may be repeated.

    Blob i is ``data[starts[i]:ends[i]]`` and belongs to message ``owners[i]``. Blobs are in the order of
    the buffer, so ``owners`` ascends.
    """

    owners: Longs
    starts: Longs
    ends: Longs


@dataclass(frozen=True, slots=True)
class Fields:
    """The fields of many messages.

    ``numbers`` contains the values of each number field (0 if absent), by field number. ``is_present``
    tells which messages have each field. ``blobs`` contains the byte fields. ``needs_strict_parser`` is True
    for each message with an unusual field, for example a cut one. Such a message was not read.
    """

    numbers: dict[int, Longs]
    is_present: dict[int, NDArray[np.bool_]]
    blobs: dict[int, Blobs]
    needs_strict_parser: NDArray[np.bool_]


def read_fields(
    data: NDArray[np.uint8],
    starts: Longs,
    ends: Longs,
    numbers: Sequence[int],
    blobs: Sequence[int],
    min_messages: int = MIN_STEP_MESSAGES,
) -> Fields:
    """Read the fields of many adjacent messages. Message i is ``data[starts[i]:ends[i]]``.

    ``numbers`` are the field numbers of varints. ``blobs`` are the field numbers of bytes, strings and
    messages. Values are 64 bits wide, as on the wire. If fewer than ``min_messages`` messages still have
    unread fields, they are walked one by one. This does not change the result.

    >>> data = np.frombuffer(bytes.fromhex("0896011201610803"), np.uint8)
    >>> read = read_fields(data, np.array([0, 6]), np.array([6, 8]), [1], [2])
    >>> read.numbers[1].tolist(), read.blobs[2].owners.tolist(), read.blobs[2].starts.tolist()
    ([150, 3], [0], [5])
    """
    field_columns = _FieldColumns(data, len(starts), numbers, blobs)
    message_rows = np.flatnonzero(starts < ends)
    offsets, message_ends = starts[message_rows], ends[message_rows]
    while len(message_rows) >= max(min_messages, 1):
        is_valid, next_offsets = field_columns.read_next_fields(message_rows, offsets, message_ends)
        has_next_byte = is_valid & (next_offsets < message_ends)
        if has_next_byte.all():
            offsets = next_offsets
            continue
        message_rows, offsets, message_ends = (
            message_rows[has_next_byte],
            next_offsets[has_next_byte],
            message_ends[has_next_byte],
        )
    if len(message_rows):
        field_start_lists = [
            _find_fields(data[start:message_end].tobytes())
            for start, message_end in zip(offsets.tolist(), message_ends.tolist(), strict=True)
        ]
        field_counts = np.array([len(field_starts) for field_starts in field_start_lists])
        field_offsets = np.concatenate(
            [np.frombuffer(field_starts, np.int64) for field_starts in field_start_lists]
        )
        field_columns.read_next_fields(
            np.repeat(message_rows, field_counts),
            field_offsets + np.repeat(offsets, field_counts),
            np.repeat(message_ends, field_counts),
        )
    return field_columns.fields()


class _FieldColumns:
    """A collector of the fields that have been read so far from the messages in ``data``."""

    def __init__(
        self, data: NDArray[np.uint8], count: int, numbers: Sequence[int], blobs: Sequence[int]
    ) -> None:
        self._data = data
        self._numbers = {number: np.zeros(count, np.int64) for number in numbers}
        self._is_present = {number: np.zeros(count, np.bool_) for number in (*numbers, *blobs)}
        self._needs_strict_parser = np.zeros(count, np.bool_)
        self._blob_parts: dict[int, list[tuple[Longs, Longs, Longs]]] = {number: [] for number in blobs}

    def read_next_fields(
        self, message_rows: Longs, offsets: Longs, message_ends: Longs
    ) -> tuple[NDArray[np.bool_], Longs]:
        """Read the field at ``offsets[i]`` of message ``rows[i]``, for each i.

        Return whether each field is valid, and where it ends.
        """
        field_tags = self._data.take(offsets)
        value, next_offsets, is_valid = varints(self._data, offsets + 1)
        wire_type = field_tags & 7
        is_bytes = wire_type == 2
        # A length beyond the message would leave what follows without sense, and could pass any integer.
        length = np.where(is_bytes, value, 0)
        is_valid &= (
            (field_tags >= 8)
            & (field_tags < 0x80)
            & (is_bytes | (wire_type == 0))
            & (length >= 0)
            & (length <= message_ends - next_offsets)
        )
        value_starts, next_offsets = next_offsets, next_offsets + length
        # The server writes fields in one order, so at most steps all messages have the same: no masks then.
        has_uniform_tags = bool(is_valid.all()) and bool((field_tags == field_tags[0]).all())
        distinct_tags = (
            field_tags[:1]
            if has_uniform_tags
            else np.flatnonzero(np.bincount(field_tags[is_valid], minlength=1))
        )
        for field_tag in distinct_tags.tolist():
            number, is_blob = field_tag >> 3, field_tag & 7 == 2
            if number not in self._is_present:
                continue
            field_rows: slice | Longs = (
                slice(None) if has_uniform_tags else np.flatnonzero(is_valid & (field_tags == field_tag))
            )
            if is_blob != (number in self._blob_parts):
                is_valid[field_rows] = False
                continue
            self._is_present[number][message_rows[field_rows]] = True
            if is_blob:
                self._blob_parts[number].append(
                    (message_rows[field_rows], value_starts[field_rows], next_offsets[field_rows])
                )
            else:
                # Of a message that is here more than once, the later field is assigned later.
                self._numbers[number][message_rows[field_rows]] = value[field_rows]
        if not is_valid.all():
            self._needs_strict_parser[message_rows[~is_valid]] = True
        return is_valid, next_offsets

    def fields(self) -> Fields:
        blobs = {number: _sort_blobs(blob_parts) for number, blob_parts in self._blob_parts.items()}
        return Fields(self._numbers, self._is_present, blobs, self._needs_strict_parser)


def _find_fields(message: bytes) -> array[int]:
    """Return the offset of each field of a message, up to and including the first unusual (such as cut) one.

    >>> _find_fields(bytes.fromhex("089601120161")).tolist()
    [0, 3]
    """
    field_offsets = array("q")
    offset, end = 0, len(message)
    while offset < end:
        field_offsets.append(offset)
        tag, value, offset = message[offset], message[offset + 1] if offset + 1 < end else 0, offset + 2
        if value >= 0x80:
            value &= 0x7F
            for shift in range(7, 7 * _MAX_VARINT_BYTES, 7):
                current_byte = message[offset] if offset < end else 0
                value |= (current_byte & 0x7F) << shift
                offset += 1
                if current_byte < 0x80:
                    break
        if tag & 7 == 2:
            offset += value
    return field_offsets


def _sort_blobs(blob_parts: list[tuple[Longs, Longs, Longs]]) -> Blobs:
    if not blob_parts:
        empty_offsets = np.zeros(0, np.int64)
        return Blobs(empty_offsets, empty_offsets, empty_offsets)
    if len(blob_parts) == 1:
        return Blobs(*blob_parts[0])
    owners, starts, ends = (np.concatenate(columns) for columns in zip(*blob_parts, strict=True))
    start_order = np.argsort(starts, kind="stable")
    return Blobs(owners[start_order], starts[start_order], ends[start_order])


def varints(data: NDArray[np.uint8], offsets: Longs) -> tuple[Longs, Longs, NDArray[np.bool_]]:
    """Return the numbers at these offsets, the offset after each number, and whether it fits in 64 bits.

    A number may extend beyond the end of its message. The caller must check for that. Beyond the end of the
    buffer, the last byte of the buffer is read repeatedly.
    """
    byte = data.take(offsets, mode="clip")
    value = (byte & 0x7F).astype(np.uint64)
    next_offsets, is_valid = offsets + 1, np.ones(len(offsets), np.bool_)
    long_rows = np.flatnonzero(byte >= 0x80)
    for byte_index in range(1, _MAX_VARINT_BYTES):
        if not len(long_rows):
            break
        byte = data.take(offsets[long_rows] + byte_index, mode="clip")
        value[long_rows] |= (byte & 0x7F).astype(np.uint64) << np.uint64(7 * byte_index)
        next_offsets[long_rows] += 1
        if byte_index == _MAX_VARINT_BYTES - 1:
            is_valid[long_rows[byte > 1]] = False
        long_rows = long_rows[byte >= 0x80]
    return value.view(np.int64), next_offsets, is_valid
