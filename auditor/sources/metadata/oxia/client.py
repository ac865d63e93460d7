"""A read-only connection to Oxia. No other module of this package opens gRPC channels.

The client uses only five calls, and none of them writes: GetShardAssignments, List, RangeScan, Read and
GetNotifications. The servers in the URI report the shards of the namespace, and the leader of each shard.
The leader of a shard answers questions about the records of the shard. If the leader is lost, or answers
"not leader", the client requests the assignments again. If an answer breaks off, the client asks for the
rest. The rest then shows a later moment. The gRPC service has one name up to release 0.14, and a newer name
in later releases. Some later releases know both names.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple

import grpc

from auditor.codecs.protobuf.pb import oxia_pb2 as pb
from auditor.errors import StoreError, UnsettledError
from auditor.keys.etcd import key_text
from auditor.sources.clock import RateLimit
from auditor.sources.metadata.credentials import read_credentials
from auditor.sources.metadata.grpc_channel import open_channel
from auditor.sources.metadata.oxia.questions import Item, ShardQuestion
from auditor.sources.metadata.oxia.refusals import hinted_leader, is_temporary, refusal_error, unreachable
from auditor.sources.metadata.store import StoreOptions

MESSAGE_LIMIT = 64 * 1024 * 1024
"""Largest answer to accept, in bytes. A server ends a message after the value that takes it above 2 MiB."""

RETRY_WAITS_S = (0.0, 0.5, 2.0, 4.0)
"""Seconds to wait before each retry. A shard has a new leader after a second or two."""

SERVICES = {
    "io.oxia.proto.v1.OxiaClient": "0.15 or later",
    "io.streamnative.oxia.proto.OxiaClient": "0.14 or earlier",
}
"""Names of the gRPC service, newest first. The first name that a server accepts shows its release."""

_HASH_COUNT = 2**32
_SINGLE_KEY_CHANGES = {0, 1, 2}
"""Kinds of changes to one key: created, modified, deleted. Kind 3 is the deletion of a range of keys."""


class ShardRange(NamedTuple):
    """A shard of a namespace, and its range of key hashes. ``low`` and ``high`` are both inclusive."""

    number: int
    low: int
    high: int


class Assignments(NamedTuple):
    """The shards of a namespace in the order of their hashes, and the leader of each, by shard number."""

    shards: tuple[ShardRange, ...]
    leaders: dict[int, str]


@dataclass(frozen=True, slots=True)
class NotifiedWrite:
    """One write to a shard: its offset in the shard's log, and the paths that it changed.

    ``deletes_range`` is True if the write deleted a range of keys. ``paths`` does not have the deleted keys.
    """

    offset: int
    paths: tuple[str, ...]
    deletes_range: bool


class SentCall(NamedTuple):
    """A call that was sent to a leader, the channel to this leader, and the stream of answer messages."""

    leader: str
    channel: Any
    messages: Any


class ShardAnswer(Generic[Item]):
    """One shard's answer to a question. The constructor sends the question; `batches` awaits the answer."""

    def __init__(self, client: OxiaClient, shard: ShardRange, question: ShardQuestion[Item]) -> None:
        self._client = client
        self._shard = shard
        self._question = question
        self._sent_call = self._send()

    def batches(self) -> Iterator[list[Item]]:
        """Yield the received items, one list for each message.

        Raises:
            StoreError: the shard cannot be read, or its answer does not match the question.
        """
        failures = 0
        try:
            while True:
                try:
                    for message in self._sent_call.messages:
                        items = self._decode(message)
                        if items:
                            failures = 0
                            self._question = self._question.resume_after(items)
                            self._client.throttle(items)
                            yield items
                except grpc.RpcError as error:
                    self._client.leave_leader(self._sent_call, self._shard, failures, error)
                    failures += 1
                    self._sent_call = self._send()
                    continue
                if missing_text := self._question.missing_items_text():
                    raise StoreError(f"{self._client.name}: {missing_text}")
                return
        finally:
            self._sent_call.messages.cancel()

    def _decode(self, message: Any) -> list[Item]:
        try:
            return self._question.decode_items(message)
        except StoreError as error:
            raise StoreError(f"{self._client.name}: shard {self._shard.number}: {error}") from error

    def _send(self) -> SentCall:
        request = self._question.request(self._shard.number)
        return self._client.send(self._shard, self._question.method, self._question.answer_type, request)


class OxiaClient:
    """A client that sends questions to the leaders of a namespace's shards.

    It connects at the first question. `submit` does not wait, so several questions can be in flight. The
    caller limits their number. ``operations`` counts connections, calls by kind, records and keys received,
    and retries. ``service`` is the accepted service name. ``has_answer`` is True after any answer or refusal.
    """

    def __init__(
        self,
        hosts: Sequence[str],
        namespace: str,
        options: StoreOptions,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self.operations: Counter[str] = Counter()
        self.namespace = namespace
        self.service: str | None = None
        self.has_answer = False
        self._hosts = tuple(hosts)
        self._options = options
        self._sleep = sleep
        self._limit = RateLimit(options.rate_limit, sleep=sleep)
        self._channels: dict[str, Any] = {}
        self._assignments: Assignments | None = None

    @property
    def name(self) -> str:
        """Return the name of this Oxia for messages: the servers of the URI, and the namespace."""
        return f"Oxia at {','.join(self._hosts)}, namespace {self.namespace}"

    def shards(self) -> tuple[ShardRange, ...]:
        """Return the shards of the namespace, in the order of their hashes.

        The client requests the shards at the first call, and again after it has lost a leader.

        Raises:
            StoreError: no server answers, the namespace does not exist, or this client may not read it.
        """
        return self._current_assignments().shards

    def renew_assignments(self) -> tuple[ShardRange, ...]:
        """Request the shards and their leaders again, and return the shards like `shards`."""
        self._assignments = None
        return self.shards()

    def submit(self, shard: ShardRange, question: ShardQuestion[Item]) -> ShardAnswer[Item]:
        """Send a question to a shard as soon as the rate limit allows it.

        Raises:
            StoreError: see `shards`. Also raised if the namespace no longer has this shard.
        """
        self._limit.take(1)
        return ShardAnswer(self, shard, question)

    def ask(self, shard: ShardRange, question: ShardQuestion[Item]) -> list[Item]:
        """Send a question, and return all items of the answer; see `submit`."""
        return [item for batch in self.submit(shard, question).batches() for item in batch]

    def log_offset(self, shard: ShardRange) -> int:
        """Return the offset of the newest entry in a shard's log.

        Raises:
            StoreError: the shard does not report the offset, for example because notifications are off.
        """
        with closing(self._notifications(shard, None)) as stream:
            return next(stream).offset

    def changes(self, shard: ShardRange, offset: int, last_offset: int) -> Iterator[NotifiedWrite]:
        """Yield the writes to a shard after ``offset`` and up to ``last_offset``, in the order of its log.

        Raises:
            StoreError: the server no longer keeps some of these writes.
        """
        expected_offset = offset + 1
        if expected_offset > last_offset:
            return
        with closing(self._notifications(shard, offset)) as stream:
            for write in stream:
                # The server trims what is older than its retention, and says nothing of it.
                if write.offset != expected_offset:
                    raise StoreError(
                        f"{self.name}: shard {shard.number} reports its log only from {write.offset} on, "
                        f"no longer from {expected_offset}"
                    )
                yield write
                expected_offset += 1
                if expected_offset > last_offset:
                    return

    def send(self, shard: ShardRange, method: str, answer: Any, request: Any) -> SentCall:
        """Send a request to the leader of a shard.

        Args:
            shard: the shard.
            method: name of the gRPC call.
            answer: protobuf class of the answer's messages.
            request: protobuf message to send.

        Raises:
            StoreError: see `submit`.
        """
        leader = self._leader(shard)
        self.operations[method] += 1
        messages = self._call(leader, method, answer, request)
        return SentCall(leader, self._channels[leader], messages)

    def throttle(self, items: Sequence[object]) -> None:
        """Count received records, and sleep as long as the rate limit requires."""
        self.operations["records_read"] += len(items)
        self._limit.take(len(items))

    def leave_leader(self, call: SentCall, shard: ShardRange, failures: int, error: grpc.RpcError) -> None:
        """Prepare a retry after a failed call: wait, and find the next leader of the shard.

        The error can name the next leader. Otherwise, the next call requests the assignments again.

        Args:
            call: the failed call.
            shard: the shard to which the call was sent.
            failures: number of failures since the question last received an item.
            error: the error of the call.

        Raises:
            StoreError: a retry cannot help, or the question was already retried often enough.
        """
        server_role = f"leader of shard {shard.number} of {self.name}"
        if not is_temporary(error):
            raise refusal_error(self.name, self.namespace, error) from error
        if failures >= len(RETRY_WAITS_S):
            raise self._unreachable(call.leader, server_role, error) from error
        self.operations["retry"] += 1
        if RETRY_WAITS_S[failures]:
            self._sleep(RETRY_WAITS_S[failures])
        leader = hinted_leader(error, shard.number)
        if leader is not None and leader != call.leader and failures == 0 and self._assignments:
            self._assignments.leaders[shard.number] = leader
            return
        # Another call may have lost the same leader, and have made a channel anew.
        if self._channels.get(call.leader) is call.channel:
            self._close(call.leader)
            self._assignments = None

    def close(self) -> None:
        """Close all connections. A later question opens new ones."""
        for address in list(self._channels):
            self._close(address)
        self._assignments = None

    def _notifications(self, shard: ShardRange, offset: int | None) -> Generator[NotifiedWrite, None, None]:
        """Yield the writes to a shard after ``offset`` in its log. The generator never ends by itself.

        If ``offset`` is None, the first item has no paths. It has only the current offset of the log.
        """
        failures = 0
        while True:
            request = pb.OxiaNotificationsRequest(shard=shard.number, after=offset)
            call = self.send(shard, "GetNotifications", pb.OxiaNotifications, request)
            try:
                for message in call.messages:
                    self.throttle(message.changes)
                    change_kinds = {write.change.kind for write in message.changes}
                    paths = tuple(key_text(write.key) for write in message.changes)
                    failures, offset = 0, message.offset
                    yield NotifiedWrite(message.offset, paths, bool(change_kinds - _SINGLE_KEY_CHANGES))
                raise StoreError(f"{self.name}: shard {shard.number} stopped sending changes")
            except grpc.RpcError as error:
                self.leave_leader(call, shard, failures, error)
                failures += 1
            finally:
                call.messages.cancel()

    def _leader(self, shard: ShardRange) -> str:
        assignments = self._current_assignments()
        if shard not in assignments.shards:
            raise StoreError(
                f"{self.name}: its shards changed since reading began, for example by a split; run the "
                "command again"
            )
        return assignments.leaders[shard.number]

    def _current_assignments(self) -> Assignments:
        if self._assignments is None:
            self._assignments = self._ask_assignments()
        return self._assignments

    def _ask_assignments(self) -> Assignments:
        last_failure: tuple[str, Exception] | None = None
        for wait_seconds in RETRY_WAITS_S:
            if last_failure is not None and wait_seconds:
                self._sleep(wait_seconds)
            for host in self._hosts:
                try:
                    return self._assignments_of(host)
                except grpc.RpcError as error:
                    self._close(host)
                    if not is_temporary(error):
                        raise refusal_error(self.name, self.namespace, error) from error
                    last_failure = host, error
                except UnsettledError as error:
                    last_failure = host, error
                self.operations["retry"] += 1
        assert last_failure is not None
        host, reason = last_failure
        raise reason if isinstance(reason, StoreError) else self._unreachable(host, self.name, reason)

    def _assignments_of(self, host: str) -> Assignments:
        """Request the shards and their leaders from one server.

        Raises:
            grpc.RpcError: the server does not answer, or refuses to answer.
            UnsettledError: the hash ranges of the shards have holes or overlap, or a shard has no leader.
        """
        request = pb.OxiaShardsRequest(namespace=self.namespace)
        for service in [self.service] if self.service else list(SERVICES):
            self.operations["GetShardAssignments"] += 1
            self._limit.take(1)
            assignments_call = self._call(host, "GetShardAssignments", pb.OxiaShards, request, service)
            try:
                message = next(iter(assignments_call), None)
                self.service, self.has_answer = service, True
                return _assignments(self.name, self.namespace, message)
            except UnicodeDecodeError as error:  # the library notices it when the text is asked for
                raise StoreError(f"{self.name}: the names of its shards and leaders are not text") from error
            except grpc.RpcError as error:
                is_unknown_service = error.code() is grpc.StatusCode.UNIMPLEMENTED
                if not is_unknown_service and not is_temporary(error):
                    self.service, self.has_answer = service, True
                if not is_unknown_service or service == list(SERVICES)[-1]:
                    raise
            finally:
                assignments_call.cancel()
        raise AssertionError("the loop over the service names must return or raise")

    def _call(self, address: str, method: str, answer: Any, request: Any, service: str | None = None) -> Any:
        credentials = read_credentials(self._options.credentials).oxia
        if address not in self._channels:
            self._channels[address] = open_channel(address, credentials.tls, MESSAGE_LIMIT)
            self.operations["connect"] += 1
        method_path = f"/{service or self.service}/{method}"
        serialize = type(request).SerializeToString
        stream = self._channels[address].unary_stream(method_path, serialize, answer.FromString)
        metadata = (("authorization", f"Bearer {credentials.token}"),) if credentials.token else None
        return stream(request, self._options.timeout_s, metadata)

    def _close(self, address: str) -> None:
        with suppress(KeyError):
            self._channels.pop(address).close()

    def _unreachable(self, address: str, server_role: str, error: grpc.RpcError) -> StoreError:
        tls = read_credentials(self._options.credentials).oxia.tls
        return unreachable(address, server_role, error, self._options.timeout_s, tls)


def _assignments(name: str, namespace: str, message: Any) -> Assignments:
    shard_list = message.namespaces[namespace].shards if message and namespace in message.namespaces else ()
    ranges = sorted((shard.hashes.min, shard.hashes.max, shard.shard, shard.leader) for shard in shard_list)
    expected_hash = 0
    for low, high, number, leader in ranges:
        # A hole would be records that nobody reads; what lies twice, records that are read twice.
        if low != expected_hash or high < low:
            raise UnsettledError(f"{name}: its shards leave a gap or overlap at hash {expected_hash}")
        if not leader:
            raise UnsettledError(f"{name}: shard {number} has no leader now; try again later")
        expected_hash = high + 1
    if expected_hash != _HASH_COUNT:
        raise UnsettledError(f"{name}: its shards end at hash {expected_hash} of {_HASH_COUNT}")
    shards = tuple(ShardRange(number, low, high) for low, high, number, _ in ranges)
    return Assignments(shards, {number: leader for _, _, number, leader in ranges})
