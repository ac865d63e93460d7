"""ZooKeeper's persistent recursive watch (3.6 and later), which kazoo lacks: what is sent, what comes.

    request   addWatch (106): path string, int mode (1: persistent, of all znodes at or below the path)
    response  int error, 0; nothing that the header of the answer does not have
    event     int type, int state (3: connected), path string

A string is an int length and bytes. All numbers are big-endian (Java: ``AddWatchRequest``, ``WatcherEvent``).
A watch is the session's: the server forgets it when that ends, and writes nothing.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import NamedTuple

from auditor.errors import DecodeError

_INT = struct.Struct("!i")
_HEAD = struct.Struct("!iii")
_RECURSIVE = 1


class EventType(IntEnum):
    """What happened to a znode; other numbers say something of the session or of one znode's children."""

    CREATED = 1
    DELETED = 2
    CHANGED = 3


class WatchEvent(NamedTuple):
    """One event; ``type`` is an `EventType` where it is of a znode."""

    type: int
    path: str

    @classmethod
    def read(cls, buffer: bytes, offset: int) -> WatchEvent:
        """The event that begins at ``offset``.

        Raises:
            DecodeError: it is cut, or its path is not text.
        """
        try:
            type, _, length = _HEAD.unpack_from(buffer, offset)
            begin = offset + _HEAD.size
            if not 0 <= length <= len(buffer) - begin:
                raise ValueError(f"a path of {length} bytes, {len(buffer) - begin} present")
            return cls(type, bytes(buffer[begin : begin + length]).decode())
        except (struct.error, ValueError) as error:
            raise DecodeError("watch event", min(offset, len(buffer)), str(error)) from error


class AddWatch:
    """A request as kazoo's connection wants it: a number, bytes to send, bytes to read."""

    type = 106

    def __init__(self, path: str) -> None:
        self.path = path

    def serialize(self) -> bytes:
        """The request's body."""
        encoded = self.path.encode()
        return _INT.pack(len(encoded)) + encoded + _INT.pack(_RECURSIVE)

    def deserialize(self, buffer: bytes, offset: int) -> None:
        """Nothing: an error is in the header of the answer."""
