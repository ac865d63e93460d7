r"""The two text formats of ledger metadata, after the header.

Format 2 is the message of format 3 as protobuf text. Format 1 is older and consists of lines:

    2                                  write quorum, which is the ack quorum too
    3                                  ensemble size
    1000                               length in bytes, 0 unless closed
    0\tbk1:3181\tbk2:3181\tbk3:3181    a segment: first entry, then the bookies; one line each
    9\tCLOSED                          last entry, or -102 for a ledger in recovery; no line when it is open

Format 1 has no digest type, password, time or custom metadata. Lines after the line with CLOSED are
ignored, as in the server.
"""

from __future__ import annotations

import re

from auditor.codecs.ledger_metadata.message import interpret
from auditor.codecs.protobuf import text as proto_text
from auditor.codecs.protobuf.pb.ledger_metadata_pb2 import LedgerMetadataFormat
from auditor.errors import DecodeError
from auditor.model.ledger_metadata import NO_ENTRY, LedgerMetadata, LedgerState, Segment

FORMAT_NAME = "ledger metadata"
MAX_TEXT_BYTES = proto_text.MAX_TEXT_BYTES

_IN_RECOVERY_ENTRY = -102  # stands where the last entry would, with the word CLOSED
_CLOSED_WORD = "CLOSED"
_LINE_PATTERN = re.compile(rb"([^\r\n]*+)(?:\r\n|\r|\n|\Z)")
_INTEGER_PATTERN = re.compile(r"([+-]?)0*([0-9]{1,19})", re.ASCII)

# Format 2 exactly as the server writes it; numbers surely fit, members have no escapes.
_MEMBER_SEPARATOR = '"\n  ensembleMember: "'
_PLAIN_TEXT_REGEX, _LONG_REGEX = rb"[ !#-\[\]-~]++", rb"0|-?[1-9][0-9]{0,17}"
_ESCAPED_REGEX = rb"(?:%s|\\(?:[abfnrtv\"'\\]|[0-3][0-7]{2}))*+" % _PLAIN_TEXT_REGEX
_SEGMENT_REGEX = rb'segment \{\n  ensembleMember: "((?:%s|%s)*+)"\n  firstEntryId: (%s)\n\}\n' % (
    _PLAIN_TEXT_REGEX,
    _MEMBER_SEPARATOR.encode(),
    _LONG_REGEX,
)
_CUSTOM_REGEX = rb'customMetadata \{\n  key: "(%s)"\n  value: "(%s)"\n\}\n' % (_ESCAPED_REGEX, _ESCAPED_REGEX)
_SEGMENT_PATTERN, _CUSTOM_PATTERN = re.compile(_SEGMENT_REGEX), re.compile(_CUSTOM_REGEX)
_SERVER_LAYOUT_PATTERN = re.compile(
    rb"quorumSize: (?P<quorum>[1-9][0-9]{0,8})\nensembleSize: (?P<ensemble>[1-9][0-9]{0,8})\n"
    + rb"length: (?P<length>%s)\n(?:lastEntryId: (?P<last>%s)\n)?" % (_LONG_REGEX, _LONG_REGEX)
    + rb"state: (?P<state>OPEN|IN_RECOVERY|CLOSED)\n(?P<segments>(?:%s)*+)" % _SEGMENT_REGEX
    + rb'(?:digestType: (?P<digest>CRC32C?|HMAC|DUMMY)\n)?(?P<password>password: "%s"\n)?' % _ESCAPED_REGEX
    + rb"(?:ackQuorumSize: (?P<ack>[1-9][0-9]{0,8})\n)?(?:ctime: (?P<ctime>%s)\n)?" % _LONG_REGEX
    + rb"(?P<custom>(?:%s)*+)" % _CUSTOM_REGEX
)


def parse_v1(data: bytes, start: int) -> LedgerMetadata:
    """Read format 1 from byte ``start`` on, without a check of the rules. Raises `DecodeError`.

    >>> parse_v1(b"1\\n1\\n0\\n0\\tbk1:3181\\n-1\\tCLOSED", 0).state
    <LedgerState.CLOSED: 'CLOSED'>
    """
    if len(data) - start > MAX_TEXT_BYTES:
        raise DecodeError(FORMAT_NAME, start + MAX_TEXT_BYTES, f"text of more than {MAX_TEXT_BYTES} bytes")
    lines = _LINE_PATTERN.finditer(data, start)
    quorum, ensemble_size, length = (
        _parse_integer(*_decode_line(next(lines), field_name), value_bits, field_name)
        for field_name, value_bits in (("write quorum", 31), ("ensemble size", 31), ("length", 63))
    )
    segments: list[Segment] = []
    state, last_entry_id = LedgerState.OPEN, NO_ENTRY
    for match in lines:
        if match.start() == len(data):
            break
        line, offset = _decode_line(match, "segment")
        first_entry, *members = line.rstrip("\t").split("\t")
        if not members:
            raise DecodeError(FORMAT_NAME, offset, "a line without a tab")
        if members[0] == _CLOSED_WORD:
            last_entry_id = _parse_integer(first_entry, offset, 63, "last entry")
            state = LedgerState.IN_RECOVERY if last_entry_id == _IN_RECOVERY_ENTRY else LedgerState.CLOSED
            break
        segments.append(Segment(_parse_integer(first_entry, offset, 63, "first entry"), tuple(members)))
    is_closed = state is LedgerState.CLOSED
    return LedgerMetadata(
        format_version=1,
        ensemble_size=ensemble_size,
        write_quorum=quorum,
        ack_quorum=quorum,
        state=state,
        length=length if is_closed else 0,
        last_entry_id=last_entry_id if is_closed else NO_ENTRY,
        segments=tuple(segments),
    )


def parse_v2(data: bytes, start: int, store_ctime: int | None) -> LedgerMetadata:
    """Read format 2 from byte ``start`` on, without checking rules. Raises `DecodeError` if it is damaged."""
    return interpret(2, proto_text.parse(LedgerMetadataFormat, data, FORMAT_NAME, start), store_ctime)


def read_as_written(data: bytes, start: int) -> LedgerMetadataFormat | None:
    """Read format 2 in exactly the layout that the server writes, five times as fast as `parse_v2`.

    Returns None for every other layout, and if a number has 19 digits. The result says that there is a
    password, but does not contain it.

    >>> read_as_written(b"quorumSize: 1\\nensembleSize: 3\\nlength: 0\\nstate: OPEN\\n", 0).ensembleSize
    3
    >>> read_as_written(b"quorumSize: 1 ensembleSize: 3 length: 0 state: OPEN", 0)
    """
    match = _SERVER_LAYOUT_PATTERN.fullmatch(data, start) if len(data) - start <= MAX_TEXT_BYTES else None
    if match is None:
        return None
    quorum, ensemble, length, last_entry, state = match.group("quorum", "ensemble", "length", "last", "state")
    digest, password, ack_quorum, ctime = match.group("digest", "password", "ack", "ctime")
    message = LedgerMetadataFormat(
        quorumSize=int(quorum),
        ensembleSize=int(ensemble),
        length=int(length),
        lastEntryId=int(last_entry) if last_entry else None,
        state=state.decode(),
        digestType=digest.decode() if digest else None,
        password=b"" if password else None,
        ackQuorumSize=int(ack_quorum) if ack_quorum else None,
        ctime=int(ctime) if ctime else None,
    )
    for members, first_entry in _SEGMENT_PATTERN.findall(match["segments"]):
        message.segment.add(
            firstEntryId=int(first_entry), ensembleMember=members.decode().split(_MEMBER_SEPARATOR)
        )
    for key, value in _CUSTOM_PATTERN.findall(match["custom"]):
        name = proto_text.unescape(key).decode("utf-8", "replace")
        message.customMetadata.add(key=name, value=proto_text.unescape(value))
    return message


def _decode_line(match: re.Match[bytes], field_name: str) -> tuple[str, int]:
    if match.start() == match.end():
        raise DecodeError(FORMAT_NAME, match.start(), f"the text ends before the {field_name}")
    return match[1].decode("utf-8", "replace"), match.start()


def _parse_integer(text: str, offset: int, value_bits: int, field_name: str) -> int:
    match = _INTEGER_PATTERN.fullmatch(text)
    value = int(match[1] + match[2]) if match else None
    if value is None or not -(1 << value_bits) <= value < 1 << value_bits:
        raise DecodeError(FORMAT_NAME, offset, f"the {field_name} is not a {value_bits + 1}-bit integer")
    return value
