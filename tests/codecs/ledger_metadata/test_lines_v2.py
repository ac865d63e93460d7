"""Whatever the short way takes, it reads as the parser for everything does."""

from __future__ import annotations

import pytest
from google.protobuf import text_format
from hypothesis import given

from auditor.codecs.byte_column import ByteColumn
from auditor.codecs.ledger_metadata.columns import CustomField, LedgerField, SegmentField
from auditor.codecs.ledger_metadata.lines_v2 import read_lines
from auditor.codecs.protobuf import text as proto_text
from auditor.codecs.protobuf.fields import Blobs
from auditor.codecs.protobuf.pb.ledger_metadata_pb2 import LedgerMetadataFormat
from tests.codecs.ledger_metadata.test_one import V2_OPEN
from tests.codecs.ledger_strategies import messages
from tests.codecs.metadata_vectors import bytes_of, vectors

HEAD = b"quorumSize: 1\nensembleSize: 1\nlength: 0\nstate: OPEN\n"


def is_odd(text: bytes) -> bool:
    return bool(read_lines(ByteColumn.of([text]), 0).ledgers.odd[0])


def test_what_servers_wrote_takes_the_short_way() -> None:
    written = [bytes_of(vector) for vector in vectors("metadata") if vector["version"] == 2]
    odd = read_lines(ByteColumn.of([*written, V2_OPEN]), 30).ledgers.odd
    # The rest has numbers of 19 digits, which the short way leaves to the long one.
    assert odd.sum() < 0.1 * len(written)
    assert not odd[-1]


@given(messages)
def test_the_short_way_reads_what_the_long_one_reads(message: LedgerMetadataFormat) -> None:
    written = text_format.MessageToString(message).encode()
    fields = read_lines(ByteColumn.of([written]), 0)
    if fields.ledgers.odd[0]:
        return
    read = proto_text.parse(LedgerMetadataFormat, written, "metadata")
    ledger = {
        name: (fields.ledgers.present[name][0], fields.ledgers.numbers[name][0])
        for name in (LedgerField.LAST, LedgerField.CTIME)
    }
    assert ledger == {
        LedgerField.LAST: (read.HasField("lastEntryId"), read.lastEntryId),
        LedgerField.CTIME: (read.HasField("ctime"), read.ctime),
    }
    assert fields.ledgers.present[LedgerField.PASSWORD][0] == read.HasField("password")
    assert fields.segments.numbers[SegmentField.FIRST].tolist() == [
        segment.firstEntryId for segment in read.segment
    ]
    members = fields.segments.blobs[SegmentField.MEMBER]
    assert [(owner, text) for owner, text in zip(members.owners, texts(written, members), strict=True)] == [
        (place, member.encode())
        for place, segment in enumerate(read.segment)
        for member in segment.ensembleMember
    ]
    for number, wanted in (
        (CustomField.KEY, [entry.key.encode() for entry in read.customMetadata]),
        (CustomField.VALUE, [entry.value for entry in read.customMetadata]),
    ):
        found = dict(enumerate(texts(written, fields.custom.blobs[number]))) | fields.unescaped[number]
        assert list(found.values()) == wanted


def texts(data: bytes, blobs: Blobs) -> list[bytes]:
    return [data[start:end] for start, end in zip(blobs.starts.tolist(), blobs.ends.tolist(), strict=True)]


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param(b"segment {\n  firstEntryId: 7\n}\n", id="no member"),
        pytest.param(b'password: "\\"\\\\\\303\\251}\\n"\n', id="a password with escapes"),
        pytest.param(b'customMetadata {\n  key: "a"\n  value: "\\000\\""\n}\n', id="a value with escapes"),
        pytest.param(b'customMetadata {\n  key: "\\\'\\a"\n  value: ""\n}\n', id="a key with escapes"),
        pytest.param(b'password: ""\nackQuorumSize: 1\nctime: -1\n', id="numbers"),
    ],
)
def test_these_lines_are_no_trouble(lines: bytes) -> None:
    assert not is_odd(HEAD + lines)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(HEAD[:-1], id="no newline at the end"),
        pytest.param(HEAD + HEAD, id="twice"),
        pytest.param(HEAD.replace(b"length: 0", b"length: 00"), id="a zero in front"),
        pytest.param(HEAD.replace(b"length: 0", b"length: -0"), id="minus zero"),
        pytest.param(HEAD.replace(b"length: 0", b"length: "), id="no number"),
        pytest.param(HEAD.replace(b"length: 0", b"length: 1" + b"0" * 18), id="19 digits"),
        pytest.param(HEAD.replace(b"length: 0", b"length: 1 # ok"), id="a comment"),
        pytest.param(HEAD.replace(b"Size: 1", b"Size: 1000000000"), id="10 digits"),
        pytest.param(HEAD.replace(b"OPEN", b"OPENED"), id="no such state"),
        pytest.param(HEAD + b"segment {\n}\n", id="a segment without a first entry"),
        pytest.param(HEAD + b"segment {\n  firstEntryId: 7\n", id="a segment without an end"),
        pytest.param(
            HEAD + b'segment {\n  ensembleMember: "a\\""\n  firstEntryId: 7\n}\n', id="a member's escape"
        ),
        pytest.param(HEAD + b'password: "\n', id="one quote"),
        pytest.param(HEAD + b'password: "a"b"\n', id="three quotes"),
        pytest.param(HEAD + b'password: "a\\"\n', id="no closing quote"),
        pytest.param(HEAD + b'password: "\\400"\n', id="an escape that is none"),
        pytest.param(HEAD + b'password: "\xff"\n', id="no text"),
        pytest.param(HEAD + b'password: "a" \n', id="a space at the end"),
        pytest.param(HEAD + b'customMetadata {\n  value: "b"\n  key: "a"\n}\n', id="the value first"),
        pytest.param(HEAD + b'customMetadata {\n  key: "a"\n  value: "b"\n}\nctime: 1\n', id="ctime last"),
    ],
)
def test_what_is_not_as_the_server_writes_it_is_odd(text: bytes) -> None:
    fields = read_lines(ByteColumn.of([HEAD, text, HEAD]), 0)
    assert fields.ledgers.odd.tolist() == [False, True, False]
