"""Ledger metadata of format 2 exactly as the server writes it, taken apart by one regular expression.

A cluster can have tens of millions of these, and the parser for all that the server *reads* is many times
slower. What does not match here is that parser's to judge; what does match, both read alike.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from auditor.codecs.proto_text import MAX_TEXT_BYTES, unescape

# Narrower than the format on purpose: numbers that surely fit, escapes that surely mean what they mean.
_I32 = rb"0|-?[1-9][0-9]{0,8}"
_I64 = rb"0|-?[1-9][0-9]{0,17}"
_QUOTED = rb'"(?:[\x20\x21\x23-\x5b\x5d-\x7e]++|\\(?:[nrt"' + rb"'" + rb'\\]|[0-3][0-7]{2}))*+"'
_PLAIN = rb'"[\x20\x21\x23-\x5b\x5d-\x7e]*+"'
_CANONICAL = re.compile(
    rb"quorumSize: (?P<write_quorum>" + _I32 + rb")\n"
    rb"ensembleSize: (?P<ensemble_size>" + _I32 + rb")\n"
    rb"length: (?P<length>" + _I64 + rb")\n"
    rb"(?:lastEntryId: (?P<last_entry_id>" + _I64 + rb")\n)?"
    rb"state: (?P<state>OPEN|IN_RECOVERY|CLOSED)\n"
    rb"(?P<segments>(?:segment \{\n(?:  ensembleMember: " + _PLAIN + rb"\n)*+"
    rb"  firstEntryId: (?:" + _I64 + rb")\n\}\n)*+)"
    rb"(?:digestType: (?P<digest>CRC32|HMAC|CRC32C|DUMMY)\n)?"
    rb"(?P<password>password: " + _QUOTED + rb"\n)?"
    rb"(?:ackQuorumSize: (?P<ack_quorum>" + _I32 + rb")\n)?"
    rb"(?:ctime: (?P<ctime>" + _I64 + rb")\n)?"
    rb"(?P<custom>(?:customMetadata \{\n  key: " + _QUOTED + rb"\n  value: " + _QUOTED + rb"\n\}\n)*+)"
)


class CanonicalFields(NamedTuple):
    """The fields of one record as they stand there, before BookKeeper makes anything of them."""

    write_quorum: int
    ensemble_size: int
    length: int
    last_entry_id: int
    state: str
    firsts: list[int]
    ensembles: list[list[str]]
    digest: str | None
    has_password: bool
    ack_quorum: int | None
    ctime: int | None
    custom_metadata: dict[str, bytes]


def fields(data: bytes, start: int) -> CanonicalFields | None:
    """The fields of canonical text that begins at byte ``start``, or None if the text is not canonical.

    >>> fields(b"quorumSize: 1\\nensembleSize: 1\\nlength: 0\\nstate: OPEN\\n", 0).ensemble_size
    1
    >>> fields(b"quorumSize: 1 ensembleSize: 1", 0) is None
    True
    """
    match = _CANONICAL.fullmatch(data, start) if len(data) - start <= MAX_TEXT_BYTES else None
    if match is None:
        return None
    (
        write_quorum,
        ensemble_size,
        length,
        last,
        state,
        segments,
        digest,
        password,
        ack_quorum,
        ctime,
        custom,
    ) = match.groups()
    firsts: list[int] = []
    ensembles: list[list[str]] = []
    # No quote, brace or newline can stand inside a member, so that plain splitting is safe.
    for segment in segments.decode("ascii").split("\n}\n")[:-1]:
        *quoted, rest = segment.split('"')
        firsts.append(int(rest.rpartition(" ")[2]))
        ensembles.append(quoted[1::2])
    return CanonicalFields(
        int(write_quorum),
        int(ensemble_size),
        int(length),
        int(last) if last else 0,
        state.decode("ascii"),
        firsts,
        ensembles,
        digest.decode("ascii") if digest else None,
        password is not None,
        int(ack_quorum) if ack_quorum else None,
        int(ctime) if ctime else None,
        _custom(custom) if custom else {},
    )


def _custom(text: bytes) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for entry in text.split(b"\n}\n")[:-1]:
        key, _, value = entry.removeprefix(b'customMetadata {\n  key: "').partition(b'"\n  value: "')
        found[unescape(key).decode("utf-8", "replace")] = unescape(value[:-1])
    return found
