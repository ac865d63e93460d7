"""An Oxia connection that can only read: the one module of this package that knows gRPC.

Five calls are made: GetShardAssignments, List, RangeScan, Read and GetNotifications. None that writes has a
name here. The servers of the URI say which shards the namespace has and who leads each; a shard's leader is
asked for its records. "Not leader", and a leader that is lost, mean to ask for the assignments again. An
answer that broke off is asked on from the last key that came: what follows is of a later moment.

The service has two names: up to 0.14 the older one, later the newer one, beside the older for some time.
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
from auditor.sources.metadata.oxia.refusals import hinted_leader, is_temporary, refusal, unreachable
from auditor.sources.metadata.store import StoreOptions

MESSAGE_LIMIT = 64 * 1024 * 1024
"""No answer may be larger. A server ends a message with the value that passes 2 MiB."""

RETRY_WAITS_S = (0.0, 0.5, 2.0, 4.0)
"""How long is waited before a question is put again. A shard has a new leader after a second or two."""

SERVICES = {
    "io.oxia.proto.v1.OxiaClient": "0.15 or later",
    "io.streamnative.oxia.proto.OxiaClient": "0.14 or earlier",
}
"""The names of the service, and the releases that answer it first."""

_HASHES = 2**32
_SINGLE_KEY_CHANGES = {0, 1, 2}
"""Created, modified, deleted; 3 is the deletion of a range of keys."""


class ShardRange(NamedTuple):
    """A shard of a namespace, and the hashes of the keys that it has, both ends included."""

    number: int
    low: int
    high: int


class Assignments(NamedTuple):
    """The shards of a namespace in the order of their hashes, and the leader of each by its number."""

    shards: tuple[ShardRange, ...]
    leaders: dict[int, str]


@dataclass(frozen=True, slots=True)
class NotifiedWrite:
    """What one write changed, at an offset of the shard's log; ``has_range``: a range of keys was deleted."""

    offset: int
    paths: tuple[str, ...]
    has_range: bool


class SentCall(NamedTuple):
    """A call that was made, the leader that it was made to, and the channel to it."""

    leader: str
    channel: Any
    messages: Any


class ShardAnswer(Generic[Item]):
    """The answer to a question that was sent to a shard; `batches` waits for it."""

    def __init__(self, client: OxiaClient, shard: ShardRange, question: ShardQuestion[Item]) -> None:
        self._client = client
        self._shard = shard
        self._question = question
        self._sent = self._send()

    def batches(self) -> Iterator[list[Item]]:
        """What comes, a message at a time.

        Raises:
            StoreError: the shard cannot be read, or the answer is not one to the question.
        """
        failures = 0
        try:
            while True:
                try:
                    for message in self._sent.messages:
                        items = self._items(message)
                        if items:
                            failures = 0
                            self._question = self._question.after(items)
                            self._client.count(items)
                            yield items
                except grpc.RpcError as error:
                    self._client.leave(self._sent, self._shard, failures, error)
                    failures += 1
                    self._sent = self._send()
                    continue
                if missing := self._question.missing():
                    raise StoreError(f"{self._client.name}: {missing}")
                return
        finally:
            self._sent.messages.cancel()

    def _items(self, message: Any) -> list[Item]:
        try:
            return self._question.items(message)
        except StoreError as error:
            raise StoreError(f"{self._client.name}: shard {self._shard.number}: {error}") from error

    def _send(self) -> SentCall:
        asked = self._question
        return self._client.send(self._shard, asked.method, asked.answer, asked.request(self._shard.number))


class OxiaClient:
    """Puts questions to the leaders of a namespace's shards. Connects at the first one.

    `begin` sends, so that several answers can be on their way; how many, the caller bounds. ``operations``
    counts connections, calls by kind, records and keys that came, and calls that were made again. ``service``
    is the name under which it answered; ``answered``: a server of Oxia did, if only to refuse.
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
        self.answered = False
        self._hosts = tuple(hosts)
        self._options = options
        self._sleep = sleep
        self._limit = RateLimit(options.rate_limit, sleep=sleep)
        self._channels: dict[str, Any] = {}
        self._assignments: Assignments | None = None

    @property
    def name(self) -> str:
        """The servers of the URI and the namespace, as messages name them."""
        return f"Oxia at {','.join(self._hosts)}, namespace {self.namespace}"

    def shards(self) -> tuple[ShardRange, ...]:
        """The shards of the namespace, in the order of their hashes; asked for once, and after a loss.

        Raises:
            StoreError: no server answers, or the namespace is not there, or this client is not let in.
        """
        return self._assigned().shards

    def renew(self) -> tuple[ShardRange, ...]:
        """The same, asked for anew."""
        self._assignments = None
        return self.shards()

    def begin(self, shard: ShardRange, question: ShardQuestion[Item]) -> ShardAnswer[Item]:
        """Send a question to a shard, as soon as the rate limit lets it.

        Raises:
            StoreError: as `shards`, or the namespace has no such shard any more.
        """
        self._limit.take(1)
        return ShardAnswer(self, shard, question)

    def ask(self, shard: ShardRange, question: ShardQuestion[Item]) -> list[Item]:
        """Ask and wait for all; see `begin`."""
        return [item for batch in self.begin(shard, question).batches() for item in batch]

    def offset(self, shard: ShardRange) -> int:
        """Where a shard's log is now.

        Raises:
            StoreError: it does not say, as a namespace without notifications.
        """
        with closing(self._notifications(shard, None)) as stream:
            return next(stream).offset

    def changes(self, shard: ShardRange, after: int, until: int) -> Iterator[NotifiedWrite]:
        """What was written to a shard after an offset of its log and until another one, in order.

        Raises:
            StoreError: the server does not tell of all of it.
        """
        expected = after + 1
        if expected > until:
            return
        with closing(self._notifications(shard, after)) as stream:
            for changed in stream:
                # The server trims what is older than its retention, and says nothing of it.
                if changed.offset != expected:
                    raise StoreError(
                        f"{self.name}: shard {shard.number} tells of its log from {changed.offset} on, and "
                        f"no longer of {expected}"
                    )
                yield changed
                expected += 1
                if expected > until:
                    return

    def send(self, shard: ShardRange, method: str, answer: Any, request: Any) -> SentCall:
        """Put a question to the leader of a shard.

        Args:
            shard: which one.
            method: the call.
            answer: the message that its answers are.
            request: the message to send.

        Raises:
            StoreError: as `begin`.
        """
        leader = self._leader(shard)
        self.operations[method] += 1
        messages = self._call(leader, method, answer, request)
        return SentCall(leader, self._channels[leader], messages)

    def count(self, items: Sequence[object]) -> None:
        """Count what came, and wait as long as the rate limit says."""
        self.operations["records_read"] += len(items)
        self._limit.take(len(items))

    def leave(self, sent: SentCall, shard: ShardRange, failures: int, error: grpc.RpcError) -> None:
        """Let go of a leader that did not answer, so that the shard's next one is asked for.

        Args:
            sent: the call.
            shard: what was asked for.
            failures: how often this question failed before without anything that came.
            error: how it failed.

        Raises:
            StoreError: it is no use to ask again, or it was asked often enough.
        """
        role = f"leader of shard {shard.number} of {self.name}"
        if not is_temporary(error):
            raise refusal(self.name, self.namespace, error) from error
        if failures >= len(RETRY_WAITS_S):
            raise self._unreachable(sent.leader, role, error) from error
        self.operations["retry"] += 1
        if RETRY_WAITS_S[failures]:
            self._sleep(RETRY_WAITS_S[failures])
        leader = hinted_leader(error, shard.number)
        if leader is not None and leader != sent.leader and failures == 0 and self._assignments:
            self._assignments.leaders[shard.number] = leader
            return
        # Another call may have lost the same leader, and have made a channel anew.
        if self._channels.get(sent.leader) is sent.channel:
            self._close(sent.leader)
            self._assignments = None

    def close(self) -> None:
        """Let go of all connections; a later question opens others."""
        for address in list(self._channels):
            self._close(address)
        self._assignments = None

    def _notifications(self, shard: ShardRange, after: int | None) -> Generator[NotifiedWrite, None, None]:
        """An endless stream, one item a write; without an offset it begins with where the log is."""
        failures = 0
        while True:
            request = pb.OxiaNotificationsRequest(shard=shard.number, after=after)
            sent = self.send(shard, "GetNotifications", pb.OxiaNotifications, request)
            try:
                for message in sent.messages:
                    self.count(message.changes)
                    kinds = {changed.change.kind for changed in message.changes}
                    paths = tuple(key_text(changed.key) for changed in message.changes)
                    failures, after = 0, message.offset
                    yield NotifiedWrite(message.offset, paths, bool(kinds - _SINGLE_KEY_CHANGES))
                raise StoreError(f"{self.name}: shard {shard.number} stopped sending changes")
            except grpc.RpcError as error:
                self.leave(sent, shard, failures, error)
                failures += 1
            finally:
                sent.messages.cancel()

    def _leader(self, shard: ShardRange) -> str:
        assigned = self._assigned()
        if shard not in assigned.shards:
            raise StoreError(
                f"{self.name}: its shards are others than when the reading began, as after a split; run the "
                "command again"
            )
        return assigned.leaders[shard.number]

    def _assigned(self) -> Assignments:
        if self._assignments is None:
            self._assignments = self._ask_assignments()
        return self._assignments

    def _ask_assignments(self) -> Assignments:
        failed: tuple[str, Exception] | None = None
        for wait in RETRY_WAITS_S:
            if failed is not None and wait:
                self._sleep(wait)
            for host in self._hosts:
                try:
                    return self._assignments_of(host)
                except grpc.RpcError as error:
                    self._close(host)
                    if not is_temporary(error):
                        raise refusal(self.name, self.namespace, error) from error
                    failed = host, error
                except UnsettledError as error:
                    failed = host, error
                self.operations["retry"] += 1
        assert failed is not None
        host, reason = failed
        raise reason if isinstance(reason, StoreError) else self._unreachable(host, self.name, reason)

    def _assignments_of(self, host: str) -> Assignments:
        """What one server says.

        Raises:
            grpc.RpcError: it does not say it.
            UnsettledError: what it says is not a whole set of shards, each with a leader.
        """
        request = pb.OxiaShardsRequest(namespace=self.namespace)
        for service in [self.service] if self.service else list(SERVICES):
            self.operations["GetShardAssignments"] += 1
            self._limit.take(1)
            call = self._call(host, "GetShardAssignments", pb.OxiaShards, request, service)
            try:
                message = next(iter(call), None)
                self.service, self.answered = service, True
                return _assignments(self.name, self.namespace, message)
            except UnicodeDecodeError as error:  # the library notices it when the text is asked for
                raise StoreError(f"{self.name}: its names of shards and leaders are no text") from error
            except grpc.RpcError as error:
                is_other_name = error.code() is grpc.StatusCode.UNIMPLEMENTED
                if not is_other_name and not is_temporary(error):
                    self.service, self.answered = service, True
                if not is_other_name or service == list(SERVICES)[-1]:
                    raise
            finally:
                call.cancel()
        raise AssertionError("the last name of the service was not asked for")

    def _call(self, address: str, method: str, answer: Any, request: Any, service: str | None = None) -> Any:
        credentials = read_credentials(self._options.credentials).oxia
        if address not in self._channels:
            self._channels[address] = open_channel(address, credentials.tls, MESSAGE_LIMIT)
            self.operations["connect"] += 1
        path = f"/{service or self.service}/{method}"
        serialize = type(request).SerializeToString
        stream = self._channels[address].unary_stream(path, serialize, answer.FromString)
        metadata = (("authorization", f"Bearer {credentials.token}"),) if credentials.token else None
        return stream(request, self._options.timeout_s, metadata)

    def _close(self, address: str) -> None:
        with suppress(KeyError):
            self._channels.pop(address).close()

    def _unreachable(self, address: str, role: str, error: grpc.RpcError) -> StoreError:
        tls = read_credentials(self._options.credentials).oxia.tls
        return unreachable(address, role, error, self._options.timeout_s, tls)


def _assignments(name: str, namespace: str, message: Any) -> Assignments:
    assigned = message.namespaces[namespace].shards if message and namespace in message.namespaces else ()
    found = sorted((shard.hashes.min, shard.hashes.max, shard.shard, shard.leader) for shard in assigned)
    expected = 0
    for low, high, number, leader in found:
        # A hole would be records that nobody reads; what lies twice, records that are read twice.
        if low != expected or high < low:
            raise UnsettledError(f"{name}: its shards leave a hole or overlap at hash {expected}")
        if not leader:
            raise UnsettledError(f"{name}: shard {number} has no leader now; try again later")
        expected = high + 1
    if expected != _HASHES:
        raise UnsettledError(f"{name}: its shards end at hash {expected} of {_HASHES}")
    shards = tuple(ShardRange(number, low, high) for low, high, number, _ in found)
    return Assignments(shards, {number: leader for _, _, number, leader in found})
