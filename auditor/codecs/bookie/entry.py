"""An entry's header (its ids and the writer's progress) and its digest.

    version 1 (DigestManager; every server)          version 2 (BP-35; no server yet)
    byte  0  ledger id            int64              byte  0  flags             uint8
          8  entry id             int64                    1  scope id          int64
         16  last add confirmed   int64                    9  ledger id         int64
         24  length               int64                   17  entry id          int64
         32  digest, payload                              25  last add confirmed  int64
                                                          33  length            int64
                                                          41  digest, payload

All numbers are big-endian. The ids of version 1 are never negative, so a first byte of 0x80 or above means
version 2. In the flags, bit 7 is set. Bits 4 to 6 are the version (2, but 0 is accepted as well). Bits 0 to 3
are the digest type. BP-35 contradicts itself about the size of the flags. It says both that they are one byte
and that they fill eight. It also lets the digest begin at byte 37, which fits neither size. Its "9 bytes
more" and its picture mean one byte, and this module follows them.

In version 1, the digest type is only in the ledger's metadata. An entry log also contains records with the
ledger id -1, which are not entries. The caller must leave them out.

The digest lies between the header and the payload, and covers both. It is big-endian:

    CRC32    8 bytes    four zero bytes, then the CRC-32 of zlib
    MAC     20          HMAC-SHA1 with the key SHA1("mac" + the ledger's password)
    CRC32C   4          CRC-32C (Castagnoli)
    DUMMY    0
"""

from __future__ import annotations

import hashlib
import hmac
import struct
import zlib
from typing import NamedTuple

import google_crc32c

from auditor.errors import DecodeError
from auditor.model.ledger_id import LedgerId

FORMAT_NAME = "entry"

_V1_HEADER = struct.Struct(">qqqq")
_V2_HEADER = struct.Struct(">Bqqqqq")
_V2_FLAG = 0x80
_VERSION_2 = 2
DIGESTS = {1: "CRC32", 2: "MAC", 3: "CRC32C", 4: "DUMMY"}
"""Digest types by number, as ledger metadata has them."""


class EntryHeader(NamedTuple):
    """The header before an entry's digest and payload.

    ``length`` is the number of payload bytes of the ledger up to and including this entry.
    ``last_add_confirmed`` is -1 before the first confirmation. ``digest_type`` is None in version 1, whose
    header does not contain it. ``header_bytes`` is the offset at which the digest begins.
    """

    version: int
    ledger: LedgerId
    entry_id: int
    last_add_confirmed: int
    length: int
    digest_type: str | None
    header_bytes: int


def decode_header(data: bytes) -> EntryHeader:
    """Read an entry's header in either version. The function does not read the rest of the entry.

    Raises `DecodeError` if there are too few bytes, or if the version or the digest type is undefined.

    >>> header = decode_header(struct.pack(">qqqq", 7, 1, -1, 24))
    >>> header.version, header.ledger, header.entry_id
    (1, LedgerId(id=7, scope=0), 1)
    """
    if not data:
        raise DecodeError(FORMAT_NAME, 0, "an entry of 0 bytes")
    if data[0] < _V2_FLAG:
        ledger_id, entry_id, last_add_confirmed, length = _V1_HEADER.unpack(
            _require_bytes(data, _V1_HEADER.size)
        )
        return EntryHeader(
            1, LedgerId(ledger_id), entry_id, last_add_confirmed, length, None, _V1_HEADER.size
        )
    flags, scope, ledger_id, entry_id, last_add_confirmed, length = _V2_HEADER.unpack(
        _require_bytes(data, _V2_HEADER.size)
    )
    version, digest = flags >> 4 & 0b111, flags & 0b1111
    if version not in (0, _VERSION_2):
        raise DecodeError(FORMAT_NAME, 0, f"a header with the unknown version {version}")
    if digest not in DIGESTS:
        raise DecodeError(FORMAT_NAME, 0, f"a header with the unknown digest type {digest}")
    ledger = LedgerId(ledger_id, scope=scope)
    return EntryHeader(
        _VERSION_2, ledger, entry_id, last_add_confirmed, length, DIGESTS[digest], _V2_HEADER.size
    )


def _require_bytes(data: bytes, size: int) -> bytes:
    if len(data) < size:
        raise DecodeError(
            FORMAT_NAME, len(data), f"a header of {size} bytes that is cut off after {len(data)} bytes"
        )
    return data[:size]


DIGEST_BYTES = {"CRC32C": 4, "CRC32": 8, "MAC": 20, "DUMMY": 0}
"""Length of the digest in bytes, by digest type as ledger metadata names it."""


def mac_key(password: bytes) -> bytes:
    """Return the key of a ledger's HMAC digests.

    >>> len(mac_key(b"secret"))
    20
    """
    return hashlib.sha1(b"mac" + password).digest()


def master_key(password: bytes) -> bytes:
    """Return the master key, which clients derive from a ledger's password and bookies store.

    Clients that add entries or fence the ledger must send this key.

    >>> master_key(b"").hex()[:8]
    '850bf107'
    """
    return hashlib.sha1(b"ledger" + password).digest()


def digest_matches(
    entry: bytes, header_bytes: int, digest_type: str, key: bytes | None = None
) -> bool | None:
    """Return whether an entry matches its digest, or None if this cannot be checked.

    It cannot be checked for DUMMY, or for MAC if ``key`` is None. An entry that is too short for its digest
    does not match.

    >>> entry = bytes.fromhex("00" * 16 + "ff" * 8 + "00" * 7 + "07" + "2e233f22") + b"entry-0"
    >>> digest_matches(entry, 32, "CRC32C"), digest_matches(entry[:-1] + b"1", 32, "CRC32C")
    (True, False)
    """
    length = DIGEST_BYTES[digest_type]
    if not length or (digest_type == "MAC" and key is None):
        return None
    entry_view = memoryview(entry)
    # The digest stands between what it covers: over the header before it and the payload behind it.
    header, digest, body = (
        entry_view[:header_bytes],
        entry_view[header_bytes : header_bytes + length],
        entry_view[header_bytes + length :],
    )
    if len(digest) != length:
        return False
    if key is not None and digest_type == "MAC":
        mac = hmac.new(key, header, hashlib.sha1)
        mac.update(body)
        return hmac.compare_digest(mac.digest(), digest)
    crc = crc32c(header, body) if digest_type == "CRC32C" else zlib.crc32(body, zlib.crc32(header))
    return int.from_bytes(digest, "big") == crc


def crc32c(*chunks: bytes | memoryview) -> int:
    """Return the CRC-32C of consecutive byte strings.

    >>> hex(crc32c(b"12345", b"6789"))
    '0xe3069283'
    """
    crc = 0
    for chunk in chunks:
        crc = google_crc32c.extend(crc, bytes(chunk))
    return crc
