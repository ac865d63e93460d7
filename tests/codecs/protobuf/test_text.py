"""The text parser, compared with the library's, and with the 4.17.2 table of accepted text."""

from __future__ import annotations

import pytest
from google.protobuf import text_encoding, text_format
from hypothesis import given
from hypothesis import strategies as st

from auditor.codecs.protobuf.pb.cookie_pb2 import CookieFormat
from auditor.codecs.protobuf.pb.ledger_metadata_pb2 import LedgerMetadataFormat
from auditor.codecs.protobuf.pb.underreplication_pb2 import UnderreplicatedLedgerFormat
from auditor.codecs.protobuf.text import MAX_TEXT_BYTES, parse, unescape
from auditor.errors import DecodeError
from tests.codecs.damage import points_within, refusal
from tests.codecs.ledger_strategies import messages, mutations

OTHER_FIELDS = b" ensembleSize: 1 length: 0 state: OPEN"


@given(messages, st.booleans(), st.booleans())
def test_text_written_by_the_library_is_read_back(
    message: LedgerMetadataFormat, one_line: bool, angled: bool
) -> None:
    text = text_format.MessageToString(message, as_one_line=one_line, pointy_brackets=angled)
    assert parse(LedgerMetadataFormat, text.encode(), "metadata") == message


pieces = st.lists(
    st.sampled_from(
        b"quorumSize: 1|ensembleSize:0x1F|length: 010|state: OPEN|state:3|segment {|segment: <|}|>"
        b'|firstEntryId: -1|ensembleMember: "a" "b"|ensembleMember: [\'a\', "b"]|,|;|# comment\n|\n'
        b'|password: "\\x41\\u0041\\303\\251"|[|]|customMetadata { key: "k" }|ctime: 9|segment []'.split(b"|")
    ),
    max_size=14,
).map(b" ".join)


@given(
    st.one_of(pieces, messages.map(text_format.MessageToString).map(str.encode).flatmap(mutations)).filter(
        # The server replaces what is not UTF-8 and wraps octal escapes above 377; the library refuses both.
        lambda text: text.isascii() and b"\\" not in text.replace(b"\\x", b"").replace(b"\\u00", b"")
    )
)
def test_text_is_read_as_the_library_reads_it(text: bytes) -> None:
    refused = refusal(read, text)
    assert points_within(refused, text)
    if refused is None:
        expected = LedgerMetadataFormat()
        text_format.Merge(text, expected)
        assert read(text) == expected


def read(text: bytes) -> LedgerMetadataFormat:
    return parse(LedgerMetadataFormat, text, "metadata")


@pytest.mark.parametrize(
    ("text", "quorum"),
    [
        pytest.param(b"# a comment\nquorumSize: 2" + OTHER_FIELDS, 2, id="comment"),
        pytest.param(b"quorumSize: 2," + OTHER_FIELDS, 2, id="comma"),
        pytest.param(b"quorumSize:2;" + OTHER_FIELDS, 2, id="semicolon"),
        pytest.param(b"quorumSize: 0x1f" + OTHER_FIELDS, 31, id="hexadecimal"),
        pytest.param(b"quorumSize: 017" + OTHER_FIELDS, 15, id="octal"),
        pytest.param(b"quorumSize: 1 quorumSize: 2" + OTHER_FIELDS, 2, id="the last counts"),
        pytest.param(b"quorumSize: 2 state: 1" + OTHER_FIELDS, 2, id="numbered enum"),
        pytest.param(b"quorumSize: 2\r\n" + OTHER_FIELDS, 2, id="carriage return"),
    ],
)
def test_text_deviations_that_the_server_accepts_are_read(text: bytes, quorum: int) -> None:
    assert parse(LedgerMetadataFormat, text, "metadata").quorumSize == quorum


@pytest.mark.parametrize(
    "segment",
    [
        b'segment { ensembleMember: "a" ensembleMember: "b" firstEntryId: 0 }',
        b"segment: { ensembleMember: 'a', ensembleMember: 'b'; firstEntryId: 0 }",
        b'segment < ensembleMember: ["a", "b"] firstEntryId: 0 >',
        b'segment [{ ensembleMember: "\\x61" ensembleMember: "\\u0062" firstEntryId: 0 }]',
        b'segment { ensembleMember: "" "a" ensembleMember: "b" \'\' firstEntryId: 0 }',
    ],
)
def test_segment_is_read_from_every_text_form(segment: bytes) -> None:
    message = parse(LedgerMetadataFormat, b"quorumSize: 1" + OTHER_FIELDS + b" " + segment, "metadata")
    assert list(message.segment[0].ensembleMember) == ["a", "b"]


def test_unescaped_strings_keep_their_bytes() -> None:
    assert unescape(rb"\000\001\377\n\r\t\"\'\\\a\b\f\v\?") == b"\x00\x01\xff\n\r\t\"'\\\x07\x08\x0c\x0b?"


@given(st.binary())
def test_escaped_bytes_are_read_back(value: bytes) -> None:
    text = text_encoding.CEscape(value, as_utf8=False)
    assert unescape(text.encode()) == value


MARK = b'replica: "a"\n'


@pytest.mark.parametrize(
    ("text", "offset"),
    [
        pytest.param(MARK + b"colour: 3", 13, id="an unknown field"),
        pytest.param(MARK + b"ctime 3", 19, id="no colon"),
        pytest.param(MARK + b"ctime: three", 20, id="no number"),
        pytest.param(MARK + b"ctime: 9223372036854775808", 20, id="64 bits"),
        pytest.param(MARK + b"ctime: 08", 20, id="no octal number"),
        pytest.param(MARK + b"ctime: 2.5", 20, id="a fraction"),
        pytest.param(MARK + b"ctime: " + b"9" * 5000, 20, id="more digits than any number has"),
        pytest.param(b"replica: a", 9, id="no quotes"),
        pytest.param(b'replica: "a', 9, id="no closing quote"),
        pytest.param(b'replica: "a\n"', 9, id="a line break in a string"),
        pytest.param(rb'replica: "ab\q"', 12, id="no escape"),
        pytest.param(rb'replica: "\ud800"', 10, id="half a character"),
        pytest.param(rb'replica: "\UFFFFFFFF"', 10, id="no character"),
        pytest.param(b'replica: ["a"', 13, id="no end of the list"),
        pytest.param(b'replica: ["a",]', 14, id="a comma too many"),
        pytest.param(MARK + b",,", 14, id="two commas"),
        pytest.param(b"{" * 100_000, 0, id="depth"),
        pytest.param(b"\x00", 0, id="a byte that is nothing"),
        pytest.param(b"\xef\xbb\xbf" + MARK, 0, id="a byte order mark"),
        pytest.param(b"ctime: 1" + b" " * MAX_TEXT_BYTES, MAX_TEXT_BYTES, id="too long"),
    ],
)
def test_text_damage_is_refused_with_its_offset(text: bytes, offset: int) -> None:
    with pytest.raises(DecodeError) as damage:
        parse(UnderreplicatedLedgerFormat, text, "mark")
    assert damage.value.offset == offset


def test_missing_required_field_is_reported_at_the_end() -> None:
    with pytest.raises(DecodeError) as damage:
        parse(CookieFormat, b'bookieHost: "a"', "cookie")
    assert damage.value.offset == 15
    assert "journalDir" in damage.value.reason


def test_unclosed_message_is_reported_at_the_end() -> None:
    with pytest.raises(DecodeError) as damage:
        parse(LedgerMetadataFormat, b"segment { firstEntryId: 0 ", "metadata")
    assert damage.value.offset == 26
