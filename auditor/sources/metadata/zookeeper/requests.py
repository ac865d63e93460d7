"""Requests of ZooKeeper 3.6 and later that kazoo lacks: multiRead and the persistent recursive watch.

One multiRead request combines many getData or many getChildren requests:

    request    multiRead (22): for each path  header, path string, watch 1 byte
    response   for each path  header, and then, by the type in the header
                 getData      buffer, stat 68 bytes
                 getChildren  int count, count x string
                 error        int code

A header consists of an int type, 1 byte done and an int error. A header with type -1 and done 1 ends a
request or a response. A string or a buffer is an int length, followed by the bytes. All numbers are
big-endian (Java: ``MultiOperationRecord``, ``MultiResponse``).

The watch request, its response and its events:

    request   addWatch (106): path string, int mode (1: persistent, of all znodes at or below the path)
    response  int error, 0; the header of the answer contains the same error
    event     int type, int state (3: connected), path string

Strings and numbers are encoded as in multiRead (Java: ``AddWatchRequest``, ``WatcherEvent``). A watch
belongs to a session. The server keeps the watch in memory, and forgets it when the session ends.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import NamedTuple

from auditor.errors import DecodeError

_HEADER_STRUCT = struct.Struct("!iBi")
_INT32 = struct.Struct("!i")
_STAT_STRUCT = struct.Struct("!qqqqiiiqiiq")
_HEADER_BYTES, _STAT_BYTES = _HEADER_STRUCT.size, _STAT_STRUCT.size
_ERROR_TYPE = -1
_END_HEADER = _HEADER_STRUCT.pack(-1, 1, -1)


class Stat(NamedTuple):
    """The stat of a znode as the server sends it. Times are in ms."""

    czxid: int
    mzxid: int
    ctime: int
    mtime: int
    version: int
    cversion: int
    aversion: int
    ephemeral_owner: int
    data_length: int
    num_children: int
    pzxid: int


class NodeData(NamedTuple):
    """The answer to getData for one znode: its data and its stat."""

    data: bytes
    stat: Stat


class Operation(IntEnum):
    """The two read operations. Values are ZooKeeper's operation codes."""

    GET_DATA = 4
    GET_CHILDREN = 8


_GET_DATA_TYPE = Operation.GET_DATA.value

PathAnswer = NodeData | list[str] | int
"""The answer for one path: its data, the names of its children, or an error code (-101: no such znode)."""


class MultiRead:
    """A multiRead request in the form that kazoo's connection expects.

    ``type`` is the operation code. ``serialize`` creates the request, and ``deserialize`` decodes the
    response.
    """

    type = 22

    def __init__(self, operation: Operation, paths: list[str]) -> None:
        self.operation = operation
        self.paths = paths

    def serialize(self) -> bytes:
        """Return the request's body."""
        header = _HEADER_STRUCT.pack(self.operation, 0, -1)
        request_parts = []
        for path in self.paths:
            path_bytes = path.encode()
            request_parts += [header, _INT32.pack(len(path_bytes)), path_bytes, b"\0"]
        return b"".join(request_parts) + _END_HEADER

    def deserialize(self, buffer: bytes, offset: int) -> list[PathAnswer]:
        """Return one answer for each path, in the order of the paths.

        Raises:
            DecodeError: the response does not follow the format, or the numbers of answers and paths
                differ.
        """
        answers: list[PathAnswer] = []
        unpack_header, unpack_int32, unpack_stat = (
            _HEADER_STRUCT.unpack_from,
            _INT32.unpack_from,
            _STAT_STRUCT.unpack_from,
        )
        make_tuple = tuple.__new__
        try:
            while True:
                answer_type, is_last_header, _ = unpack_header(buffer, offset)
                if is_last_header:
                    break
                offset += _HEADER_BYTES
                if answer_type == _GET_DATA_TYPE:
                    # The hot path: tens of millions of these answers in a large cluster.
                    value_length = unpack_int32(buffer, offset)[0]
                    data_start = offset + 4
                    data_end = data_start + value_length if value_length > 0 else data_start
                    stat = make_tuple(
                        Stat, unpack_stat(buffer, data_end)
                    )  # raises if it ends beyond the buffer
                    answers.append(make_tuple(NodeData, (bytes(buffer[data_start:data_end]), stat)))
                    offset = data_end + _STAT_BYTES
                else:
                    answer, offset = _decode_answer(buffer, offset, answer_type)
                    answers.append(answer)
        except (struct.error, UnicodeDecodeError, ValueError) as error:
            raise DecodeError("multiRead response", min(offset, len(buffer)), str(error)) from error
        if len(answers) != len(self.paths):
            reason = f"{len(self.paths)} answers expected, {len(answers)} received"
            raise DecodeError("multiRead response", offset, reason)
        return answers


def _decode_answer(buffer: bytes, offset: int, answer_type: int) -> tuple[PathAnswer, int]:
    (count_or_code,) = _INT32.unpack_from(buffer, offset)
    offset += _INT32.size
    if answer_type == _ERROR_TYPE:
        return count_or_code, offset
    if answer_type == Operation.GET_CHILDREN:
        # Each name takes four bytes at least, so a wrong count ends here before it costs memory.
        names = []
        for _ in range(count_or_code):
            (value_length,) = _INT32.unpack_from(buffer, offset)
            name_bytes, offset = _take_bytes(buffer, offset + _INT32.size, max(0, value_length))
            names.append(name_bytes.decode())
        return names, offset
    raise ValueError(f"an answer of unknown type {answer_type}")


def _take_bytes(buffer: bytes, offset: int, value_length: int) -> tuple[bytes, int]:
    value_end = offset + value_length
    if value_end > len(buffer):
        raise ValueError(f"{value_length} bytes expected, {len(buffer) - offset} present")
    return bytes(buffer[offset:value_end]), value_end


_EVENT_HEADER = struct.Struct("!iii")
_RECURSIVE_WATCH = 1


class EventType(IntEnum):
    """Types of the events that report a change to a znode.

    Events of other types concern the session, or the list of children of one znode.
    """

    CREATED = 1
    DELETED = 2
    CHANGED = 3


class WatchEvent(NamedTuple):
    """One event of a watch. ``type`` is an `EventType` if the event reports a change to a znode."""

    type: int
    path: str

    @classmethod
    def read(cls, buffer: bytes, offset: int) -> WatchEvent:
        """Decode the event that begins at ``offset``.

        Raises:
            DecodeError: the event is cut off, or its path is not UTF-8.
        """
        try:
            type, _, value_length = _EVENT_HEADER.unpack_from(buffer, offset)
            data_start = offset + _EVENT_HEADER.size
            if not 0 <= value_length <= len(buffer) - data_start:
                raise ValueError(
                    f"a path of {value_length} bytes expected, {len(buffer) - data_start} present"
                )
            return cls(type, bytes(buffer[data_start : data_start + value_length]).decode())
        except (struct.error, ValueError) as error:
            raise DecodeError("watch event", min(offset, len(buffer)), str(error)) from error


class AddWatch:
    """An addWatch request in the form that kazoo's connection expects; see `MultiRead`."""

    type = 106

    def __init__(self, path: str) -> None:
        self.path = path

    def serialize(self) -> bytes:
        """Return the request's body."""
        path_bytes = self.path.encode()
        return _INT32.pack(len(path_bytes)) + path_bytes + _INT32.pack(_RECURSIVE_WATCH)

    def deserialize(self, buffer: bytes, offset: int) -> None:
        """Return None, because the header of the answer already contains the error code."""
