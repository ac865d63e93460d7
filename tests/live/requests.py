"""A plain decoder of the requests that were sent to servers, and a proxy that counts calls to etcd."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Set
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import grpc

ZOOKEEPER_READS = {
    3: "exists",
    4: "getData",
    8: "getChildren",
    9: "sync",
    11: "ping",
    12: "getChildren2",
    22: "multiRead",
    100: "auth",
    101: "setWatches",
    106: "addWatch",
    -11: "closeSession",
}
"""The requests of ZooKeeper's protocol that read, and those of a session; whatever else there is, writes."""

BOOKIE_READS = {1: "READ_ENTRY", 8: "GET_BOOKIE_INFO", 11: "GET_LIST_OF_ENTRIES_OF_LEDGER"}
"""The operations of BookkeeperProtocol.proto that read."""

READS: Mapping[str, Set[str]] = {
    "ZooKeeper": {"createSession", "srvr", *ZOOKEEPER_READS.values()},
    "etcd": {"etcdserverpb.KV/Range", "etcdserverpb.Maintenance/Status", "etcdserverpb.Auth/Authenticate"},
    "bookies": {"READ_ENTRY (version 2)", *BOOKIE_READS.values()},
}
"""All that may be asked: reads (``srvr``: of a server's state), and sessions and tokens for them."""

PLAIN_READ = {1, 2}
"""The fields of a ReadRequest that is nothing but a read: ledger and entry. 100 is the flag that fences."""


def zookeeper_requests(sent: bytes) -> Counter[str]:
    """Count the requests of a session, or return the four-letter word that was sent without a session.

    The first request opens the session. Each later one has a number and a type, of four bytes each.
    """
    if len(sent) == 4:
        return Counter([sent.decode()])
    types = (int.from_bytes(frame[4:8], "big", signed=True) for frame in list(_frames(sent))[1:])
    return Counter(["createSession", *(ZOOKEEPER_READS.get(code, f"request {code}") for code in types)])


def bookie_requests(sent: bytes) -> Counter[str]:
    """Count the requests of a connection: version 2 has first byte 2, version 3 a protobuf field."""
    return Counter(map(_bookie_request, _frames(sent)))


def _bookie_request(frame: bytes) -> str:
    if frame[0] == 2:
        read = frame[1:4] == bytes([2, 0, 0])
        return "READ_ENTRY (version 2)" if read else f"{frame[:4].hex()} (version 2)"
    [(_, header), (_, body)] = _fields(frame)
    operation = dict(_fields(header))[2]
    name = BOOKIE_READS.get(operation, f"operation {operation}")
    extra = {field for field, _ in _fields(body)} - PLAIN_READ if operation == 1 else set()
    return f"{name} with fields {sorted(extra)}" if extra else name


def _frames(sent: bytes) -> Iterator[bytes]:
    while sent:
        length = int.from_bytes(sent[:4], "big")
        assert 0 < length <= len(sent) - 4, f"half a request: {sent[:40].hex()}"
        yield sent[4 : 4 + length]
        sent = sent[4 + length :]


def _fields(message: bytes) -> list[tuple[int, Any]]:
    """Return the numbers and values of a protobuf message that has only varints and bytes."""
    fields: list[tuple[int, Any]] = []
    offset = 0

    def varint() -> int:
        nonlocal offset
        value = shift = 0
        while True:
            value |= (message[offset] & 0x7F) << shift
            shift, offset = shift + 7, offset + 1
            if not message[offset - 1] & 0x80:
                return value

    while offset < len(message):
        tag = varint()
        value: Any = varint()
        if tag & 7 == 2:
            value, offset = message[offset : offset + value], offset + value
        else:
            assert tag & 7 == 0, f"wire type {tag & 7}"
        fields.append((tag >> 3, value))
    return fields


class _Forwarder(grpc.GenericRpcHandler):  # type: ignore[misc]  # grpc has no types
    """A handler that forwards calls of every method and counts them."""

    def __init__(self, channel: grpc.Channel, calls: Counter[str]) -> None:
        self._channel = channel
        self._calls = calls

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        self._calls[details.method.lstrip("/")] += 1
        call: Callable[..., Any] = self._channel.stream_stream(details.method)
        return grpc.stream_stream_rpc_method_handler(
            lambda requests, context: call(requests, metadata=_own(context.invocation_metadata()))
        )


def _own(metadata: Any) -> list[tuple[str, str]]:
    return [(key, value) for key, value in metadata if not key.startswith((":", "grpc-", "user-agent"))]


@contextmanager
def through_proxy(uri: str) -> Iterator[tuple[str, Counter[str]]]:
    """Yield a URI that reaches a running etcd through a proxy, and the counter of the calls through it.

    For another store, the URI is unchanged: the system calls show the requests.
    """
    parsed, calls = urlsplit(uri), Counter[str]()
    if parsed.scheme != "etcd":
        yield uri, calls
        return
    with grpc.insecure_channel(parsed.netloc) as channel, ThreadPoolExecutor(16) as threads:
        server = grpc.server(threads, handlers=[_Forwarder(channel, calls)])
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        try:
            yield uri.replace(parsed.netloc, f"127.0.0.1:{port}"), calls
        finally:
            server.stop(None).wait()
