"""The digest of an entry: of its header and payload together, between the two.

    header    32 bytes (BP-35: 41; `auditor.codecs.bookie.entry`)
    digest    CRC32    8 bytes    CRC-32 as zlib has it, in front of it four zeros
              MAC     20          HMAC-SHA1 under SHA1("mac" + the ledger's password)
              CRC32C   4          CRC-32C (Castagnoli)
              DUMMY    0
    payload   the rest

All big-endian (``DigestManager`` of the server's client). Which of the four it is stands in the ledger's
metadata, never in an entry of version 1.
"""

from __future__ import annotations

import hashlib
import hmac
import zlib

import google_crc32c

DIGEST_BYTES = {"CRC32C": 4, "CRC32": 8, "MAC": 20, "DUMMY": 0}
"""By digest type, as ledger metadata names it."""


def mac_key(password: bytes) -> bytes:
    """The key of a ledger's HMACs.

    >>> len(mac_key(b"secret"))
    20
    """
    return hashlib.sha1(b"mac" + password).digest()


def master_key(password: bytes) -> bytes:
    """What bookies keep of a ledger's password: who adds entries or fences must show it.

    >>> master_key(b"").hex()[:8]
    '850bf107'
    """
    return hashlib.sha1(b"ledger" + password).digest()


def digest_matches(
    entry: bytes, header_bytes: int, digest_type: str, key: bytes | None = None
) -> bool | None:
    """Whether an entry is what its digest says; None where nothing can be said: DUMMY, or MAC without a key.

    An entry too short for its digest does not match.

    >>> entry = bytes.fromhex("00" * 16 + "ff" * 8 + "00" * 7 + "07" + "2e233f22") + b"entry-0"
    >>> digest_matches(entry, 32, "CRC32C"), digest_matches(entry[:-1] + b"1", 32, "CRC32C")
    (True, False)
    """
    length = DIGEST_BYTES[digest_type]
    if not length or (digest_type == "MAC" and key is None):
        return None
    view = memoryview(entry)
    # The digest stands between what it covers: over the header before it and the payload behind it.
    head, digest, body = (
        view[:header_bytes],
        view[header_bytes : header_bytes + length],
        view[header_bytes + length :],
    )
    if len(digest) != length:
        return False
    if key is not None and digest_type == "MAC":
        mac = hmac.new(key, head, hashlib.sha1)
        mac.update(body)
        return hmac.compare_digest(mac.digest(), digest)
    crc = crc32c(head, body) if digest_type == "CRC32C" else zlib.crc32(body, zlib.crc32(head))
    return int.from_bytes(digest, "big") == crc


def crc32c(*parts: bytes | memoryview) -> int:
    """CRC-32C of some bytes that follow each other.

    >>> hex(crc32c(b"12345", b"6789"))
    '0xe3069283'
    """
    crc = 0
    for part in parts:
        crc = google_crc32c.extend(crc, bytes(part))
    return crc
