"""The fast parser: it reads every text that it accepts as the full parser does."""

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


def test_fast_parser_reads_nearly_all_server_metadata() -> None:
    texts = [bytes_of(vector) for vector in vectors("metadata") if vector["version"] == 2]
    # The rest has numbers of 19 digits, which the short way leaves to the long one.
    assert sum(read_as_written(text, 30) is None for text in texts) < 0.1 * len(texts)
    assert read_as_written(V2_OPEN, 30)


@given(messages)
def test_fast_parser_and_full_parser_read_the_same_message(message: LedgerMetadataFormat) -> None:
    text = text_format.MessageToString(message).encode()
    fast_result = read_as_written(text, 0)
    if fast_result is None:
        return
    full_result = proto_text.parse(LedgerMetadataFormat, text, "metadata")
    if full_result.HasField("password"):
        full_result.password = b""
    assert fast_result == full_result


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param(b'password: "\\"\\\\\\303\\251}\\n"\n', id="a password with escapes"),
        pytest.param(b'customMetadata {\n  key: "a"\n  value: "\\000\\""\n}\n', id="a value with escapes"),
        pytest.param(b'customMetadata {\n  key: "\\\'\\a"\n  value: ""\n}\n', id="a key with escapes"),
        pytest.param(b'password: ""\nackQuorumSize: 1\nctime: -1\n', id="numbers"),
    ],
)
def test_fast_parser_accepts_escapes_and_numbers(lines: bytes) -> None:
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
def test_fast_parser_declines_text_that_no_server_writes(text: bytes) -> None:
    assert read_as_written(text, 0) is None
