"""Metadata of format 2 exactly as the server writes it, of many ledgers at once, by its lines.

A cluster can have tens of millions of these, and the parser for all that the server *reads* is twenty times
slower. Every line is one of seventeen kinds, told by how it begins, and which kind may follow which is a
table. Narrower than the format on purpose: numbers that surely fit, members without escapes.
What is not so is odd, and that parser's to judge; what is, both read alike.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from auditor.codecs.availability.groups import Longs
from auditor.codecs.byte_column import ByteColumn, begin_with, windows
from auditor.codecs.ledger_metadata.columns import Bools, CustomField, LedgerField, LedgerFields, SegmentField
from auditor.codecs.protobuf.fields import Blobs, Fields
from auditor.codecs.protobuf.pb.ledger_metadata_pb2 import LedgerMetadataFormat
from auditor.codecs.protobuf.text import MAX_TEXT_BYTES, unescape

_MINUS, _ZERO = b"-0"


@dataclass(frozen=True, slots=True)
class TextSpans:
    """Piece i is of row ``rows[i]`` and lies from ``starts[i]`` to ``ends[i]`` of some buffer."""

    rows: Longs
    starts: Longs
    ends: Longs

    def taken(self, which: NDArray[np.int64] | NDArray[np.bool_]) -> TextSpans:
        """Some of them."""
        return TextSpans(self.rows[which], self.starts[which], self.ends[which])


class LineKind(IntEnum):
    """What a line is; the first is none."""

    NONE = 0
    QUORUM = 1
    ENSEMBLE = 2
    LENGTH = 3
    LAST = 4
    STATE = 5
    SEGMENT = 6
    MEMBER = 7
    FIRST = 8
    CLOSE_SEGMENT = 9
    DIGEST = 10
    PASSWORD = 11
    ACK = 12
    CTIME = 13
    CUSTOM = 14
    KEY = 15
    VALUE = 16
    CLOSE_CUSTOM = 17


_BEGIN = {
    LineKind.QUORUM: b"quorumSize: ",
    LineKind.ENSEMBLE: b"ensembleSize: ",
    LineKind.LENGTH: b"length: ",
    LineKind.LAST: b"lastEntryId: ",
    LineKind.STATE: b"state: ",
    LineKind.SEGMENT: b"segment {\n",
    LineKind.MEMBER: b'  ensembleMember: "',
    LineKind.FIRST: b"  firstEntryId: ",
    LineKind.CLOSE_SEGMENT: b"}\n",
    LineKind.DIGEST: b"digestType: ",
    LineKind.PASSWORD: b'password: "',
    LineKind.ACK: b"ackQuorumSize: ",
    LineKind.CTIME: b"ctime: ",
    LineKind.CUSTOM: b"customMetadata {\n",
    LineKind.KEY: b'  key: "',
    LineKind.VALUE: b'  value: "',
}
_NUMBERS = {
    LineKind.QUORUM: LedgerField.QUORUM,
    LineKind.ENSEMBLE: LedgerField.ENSEMBLE,
    LineKind.LENGTH: LedgerField.LENGTH,
    LineKind.LAST: LedgerField.LAST,
    LineKind.ACK: LedgerField.ACK,
    LineKind.CTIME: LedgerField.CTIME,
}
_ENUMS = {
    LineKind.STATE: (LedgerField.STATE, LedgerMetadataFormat.State.items()),
    LineKind.DIGEST: (LedgerField.DIGEST, LedgerMetadataFormat.DigestType.items()),
}
_VALUES = (*_NUMBERS.values(), *(number for number, _ in _ENUMS.values()))
# Of these lines it counts for the ledger that there are some; what they say is read with segments and items.
_PRESENCE = {
    LineKind.SEGMENT: LedgerField.SEGMENT,
    LineKind.PASSWORD: LedgerField.PASSWORD,
    LineKind.CUSTOM: LedgerField.CUSTOM,
}
_ESCAPABLE = (LineKind.PASSWORD, LineKind.KEY, LineKind.VALUE)
_QUOTED = (LineKind.MEMBER, *_ESCAPABLE)
_ITEM_PARTS = ((LineKind.KEY, CustomField.KEY), (LineKind.VALUE, CustomField.VALUE))
_MOST_DIGITS = {**dict.fromkeys(_NUMBERS, 18), LineKind.QUORUM: 9, LineKind.ENSEMBLE: 9, LineKind.ACK: 9}

_TAIL = (LineKind.DIGEST, LineKind.PASSWORD, LineKind.ACK, LineKind.CTIME, LineKind.CUSTOM)
_FOLLOWS: dict[LineKind, tuple[LineKind, ...]] = {
    LineKind.NONE: (LineKind.QUORUM,),
    LineKind.QUORUM: (LineKind.ENSEMBLE,),
    LineKind.ENSEMBLE: (LineKind.LENGTH,),
    LineKind.LENGTH: (LineKind.LAST, LineKind.STATE),
    LineKind.LAST: (LineKind.STATE,),
    LineKind.STATE: (LineKind.SEGMENT, *_TAIL),
    LineKind.SEGMENT: (LineKind.MEMBER, LineKind.FIRST),
    LineKind.MEMBER: (LineKind.MEMBER, LineKind.FIRST),
    LineKind.FIRST: (LineKind.CLOSE_SEGMENT,),
    LineKind.CLOSE_SEGMENT: (LineKind.SEGMENT, *_TAIL),
    **{kind: _TAIL[place + 1 :] for place, kind in enumerate(_TAIL[:-1])},
    LineKind.CUSTOM: (LineKind.KEY,),
    LineKind.KEY: (LineKind.VALUE,),
    LineKind.VALUE: (LineKind.CLOSE_CUSTOM,),
    LineKind.CLOSE_CUSTOM: (LineKind.CUSTOM,),
}
_MAY_FOLLOW = np.zeros((len(LineKind), len(LineKind)), np.bool_)
for _before, _after in _FOLLOWS.items():
    _MAY_FOLLOW[_before, list(_after)] = True
_MAY_END = np.zeros(len(LineKind), np.bool_)
_MAY_END[[LineKind.STATE, LineKind.CLOSE_SEGMENT, *_TAIL[:-1], LineKind.CLOSE_CUSTOM]] = True

# A line's kind by its first two bytes, or by the two behind an indentation, in the upper half.
_INDENT = int.from_bytes(b"  ", "little")
_BY_BYTES = np.zeros(1 << 17, np.uint8)
for _kind, _text in _BEGIN.items():
    _two = int.from_bytes(_text[:2], "little")
    _BY_BYTES[_two if _two != _INDENT else 1 << 16 | int.from_bytes(_text[2:4], "little")] = _kind

_ESCAPED = re.compile(rb"(?:[\x20\x21\x23-\x5b\x5d-\x7e]++|\\(?:[abfnrtv\"'\\]|[0-3][0-7]{2}))*+")
_NEWLINE, _QUOTE, _ESCAPE = b'\n"\\'
_LONGEST_BEGIN = max(map(len, _BEGIN.values()))


def read_lines(values: ByteColumn, start: int) -> LedgerFields:
    r"""The fields of ledgers of format 2, whose text begins at byte ``start`` of each.

    >>> text = b"quorumSize: 1\nensembleSize: 3\nlength: 0\nstate: OPEN\n"
    >>> read = read_lines(ByteColumn.of([text, b"?"]), 0)
    >>> read.ledgers.odd.tolist(), read.ledgers.numbers[LedgerField.ENSEMBLE].tolist()
    ([False, True], [3, 0])
    """
    # Room behind the last line: how it begins is compared at full length, whether it is so long or not.
    octets = np.concatenate((values.octets, np.zeros(_LONGEST_BEGIN, np.uint8)))
    begins, ends = values.starts + start, values.ends
    odd = (ends - begins > MAX_TEXT_BYTES) | (begins >= ends)
    lines = _lines(octets, begins, ends, odd)
    kinds = _kinds(octets, lines)
    _check_order(kinds, lines, odd)
    if odd.any():
        # Of lines in good order alone it is sure which segment they are of.
        sound = ~odd[lines.rows]
        lines, kinds = lines.taken(sound), kinds[sound]
    # Lines of one kind side by side, each kind still in the order of the text: from here on a field of all
    # ledgers is one slice, and is read with one call.
    by_kind = np.argsort(kinds, kind="stable")
    bounds = np.searchsorted(kinds[by_kind], np.arange(len(LineKind) + 1))
    at = {kind: by_kind[bounds[kind] : bounds[kind + 1]] for kind in LineKind}
    of = {kind: lines.taken(at[kind]) for kind in LineKind}
    contents = {
        kind: TextSpans(of[kind].rows, of[kind].starts + len(_BEGIN[kind]), of[kind].ends) for kind in _BEGIN
    }
    # What is not written as the server writes it is `odd`, and goes to the reader of one ledger at a time.
    quoted = {kind: _before_quote(octets, contents[kind], odd) for kind in _QUOTED}
    escaped = _check_bytes(octets, begins, ends, quoted, odd)
    ledgers = _ledger_fields(octets, of, contents, odd)
    # A member belongs to the last segment that opened before its line.
    member_of = np.searchsorted(at[LineKind.SEGMENT], at[LineKind.MEMBER]) - 1
    segments = Fields(
        numbers={SegmentField.FIRST: _integers(octets, contents[LineKind.FIRST], 18, odd)},
        present={SegmentField.FIRST: np.ones(len(at[LineKind.SEGMENT]), np.bool_)},
        blobs={
            SegmentField.MEMBER: Blobs(
                member_of, quoted[LineKind.MEMBER].starts, quoted[LineKind.MEMBER].ends
            )
        },
        odd=np.zeros(len(at[LineKind.SEGMENT]), np.bool_),
    )
    item = np.arange(len(at[LineKind.CUSTOM]))
    custom = Fields(
        numbers={},
        present={},
        blobs={number: Blobs(item, quoted[kind].starts, quoted[kind].ends) for kind, number in _ITEM_PARTS},
        odd=np.zeros(len(item), np.bool_),
    )
    unescaped = {
        number: {item: unescape(text) for item, text in escaped[kind].items()} for kind, number in _ITEM_PARTS
    }
    return LedgerFields(2, octets, ledgers, segments, custom, unescaped)


def _ledger_fields(
    octets: NDArray[np.uint8],
    of: dict[LineKind, TextSpans],
    contents: dict[LineKind, TextSpans],
    odd: Bools,
) -> Fields:
    """What stands once in a ledger; a number or name that is not the server's makes it ``odd``."""
    count = len(odd)
    ledgers = Fields(
        numbers={number: np.zeros(count, np.int64) for number in _VALUES},
        present={number: np.zeros(count, np.bool_) for number in (*_VALUES, *_PRESENCE.values())},
        blobs={
            LedgerField.SEGMENT: _blobs(of[LineKind.SEGMENT]),
            LedgerField.CUSTOM: _blobs(of[LineKind.CUSTOM]),
        },
        odd=odd,
    )
    for kind, number in _NUMBERS.items():
        ledgers.numbers[number][of[kind].rows] = _integers(octets, contents[kind], _MOST_DIGITS[kind], odd)
        ledgers.present[number][of[kind].rows] = True
    for kind, (number, names) in _ENUMS.items():
        ledgers.numbers[number][of[kind].rows] = _match_names(octets, contents[kind], names, odd)
        ledgers.present[number][of[kind].rows] = True
    for kind, number in _PRESENCE.items():
        ledgers.present[number][of[kind].rows] = True
    return ledgers


def _lines(octets: NDArray[np.uint8], begins: Longs, ends: Longs, odd: Bools) -> TextSpans:
    newlines = np.flatnonzero(octets == _NEWLINE)
    low, high = np.searchsorted(newlines, begins), np.searchsorted(newlines, ends)
    # A text without a newline, or that does not end with one, is cut or not the server's.
    odd |= (high <= low) | (newlines.take(high - 1, mode="clip") != ends - 1 if len(newlines) else True)
    counts = np.where(odd, 0, high - low)
    heads = np.cumsum(counts) - counts
    rows = np.repeat(np.arange(len(begins)), counts)
    line_ends = newlines[np.arange(len(rows)) + np.repeat(low - heads, counts)]
    # A line begins behind the one before, but for the first of each ledger.
    starts = np.append(0, line_ends + 1)[: len(rows)]
    starts[heads[counts > 0]] = begins[counts > 0]
    return TextSpans(rows, starts, line_ends)


def _kinds(octets: NDArray[np.uint8], lines: TextSpans) -> NDArray[np.uint8]:
    """What each line is; NONE where it does not begin as its kind must."""
    four = windows(octets, lines.starts, 4).view("<u4")
    # Two bytes tell all kinds apart; behind an indentation the two that follow it, in the table's upper half.
    two = four & 0xFFFF
    kinds = _BY_BYTES[np.where(two == _INDENT, four >> 16 | 1 << 16, two)]
    order = np.argsort(kinds, kind="stable")
    bounds = np.searchsorted(kinds[order], np.arange(len(LineKind) + 1))
    for kind, text in _BEGIN.items():
        these = order[bounds[kind] : bounds[kind + 1]]
        wrong = ~begin_with(octets, lines.starts[these], text)
        if wrong.any():
            kinds[these[wrong]] = LineKind.NONE
    ends_custom = (kinds[1:] == LineKind.CLOSE_SEGMENT) & (kinds[:-1] == LineKind.VALUE)
    kinds[1:][ends_custom] = LineKind.CLOSE_CUSTOM
    return kinds


def _check_order(kinds: NDArray[np.uint8], lines: TextSpans, odd: Bools) -> None:
    heads = np.append(True, lines.rows[1:] != lines.rows[:-1])[: len(kinds)]
    before = np.append(0, kinds)[: len(kinds)]
    odd[lines.rows[~_MAY_FOLLOW[np.where(heads, 0, before), kinds]]] = True
    lasts = np.append(heads[1:], True)[: len(kinds)]
    odd[lines.rows[lasts & ~_MAY_END[kinds]]] = True


def _before_quote(octets: NDArray[np.uint8], contents: TextSpans, odd: Bools) -> TextSpans:
    """What stands before the closing quote."""
    ends = contents.ends - 1
    odd[contents.rows[(ends < contents.starts) | (octets[ends] != _QUOTE)]] = True
    return TextSpans(contents.rows, contents.starts, np.maximum(ends, contents.starts))


def _check_bytes(
    octets: NDArray[np.uint8], begins: Longs, ends: Longs, quoted: dict[LineKind, TextSpans], odd: Bools
) -> dict[LineKind, dict[int, bytes]]:
    """See to it that there are no quotes but those, and else plain text, or escapes where there may be some.

    Those texts are the answer, by their place among their kind.
    """
    special = (octets - 0x20 > 0x7E - 0x20) | (octets == _QUOTE) | (octets == _ESCAPE)
    special &= octets != _NEWLINE
    at = np.flatnonzero(special)
    unexplained = np.searchsorted(at, ends) - np.searchsorted(at, begins)
    escaped: dict[LineKind, dict[int, bytes]] = {kind: {} for kind in _ESCAPABLE}
    for kind, each in quoted.items():
        unexplained -= 2 * np.bincount(each.rows, minlength=len(unexplained))
        if kind in escaped:
            inside = np.searchsorted(at, each.ends) - np.searchsorted(at, each.starts)
            for line in np.flatnonzero(inside).tolist():
                text = octets[each.starts[line] : each.ends[line]].tobytes()
                if _ESCAPED.fullmatch(text):
                    escaped[kind][line] = text
                    unexplained[each.rows[line]] -= inside[line]
    odd |= unexplained != 0
    return escaped


def _match_names(
    octets: NDArray[np.uint8], contents: TextSpans, names: list[tuple[str, int]], odd: Bools
) -> Longs:
    numbers = np.zeros(len(contents.starts), np.int64)
    for name, number in names:
        numbers[begin_with(octets, contents.starts, name.encode() + b"\n")] = number
    odd[contents.rows[numbers == 0]] = True
    return numbers


def _blobs(lines: TextSpans) -> Blobs:
    return Blobs(lines.rows, lines.starts, lines.ends)


def _integers(octets: NDArray[np.uint8], spans: TextSpans, most: int, odd: NDArray[np.bool_]) -> Longs:
    """Decimal numbers of up to ``most`` digits, 18 or fewer, without zeros in front.

    Where a piece is none, its row is marked in ``odd`` and the answer is 0.

    >>> spans = TextSpans(np.array([0, 1]), np.array([0, 4]), np.array([3, 6]))
    >>> odd = np.zeros(2, np.bool_)
    >>> _integers(np.frombuffer(b"-42\\n07", np.uint8), spans, 18, odd).tolist(), odd.tolist()
    ([-42, 0], [False, True])
    """
    negative = octets.take(spans.starts, mode="clip") == _MINUS
    starts = spans.starts + negative
    digits = spans.ends - starts
    fine = (digits >= 1) & (digits <= most)
    fine &= (octets.take(starts, mode="clip") != _ZERO) | ((digits == 1) & ~negative)
    value = np.zeros(len(starts), np.int64)
    for place in range(int(digits[fine].max(initial=0))):
        inside = place < digits
        digit = octets.take(starts + place, mode="clip") - np.uint8(_ZERO)
        fine &= ~inside | (digit <= 9)
        value = np.where(inside, value * 10 + digit, value)
    odd[spans.rows[~fine]] = True
    return np.where(fine, np.where(negative, -value, value), 0)
