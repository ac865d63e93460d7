"""The stream that snappy-java writes, in which ZooKeeper can keep its snapshots.

    82 53 4e 41 50 50 59 00   int version   int compatible version   then blocks: int length, raw Snappy block

The numbers are big-endian; there is no end mark and no checksum. A header may appear again between blocks
(concatenated streams). This is not Snappy's own framing format, which begins ff 06 00 00
(Java: ``SnappyOutputStream``, ``SnappyInputStream``).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

import cramjam

from auditor.errors import DecodeError

MAGIC = b"\x82SNAPPY\x00"
BLOCK_LIMIT = 64 * 1024 * 1024
"""Bytes in one block, packed or not. snappy-java writes 32 KiB; a hostile length must not cost gigabytes."""

_HEADER_REST = len(MAGIC) - 4 + 8


def decompress(source: BinaryIO) -> Iterator[bytes]:
    """The blocks of a stream, unpacked, in order.

    >>> import io
    >>> raw = bytes(cramjam.snappy.compress_raw(b"ledgers"))
    >>> packed = MAGIC + bytes([0, 0, 0, 1] * 2) + len(raw).to_bytes(4, "big") + raw
    >>> list(decompress(io.BytesIO(packed)))
    [b'ledgers']

    Raises:
        DecodeError: at the byte of ``source`` where the header or the length of a bad block begins.
    """
    at = 0
    begun = False
    while head := source.read(4):
        if head == MAGIC[:4]:
            rest = source.read(_HEADER_REST)
            if len(rest) < _HEADER_REST or not rest.startswith(MAGIC[4:]):
                raise DecodeError("snappy stream", at, "a header that is not snappy-java's")
            begun = True
            at += 4 + _HEADER_REST
            continue
        length = int.from_bytes(head, "big")
        if not begun:
            raise DecodeError("snappy stream", at, "it does not begin as snappy-java's streams do")
        if len(head) < 4 or length > BLOCK_LIMIT:
            raise DecodeError("snappy stream", at, f"a block length of {head.hex()}")
        packed = source.read(length)
        if len(packed) < length:
            raise DecodeError("snappy stream", at, f"{length} bytes promised, {len(packed)} present")
        yield _block(packed, at)
        at += 4 + length
    if not begun:
        raise DecodeError("snappy stream", 0, "it is empty")


def _block(packed: bytes, at: int) -> bytes:
    try:
        if cramjam.snappy.decompress_raw_len(packed) > BLOCK_LIMIT:
            raise DecodeError("snappy stream", at, f"a block larger than {BLOCK_LIMIT} bytes")
        return bytes(cramjam.snappy.decompress_raw(packed))
    except cramjam.DecompressionError as error:
        raise DecodeError("snappy stream", at, f"a damaged block: {error}") from error
