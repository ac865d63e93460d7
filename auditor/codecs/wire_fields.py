"""Protobuf messages by the thousand: every step reads the next field of all of them at once.

    tag     varint: field number << 3 | wire type      here one byte, so fields 1 to 15
    value   wire type 0: a varint                      wire type 2: a varint, how many bytes follow, and they

Messages of one type name their fields in the same order, so a step is a few array operations for all. What is
out of the ordinary is not read but named (`Fields.odd`), for a careful parser to look at alone: a field that
is cut, another wire type than the field's own, a tag of several bytes, or more than `MOST_FIELDS` fields.
Unknown fields are passed over, as the protobuf library does; of a number that comes twice the last counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from auditor.codecs.groups import Longs

MOST_FIELDS = 48
"""So many steps are made; a message of more fields costs less when it is read alone."""

_MAX_VARINT = 10


@dataclass(frozen=True, slots=True)
class Blobs:
    """Byte fields that may repeat: blob i is ``data[starts[i]:ends[i]]``, of message ``owners[i]``.

    In the order in which they lie, which is that of their owners too.
    """

    owners: Longs
    starts: Longs
    ends: Longs


@dataclass(frozen=True, slots=True)
class Fields:
    """What messages say: for a number its value (0 where absent) and presence, for byte fields each blob."""

    numbers: dict[int, Longs]
    present: dict[int, NDArray[np.bool_]]
    blobs: dict[int, Blobs]
    odd: NDArray[np.bool_]


def read_fields(
    data: NDArray[np.uint8], starts: Longs, ends: Longs, numbers: Sequence[int], blobs: Sequence[int]
) -> Fields:
    """Read the fields of many messages; message i is ``data[starts[i]:ends[i]]``, one behind the other.

    ``numbers`` are the fields of varints, ``blobs`` those of bytes, strings and messages. Numbers are 64 bits
    wide, as on the wire.

    >>> data = np.frombuffer(bytes.fromhex("0896011201610803"), np.uint8)
    >>> read = read_fields(data, np.array([0, 6]), np.array([6, 8]), [1], [2])
    >>> read.numbers[1].tolist(), read.blobs[2].owners.tolist(), read.blobs[2].starts.tolist()
    ([150, 3], [0], [5])
    """
    count = len(starts)
    found = Fields(
        numbers={number: np.zeros(count, np.int64) for number in numbers},
        present={number: np.zeros(count, np.bool_) for number in (*numbers, *blobs)},
        blobs={},
        odd=np.zeros(count, np.bool_),
    )
    pieces: dict[int, list[tuple[Longs, Longs, Longs]]] = {number: [] for number in blobs}
    rows = np.flatnonzero(starts < ends)
    at, end = starts[rows], ends[rows]
    for _ in range(MOST_FIELDS):
        if not len(rows):
            break
        tag = data.take(at)
        value, after, fine = varints(data, at + 1)
        wire = tag & 7
        blob = wire == 2
        # A length beyond the message would leave what follows without sense, and could pass any integer.
        length = np.where(blob, value, 0)
        fine &= (tag >= 8) & (tag < 0x80) & (blob | (wire == 0)) & (length >= 0) & (length <= end - after)
        start, after = after, after + length
        alike = bool(fine.all()) and bool((tag == tag[0]).all())
        kinds = tag[:1] if alike else np.flatnonzero(np.bincount(tag[fine], minlength=1))
        for kind in kinds.tolist():
            number, is_blob = kind >> 3, kind & 7 == 2
            if number not in found.present:
                continue
            these: slice | Longs = slice(None) if alike else np.flatnonzero(fine & (tag == kind))
            if is_blob != (number in pieces):
                fine[these] = False
                continue
            found.present[number][rows[these]] = True
            if is_blob:
                pieces[number].append((rows[these], start[these], after[these]))
            else:
                found.numbers[number][rows[these]] = value[these]
        on = fine & (after < end)
        if on.all():
            at = after
            continue
        found.odd[rows[~fine]] = True
        rows, at, end = rows[on], after[on], end[on]
    found.odd[rows] = True
    for number, taken in pieces.items():
        found.blobs[number] = _in_order(taken)
    return found


def _in_order(pieces: list[tuple[Longs, Longs, Longs]]) -> Blobs:
    if not pieces:
        nothing = np.zeros(0, np.int64)
        return Blobs(nothing, nothing, nothing)
    if len(pieces) == 1:
        return Blobs(*pieces[0])
    owners, starts, ends = (np.concatenate(parts) for parts in zip(*pieces, strict=True))
    order = np.argsort(starts, kind="stable")
    return Blobs(owners[order], starts[order], ends[order])


def varints(data: NDArray[np.uint8], at: Longs) -> tuple[Longs, Longs, NDArray[np.bool_]]:
    """The numbers at these places, where the next byte is, and whether they are numbers of 64 bits.

    A number may reach beyond the end of its message: whoever asks knows where that is. Beyond the end of the
    buffer its last byte stands for all that would follow.
    """
    byte = data.take(at, mode="clip")
    value = (byte & 0x7F).astype(np.uint64)
    after, fine = at + 1, np.ones(len(at), np.bool_)
    more = np.flatnonzero(byte >= 0x80)
    for read in range(1, _MAX_VARINT):
        if not len(more):
            break
        byte = data.take(at[more] + read, mode="clip")
        value[more] |= (byte & 0x7F).astype(np.uint64) << np.uint64(7 * read)
        after[more] += 1
        if read == _MAX_VARINT - 1:
            fine[more[byte > 1]] = False
        more = more[byte >= 0x80]
    return value.view(np.int64), after, fine
