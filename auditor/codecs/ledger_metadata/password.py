"""Ledger metadata without its password, for who hands metadata on.

Formats 2 and 3 hold the password in clear text, in field 8. It becomes an empty one, which is a password too:
whoever decodes the metadata finds the same value. Format 1 has none.
"""

from __future__ import annotations

from google.protobuf import text_format

from auditor.codecs.ledger_metadata import text
from auditor.codecs.ledger_metadata.one import WHAT, message_span, read_version
from auditor.codecs.protobuf import text as proto_text
from auditor.codecs.protobuf import wire
from auditor.codecs.protobuf.pb.ledger_metadata_pb2 import LedgerMetadataFormat
from auditor.errors import DecodeError


def without_password(data: bytes) -> bytes:
    r"""The same metadata with an empty password where it has one.

    What cannot be decoded could hold a password anywhere: of it the header is left, or nothing, and that
    cannot be decoded either.

    >>> open_v2 = b'BookieMetadataFormatVersion\t2\nquorumSize: 1\nensembleSize: 1\nlength: 0\nstate: OPEN\n'
    >>> without_password(open_v2 + b'password: "secret"\n').endswith(b'password: ""\n')
    True
    """
    try:
        version, start = read_version(data)
    except DecodeError:
        return b""
    head = data[:start]
    try:
        if version == 1:
            text.parse_v1(data, start)
            return data
        return head + (_of_text(data, start) if version == 2 else _of_message(data, start))
    except DecodeError:
        return head


def _of_text(data: bytes, start: int) -> bytes:
    message = proto_text.parse(LedgerMetadataFormat, data, WHAT, start)
    if not message.HasField("password"):
        return data[start:]
    message.password = b""
    return text_format.MessageToString(message).encode()


def _of_message(data: bytes, start: int) -> bytes:
    """The length and the message; what follows it, which nobody reads, is left out."""
    begin, end = message_span(data, start)
    message = wire.parse(LedgerMetadataFormat, data, WHAT, begin, end)
    if not message.HasField("password"):
        return data[start:end]
    message.password = b""
    body = message.SerializeToString()
    return wire.written_varint(len(body)) + body
