"""The header in front of every entry: which ledger and entry it is, and how far its writer was.

    version 1 (DigestManager; every server)          version 2 (BP-35; no server yet)
    byte  0  ledger id            int64              byte  0  flags             uint8
          8  entry id             int64                    1  scope id          int64
         16  last add confirmed   int64                    9  ledger id         int64
         24  length               int64                   17  entry id          int64
         32  digest, payload                              25  last add confirmed  int64
                                                          33  length            int64
                                                          41  digest, payload

All big-endian. Ids of version 1 are never negative, so a first byte from 0x80 on means version 2: bit 7 set,
the version in bits 4 to 6 (2; 0 is taken as well), the digest type in bits 0 to 3. BP-35 says of these flags
both that they are one byte and that they fill eight, and lets the digest begin at byte 37, which fits
neither; one byte is what its "9 bytes more" and its picture say, and is chosen here.

The digest type of version 1 is in the ledger's metadata only. What an entry log keeps beside entries has the
ledger id -1 and is not an entry: it must be left out before this is asked.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from auditor.errors import DecodeError
from auditor.model.ledger_id import LedgerId

WHAT = "entry"

_V1 = struct.Struct(">qqqq")
_V2 = struct.Struct(">Bqqqqq")
_SECOND = 0x80
_VERSION_2 = 2
DIGESTS = {1: "CRC32", 2: "MAC", 3: "CRC32C", 4: "DUMMY"}
"""Digest types by number, as ledger metadata has them."""


class EntryHeader(NamedTuple):
    """What is in front of an entry's digest and payload.

    ``length`` is payload bytes of the ledger up to this entry and with it; ``last_add_confirmed`` is -1
    before the first confirmation; ``digest_type`` is None in version 1, which does not say it;
    ``header_bytes`` is where the digest begins.
    """

    version: int
    ledger: LedgerId
    entry_id: int
    last_add_confirmed: int
    length: int
    digest_type: str | None
    header_bytes: int


def decode_header(data: bytes) -> EntryHeader:
    """Read an entry's header, of either version; what follows it is not looked at.

    Raises `DecodeError` for too few bytes, a version that nobody defined, or an unknown digest type.

    >>> header = decode_header(struct.pack(">qqqq", 7, 1, -1, 24))
    >>> header.version, header.ledger, header.entry_id
    (1, LedgerId(id=7, scope=0), 1)
    """
    if not data:
        raise DecodeError(WHAT, 0, "no byte")
    if data[0] < _SECOND:
        ledger_id, entry_id, confirmed, length = _V1.unpack(_enough(data, _V1.size))
        return EntryHeader(1, LedgerId(ledger_id), entry_id, confirmed, length, None, _V1.size)
    flags, scope, ledger_id, entry_id, confirmed, length = _V2.unpack(_enough(data, _V2.size))
    version, digest = flags >> 4 & 0b111, flags & 0b1111
    if version not in (0, _VERSION_2):
        raise DecodeError(WHAT, 0, f"version {version} of the header")
    if digest not in DIGESTS:
        raise DecodeError(WHAT, 0, f"digest type {digest}")
    ledger = LedgerId(ledger_id, scope=scope)
    return EntryHeader(_VERSION_2, ledger, entry_id, confirmed, length, DIGESTS[digest], _V2.size)


def _enough(data: bytes, wanted: int) -> bytes:
    if len(data) < wanted:
        raise DecodeError(WHAT, len(data), f"a header of {wanted} bytes ends after {len(data)}")
    return data[:wanted]
