"""Entry logs, built by simple code for the tests of codec, source and space."""

from __future__ import annotations

import struct
from collections.abc import Sequence

Entry = tuple[int, int, int]
"""Ledger, entry and bytes of payload."""


def header(map_offset: int = 0, ledgers: int = 0, version: int = 1) -> bytes:
    return struct.pack(">4siqi", b"BKLO", version, map_offset, ledgers).ljust(1024, b"\0")


def record(ledger: int, entry: int, payload: int = 0) -> bytes:
    """Return an entry as the servers write it, with zeros after its ids."""
    return struct.pack(">iqq", 16 + payload, ledger, entry) + bytes(payload)


def scoped(scope: int, ledger: int, entry: int, payload: int = 0) -> bytes:
    """Return an entry of BP-35, without a digest."""
    return struct.pack(">iBqqqqq", 41 + payload, 0xA4, scope, ledger, entry, -1, 0) + bytes(payload)


def ledgers_map(ledgers: Sequence[tuple[int, int]]) -> bytes:
    pairs = b"".join(struct.pack(">qq", *pair) for pair in ledgers)
    return struct.pack(">iqqi", 20 + len(pairs), -1, -2, len(ledgers)) + pairs


def sums(entries: Sequence[Entry]) -> dict[int, int]:
    """Return the bytes of each ledger, as a ledgers map has them."""
    bytes_by_ledger: dict[int, int] = {}
    for ledger, _, payload in entries:
        bytes_by_ledger[ledger] = bytes_by_ledger.get(ledger, 0) + 20 + payload
    return bytes_by_ledger


def log(entries: Sequence[Entry], closed: bool = True, map_sums: dict[int, int] | None = None) -> bytes:
    """Return an entry log; ``map_sums`` replaces the true contents of its ledgers map."""
    body = b"".join(record(*entry) for entry in entries)
    if not closed:
        return header() + body
    pairs = list((sums(entries) if map_sums is None else map_sums).items())
    return header(1024 + len(body), len(pairs)) + body + ledgers_map(pairs)


def direct_log(flushes: Sequence[Sequence[Entry]], closed: bool = True) -> bytes:
    """Return a log of the direct logger: it pads each flush to a block of 4096 bytes."""
    data = struct.pack(">iq", 3068, -1).ljust(3072, b"\0")
    for entries in flushes:
        data += b"".join(record(*entry) for entry in entries)
        data += b"\xf0" * (-(1024 + len(data)) % 4096)
    pad = b"\xf0" * (-(1024 + len(data)) % 4096)
    if not closed:
        return header() + data + pad
    pairs = list(sums([entry for entries in flushes for entry in entries]).items())
    map_header = header(1024 + len(data) + len(pad), len(pairs))
    log_bytes = map_header + data + pad + ledgers_map(pairs)
    return log_bytes + b"\xf0" * (-len(log_bytes) % 4096)
