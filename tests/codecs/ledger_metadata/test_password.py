"""Ledger metadata without its password: it decodes as before, and no byte of the password is left."""

from __future__ import annotations

import pytest
from google.protobuf import text_format
from hypothesis import given
from hypothesis import strategies as st

from auditor.codecs.ledger_metadata.one import MAGIC, decode, parse, without_password
from auditor.codecs.protobuf.pb.ledger_metadata_pb2 import LedgerMetadataFormat
from auditor.codecs.protobuf.wire import encode_varint, varint
from auditor.errors import DecodeError
from tests.codecs.ledger_metadata.test_one import v3
from tests.codecs.ledger_strategies import messages
from tests.codecs.metadata_vectors import bytes_of, vectors
from tests.codecs.test_secrets import PARTS, SECRET, with_secret


@given(messages.map(with_secret))
def test_without_password_keeps_all_other_fields(message: LedgerMetadataFormat) -> None:
    for data in (v3(message), MAGIC + b"2\n" + text_format.MessageToString(message).encode()):
        cut = without_password(data)
        assert parse(cut) == parse(data)
        assert parse(cut).has_password
        assert not any(part.encode() in cut for part in PARTS)
        assert without_password(cut) == cut


@given(messages)
def test_metadata_without_a_password_is_unchanged(message: LedgerMetadataFormat) -> None:
    message.ClearField("password")
    for data in (v3(message), MAGIC + b"2\n" + text_format.MessageToString(message).encode()):
        assert without_password(data) == data


@pytest.mark.parametrize("version", [b"2\n", b"3\n", b"3\n\x7f", b"1\n", b"4\n", b"", b"x"])
def test_undecodable_metadata_is_cut_to_its_header(version: bytes) -> None:
    cut = without_password(MAGIC + version + b'password: "' + SECRET.encode())
    assert cut in (b"", MAGIC + version[:2])
    with pytest.raises(DecodeError):
        decode(cut)
    assert without_password(SECRET.encode()) == b""


def test_bytes_after_the_message_are_removed() -> None:
    data = v3(LedgerMetadataFormat(quorumSize=1, ensembleSize=1, length=0, state=LedgerMetadataFormat.OPEN))
    assert without_password(data + SECRET.encode()) == data


def test_server_metadata_parses_equally_without_its_password() -> None:
    password_count = 0
    for vector in vectors("metadata"):
        data = bytes_of(vector)
        password = bytes.fromhex(vector["decoded"]["password"])
        cut = without_password(data)
        assert parse(cut) == parse(data)
        if len(password) >= 4:
            password_count += 1
            assert password not in cut
    assert password_count > 3


@given(st.integers(0, 2**64 - 1))
def test_encoded_varint_is_read_back(number: int) -> None:
    data = encode_varint(number)
    assert varint(data, 0, len(data)) == (number, len(data))
