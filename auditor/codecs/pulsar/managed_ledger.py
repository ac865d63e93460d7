"""The ledgers of a topic or partition, from the value of its znode below ``/managed-ledgers``.

    PulsarManagedLedgerInfo (schemas/pulsar_managed_ledger.proto), plain or compressed; no bytes at all: a
    topic whose first ledger is not listed yet

The last ledger is open. Its item has no number of entries and no size, and its time is 0 or absent.

Values of managed ledgers and of cursors may be compressed in this form (``MetaStoreImpl``):

    byte  0    47 78                                      magic; no plain value begins with 0x47
          2    n: i32, big-endian
          6    n bytes: PulsarCompressedMetadata (schemas/pulsar_managed_ledger.proto)
          6+n  the message, compressed            LZ4 and SNAPPY raw blocks, ZLIB a stream, ZSTD a frame

A broker never finishes its ZLIB stream. The stream ends with a sync flush (00 00 ff ff) and has no
checksum. If a broker cannot unpack a value, it parses it as an uncompressed value. This module treats such
a value as damaged.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

import cramjam

from auditor.codecs.protobuf import wire as proto_wire
from auditor.codecs.protobuf.pb.pulsar_managed_ledger_pb2 import (
    PulsarCompressedMetadata,
    PulsarLedgerInfo,
    PulsarManagedLedgerInfo,
    PulsarOffloadContext,
)
from auditor.errors import DecodeError

MAGIC = b"\x47\x78"
UNCOMPRESSED = "none"
COMPRESSIONS = {0: "NONE", 1: "LZ4", 2: "ZLIB", 3: "ZSTD", 4: "SNAPPY"}

_HEAD_BYTES = len(MAGIC) + 4


class UnpackedMessage(NamedTuple):
    """A message with its compression, and its offset in the value.

    The compression is "none" if the value is not compressed.
    """

    message: bytes
    compression: str
    message_start: int


def unpack(data: bytes, format_name: str) -> UnpackedMessage:
    r"""Extract the message from a value. ``format_name`` is the name of the value in errors.

    >>> unpack(b"\x08\x01", "cursor").compression
    'none'
    >>> unpack(b"GxGx", "cursor")
    Traceback (most recent call last):
    auditor.errors.DecodeError: cursor: the header of a compressed value is cut off (at byte 4)

    Raises:
        DecodeError: A compressed value is cut, or its unpacked size differs from the size that it states.
    """
    if not data.startswith(MAGIC):
        return UnpackedMessage(data, UNCOMPRESSED, 0)
    if len(data) < _HEAD_BYTES:
        raise DecodeError(format_name, len(data), "the header of a compressed value is cut off")
    message_start = _HEAD_BYTES + int.from_bytes(data[len(MAGIC) : _HEAD_BYTES], "big", signed=True)
    if not _HEAD_BYTES <= message_start <= len(data):
        raise DecodeError(
            format_name,
            len(MAGIC),
            f"{message_start - _HEAD_BYTES} bytes of metadata declared, {len(data) - _HEAD_BYTES} present",
        )
    metadata = proto_wire.parse(PulsarCompressedMetadata, data, format_name, _HEAD_BYTES, message_start)
    compression = COMPRESSIONS.get(metadata.compressionType)
    size = metadata.uncompressedSize
    if compression is None:
        raise DecodeError(format_name, _HEAD_BYTES, f"compression {metadata.compressionType} is unknown")
    if not 0 <= size <= proto_wire.MAX_MESSAGE_BYTES:
        raise DecodeError(format_name, _HEAD_BYTES, f"an impossible uncompressed size of {size} bytes")
    return UnpackedMessage(
        _decompress(data[message_start:], compression, size, format_name, message_start),
        compression,
        message_start,
    )


def parse(
    message_type: type[proto_wire.MessageT], data: bytes, format_name: str
) -> tuple[proto_wire.MessageT, str]:
    """Return the message of type ``message_type`` that a value contains, and its compression.

    Raises:
        DecodeError: The value is damaged. The offset is that of the damage. If the damage is inside a
            compressed message, it is the offset of this message.
    """
    message, compression, message_start = unpack(data, format_name)
    try:
        return proto_wire.parse(message_type, message, format_name), compression
    except DecodeError as damage:
        if not message_start:
            raise
        reason = f"{damage.reason}, at byte {damage.offset} of the {compression} output"
        raise DecodeError(format_name, message_start, reason) from damage


def _decompress(
    compressed_bytes: bytes, compression: str, size: int, format_name: str, message_start: int
) -> bytes:
    if compression == "NONE":
        return compressed_bytes
    try:
        # Unpack at most one byte more than declared: enough to notice a value that is too long.
        if compression == "ZLIB":
            message = zlib.decompressobj().decompress(compressed_bytes, size + 1)
        else:
            message = _decompress_block(compressed_bytes, compression, size + 1)
    except (cramjam.DecompressionError, zlib.error, ValueError, OSError) as error:
        raise DecodeError(format_name, message_start, f"{compression} cannot be unpacked: {error}") from error
    if len(message) != size:
        raise DecodeError(
            format_name, message_start, f"{compression} unpacks to {len(message)} bytes, {size} declared"
        )
    return message


def _decompress_block(compressed_bytes: bytes, compression: str, max_bytes: int) -> bytes:
    unpackers: dict[str, Callable[[bytes, bytearray], int]] = {
        "LZ4": cramjam.lz4.decompress_block_into,
        "ZSTD": cramjam.zstd.decompress_into,
        "SNAPPY": cramjam.snappy.decompress_raw_into,
    }
    buffer = bytearray(max_bytes)
    return bytes(buffer[: int(unpackers[compression](compressed_bytes, buffer))])


FORMAT_NAME = "Pulsar managed ledger"

SHADOW_SOURCE = "PULSAR.SHADOW_SOURCE"
"""Property of a shadow topic. Its value is the topic whose ledgers the shadow topic borrows."""


class Position(NamedTuple):
    """An entry of a ledger. The entry id -1 means the position before the first entry."""

    ledger_id: int
    entry_id: int


@dataclass(frozen=True, slots=True)
class Offload:
    """The state of a ledger's copy in an object store.

    ``uid`` is part of the objects' names (``UID-ledger-ID``), or None if no copy was ever begun.
    ``complete`` is True if the copy is complete. ``bookkeeper_deleted`` is True if the ledger in BookKeeper
    has since been deleted. ``timestamp`` is in ms. ``bucket`` is the only property of the driver that is
    read.
    """

    uid: str | None
    complete: bool
    bookkeeper_deleted: bool
    timestamp: int | None = None
    driver: str | None = None
    bucket: str | None = None
    segments: int = 0


class ListedLedger(NamedTuple):
    """One of the ledgers that the record of a topic lists.

    ``entries``, ``size`` (in bytes) and ``timestamp`` (in ms) are None for an open ledger.
    """

    ledger_id: int
    entries: int | None = None
    size: int | None = None
    timestamp: int | None = None
    offload: Offload | None = None


@dataclass(frozen=True, slots=True)
class ManagedLedger:
    """The record of a topic: its ledgers, oldest first, and the position at which the topic was terminated.

    ``terminated`` is None if the topic was not terminated.
    """

    ledgers: tuple[ListedLedger, ...] = ()
    terminated: Position | None = None
    properties: Mapping[str, str] = field(default_factory=dict, hash=False)
    compression: str = UNCOMPRESSED

    @property
    def shadow_source(self) -> str | None:
        """Return the name of the topic from which a shadow topic borrows its ledgers.

        Returns None if the topic owns its ledgers.
        """
        return self.properties.get(SHADOW_SOURCE)


def decode(data: bytes) -> ManagedLedger:
    """Read the value of a topic's znode. Raises `DecodeError` if it is damaged.

    >>> decode(bytes.fromhex("0a0408031000")).ledgers
    (ListedLedger(ledger_id=3, entries=0, size=None, timestamp=None, offload=None),)
    """
    message, compression = parse(PulsarManagedLedgerInfo, data, FORMAT_NAME)
    end_position = message.terminatedPosition if message.HasField("terminatedPosition") else None
    return ManagedLedger(
        tuple(_decode_ledger(message_info) for message_info in message.ledgerInfo),
        Position(end_position.ledgerId, end_position.entryId) if end_position is not None else None,
        {text(ledger_property.key): text(ledger_property.value) for ledger_property in message.properties},
        compression,
    )


def text(data: bytes) -> str:
    """Return the text in a string field of a message. Bytes that are not UTF-8 become escapes.

    >>> text(b"a\\xff")
    'a\\\\xff'
    """
    return data.decode("utf-8", "backslashreplace")


def _decode_ledger(message_info: PulsarLedgerInfo) -> ListedLedger:
    return ListedLedger(
        message_info.ledgerId,
        message_info.entries if message_info.HasField("entries") else None,
        message_info.size if message_info.HasField("size") else None,
        # The open ledger has 0, or nothing: neither is a time.
        message_info.timestamp or None,
        _decode_offload(message_info.offloadContext) if message_info.HasField("offloadContext") else None,
    )


def _decode_offload(context: PulsarOffloadContext) -> Offload:
    driver = context.driverMetadata if context.HasField("driverMetadata") else None
    buckets = (
        [
            text(driver_property.value)
            for driver_property in driver.properties
            if driver_property.key == b"bucket"
        ]
        if driver
        else []
    )
    has_offload = context.uidMsb or context.uidLsb
    # Two signed longs, as Java's UUID has them, are one number of 128 bits.
    uid = UUID(int=(context.uidMsb % 2**64) << 64 | context.uidLsb % 2**64)
    return Offload(
        str(uid) if has_offload else None,
        context.complete,
        context.bookkeeperDeleted,
        context.timestamp or None,
        text(driver.name) if driver else None,
        buckets[0] if buckets else None,
        len(context.offloadSegment),
    )
