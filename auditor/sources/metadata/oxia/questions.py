"""Questions to one shard of Oxia, and the decoding of the answers.

Records arrive in the order of their keys. This order differs between releases of Oxia. In both orders, the
keys directly below a path P form one range, from ``P/`` on and before ``P//``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Protocol, Self, TypeVar

from auditor.codecs.protobuf.pb import oxia_pb2 as pb
from auditor.errors import StoreError
from auditor.keys.etcd import key_bytes, key_text
from auditor.sources.metadata.store import MAX_INT64, Znode, owner_of_session

MIXED_TIMES_NOTE = (
    "Oxia has no consistent view of all records: the directories of a shard are read at different times"
)
"""Note about Oxia in the report."""

_KEY_FOUND, _NO_SUCH_KEY = 0, 1

Item = TypeVar("Item")


class OxiaRecord(NamedTuple):
    """A record of Oxia: its key, its value and its version. Times are in ms.

    ``session`` is None for a persistent record.
    """

    key: bytes
    value: bytes
    version: int
    modifications: int
    created: int
    modified: int
    session: int | None

    def znode(self) -> Znode:
        """Return the record as a znode.

        A version id counts the changes of all keys in a shard. So a record also has the number of its own
        changes. The record of an id generator changes with every child that is created below it, except the
        first. So the field ``made`` (number of children ever created) is the number of changes plus one. The
        session id 0 is valid, so ``ephemeral_owner`` is the session id plus one.

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
    """A question to one shard. The answer may consist of any number of messages."""

    method: ClassVar[str]
    answer_type: ClassVar[Any]

    def request(self, shard: int) -> Any:
        """Return the protobuf message to send."""

    def decode_items(self, message: Any) -> list[Item]:
        """Return the items in one message of the answer.

        Raises:
            StoreError: the message does not match the question.
        """

    def resume_after(self, items: list[Any]) -> Self:
        """Return the question for the items that follow ``items``, which were received already."""

    def missing_items_text(self) -> str | None:
        """Return a sentence about the items that are missing when the answer ends.

        Return None if no item is known to be missing.
        """


@dataclass(frozen=True, slots=True)
class ChildRecords:
    """A question for the records directly below a path.

    The answer begins at the key ``start``. If ``start`` is None, the answer has all records.
    """

    path: str
    start: bytes | None = None

    method: ClassVar[str] = "RangeScan"
    answer_type: ClassVar[Any] = pb.OxiaRecords

    def request(self, shard: int) -> Any:
        """Return the protobuf message that asks the shard with number ``shard`` for the records."""
        return range_request(shard, self.path, self.start)

    def decode_items(self, message: Any) -> list[OxiaRecord]:
        """Return the records in one message of the answer; see `ShardQuestion.decode_items`."""
        return [_record(record, _require_child_key(self.path, record.key)) for record in message.records]

    def resume_after(self, items: list[OxiaRecord]) -> Self:
        """Return the question for the records after ``items``, which were received already."""
        return replace(self, start=items[-1].key + b"\0")

    def missing_items_text(self) -> str | None:
        """Return None, because a range is complete when its answer ends."""
        return None


@dataclass(frozen=True, slots=True)
class ChildKeys:
    """A question for the keys directly below a path.

    The answer begins at the key ``start``. If ``start`` is None, the answer has all keys.
    """

    path: str
    start: bytes | None = None

    method: ClassVar[str] = "List"
    answer_type: ClassVar[Any] = pb.OxiaKeys

    def request(self, shard: int) -> Any:
        """Return the protobuf message that asks the shard with number ``shard`` for the keys."""
        return range_request(shard, self.path, self.start)

    def decode_items(self, message: Any) -> list[bytes]:
        """Return the keys in one message of the answer; see `ShardQuestion.decode_items`."""
        return [_require_child_key(self.path, key) for key in message.keys]

    def resume_after(self, items: list[bytes]) -> Self:
        """Return the question for the keys after ``items``, which were received already."""
        return replace(self, start=items[-1] + b"\0")

    def missing_items_text(self) -> str | None:
        """Return None, because a range is complete when its answer ends."""
        return None


@dataclass(frozen=True, slots=True)
class RecordsByKey:
    """A question for the records at some keys.

    The items of the answer are in the order of ``keys``. An item is None if the shard does not have its
    key.
    """

    keys: tuple[bytes, ...]

    method: ClassVar[str] = "Read"
    answer_type: ClassVar[Any] = pb.OxiaRecords

    def request(self, shard: int) -> Any:
        """Return the protobuf message that asks the shard with number ``shard`` for the records."""
        keys = [pb.OxiaKeyQuestion(key=key, with_value=True) for key in self.keys]
        return pb.OxiaReadRequest(shard=shard, keys=keys)

    def decode_items(self, message: Any) -> list[OxiaRecord | None]:
        """Return a record or None for each key in one message; see `ShardQuestion.decode_items`."""
        if len(message.records) > len(self.keys):
            raise StoreError(
                f"{len(message.records)} records were received for {len(self.keys)} requested keys"
            )
        key_record_pairs = zip(self.keys, message.records, strict=False)
        return [_record_at(record, key) for key, record in key_record_pairs]

    def resume_after(self, items: list[OxiaRecord | None]) -> Self:
        """Return the question for the remaining keys. ``items`` were received for the first keys already."""
        return replace(self, keys=self.keys[len(items) :])

    def missing_items_text(self) -> str | None:
        """Return a sentence that names the first key without an item, or None if every key has an item."""
        return f"there was no answer for {key_text(self.keys[0])}" if self.keys else None


def range_request(shard: int, path: str, start: bytes | None) -> Any:
    """Return the request for the keys or records directly below a path.

    The answer begins at the key ``start``. If ``start`` is None, it begins at the first key below the path.

    >>> range_request(0, "/ledgers", None).end
    b'/ledgers//'
    """
    key_prefix = key_bytes(path) + b"/"
    return pb.OxiaRangeRequest(shard=shard, start=start or key_prefix, end=key_prefix + b"/")


def _require_child_key(path: str, key: bytes) -> bytes:
    key_prefix = key_bytes(path) + b"/"
    if not key.startswith(key_prefix) or b"/" in key[len(key_prefix) :]:
        raise StoreError(f"received the key {key_text(key)}, which is not directly below {path}")
    return key


def _record_at(record: Any, key: bytes) -> OxiaRecord | None:
    if record.status not in (_KEY_FOUND, _NO_SUCH_KEY):
        raise StoreError(f"received status {record.status} for the key {key_text(key)}")
    return _record(record, key) if record.status == _KEY_FOUND else None


def _record(record: Any, key: bytes) -> OxiaRecord:
    version = record.version
    session = version.session if version.HasField("session") else None
    # Times have no sign on the wire; what no clock says stays a number of 64 bits here.
    times_ms = (min(version.created, MAX_INT64), min(version.modified, MAX_INT64))
    return OxiaRecord(key, record.value, version.id, version.modifications, *times_ms, session)
