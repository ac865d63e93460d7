"""The encodings of ZooKeeper's files and messages: Jute, and the stream of snappy-java for snapshots.

Jute (Java: ``BinaryInputArchive``):

    boolean   1 byte                 buffer, string   int length (-1: null), bytes
    int       4 bytes                vector           int count (-1: null), items
    long      8 bytes

All numbers are big-endian. Strings are UTF-8. There are no tags and no padding.

snappy-java (Java: ``SnappyOutputStream``, ``SnappyInputStream``):

    82 53 4e 41 50 50 59 00   int version   int compatible version   then blocks: int length, raw Snappy block

The numbers are big-endian. There is no end mark and no checksum. If streams were concatenated, there are
also headers between blocks. This is not Snappy's own framing format, which begins with ff 06 00 00.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import BinaryIO

import cramjam

from auditor.errors import DecodeError

_INT_STRUCT = struct.Struct(">i")
_LONG_STRUCT = struct.Struct(">q")


class JuteReader:
    """A reader of consecutive values in ``data``, from ``offset`` to ``end``.

    >>> reader = JuteReader(bytes.fromhex("00000001 2f 00000007"), "example")
    >>> reader.string(), reader.int32(), reader.remaining_bytes
    ('/', 7, 0)

    If a value does not fit into the remaining bytes, each method raises `DecodeError` at the first byte of
    the value.
    """

    __slots__ = ("_data", "_end", "_format_name", "offset")

    def __init__(
        self, data: bytes | memoryview, format_name: str, offset: int = 0, end: int | None = None
    ) -> None:
        self._data = data
        self._format_name = format_name
        self._end = len(data) if end is None else end
        self.offset = offset

    @property
    def remaining_bytes(self) -> int:
        """Return the number of bytes that have not been read yet."""
        return self._end - self.offset

    def int32(self) -> int:
        """Read a signed 32-bit number."""
        start = self.skip(4)
        value: int = _INT_STRUCT.unpack_from(self._data, start)[0]
        return value

    def int64(self) -> int:
        """Read a signed 64-bit number."""
        start = self.skip(8)
        value: int = _LONG_STRUCT.unpack_from(self._data, start)[0]
        return value

    def boolean(self) -> bool:
        """Read a boolean of one byte. Any byte other than 0 is true."""
        return self._data[self.skip(1)] != 0

    def buffer(self) -> bytes:
        """Read a byte string, which is preceded by its length. Return no bytes for null."""
        start_offset = self.offset
        length = self.int32()
        if length < -1 or length > self.remaining_bytes:
            raise DecodeError(
                self._format_name, start_offset, f"{length} bytes declared, {self.remaining_bytes} present"
            )
        start = self.skip(max(0, length))
        return bytes(self._data[start : self.offset])

    def string(self) -> str:
        """Read a string. Return an empty string for null."""
        start_offset = self.offset
        try:
            return self.buffer().decode()
        except UnicodeDecodeError as error:
            raise DecodeError(self._format_name, start_offset, "a string that is not UTF-8") from error

    def count(self, item_bytes: int) -> int:
        """Read the number of items in a vector. Return 0 for null.

        ``item_bytes`` is the smallest possible size of an item. A number that does not fit into the
        remaining bytes is an error.
        """
        start_offset = self.offset
        count = self.int32()
        # A false count fails here, before anyone makes room for so many items.
        if count < -1 or count * item_bytes > self.remaining_bytes:
            raise DecodeError(
                self._format_name,
                start_offset,
                f"{count} items declared, {self.remaining_bytes} bytes present",
            )
        return max(0, count)

    def sub_reader(self, start: int, end: int) -> JuteReader:
        """Return a separate reader for the bytes from ``start`` to ``end``."""
        return JuteReader(self._data, self._format_name, start, end)

    def skip(self, length: int) -> int:
        """Skip ``length`` bytes, and return the offset of the first skipped byte."""
        start_offset = self.offset
        if length > self._end - start_offset:
            raise DecodeError(
                self._format_name, start_offset, f"{length} bytes needed, {self.remaining_bytes} present"
            )
        self.offset = start_offset + length
        return start_offset


MAGIC = b"\x82SNAPPY\x00"
MAX_BLOCK_BYTES = 64 * 1024 * 1024
"""Largest block, packed or unpacked, in bytes. snappy-java writes 32 KiB. A wrong length may be gigabytes."""

_HEADER_REST_BYTES = len(MAGIC) - 4 + 8


def decompress(source: BinaryIO) -> Iterator[bytes]:
    """Yield the uncompressed blocks of a stream, in order.

    >>> import io
    >>> raw = bytes(cramjam.snappy.compress_raw(b"ledgers"))
    >>> packed = MAGIC + bytes([0, 0, 0, 1] * 2) + len(raw).to_bytes(4, "big") + raw
    >>> list(decompress(io.BytesIO(packed)))
    [b'ledgers']

    Raises:
        DecodeError: A header or a block is invalid. The offset in ``source`` is that of the header, or of
            the block's length.
    """
    offset = 0
    has_header = False
    while length_bytes := source.read(4):
        if length_bytes == MAGIC[:4]:
            header_rest = source.read(_HEADER_REST_BYTES)
            if len(header_rest) < _HEADER_REST_BYTES or not header_rest.startswith(MAGIC[4:]):
                raise DecodeError("snappy stream", offset, "a header that is not snappy-java's")
            has_header = True
            offset += 4 + _HEADER_REST_BYTES
            continue
        length = int.from_bytes(length_bytes, "big")
        if not has_header:
            raise DecodeError("snappy stream", offset, "no header of a snappy-java stream at the beginning")
        if len(length_bytes) < 4 or length > MAX_BLOCK_BYTES:
            raise DecodeError("snappy stream", offset, f"an invalid block length: {length_bytes.hex()}")
        compressed_bytes = source.read(length)
        if len(compressed_bytes) < length:
            raise DecodeError(
                "snappy stream", offset, f"{length} bytes declared, {len(compressed_bytes)} present"
            )
        yield _unpack_block(compressed_bytes, offset)
        offset += 4 + length
    if not has_header:
        raise DecodeError("snappy stream", 0, "the stream is empty")


def _unpack_block(compressed_bytes: bytes, offset: int) -> bytes:
    try:
        if cramjam.snappy.decompress_raw_len(compressed_bytes) > MAX_BLOCK_BYTES:
            raise DecodeError("snappy stream", offset, f"a block larger than {MAX_BLOCK_BYTES} bytes")
        return bytes(cramjam.snappy.decompress_raw(compressed_bytes))
    except cramjam.DecompressionError as error:
        raise DecodeError("snappy stream", offset, f"a damaged block: {error}") from error
