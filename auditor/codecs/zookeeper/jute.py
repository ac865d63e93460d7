"""Jute, the encoding of ZooKeeper's files and messages.

    boolean   1 byte                 buffer, string   int length (-1: null), bytes
    int       4 bytes                vector           int count (-1: null), items
    long      8 bytes

All numbers are big-endian; strings are UTF-8; there are no tags and no padding
(Java: ``BinaryInputArchive``).
"""

from __future__ import annotations

import struct

from auditor.errors import DecodeError

_INT = struct.Struct(">i")
_LONG = struct.Struct(">q")


class JuteReader:
    """Reads values one after another from ``data``, between ``at`` and ``end``.

    >>> reader = JuteReader(bytes.fromhex("00000001 2f 00000007"), "example")
    >>> reader.string(), reader.int32(), reader.left
    ('/', 7, 0)

    Every method raises `DecodeError`, at the first byte of a value that does not fit.
    """

    __slots__ = ("_data", "_end", "_what", "at")

    def __init__(self, data: bytes | memoryview, what: str, at: int = 0, end: int | None = None) -> None:
        self._data = data
        self._what = what
        self._end = len(data) if end is None else end
        self.at = at

    @property
    def left(self) -> int:
        """Bytes not yet read."""
        return self._end - self.at

    def int32(self) -> int:
        """A signed 32-bit number."""
        at = self.skip(4)
        value: int = _INT.unpack_from(self._data, at)[0]
        return value

    def int64(self) -> int:
        """A signed 64-bit number."""
        at = self.skip(8)
        value: int = _LONG.unpack_from(self._data, at)[0]
        return value

    def boolean(self) -> bool:
        """One byte; anything but 0 is true."""
        return self._data[self.skip(1)] != 0

    def buffer(self) -> bytes:
        """Bytes with their length; null reads as empty."""
        begin = self.at
        length = self.int32()
        if length < -1 or length > self.left:
            raise DecodeError(self._what, begin, f"{length} bytes promised, {self.left} present")
        at = self.skip(max(0, length))
        return bytes(self._data[at : self.at])

    def string(self) -> str:
        """A string; null reads as empty."""
        begin = self.at
        try:
            return self.buffer().decode()
        except UnicodeDecodeError as error:
            raise DecodeError(self._what, begin, "a string that is not UTF-8") from error

    def count(self, item_bytes: int) -> int:
        """A vector's number of items, of ``item_bytes`` at least; null reads as 0."""
        begin = self.at
        count = self.int32()
        # A false count fails here, before anyone makes room for so many items.
        if count < -1 or count * item_bytes > self.left:
            raise DecodeError(self._what, begin, f"{count} items promised in {self.left} bytes")
        return max(0, count)

    def part(self, at: int, end: int) -> JuteReader:
        """A reader of its own for the bytes from ``at`` to ``end``."""
        return JuteReader(self._data, self._what, at, end)

    def skip(self, length: int) -> int:
        """Step over bytes; where they began."""
        begin = self.at
        if length > self._end - begin:
            raise DecodeError(self._what, begin, f"{length} bytes needed, {self.left} present")
        self.at = begin + length
        return begin
