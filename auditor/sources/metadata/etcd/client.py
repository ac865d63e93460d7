"""A read-only connection to etcd. No other module uses the etcd client package.

The client uses only three calls of the package, and none of them writes. Range reads keys. Authenticate
only returns a token. Status reports the version of the server and the length of its log. Each Range request
names a revision, so that many answers show the store at the same moment. The client tries the endpoints in
the order of the URI. If an endpoint does not answer, the client goes on to the next one.

BookKeeper's own driver uses HTTP/2 without TLS. This client uses TLS if the credentials file has the
section ``[etcd.tls]``.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import grpc
from etcd3 import etcdrpc

from auditor.errors import CompactedError, StoreError, TooLargeError
from auditor.sources.clock import RateLimit
from auditor.sources.metadata.credentials import EtcdCredentials, read_credentials
from auditor.sources.metadata.grpc_channel import open_channel
from auditor.sources.metadata.store import StoreOptions
from auditor.sources.metadata.tls_probe import tls_problem

MESSAGE_LIMIT = 4 * 1024 * 1024
"""Largest answer, in bytes: gRPC's own default. Pages stay below it."""

ROUND_WAITS_S = (0.5, 2.0)
"""Seconds to wait after each failed round. A round tries every endpoint once."""

_LOST_ENDPOINT_STATUS_CODES = (
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.INTERNAL,
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.RESOURCE_EXHAUSTED,  # too many requests; `receive_answer` handles too large messages
)
_TOO_LARGE_MESSAGE = "larger than max"
_COMPACTED_MESSAGE = "has been compacted"
_OLD_TOKEN_MESSAGES = ("invalid auth token", "revision of auth store is old")
_NO_USER_MESSAGES = (
    "user name is empty",
    "authentication failed",
    "user name not found",
    "permission denied",
)
_HANDSHAKE_MESSAGES = ("ssl", "tls", "handshake", "certificate")


class Keys(NamedTuple):
    """Keys of etcd, stored as columns in ascending order of ``names``.

    ``create_revisions`` and ``mod_revisions`` are the revisions at which each key was created and last
    changed. ``leases`` has 0 for a key without a lease. ``versions`` has the number of writes of each key.
    """

    names: list[bytes]
    values: list[bytes]
    create_revisions: list[int]
    mod_revisions: list[int]
    leases: list[int]
    versions: list[int]

    def take(self, key_positions: Sequence[int]) -> Keys:
        """Return the keys at the positions ``key_positions``."""
        number_columns = (
            [number_column[key_position] for key_position in key_positions] for number_column in self[2:]
        )
        return Keys(
            [self.names[key_position] for key_position in key_positions],
            [self.values[key_position] for key_position in key_positions],
            *number_columns,
        )


@dataclass(frozen=True, slots=True)
class EtcdRangeRequest:
    """A Range request for the keys from ``start`` on and before ``end``, at ``revision``.

    A ``revision`` of 0 means the newest revision. An empty ``end`` means the key ``start`` alone. A
    ``limit`` of 0 means no limit. If ``keys_only`` is True, the answer has no values. If ``count_only`` is
    True, the answer has neither keys nor values. If ``since_revision`` is not 0, the answer omits keys that
    were last changed before that revision. The server still reads all values of the range.
    """

    start: bytes
    end: bytes
    revision: int
    limit: int = 0
    keys_only: bool = False
    count_only: bool = False
    since_revision: int = 0


@dataclass(frozen=True, slots=True)
class EtcdAnswer:
    """The answer to an `EtcdRangeRequest`.

    ``count`` is the number of keys in the whole range, regardless of ``limit`` and ``since_revision``.
    ``size`` is the size of the answer, in bytes.
    """

    keys: Keys
    count: int
    has_more: bool
    size: int
    revision: int


@dataclass(slots=True)
class PendingAnswer:
    """A range request that has not been answered yet, and the endpoint to which it was sent."""

    range_request: EtcdRangeRequest
    endpoint: _Endpoint
    future: Any


class _Endpoint:
    """One etcd server: the gRPC channel to it, its gRPC methods, and the token that it issued, if any."""

    def __init__(self, host: str, credentials: EtcdCredentials, timeout_s: float) -> None:
        self._channel = open_channel(host, credentials.tls, MESSAGE_LIMIT)
        self._timeout_s = timeout_s
        self._login = credentials.login
        self._token: str | None = None
        self._range = etcdrpc.KVStub(self._channel).Range
        self._status = etcdrpc.MaintenanceStub(self._channel).Status

    def authenticate(self) -> bool:
        """Request a token if a user is configured and the client has no token yet.

        Return whether a request was sent.
        """
        if self._login is None or self._token is not None:
            return False
        request = etcdrpc.AuthenticateRequest(name=self._login.user, password=self._login.password)
        try:
            answer = etcdrpc.AuthStub(self._channel).Authenticate(request, self._timeout_s)
            self._token = answer.token
        except grpc.RpcError as error:
            # A server without authentication lets everyone read.
            if error.code() is not grpc.StatusCode.FAILED_PRECONDITION:
                raise
            self._token = ""
        return True

    def forget_token(self) -> None:
        self._token = None

    def ask(self, range_request: EtcdRangeRequest) -> Any:
        """Send a range request, and return a future. Its ``result()`` waits for the answer."""
        wire_request = etcdrpc.RangeRequest(
            key=range_request.start,
            range_end=range_request.end,
            revision=range_request.revision,
            limit=range_request.limit,
            keys_only=range_request.keys_only,
            count_only=range_request.count_only,
            min_mod_revision=range_request.since_revision,
        )
        # Keys come in order anyway. A sort order in the request would make the server fetch the whole range.
        metadata = (("token", self._token),) if self._token else None
        return self._range.future(wire_request, self._timeout_s, metadata)

    def status(self) -> Any:
        """Return the server's answer to a Status request."""
        metadata = (("token", self._token),) if self._token else None
        return self._status(etcdrpc.StatusRequest(), self._timeout_s, metadata)

    def close(self) -> None:
        self._channel.close()


class EtcdClient:
    """A client that sends range requests to the first endpoint that answers.

    The client connects at the first request. `send_request` sends a request, and `receive_answer` waits for
    its answer. So several requests can be in flight, and the caller limits their number. ``operations``
    counts connections, token requests, range and count requests, keys read, retries and changes of the
    endpoint.
    """

    def __init__(
        self, hosts: Sequence[str], options: StoreOptions, sleep: Callable[[float], object] = time.sleep
    ) -> None:
        self.operations: Counter[str] = Counter()
        self.cluster_id: int | None = None
        self._hosts = tuple(hosts)
        self._options = options
        self._sleep = sleep
        self._limit = RateLimit(options.rate_limit, sleep=sleep)
        self._host_index = 0
        self._open_endpoint: _Endpoint | None = None

    @property
    def name(self) -> str:
        """Return a name of this etcd for messages. It lists the endpoints."""
        return f"etcd at {','.join(self._hosts)}"

    def send_request(self, range_request: EtcdRangeRequest) -> PendingAnswer:
        """Send a range request as soon as the rate limit allows it."""
        self.operations["count" if range_request.count_only else "range"] += 1
        self._limit.take(1)
        return self._send(range_request)

    def receive_answer(self, pending_answer: PendingAnswer) -> EtcdAnswer:
        """Wait for an answer. If the endpoint is lost, send the request to the other endpoints.

        Raises:
            CompactedError: etcd no longer keeps the requested revision.
            TooLargeError: the answer would be larger than `MESSAGE_LIMIT`.
            StoreError: no endpoint answers, or this client is not allowed to read the range.
        """
        token_retries = 1
        range_request = pending_answer.range_request
        failures = 0
        while True:
            try:
                return self._answer(range_request, pending_answer.future.result())
            except grpc.FutureCancelledError:
                pass  # another request found the endpoint dead, and closed it
            except grpc.RpcError as error:
                status_code, details = error.code(), error.details() or ""
                if status_code is grpc.StatusCode.RESOURCE_EXHAUSTED and _TOO_LARGE_MESSAGE in details:
                    raise TooLargeError(f"{self.name}: {details}") from error
                if token_retries and any(message_part in details for message_part in _OLD_TOKEN_MESSAGES):
                    token_retries -= 1
                    pending_answer.endpoint.forget_token()
                elif status_code in _LOST_ENDPOINT_STATUS_CODES:
                    failures += 1
                    self._leave_endpoint(pending_answer.endpoint, failures, error)
                else:
                    raise self._refusal_error(range_request, error) from error
            self.operations["retry"] += 1
            pending_answer = self._send(range_request, failures)

    def ask(self, range_request: EtcdRangeRequest) -> EtcdAnswer:
        """Send a range request and wait for its answer."""
        return self.receive_answer(self.send_request(range_request))

    def version(self) -> str:
        """Return the etcd version of the current endpoint.

        The request is sent only once, and no other endpoint is tried.

        Raises:
            StoreError: the endpoint does not answer, or refuses this client.
        """
        return str(self._status().version)

    def log_index(self) -> int:
        """Return the raft index of the current endpoint, which is the number of entries in its log.

        Raises:
            StoreError: see `version`.
        """
        return int(self._status().raftIndex)

    def _status(self) -> Any:
        range_request = EtcdRangeRequest(b"", b"", 0)
        endpoint = self._endpoint()
        self.operations["status"] += 1
        try:
            if endpoint.authenticate():
                self.operations["authenticate"] += 1
            return endpoint.status()
        except grpc.RpcError as error:
            raise (
                self._unreachable_error(error)
                if error.code() in _LOST_ENDPOINT_STATUS_CODES
                else self._refusal_error(range_request, error)
            ) from error

    def expect_cluster(self, cluster_id: int) -> None:
        """From now on, accept only answers from the cluster with this id."""
        self.cluster_id = cluster_id

    def close(self) -> None:
        """Close the connection. A later request opens a new one."""
        if self._open_endpoint is not None:
            self._open_endpoint.close()
            self._open_endpoint = None

    def _send(self, range_request: EtcdRangeRequest, failures: int = 0) -> PendingAnswer:
        while True:
            endpoint = self._endpoint()
            try:
                if endpoint.authenticate():
                    self.operations["authenticate"] += 1
                return PendingAnswer(range_request, endpoint, endpoint.ask(range_request))
            except grpc.RpcError as error:
                if error.code() not in _LOST_ENDPOINT_STATUS_CODES:
                    raise self._refusal_error(range_request, error) from error
                failures += 1
                self._leave_endpoint(endpoint, failures, error)

    def _endpoint(self) -> _Endpoint:
        if self._open_endpoint is None:
            credentials = read_credentials(self._options.credentials).etcd
            self._open_endpoint = _Endpoint(
                self._hosts[self._host_index], credentials, self._options.timeout_s
            )
            self.operations["connect"] += 1
        return self._open_endpoint

    def _leave_endpoint(self, endpoint: _Endpoint, failures: int, error: grpc.RpcError) -> None:
        """Move from the failed ``endpoint`` to the next one, unless another request has already done so.

        A round tries every endpoint once. After each failed round the method waits. After the last round it
        raises ``StoreError``, with ``error`` as the cause. ``failures`` is the number of failures of this
        request so far.
        """
        finished_rounds, endpoint_number = divmod(failures, len(self._hosts))
        if finished_rounds > len(ROUND_WAITS_S):
            raise self._unreachable_error(error) from error
        if endpoint_number == 0:
            self._sleep(ROUND_WAITS_S[finished_rounds - 1])
        if endpoint is self._open_endpoint:
            self.close()
            self._host_index = (self._host_index + 1) % len(self._hosts)
            self.operations["failover"] += len(self._hosts) > 1

    def _answer(self, range_request: EtcdRangeRequest, response: Any) -> EtcdAnswer:
        header = response.header
        if self.cluster_id is None:
            self.cluster_id = header.cluster_id
        elif self.cluster_id != header.cluster_id:
            raise StoreError(
                f"{self.name}: the endpoints belong to several clusters; pass those of one cluster"
            )
        key_values = list(response.kvs)  # protobuf makes each an object once, not once a column
        keys = Keys(
            [key_value.key for key_value in key_values],
            [key_value.value for key_value in key_values],
            [key_value.create_revision for key_value in key_values],
            [key_value.mod_revision for key_value in key_values],
            [key_value.lease for key_value in key_values],
            [key_value.version for key_value in key_values],
        )
        self.operations["keys_read"] += len(keys.names)
        self._limit.take(len(keys.names))
        return EtcdAnswer(keys, response.count, response.more, response.ByteSize(), header.revision)

    def _refusal_error(self, range_request: EtcdRangeRequest, error: grpc.RpcError) -> StoreError:
        status_code, details = error.code(), error.details() or ""
        if status_code is grpc.StatusCode.OUT_OF_RANGE and _COMPACTED_MESSAGE in details:
            return CompactedError(
                f"{self.name}: revision {range_request.revision} was compacted during the scan; "
                "set etcd's --auto-compaction-retention to a longer time than a scan takes"
            )
        if status_code is grpc.StatusCode.OUT_OF_RANGE:
            return StoreError(
                f"{self.name}: revision {range_request.revision} no longer exists; was etcd restored from a "
                "backup during the scan?"
            )
        if status_code in (grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNAUTHENTICATED) or any(
            message_part in details for message_part in _NO_USER_MESSAGES
        ):
            start = range_request.start.decode("utf-8", "backslashreplace")
            return StoreError(
                f"not authorised to read {start} in {self.name} ({details}). In [etcd] of the "
                "credentials file, set a user that may read the whole scope, and the user's password"
            )
        return StoreError(f"{self.name} refused to answer: {status_code.name}: {details}")

    def _unreachable_error(self, error: grpc.RpcError) -> StoreError:
        details = error.details() or ""
        if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
            return StoreError(
                f"{self.name}: no answer within {self._options.timeout_s:g} s; raise --timeout if it is slow"
            )
        tls = read_credentials(self._options.credentials).etcd.tls
        if (tls_problem_text := tls_problem(self._hosts[self._host_index], tls, "etcd.tls")) is not None:
            return StoreError(f"{self._hosts[self._host_index]}: {tls_problem_text}")
        if any(handshake_message in details.lower() for handshake_message in _HANDSHAKE_MESSAGES):
            return StoreError(f"{self.name}: no TLS connection: {details}")
        return StoreError(f"cannot reach {self.name}: {details}; check the hosts of the metadata URI")
