"""A ZooKeeper transaction log, which contains every write since a snapshot, in order.

    header        int 'ZKLG', int version 2, long dbId
    record        long Adler-32, int length, transaction, 1 byte 'B'
    ...
    end           zeros: the server extends the file before it needs the space

    transaction   long session, int cxid, long zxid, long time, int type, body by type, [digest]

Bodies (the fields that an audit needs; all others are skipped):

    create, create2 (1, 15)            path, data, ACLs, boolean ephemeral
    createContainer (19)               path, data, ACLs
    createTTL (21)                     path, data, ACLs, int parent's version, long ttl
    delete, deleteContainer (2, 20)    path
    setData, reconfig (5, 16)          path, data, int version
    multi (14)                         int count, then int type and buffer body each
    closeSession (-11)                 vector of paths to delete (3.6 and later); nothing (before)

If one of the parts of a multi is an error (-1), no part of the multi took effect. Java: ``FileTxnLog``,
``SerializeUtils``.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import NamedTuple

from auditor.codecs.zookeeper.encodings import JuteReader
from auditor.errors import DecodeError

MAGIC = 0x5A4B4C47
VERSION = 2
HEADER_BYTES = 16
FORMAT_NAME = "ZooKeeper transaction log"

_FRAME_BYTES = 8 + 4
_END_MARK = 0x42
_DIGEST_BYTES = 12
_ERROR_TYPE, _MULTI_TYPE, _CLOSE_SESSION_TYPE = -1, 14, -11
_CREATE_TYPES, _UNOWNED_CREATE_TYPES = (1, 15), (19, 21)
_DELETE_TYPES = (2, 20)
_SET_TYPES = (5, 16)


class Create(NamedTuple):
    """The creation of a znode. ``owner`` is the session that owns the znode, or 0 if no session owns it."""

    path: str
    data: bytes
    owner: int


class Delete(NamedTuple):
    """The deletion of a znode."""

    path: str


class SetData(NamedTuple):
    """A change of a znode's data, with the new version of the znode."""

    path: str
    data: bytes
    version: int


class CloseSession(NamedTuple):
    """The end of a session, which deletes its ephemeral znodes. ``paths`` are those that the log lists."""

    session: int
    paths: tuple[str, ...]


Operation = Create | Delete | SetData | CloseSession


class Transaction(NamedTuple):
    """One committed transaction. ``time`` is in ms. ``operations`` is empty if it changed no znode."""

    zxid: int
    time: int
    operations: tuple[Operation, ...]


class CutTail(NamedTuple):
    """The last record of a log, if it is incomplete, for example after a crash. No record follows it."""

    offset: int
    reason: str


_PIECE_BYTES = 1 << 20  # of what is behind the last record: a log may be sparse, and endless


def read_log(data: memoryview) -> Iterator[Transaction | CutTail]:
    """Yield the transactions of a log, in order. If the last record is incomplete, a `CutTail` comes last.

    Raises:
        DecodeError: ``data`` is not a log, or other records follow a damaged record.
    """
    if len(data) < HEADER_BYTES:
        yield CutTail(0, "shorter than its header")
        return
    reader = JuteReader(data, FORMAT_NAME)
    if (magic := reader.int32()) != MAGIC:
        raise DecodeError(FORMAT_NAME, 0, f"the file begins with {magic & 0xFFFFFFFF:08x}, not with ZKLG")
    if (version := reader.int32()) != VERSION:
        raise DecodeError(FORMAT_NAME, 4, f"version {version}; only version {VERSION} is known")
    offset = HEADER_BYTES
    while len(data) - offset >= _FRAME_BYTES:
        frame = JuteReader(data, FORMAT_NAME, offset)
        checksum, length = frame.int64(), frame.int32()
        # The server fills a log with zeros ahead of its use (``FilePadding``).
        if checksum == 0 and length == 0:
            return
        body_start, end = frame.offset, frame.offset + length
        if length < 0 or end >= len(data):
            yield CutTail(
                offset, f"a record of {length} bytes, but {len(data) - body_start} bytes are present"
            )
            return
        if zlib.adler32(data[body_start:end]) != checksum or data[end] != _END_MARK:
            # A crash cuts the last record only; with others behind it the file is damaged.
            if not _is_all_zero(data[end + 1 :]):
                raise DecodeError(
                    FORMAT_NAME,
                    offset,
                    "a record with a wrong checksum or end mark, and other records after it",
                )
            yield CutTail(offset, "the last record's checksum or end mark is wrong")
            return
        yield _read_transaction(JuteReader(data, FORMAT_NAME, body_start, end))
        offset = end + 1
    if not _is_all_zero(data[offset:]):
        yield CutTail(offset, "the log ends inside a record's header")


def _is_all_zero(data: memoryview) -> bool:
    blocks = (bytes(data[offset : offset + _PIECE_BYTES]) for offset in range(0, len(data), _PIECE_BYTES))
    return all(block.count(0) == len(block) for block in blocks)


def _read_transaction(reader: JuteReader) -> Transaction:
    session = reader.int64()
    # The cxid counts the requests of one client: it orders nothing here.
    reader.int32()
    zxid, time, operation_type = reader.int64(), reader.int64(), reader.int32()
    if operation_type == _MULTI_TYPE:
        return Transaction(zxid, time, _read_multi(reader, session))
    operation = _read_operation(reader, operation_type, session)
    return Transaction(zxid, time, () if operation is None else (operation,))


def _read_multi(reader: JuteReader, session: int) -> tuple[Operation, ...]:
    operations: list[Operation] = []
    has_error = False
    for _ in range(reader.count(8)):
        operation_type, length = reader.int32(), reader.int32()
        start = reader.skip(max(0, length))
        has_error = has_error or operation_type == _ERROR_TYPE
        # Parts of a failed multi can still look like the writes that they were meant to be.
        if not has_error:
            operation = _read_operation(reader.sub_reader(start, reader.offset), operation_type, session)
            operations += [] if operation is None else [operation]
    return () if has_error else tuple(operations)


def _read_operation(reader: JuteReader, operation_type: int, session: int) -> Operation | None:
    if operation_type in (*_CREATE_TYPES, *_UNOWNED_CREATE_TYPES):
        path, data = reader.string(), reader.buffer()
        _skip_acls(reader)
        return Create(path, data, _read_owner(reader, operation_type, session))
    if operation_type in _DELETE_TYPES:
        return Delete(reader.string())
    if operation_type in _SET_TYPES:
        return SetData(reader.string(), reader.buffer(), reader.int32())
    if operation_type == _CLOSE_SESSION_TYPE:
        return CloseSession(session, _read_closed_paths(reader))
    return None


def _read_owner(reader: JuteReader, operation_type: int, session: int) -> int:
    # Nobody owns a container or a znode with a time to live, whose records go on otherwise.
    return session if operation_type in _CREATE_TYPES and reader.boolean() else 0


def _skip_acls(reader: JuteReader) -> None:
    for _ in range(reader.count(12)):
        reader.int32()
        reader.buffer()
        reader.buffer()


def _read_closed_paths(reader: JuteReader) -> tuple[str, ...]:
    """Return the paths in a closeSession.

    Before 3.6, the body of a closeSession is empty and contains no paths.
    """
    # Nothing in the record says which of the two forms it has; what is left behind the paths does.
    paths_start = reader.offset
    try:
        paths = tuple(reader.string() for _ in range(reader.count(4)))
    except DecodeError:
        paths = ("",)
    if all(path.startswith("/") for path in paths) and reader.remaining_bytes in (0, _DIGEST_BYTES):
        return paths
    reader.offset = paths_start
    if reader.remaining_bytes not in (0, _DIGEST_BYTES):
        raise DecodeError(FORMAT_NAME, paths_start, "a closeSession record in neither of its two known forms")
    return ()
