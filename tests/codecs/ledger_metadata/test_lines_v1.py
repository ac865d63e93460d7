"""What the short way takes of format 1, and what it leaves to the parser that names the damage."""

from __future__ import annotations

import pytest

from auditor.codecs.byte_column import ByteColumn
from auditor.codecs.ledger_metadata.fields import LedgerField, SegmentField
from auditor.codecs.ledger_metadata.lines_v1 import read_v1
from auditor.codecs.protobuf.pb.ledger_metadata_pb2 import LedgerMetadataFormat

OPEN = b"2\n3\n0\n0\ta\tb\tc\n"


@pytest.mark.parametrize(
    ("text", "state", "last"),
    [
        pytest.param(OPEN, LedgerMetadataFormat.OPEN, 0, id="open"),
        pytest.param(OPEN[:-1], LedgerMetadataFormat.OPEN, 0, id="open, no newline"),
        pytest.param(OPEN + b"9\tCLOSED", LedgerMetadataFormat.CLOSED, 9, id="closed"),
        pytest.param(OPEN + b"9\tCLOSED\n", LedgerMetadataFormat.CLOSED, 9, id="closed, a newline"),
        pytest.param(OPEN + b"-1\tCLOSED", LedgerMetadataFormat.CLOSED, -1, id="empty"),
        pytest.param(OPEN + b"-102\tCLOSED", LedgerMetadataFormat.IN_RECOVERY, -102, id="in recovery"),
    ],
)
def test_what_servers_wrote_is_read(text: bytes, state: int, last: int) -> None:
    fields = read_v1(ByteColumn.of([OPEN, b"9" + text, OPEN]), 0)
    assert not fields.ledgers.odd.any()
    assert (fields.ledgers.numbers[LedgerField.STATE][1], fields.ledgers.numbers[LedgerField.LAST][1]) == (
        state,
        last,
    )
    assert fields.segments.numbers[SegmentField.FIRST].tolist() == [0] * 3
    assert fields.segments.blobs[SegmentField.MEMBER].owners.tolist() == [0] * 3 + [1] * 3 + [2] * 3


def test_a_bookie_may_be_called_closed_where_it_is_not_the_first() -> None:
    fields = read_v1(ByteColumn.of([b"2\n2\n0\n0\ta\tCLOSED\n"]), 0)
    assert not fields.ledgers.odd[0]
    assert len(fields.segments.blobs[SegmentField.MEMBER].owners) == 2


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"\n", id="an empty line"),
        pytest.param(b"2\n3\n", id="two lines"),
        pytest.param(b"2\t\n3\n0\n0\ta\n", id="a tab in a number's line"),
        pytest.param(b"2\n3\n+0\n0\ta\n", id="a plus sign"),
        pytest.param(b"2\n3\n0\r\n0\ta\n", id="lines as Windows has them"),
        pytest.param(b"2\n3\n0\n7\n0\ta\n", id="a line without a tab"),
        pytest.param(OPEN + b"\n", id="an empty line at the end"),
        pytest.param(OPEN + b"9\tCLOSED\tx", id="a word behind the end"),
        pytest.param(OPEN + b"9\tCLOSED\n5\ta", id="a segment behind the end"),
        pytest.param(OPEN + b"x\tCLOSED", id="no last entry"),
        pytest.param(OPEN + b"1" + b"0" * 18 + b"\tCLOSED", id="19 digits"),
    ],
)
def test_what_is_not_as_a_server_writes_it_is_odd(text: bytes) -> None:
    assert read_v1(ByteColumn.of([OPEN, text, OPEN]), 0).ledgers.odd.tolist() == [False, True, False]
