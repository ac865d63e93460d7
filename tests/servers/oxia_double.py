"""A test double of Oxia in the test's own process: gRPC on loopback, records in memory, faults on demand."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import zip_longest
from threading import Event
from typing import Any

os.environ.setdefault("GRPC_VERBOSITY", "NONE")

import grpc

from auditor.codecs.protobuf.pb import oxia_pb2 as pb

OLD, NEW = "io.streamnative.oxia.proto.OxiaClient", "io.oxia.proto.v1.OxiaClient"
HASHES = 2**32
RECORDS_A_MESSAGE = 3


@dataclass
class StoredRecord:
    """A record in the form that a server stores."""

    value: bytes
    version: int
    modifications: int = 0
    created: int = 1_000
    modified: int = 1_000
    session: int | None = None


def old_order(key: bytes) -> tuple[Any, ...]:
    """Return the sort key up to 0.14: segment by segment, a key without a further slash first."""
    *above, last = key.split(b"/")
    return (*((1, segment) for segment in above), (0, last))


def new_order(key: bytes) -> tuple[int, bytes]:
    """Return the sort key from 0.15 on: slashes (two at the end are one), then bytes with slash greatest."""
    return key.count(b"/") - key.endswith(b"//"), key.replace(b"/", b"\xff")


Fault = Callable[[str, int, Any], None]
"""Called before each message of an answer with the call, the message's number and the call's context."""


@dataclass
class OxiaDouble:
    """A namespace on one or more servers. A URI names server 0."""

    shard_count: int = 1
    namespace: str = "bookkeeper"
    service: str = OLD
    token: str | None = None
    has_notifications: bool = True
    fault: Fault | None = None
    leader_of: dict[int, int] = field(default_factory=dict)
    assignments: Callable[[list[pb.OxiaShard]], list[pb.OxiaShard]] = lambda shards: shards
    records: list[dict[bytes, StoredRecord]] = field(default_factory=list)
    log: list[list[pb.OxiaNotifications]] = field(default_factory=list)
    addresses: list[str] = field(default_factory=list)
    calls: list[tuple[int, str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.records = [{} for _ in range(self.shard_count)]
        self.log = [[] for _ in range(self.shard_count)]
        self.order: Callable[[bytes], Any] = old_order if self.service == OLD else new_order

    def put(self, path: str, value: bytes = b"", session: int | None = None, parents: bool = True) -> None:
        """Write a record, and its parents as Pulsar's driver makes them."""
        above = path.rpartition("/")[0]
        if parents and above and above.encode() not in self._shard(above):
            self.put(above)
        records, key = self._shard(path), path.encode()
        before = records.get(key)
        number = sum(len(entries) for entries in self.log)
        if before is None:
            records[key] = StoredRecord(value, number, session=session)
        else:
            records[key] = StoredRecord(
                value, number, before.modifications + 1, modified=2_000, session=session
            )
        self._note(path, 0 if before is None else 1)

    def delete(self, path: str, kind: int = 2) -> None:
        self._shard(path).pop(path.encode(), None)
        self._note(path, kind)

    @property
    def host(self) -> str:
        return self.addresses[0]

    def uri(self, query: str = "") -> str:
        return f"metadata-store:oxia://{self.host}/{self.namespace}{query}"

    def called(self, method: str) -> int:
        return sum(name == method for _, name, _ in self.calls)

    @contextmanager
    def serving(self, servers: int = 1, credentials: Any = None) -> Iterator[OxiaDouble]:
        """Serve on loopback as long as the block runs."""
        running = []
        try:
            for number in range(servers):
                server = grpc.server(ThreadPoolExecutor(16), options=[("grpc.so_reuseport", 0)])
                server.add_generic_rpc_handlers((self._handlers(number),))
                if credentials is None:
                    port = server.add_insecure_port("127.0.0.1:0")
                else:
                    port = server.add_secure_port("127.0.0.1:0", credentials)
                server.start()
                running.append(server)
                self.addresses.append(f"127.0.0.1:{port}")
            yield self
        finally:
            for server in running:
                server.stop(None).wait()
            self.addresses.clear()

    def _shard(self, path: str) -> dict[bytes, StoredRecord]:
        return self.records[self._number(path)]

    def _number(self, path: str) -> int:
        return zlib.crc32(path.encode()) * self.shard_count // HASHES

    def _note(self, path: str, kind: int) -> None:
        number = self._number(path)
        changes = [pb.OxiaChangedKey(key=path.encode(), change=pb.OxiaChange(kind=kind))]
        entries = self.log[number]
        entries.append(pb.OxiaNotifications(shard=number, offset=len(entries), changes=changes))

    def _handlers(self, server: int) -> Any:
        answers: dict[str, tuple[Callable[[Any], Iterator[Any]], Any]] = {
            "GetShardAssignments": (self._assign, pb.OxiaShardsRequest),
            "List": (self._list, pb.OxiaRangeRequest),
            "RangeScan": (self._scan, pb.OxiaRangeRequest),
            "Read": (self._read, pb.OxiaReadRequest),
            "GetNotifications": (self._notify, pb.OxiaNotificationsRequest),
        }
        handlers = {
            method: grpc.unary_stream_rpc_method_handler(
                self._answering(server, method, answer),
                request_deserializer=request.FromString,
                response_serializer=lambda message: (
                    message if isinstance(message, bytes) else message.SerializeToString()
                ),
            )
            for method, (answer, request) in answers.items()
        }
        return grpc.method_handlers_generic_handler(self.service, handlers)

    def _answering(self, server: int, method: str, answer: Callable[[Any], Iterator[Any]]) -> Any:
        def answering(request: Any, context: Any) -> Iterator[Any]:
            self.calls.append((server, method, request))
            authorization = dict(context.invocation_metadata()).get("authorization")
            if self.token is not None and authorization != f"Bearer {self.token}":
                context.abort(grpc.StatusCode.UNAUTHENTICATED, "token is not valid")
            if method == "GetShardAssignments" and request.namespace != self.namespace:
                context.abort(grpc.StatusCode.UNKNOWN, "oxia: namespace not found")
            if method != "GetShardAssignments" and self.leader_of.get(request.shard, 0) != server:
                context.abort(grpc.StatusCode.UNKNOWN, f"node is not leader for shard {request.shard}")
            if method == "GetNotifications" and not self.has_notifications:
                context.abort(grpc.StatusCode.UNKNOWN, "oxia: notifications not enabled on namespace")
            for number, message in enumerate(answer(request)):
                if self.fault is not None:
                    self.fault(method, number, context)
                yield message
            if self.fault is not None:
                self.fault(method, -1, context)
            if method in ("GetShardAssignments", "GetNotifications"):
                ended = Event()
                context.add_callback(ended.set)
                ended.wait()

        return answering

    def _assign(self, request: Any) -> Iterator[Any]:
        step = HASHES // self.shard_count
        shards = [
            pb.OxiaShard(
                shard=number,
                leader=self.addresses[self.leader_of.get(number, 0)],
                hashes=pb.OxiaHashRange(
                    min=number * step,
                    max=HASHES - 1 if number == self.shard_count - 1 else (number + 1) * step - 1,
                ),
            )
            for number in range(self.shard_count)
        ]
        yield pb.OxiaShards(namespaces={self.namespace: pb.OxiaNamespace(shards=self.assignments(shards))})

    def _range(self, request: Any) -> list[bytes]:
        start, end = self.order(request.start), self.order(request.end)
        keys = sorted(self.records[request.shard], key=self.order)
        return [key for key in keys if start <= self.order(key) < end]

    def _list(self, request: Any) -> Iterator[Any]:
        for keys in _messages(self._range(request)):
            yield pb.OxiaKeys(keys=keys)

    def _scan(self, request: Any) -> Iterator[Any]:
        shard = self.records[request.shard]
        for keys in _messages(self._range(request)):
            yield pb.OxiaRecords(records=[_found(shard[key], key) for key in keys])

    def _read(self, request: Any) -> Iterator[Any]:
        shard = self.records[request.shard]
        for keys in _messages([question.key for question in request.keys]):
            records = [
                _found(shard[key], None) if key in shard else pb.OxiaRecordFound(status=1) for key in keys
            ]
            yield pb.OxiaRecords(records=records)

    def _notify(self, request: Any) -> Iterator[Any]:
        entries = self.log[request.shard]
        if not request.HasField("after"):
            yield pb.OxiaNotifications(shard=request.shard, offset=len(entries) - 1)
        else:
            yield from (entry for entry in entries if entry.offset > request.after)


def _messages(keys: list[bytes]) -> Iterator[list[bytes]]:
    for batch in zip_longest(*[iter(keys)] * RECORDS_A_MESSAGE):
        yield [key for key in batch if key is not None]


def _found(record: StoredRecord, key: bytes | None) -> pb.OxiaRecordFound:
    version = pb.OxiaVersion(
        id=record.version,
        modifications=record.modifications,
        created=record.created,
        modified=record.modified,
        session=record.session,
    )
    return pb.OxiaRecordFound(version=version, value=record.value, key=key)
