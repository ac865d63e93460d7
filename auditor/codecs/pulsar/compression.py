"""A value of Pulsar's managed ledgers, plain or compressed (``MetaStoreImpl``).

    byte  0    47 78                                      magic; no plain value begins with 0x47
          2    n: i32, big-endian
          6    n bytes: PulsarCompressedMetadata (schemas/pulsar_managed_ledger.proto)
          6+n  the message, compressed            LZ4 and SNAPPY raw blocks, ZLIB a stream, ZSTD a frame

A broker never finishes its ZLIB stream: it ends with a sync flush (00 00 ff ff), and without a checksum.
A broker parses what it cannot unpack as a plain value; here it is damaged.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import NamedTuple

import cramjam

from auditor.codecs.protobuf import wire as proto_wire
from auditor.codecs.protobuf.pb.pulsar_managed_ledger_pb2 import PulsarCompressedMetadata
from auditor.errors import DecodeError

MAGIC = b"\x47\x78"
UNCOMPRESSED = "none"
COMPRESSIONS = {0: "NONE", 1: "LZ4", 2: "ZLIB", 3: "ZSTD", 4: "SNAPPY"}

_HEAD = len(MAGIC) + 4


class UnpackedMessage(NamedTuple):
    """A message, what it was compressed with ("none": it was not), and where its bytes begin in the value."""

    message: bytes
    compression: str
    begins: int


def unpack(data: bytes, what: str) -> UnpackedMessage:
    r"""Take the message out of a value, which ``what`` names in errors.

    >>> unpack(b"\x08\x01", "cursor").compression
    'none'
    >>> unpack(b"GxGx", "cursor")
    Traceback (most recent call last):
    auditor.errors.DecodeError: cursor: the head of a compressed value is cut (at byte 4)

    Raises:
        DecodeError: a compressed value that is cut, or that cannot be unpacked to the size that it promises.
    """
    if not data.startswith(MAGIC):
        return UnpackedMessage(data, UNCOMPRESSED, 0)
    if len(data) < _HEAD:
        raise DecodeError(what, len(data), "the head of a compressed value is cut")
    begins = _HEAD + int.from_bytes(data[len(MAGIC) : _HEAD], "big", signed=True)
    if not _HEAD <= begins <= len(data):
        raise DecodeError(
            what, len(MAGIC), f"{begins - _HEAD} bytes of metadata, {len(data) - _HEAD} present"
        )
    said = proto_wire.parse(PulsarCompressedMetadata, data, what, _HEAD, begins)
    compression = COMPRESSIONS.get(said.compressionType)
    size = said.uncompressedSize
    if compression is None:
        raise DecodeError(what, _HEAD, f"compression {said.compressionType} is none that is known")
    if not 0 <= size <= proto_wire.MAX_MESSAGE_BYTES:
        raise DecodeError(what, _HEAD, f"an uncompressed size of {size} bytes")
    return UnpackedMessage(_unpack(data[begins:], compression, size, what, begins), compression, begins)


def parse(kind: type[proto_wire.M], data: bytes, what: str) -> tuple[proto_wire.M, str]:
    """The message of type ``kind`` in a value, and what it was compressed with.

    Raises:
        DecodeError: damage, at its byte; inside a compressed message at the byte where that begins.
    """
    message, compression, begins = unpack(data, what)
    try:
        return proto_wire.parse(kind, message, what), compression
    except DecodeError as damage:
        if not begins:
            raise
        reason = f"{damage.reason}, at byte {damage.offset} of what {compression} unpacked"
        raise DecodeError(what, begins, reason) from damage


def _unpack(packed: bytes, compression: str, size: int, what: str, begins: int) -> bytes:
    if compression == "NONE":
        return packed
    try:
        # One byte more than promised, so that what is too long shows; never more than that.
        message = _zlib(packed, size + 1) if compression == "ZLIB" else _cram(packed, compression, size + 1)
    except (cramjam.DecompressionError, zlib.error, ValueError, OSError) as error:
        raise DecodeError(what, begins, f"{compression} cannot be unpacked: {error}") from error
    if len(message) != size:
        raise DecodeError(what, begins, f"{compression} unpacks to {len(message)} bytes, {size} promised")
    return message


def _zlib(packed: bytes, most: int) -> bytes:
    return zlib.decompressobj().decompress(packed, most)


def _cram(packed: bytes, compression: str, most: int) -> bytes:
    into: dict[str, Callable[[bytes, bytearray], int]] = {
        "LZ4": cramjam.lz4.decompress_block_into,
        "ZSTD": cramjam.zstd.decompress_into,
        "SNAPPY": cramjam.snappy.decompress_raw_into,
    }
    room = bytearray(most)
    return bytes(room[: int(into[compression](packed, room))])
