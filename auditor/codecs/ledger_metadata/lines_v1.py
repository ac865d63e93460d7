"""Metadata of format 1 as servers wrote it, of many ledgers at once.

The lines are those of `auditor.codecs.ledger_metadata.text`. Words are cut at every tab and newline; how many
stand in a line, and where, says what they are. What is not as a server writes it is odd, and left to the
parser there; what is, both read alike.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from auditor.codecs.availability.groups import Longs
from auditor.codecs.byte_column import ByteColumn, begin_with
from auditor.codecs.ledger_metadata.columns import Bools
from auditor.codecs.ledger_metadata.fields import CustomField, LedgerField, LedgerFields, SegmentField
from auditor.codecs.ledger_metadata.text_spans import TextSpans, integers
from auditor.codecs.protobuf.fields import Blobs, Fields
from auditor.codecs.protobuf.pb.ledger_metadata_pb2 import LedgerMetadataFormat
from auditor.codecs.protobuf.text import MAX_TEXT_BYTES

_HEAD = ((LedgerField.QUORUM, 9), (LedgerField.ENSEMBLE, 9), (LedgerField.LENGTH, 18))
"""The first lines: which field, of how many digits at most."""

# Format 1 has no password, digest type, ack quorum and creation time; who reads all formats asks for them.
_NUMBERS = (LedgerField.LAST, LedgerField.STATE, LedgerField.DIGEST, LedgerField.ACK, LedgerField.CTIME)
_PRESENCE = (
    LedgerField.ACK, LedgerField.DIGEST, LedgerField.PASSWORD, LedgerField.CTIME, LedgerField.SEGMENT
)  # fmt: skip

_CLOSED = b"CLOSED"
_IN_RECOVERY = -102
_TAB, _NEWLINE = b"\t\n"


def read_v1(values: ByteColumn, start: int) -> LedgerFields:
    r"""The fields of ledgers of format 1, whose lines begin at byte ``start`` of each.

    >>> read = read_v1(ByteColumn.of([b"1\n1\n0\n0\tbk1:3181\n5\tCLOSED", b"1\n1"]), 0)
    >>> read.ledgers.odd.tolist(), read.ledgers.numbers[LedgerField.LAST].tolist()
    ([False, True], [5, 0])
    """
    octets, count = values.octets, len(values)
    begins, ends = values.starts + start, values.ends
    odd = (begins >= ends) | (ends - begins > MAX_TEXT_BYTES)
    # The newline at the end of the last line may be there or not.
    ends = ends - (octets.take(ends - 1, mode="clip") == _NEWLINE)
    words = _words(octets, begins, np.maximum(ends, begins))
    heads = _heads(octets, words)
    line, closes = _lines(octets, words, heads, odd)
    if odd.any():
        sound = ~odd[words.rows]
        words, heads, line, closes = words.taken(sound), heads[sound], line[sound], closes[sound]

    shut = np.flatnonzero(closes)
    segment = np.flatnonzero(heads & (line >= len(_HEAD)))
    segment = segment[~np.isin(segment, shut - 1)]
    member = np.flatnonzero(~heads & ~closes)
    ledgers = Fields(
        numbers={number: np.zeros(count, np.int64) for number in _NUMBERS},
        present={number: np.zeros(count, np.bool_) for number in _PRESENCE},
        blobs={
            LedgerField.SEGMENT: _blobs(words.taken(segment)),
            LedgerField.CUSTOM: _blobs(words.taken(shut[:0])),
        },
        odd=odd,
    )
    for place, (number, digits) in enumerate(_HEAD):
        these = words.taken(heads & (line == place))
        ledgers.numbers[number] = np.zeros(count, np.int64)
        ledgers.numbers[number][these.rows] = integers(octets, these, digits, odd)
        ledgers.present[number] = ~odd
    last = integers(octets, words.taken(shut - 1), 18, odd)
    ledgers.numbers[LedgerField.LAST][words.rows[shut]] = last
    ledgers.numbers[LedgerField.STATE][:] = LedgerMetadataFormat.OPEN
    ledgers.numbers[LedgerField.STATE][words.rows[shut]] = np.where(
        last == _IN_RECOVERY, LedgerMetadataFormat.IN_RECOVERY, LedgerMetadataFormat.CLOSED
    )
    ledgers.present[LedgerField.STATE] = ~odd
    ledgers.present[LedgerField.SEGMENT][words.rows[segment]] = True
    members = words.taken(member)
    segments = Fields(
        numbers={SegmentField.FIRST: integers(octets, words.taken(segment), 18, odd)},
        present={SegmentField.FIRST: np.ones(len(segment), np.bool_)},
        blobs={
            SegmentField.MEMBER: Blobs(np.searchsorted(segment, member) - 1, members.starts, members.ends)
        },
        odd=np.zeros(len(segment), np.bool_),
    )
    nothing = _blobs(words.taken(shut[:0]))
    custom = Fields(
        numbers={}, present={}, blobs={CustomField.KEY: nothing, CustomField.VALUE: nothing}, odd=odd[:0]
    )
    return LedgerFields(1, octets, ledgers, segments, custom)


def _words(octets: NDArray[np.uint8], begins: Longs, ends: Longs) -> TextSpans:
    """What stands between tabs and newlines; an empty text is one empty word."""
    cuts = np.flatnonzero((octets == _TAB) | (octets == _NEWLINE))
    low = np.searchsorted(cuts, begins)
    counts = np.searchsorted(cuts, ends) - low + 1
    firsts = np.cumsum(counts) - counts
    rows = np.repeat(np.arange(len(begins)), counts)
    # A word begins behind the cut before it and ends at the next, but for a row's first and last.
    next_cut = np.arange(len(rows)) + np.repeat(low - firsts, counts)
    starts = cuts.take(next_cut - 1, mode="clip") + 1 if len(cuts) else np.zeros(len(rows), np.int64)
    stops = cuts.take(next_cut, mode="clip") if len(cuts) else np.zeros(len(rows), np.int64)
    starts[firsts] = begins
    stops[firsts + counts - 1] = ends
    return TextSpans(rows, starts, stops)


def _heads(octets: NDArray[np.uint8], words: TextSpans) -> Bools:
    """Which words are the first of a line."""
    heads: Bools = octets.take(words.starts - 1, mode="clip") == _NEWLINE
    heads[_is_first(words.rows)] = True
    return heads


def _lines(octets: NDArray[np.uint8], words: TextSpans, heads: Bools, odd: Bools) -> tuple[Longs, Bools]:
    """The line of its row in which each word stands, and whether the word says that the ledger is closed."""
    first = _is_first(words.rows)
    line = np.cumsum(heads) - 1
    line -= np.repeat(line[first], np.diff(np.flatnonzero(np.append(first, True))))
    last = np.append(first[1:], True)[: len(first)]
    alone = heads & (last | np.append(heads[1:], True)[: len(heads)])
    odd[words.rows[alone != (heads & (line < len(_HEAD)))]] = True
    odd[words.rows[last & (line < len(_HEAD) - 1)]] = True
    second = ~heads & np.append(False, heads[:-1])[: len(heads)]
    closes = second & (words.ends - words.starts == len(_CLOSED)) & begin_with(octets, words.starts, _CLOSED)
    # What follows is read by nobody; no server writes anything there.
    odd[words.rows[closes & ~last]] = True
    return line, closes


def _is_first(rows: Longs) -> Bools:
    return np.append(True, rows[1:] != rows[:-1])[: len(rows)]


def _blobs(spans: TextSpans) -> Blobs:
    return Blobs(spans.rows, spans.starts, spans.ends)
