"""A ledger's password goes into no value, no error and no column."""

from __future__ import annotations

from dataclasses import fields

import pytest
from google.protobuf import text_format
from hypothesis import given
from hypothesis import strategies as st

from auditor.codecs.ledger_metadata.batch import decode_batch
from auditor.codecs.ledger_metadata.one import MAGIC, decode
from auditor.codecs.protobuf.pb.ledger_metadata_pb2 import LedgerMetadataFormat
from auditor.errors import DecodeError, RuleError
from tests.codecs.ledger_metadata.test_one import v3
from tests.codecs.ledger_strategies import messages, mutations
from tests.codecs.metadata_vectors import bytes_of, vectors

# No part of it may be seen either: an error that shows where it stopped would show a part.
SECRET = "Xq9Zw7Kp3Lm5"
PARTS = [SECRET[at : at + 4] for at in range(len(SECRET) - 3)]


def everything_said_about(data: bytes) -> str:
    said = []
    try:
        said.append(repr(decode(data)))
    except (DecodeError, RuleError) as error:
        said += [str(error), repr(error), repr(error.args), repr(error.__cause__)]
    columns = decode_batch([data])
    said += [repr(getattr(columns, column.name)) for column in fields(columns)]
    return "\n".join(said)


def keeping_secret(message: LedgerMetadataFormat) -> LedgerMetadataFormat:
    kept = LedgerMetadataFormat()
    kept.CopyFrom(message)
    kept.password = SECRET.encode()
    return kept


@given(messages.map(keeping_secret))
def test_no_value_shows_a_password(message: LedgerMetadataFormat) -> None:
    for data in (v3(message), MAGIC + b"2\n" + text_format.MessageToString(message).encode()):
        said = everything_said_about(data)
        assert not any(part in said for part in PARTS)
        assert "has_password=True" in said


@given(messages.map(keeping_secret), st.data())
def test_no_error_shows_a_part_of_a_password(message: LedgerMetadataFormat, data: st.DataObject) -> None:
    written = MAGIC + b"2\n" + text_format.MessageToString(message).encode()
    damaged = data.draw(st.sampled_from([v3(message), written]).flatmap(mutations))
    said = everything_said_about(damaged)
    assert not any(part in said for part in PARTS)


@pytest.mark.parametrize("quote", [b"'", b"", b'"', b'""'])
def test_a_password_in_the_wrong_place_is_not_repeated(quote: bytes) -> None:
    data = MAGIC + b"2\npassword: " + quote + SECRET.encode() + b"\n"
    said = everything_said_about(data)
    assert not any(part in said for part in PARTS)


def test_no_password_of_a_server_is_in_what_we_read() -> None:
    for vector in vectors("metadata"):
        password = bytes.fromhex(vector["decoded"]["password"])
        if len(password) >= 4:
            said = everything_said_about(bytes_of(vector))
            assert repr(password)[2:-1] not in said
            assert password.hex() not in said
