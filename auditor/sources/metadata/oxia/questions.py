"""What is asked of one shard of an Oxia, and how the answers are read.

Records come in the order of their keys, which differs between releases. Both orders keep what lies right
below a path P together: it is the range from ``P/`` and before ``P//``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Protocol, Self, TypeVar

from auditor.codecs.protobuf.pb import oxia_pb2 as pb
from auditor.errors import StoreError
from auditor.keys.etcd import key_bytes, key_text
from auditor.sources.metadata.store import MAX_INT64, Znode, owner_of_session

NOTE = "Oxia has no moment to read all at: each directory of a shard is read at a moment of its own"
"""What a reader of the report should know."""

_FOUND, _NO_SUCH_KEY = 0, 1

Item = TypeVar("Item")


class OxiaRecord(NamedTuple):
    """A record: its key and value, and its version; times in ms. ``session`` None: it is not ephemeral."""

    key: bytes
    value: bytes
    version: int
    modifications: int
    created: int
    modified: int
    session: int | None

    def znode(self) -> Znode:
        """The record as the other stores give it.

        A version id counts over all keys of a shard; the number of changes has a field of its own. A record
        that counts the children made below it was changed for each but the first. Session 0 is a session.

        >>> OxiaRecord(b"/ledgers/idgen", b"", 9, 4, 5, 6, 0).znode().ephemeral_owner
        1
        """
        return Znode(
            key_text(self.key),
            self.value,
            czxid=0,
            mzxid=self.version,
            ctime=self.created,
            mtime=self.modified,
            version=self.version,
            ephemeral_owner=owner_of_session(self.session),
            made=self.modifications + 1,
            modifications=self.modifications,
        )


class ShardQuestion(Protocol[Item]):
    """A question to one shard; the answers come in any number of messages."""

    method: ClassVar[str]
    answer: ClassVar[Any]

    def request(self, shard: int) -> Any:
        """The message to send."""

    def items(self, message: Any) -> list[Item]:
        """What one message of the answer holds.

        Raises:
            StoreError: it does not belong to the question.
        """

    def after(self, items: list[Any]) -> Self:
        """The question for what comes behind these items."""

    def missing(self) -> str | None:
        """What is not answered yet when the answer ends; None if that may be all."""


@dataclass(frozen=True, slots=True)
class ChildRecords:
    """The records right below a path, with their values; ``start`` is the first key that may come."""

    path: str
    start: bytes | None = None

    method: ClassVar[str] = "RangeScan"
    answer: ClassVar[Any] = pb.OxiaRecords

    def request(self, shard: int) -> Any:
        """See `ShardQuestion`."""
        return range_request(shard, self.path, self.start)

    def items(self, message: Any) -> list[OxiaRecord]:
        """See `ShardQuestion`."""
        return [_record(found, _own(self.path, found.key)) for found in message.records]

    def after(self, items: list[OxiaRecord]) -> Self:
        """See `ShardQuestion`."""
        return replace(self, start=items[-1].key + b"\0")

    def missing(self) -> str | None:
        """See `ShardQuestion`: a range is whole when its answer ends."""
        return None


@dataclass(frozen=True, slots=True)
class ChildKeys:
    """The keys right below a path."""

    path: str
    start: bytes | None = None

    method: ClassVar[str] = "List"
    answer: ClassVar[Any] = pb.OxiaKeys

    def request(self, shard: int) -> Any:
        """See `ShardQuestion`."""
        return range_request(shard, self.path, self.start)

    def items(self, message: Any) -> list[bytes]:
        """See `ShardQuestion`."""
        return [_own(self.path, key) for key in message.keys]

    def after(self, items: list[bytes]) -> Self:
        """See `ShardQuestion`."""
        return replace(self, start=items[-1] + b"\0")

    def missing(self) -> str | None:
        """See `ShardQuestion`."""
        return None


@dataclass(frozen=True, slots=True)
class RecordsAt:
    """The records of some keys, in their order; None for a key that the shard does not have."""

    keys: tuple[bytes, ...]

    method: ClassVar[str] = "Read"
    answer: ClassVar[Any] = pb.OxiaRecords

    def request(self, shard: int) -> Any:
        """See `ShardQuestion`."""
        keys = [pb.OxiaKeyQuestion(key=key, with_value=True) for key in self.keys]
        return pb.OxiaReadRequest(shard=shard, keys=keys)

    def items(self, message: Any) -> list[OxiaRecord | None]:
        """See `ShardQuestion`."""
        if len(message.records) > len(self.keys):
            raise StoreError(f"{len(message.records)} records were answered, and {len(self.keys)} asked for")
        pairs = zip(self.keys, message.records, strict=False)
        return [_record_at(found, key) for key, found in pairs]

    def after(self, items: list[OxiaRecord | None]) -> Self:
        """See `ShardQuestion`."""
        return replace(self, keys=self.keys[len(items) :])

    def missing(self) -> str | None:
        """See `ShardQuestion`."""
        return f"nothing was answered of {key_text(self.keys[0])}" if self.keys else None


def range_request(shard: int, path: str, start: bytes | None) -> Any:
    """The request for what lies right below a path, from a key on.

    >>> range_request(0, "/ledgers", None).end
    b'/ledgers//'
    """
    stem = key_bytes(path) + b"/"
    return pb.OxiaRangeRequest(shard=shard, start=start or stem, end=stem + b"/")


def _own(path: str, key: bytes) -> bytes:
    stem = key_bytes(path) + b"/"
    if not key.startswith(stem) or b"/" in key[len(stem) :]:
        raise StoreError(f"{key_text(key)} was answered, which does not lie right below {path}")
    return key


def _record_at(found: Any, key: bytes) -> OxiaRecord | None:
    if found.status not in (_FOUND, _NO_SUCH_KEY):
        raise StoreError(f"{key_text(key)} was answered with status {found.status}")
    return _record(found, key) if found.status == _FOUND else None


def _record(found: Any, key: bytes) -> OxiaRecord:
    version = found.version
    session = version.session if version.HasField("session") else None
    # Times have no sign on the wire; what no clock says stays a number of 64 bits here.
    times = (min(version.created, MAX_INT64), min(version.modified, MAX_INT64))
    return OxiaRecord(key, found.value, version.id, version.modifications, *times, session)
