"""Whatever the short way takes, it reads as the parser for everything does."""

from __future__ import annotations

import pytest
from google.protobuf import text_format
from hypothesis import given

from auditor.codecs.ledger_metadata.text import read_as_written
from auditor.codecs.protobuf import text as proto_text
from auditor.codecs.protobuf.pb.ledger_metadata_pb2 import LedgerMetadataFormat
from tests.codecs.ledger_metadata.test_one import V2_OPEN
from tests.codecs.ledger_strategies import messages
from tests.codecs.metadata_vectors import bytes_of, vectors

HEAD = b"quorumSize: 1\nensembleSize: 1\nlength: 0\nstate: OPEN\n"


def test_what_servers_wrote_takes_the_short_way() -> None:
    written = [bytes_of(vector) for vector in vectors("metadata") if vector["version"] == 2]
    # The rest has numbers of 19 digits, which the short way leaves to the long one.
    assert sum(read_as_written(each, 30) is None for each in written) < 0.1 * len(written)
    assert read_as_written(V2_OPEN, 30)


@given(messages)
def test_the_short_way_reads_what_the_long_one_reads(message: LedgerMetadataFormat) -> None:
    written = text_format.MessageToString(message).encode()
    found = read_as_written(written, 0)
    if found is None:
        return
    read = proto_text.parse(LedgerMetadataFormat, written, "metadata")
    if read.HasField("password"):
        read.password = b""
    assert found == read


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param(b'password: "\\"\\\\\\303\\251}\\n"\n', id="a password with escapes"),
        pytest.param(b'customMetadata {\n  key: "a"\n  value: "\\000\\""\n}\n', id="a value with escapes"),
        pytest.param(b'customMetadata {\n  key: "\\\'\\a"\n  value: ""\n}\n', id="a key with escapes"),
        pytest.param(b'password: ""\nackQuorumSize: 1\nctime: -1\n', id="numbers"),
    ],
)
def test_these_lines_are_no_trouble(lines: bytes) -> None:
    assert read_as_written(HEAD + lines, 0)


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
        pytest.param(HEAD + b"segment {\n  firstEntryId: 7\n}\n", id="no member"),
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
def test_what_is_not_as_the_server_writes_it_is_left_to_the_long_way(text: bytes) -> None:
    assert read_as_written(text, 0) is None
