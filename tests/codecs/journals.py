"""Journal files, built by simple code for the tests of codec and source."""

from __future__ import annotations

import struct
from collections.abc import Iterable

MASTER_KEY, FENCE, EXPLICIT_LAC = -0x1000, -0x2000, -0x8000


def header(version: int = 6) -> bytes:
    """Return the header of a journal file of this version."""
    if version == 1:
        return b""
    return (b"BKLG" + struct.pack(">i", version)).ljust(512 if version >= 5 else 8, b"\0")


def record(ledger: int, entry: int, payload: bytes = b"payload") -> bytes:
    return struct.pack(">iqq", 16 + len(payload), ledger, entry) + payload


def padding(length: int) -> bytes:
    return struct.pack(">ii", -256, length) + b"\xff" * length


def journal(records: Iterable[tuple[int, int]], version: int = 6, spare: int = 4096) -> bytes:
    """Return a file with these records, one flush per record where the version pads, and zeros at the end."""
    data = bytearray(header(version))
    for ledger, entry in records:
        data += record(ledger, entry)
        if version >= 5:
            data += padding(-(len(data) + 8) % 512)
    return bytes(data) + bytes(spare)
