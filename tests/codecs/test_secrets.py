"""A ledger's password never appears in a value, an error or a column."""

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
PARTS = [SECRET[start : start + 4] for start in range(len(SECRET) - 3)]


def decoder_output(data: bytes) -> str:
    texts = []
    try:
        texts.append(repr(decode(data)))
    except (DecodeError, RuleError) as error:
        texts += [str(error), repr(error), repr(error.args), repr(error.__cause__)]
    columns = decode_batch([data])
    texts += [repr(getattr(columns, column.name)) for column in fields(columns)]
    return "\n".join(texts)


def with_secret(message: LedgerMetadataFormat) -> LedgerMetadataFormat:
    copy = LedgerMetadataFormat()
    copy.CopyFrom(message)
    copy.password = SECRET.encode()
    return copy


@given(messages.map(with_secret))
def test_decoded_value_does_not_show_the_password(message: LedgerMetadataFormat) -> None:
    for data in (v3(message), MAGIC + b"2\n" + text_format.MessageToString(message).encode()):
        output = decoder_output(data)
        assert not any(part in output for part in PARTS)
        assert "has_password=True" in output


@given(messages.map(with_secret), st.data())
def test_error_does_not_show_a_part_of_the_password(
    message: LedgerMetadataFormat, data: st.DataObject
) -> None:
    text = MAGIC + b"2\n" + text_format.MessageToString(message).encode()
    damaged = data.draw(st.sampled_from([v3(message), text]).flatmap(mutations))
    output = decoder_output(damaged)
    assert not any(part in output for part in PARTS)


@pytest.mark.parametrize("quote", [b"'", b"", b'"', b'""'])
def test_misplaced_password_is_not_repeated(quote: bytes) -> None:
    data = MAGIC + b"2\npassword: " + quote + SECRET.encode() + b"\n"
    output = decoder_output(data)
    assert not any(part in output for part in PARTS)


def test_password_of_a_server_is_in_no_decoded_output() -> None:
    for vector in vectors("metadata"):
        password = bytes.fromhex(vector["decoded"]["password"])
        if len(password) >= 4:
            output = decoder_output(bytes_of(vector))
            assert repr(password)[2:-1] not in output
            assert password.hex() not in output
