"""The metadata of a ledger: the value of its znode or etcd key (LedgerMetadataSerDe).

    byte  0                            28        30
          BookieMetadataFormatVersion  version   body
          and a tab                    and \\n

    version 1   lines of text, since 4.0            `auditor.codecs.ledger_metadata.text`
    version 2   protobuf as text, since 4.2         `auditor.codecs.ledger_metadata.text`
    version 3   varint length, then protobuf, since 4.9; bytes after the message are ignored

The version is decimal, up to 9 characters, and may have leading zeros or a plus sign.
"""

from __future__ import annotations

import re
from itertools import takewhile

from google.protobuf import text_format

from auditor.codecs.ledger_metadata import text as ledger_metadata_text
from auditor.codecs.ledger_metadata.message import interpret
from auditor.codecs.protobuf import text as proto_text
from auditor.codecs.protobuf import wire as proto_wire
from auditor.codecs.protobuf.pb.ledger_metadata_pb2 import LedgerMetadataFormat
from auditor.errors import DecodeError, RuleError
from auditor.model.ledger_metadata import LedgerMetadata, broken_rules

FORMAT_NAME = "ledger metadata"
MAGIC = b"BookieMetadataFormatVersion\t"

_VERSION_LINE = re.compile(rb"([^\n]{0,9})\n")
_VERSION_NUMBER = re.compile(rb"[+-]?[0-9]+")


def decode(data: bytes, store_ctime: int | None = None) -> LedgerMetadata:
    """Read the metadata of a ledger, in any of the three formats.

    ``store_ctime`` is the creation time in ms that the store keeps. It is used for metadata of formats 2 and
    3 that has no time. Raises `DecodeError` at the first byte that breaks the format. Raises `RuleError`,
    with the parsed value, for metadata that BookKeeper itself refuses to build. Metadata that BookKeeper
    builds may still break a rule: see `auditor.model.ledger_metadata.broken_rules`.

    >>> decode(b"BookieMetadataFormatVersion\\t1\\n1\\n1\\n0\\n0\\tbk1:3181\\n").segments
    (Segment(first_entry_id=0, ensemble=('bk1:3181',)),)
    """
    metadata = parse(data, store_ctime)
    for rule in broken_rules(metadata):
        if rule.refused:
            raise RuleError(FORMAT_NAME, rule.rule, rule.reason, metadata)
    return metadata


def parse(data: bytes, store_ctime: int | None = None) -> LedgerMetadata:
    """Read metadata like `decode`, but without checking rules. So it raises only `DecodeError`."""
    version, start = read_version(data)
    if version == 1:
        return ledger_metadata_text.parse_v1(data, start)
    if version == 2:
        return ledger_metadata_text.parse_v2(data, start, store_ctime)
    message = proto_wire.parse(LedgerMetadataFormat, data, FORMAT_NAME, *message_span(data, start))
    return interpret(3, message, store_ctime)


def message_span(data: bytes, start: int) -> tuple[int, int]:
    """Return the start and the end of the message in a value of version 3.

    ``start`` is the offset of the message's length. Raises `DecodeError` if the length or the message is
    cut.
    """
    length_and_start = proto_wire.varint(data, start, len(data))
    if length_and_start is None:
        raise DecodeError(FORMAT_NAME, start, "the length of the message is cut off or too long")
    length, message_start = length_and_start
    if message_start + length > len(data):
        raise DecodeError(
            FORMAT_NAME, len(data), f"{length} bytes declared, {len(data) - message_start} present"
        )
    return message_start, message_start + length


def read_version(data: bytes) -> tuple[int, int]:
    """Return the format version, 1 to 3, and where the body begins.

    >>> read_version(b"BookieMetadataFormatVersion\\t3\\n")
    (3, 30)
    """
    if not data.startswith(MAGIC):
        equal_bytes = takewhile(
            lambda byte_pair: byte_pair[0] == byte_pair[1], zip(data, MAGIC, strict=False)
        )
        raise DecodeError(FORMAT_NAME, len(list(equal_bytes)), "the header is not that of ledger metadata")
    match = _VERSION_LINE.match(data, len(MAGIC))
    if match is None or not _VERSION_NUMBER.fullmatch(match[1]):
        raise DecodeError(FORMAT_NAME, len(MAGIC), "no version number")
    version = int(match[1])
    if not 1 <= version <= 3:
        raise DecodeError(FORMAT_NAME, len(MAGIC), f"version {version} is not one of 1, 2 and 3")
    return version, match.end()


def without_password(data: bytes) -> bytes:
    r"""Return the same metadata with its password, if it has one, replaced by an empty password.

    Formats 2 and 3 contain the password in clear text. Format 1 has no password. An empty password still
    counts as a password, so the decoded value stays the same. If metadata cannot be decoded, a password
    could be anywhere in it. Then the function returns only the header, or no bytes if the header is
    damaged.

    >>> open_v2 = b'BookieMetadataFormatVersion\t2\nquorumSize: 1\nensembleSize: 1\nlength: 0\nstate: OPEN\n'
    >>> without_password(open_v2 + b'password: "secret"\n').endswith(b'password: ""\n')
    True
    """
    try:
        version, start = read_version(data)
    except DecodeError:
        return b""
    header = data[:start]
    try:
        if version == 1:
            ledger_metadata_text.parse_v1(data, start)
            return data
        return header + (
            _text_without_password(data, start) if version == 2 else _message_without_password(data, start)
        )
    except DecodeError:
        return header


def _text_without_password(data: bytes, start: int) -> bytes:
    message = proto_text.parse(LedgerMetadataFormat, data, FORMAT_NAME, start)
    if not message.HasField("password"):
        return data[start:]
    message.password = b""
    return text_format.MessageToString(message).encode()


def _message_without_password(data: bytes, start: int) -> bytes:
    """Return the message with an empty password, preceded by its length.

    Bytes after the message are dropped.
    """
    message_start, message_end = message_span(data, start)
    message = proto_wire.parse(LedgerMetadataFormat, data, FORMAT_NAME, message_start, message_end)
    if not message.HasField("password"):
        return data[start:message_end]
    message.password = b""
    body = message.SerializeToString()
    return proto_wire.encode_varint(len(body)) + body
