"""The network addresses of bookies, and a connection to one bookie. Answers may arrive in any order.

The program finds a bookie in the same way as BookKeeper's own clients: by the address that the bookie
registered (BP-41). If it registered no address (before 4.11, and on etcd), its id is the address. The
program does not ask a bookie that is not registered, because its id may only look like an address.

Only `open_connection` connects, starts TLS and logs in (`auditor.sources.bookies.rpc.access`). A connection
carries requests of one kind. It ends if it breaks, or if an answer cannot be decoded. The caller decides
whether to open a new connection. The program keeps only the needed bytes of a long answer, and drops the
other bytes as they arrive.
"""

from __future__ import annotations

import asyncio
import contextlib
from asyncio import Future, IncompleteReadError, StreamReader, StreamWriter
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from auditor.codecs.bookie.handshake import is_late_start_tls
from auditor.codecs.bookie.wire import LENGTH, frame_length
from auditor.codecs.store.service_info import BOOKIE_RPC
from auditor.errors import DecodeError, UnreadError
from auditor.model.columns import LEDGER
from auditor.model.ledger_metadata import LedgerState
from auditor.sources.bookies.rpc.access import CLEAR_ACCESS, BookieAccess, start_session
from auditor.spark import functions as F
from auditor.spark.types import DataFrame

Subject = TypeVar("Subject")
Answer = TypeVar("Answer")
_Subject = TypeVar("_Subject", contravariant=True)

_DISCARD_CHUNK_BYTES = 64 << 10
"""Number of unneeded bytes that are read and dropped at a time."""

_CLOSE_SECONDS = 0.2
"""Longest wait for a connection to close, in seconds. Netty does not answer the end of TLS."""


class Codec(Protocol[_Subject, Answer]):
    """The encoding of one kind of request in one protocol version.

    An answer that cannot be decoded ends the connection.
    """

    @property
    def version(self) -> int:
        """The protocol version. A login on the same connection uses the same version."""

    def request_bytes(self, request_number: int, subject: _Subject) -> bytes:
        """Return the bytes of a request. ``request_number`` is unique on the connection."""

    def request_key(self, request_number: int, subject: _Subject) -> Hashable:
        """Return the key of a request. An answer with the same key answers this request."""

    def needed_length(self, answer_length: int) -> int:
        """Return how many bytes at the start of an answer of ``answer_length`` bytes are needed."""

    def decode_answer(self, needed_bytes: bytes, answer_length: int) -> tuple[Hashable, Answer]:
        """Decode the bytes of an answer that were kept (see `needed_length`).

        Return the key of the answer's request, and the answer.
        """

    def find_mismatch(self, subject: _Subject, answer: Answer) -> DecodeError | None:
        """Return an error if the answer has the key of the request but is not about ``subject``.

        Return None if the answer matches.
        """


@dataclass
class BookieConnection(Generic[Subject, Answer]):
    """A connection that can send only the requests of its ``codec``. Open it with `open_connection`.

    Attributes:
        address_text: The bookie's address, for messages.
        timeout_s: The longest time to wait for an answer, in seconds.
        end_error: The error that ended the connection. None while the connection works.
    """

    address_text: str
    timeout_s: float
    codec: Codec[Subject, Answer]
    reader: StreamReader
    writer: StreamWriter
    access: BookieAccess = CLEAR_ACCESS
    end_error: UnreadError | None = None
    _sent_count: int = 0
    _waiting_requests: dict[Hashable, tuple[Subject, Future[Answer]]] = field(default_factory=dict)
    _timed_out_keys: set[Hashable] = field(default_factory=set)
    _receive_task: asyncio.Task[None] | None = None

    async def ask(self, subject: Subject) -> Answer:
        """Ask about one ledger or entry, and wait for the bookie's answer.

        Raises:
            TimeoutError: no answer came in time. The connection may still work.
            UnreadError: the connection has ended.
        """
        if self._receive_task is None:
            self._receive_task = asyncio.create_task(self._receive())
        if self.end_error is not None:
            raise self._copy_end_error()
        self._sent_count += 1
        request_key = self.codec.request_key(self._sent_count, subject)
        answer_future: Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting_requests[request_key] = subject, answer_future
        try:
            async with asyncio.timeout(self.timeout_s):
                self.writer.write(self.codec.request_bytes(self._sent_count, subject))
                await self.writer.drain()
                return await answer_future
        except TimeoutError:
            self._timed_out_keys.add(request_key)
            raise
        except OSError as error:
            self._end_with_error(self.access.connection_error(self.address_text, error))
            raise self._copy_end_error() from error
        finally:
            del self._waiting_requests[request_key]
            if answer_future.done() and not answer_future.cancelled():
                answer_future.exception()  # retrieve it, or asyncio logs it: a failed drain skips the await

    def end_with_reason(self, reason: str) -> None:
        """End the connection. All requests that wait for an answer fail with this reason."""
        self._end_with_error(UnreadError(self.address_text, reason))

    def _end_with_error(self, error: UnreadError) -> None:
        if self.end_error is None:
            self.end_error = error
        for _, answer_future in self._waiting_requests.values():
            if not answer_future.done():
                answer_future.set_exception(self._copy_end_error())
        self.writer.close()

    async def close(self) -> None:
        """Close the connection, whatever its state is."""
        self.end_with_reason("closed")
        if self._receive_task is not None:
            self._receive_task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._receive_task
        await wait_closed(self.writer)

    def _copy_end_error(self) -> UnreadError:
        assert self.end_error is not None
        return type(self.end_error)(self.address_text, self.end_error.reason)

    async def _receive(self) -> None:
        try:
            while True:
                answer_length = frame_length(await self.reader.readexactly(LENGTH.size))
                await self._receive_answer(answer_length)
        except IncompleteReadError as error:
            partial_note = " in the middle of an answer" if error.partial else ""
            self.end_with_reason(f"the bookie closed the connection{partial_note}")
        except OSError as error:
            self._end_with_error(self.access.connection_error(self.address_text, error))
        except DecodeError as error:
            self.end_with_reason(str(error))

    async def _receive_answer(self, answer_length: int) -> None:
        """Read one answer of ``answer_length`` bytes, and then deliver it to the waiting request.

        The connection waits for all bytes of the answer, including those that it drops.
        """
        needed_bytes = await self.reader.readexactly(self.codec.needed_length(answer_length))
        if self.access.tls is not None and is_late_start_tls(needed_bytes):
            return  # the bookie requires more than TLS, and refuses each request
        request_key, answer = self.codec.decode_answer(needed_bytes, answer_length)
        remaining_bytes = answer_length - len(needed_bytes)
        while remaining_bytes:
            remaining_bytes -= len(await self.reader.readexactly(min(remaining_bytes, _DISCARD_CHUNK_BYTES)))
        self._deliver_answer(request_key, answer)

    def _deliver_answer(self, request_key: Hashable, answer: Answer) -> None:
        subject, answer_future = self._waiting_requests.get(request_key, (None, None))
        if subject is None or answer_future is None or answer_future.done():
            if request_key in self._timed_out_keys:
                self._timed_out_keys.discard(request_key)
                return  # the answer came after the time-out
            raise DecodeError(
                "bookie's answer", 0, f"the answer is for request {request_key}, which was never sent"
            )
        mismatch_error = self.codec.find_mismatch(subject, answer)
        if mismatch_error is not None:
            raise mismatch_error
        answer_future.set_result(answer)


async def open_connection(
    host: str, port: int, timeout_s: float, codec: Codec[Subject, Answer], access: BookieAccess = CLEAR_ACCESS
) -> BookieConnection[Subject, Answer]:
    """Connect to a bookie. Start TLS and log in if ``access`` requires it.

    Raises:
        RefusedError: the bookie refuses this client.
        UnreadError: no connection was possible within ``timeout_s`` seconds.
    """
    address_text, reader, writer = await connect(host, port, timeout_s)
    try:
        await start_session(reader, writer, address_text, host, codec.version, timeout_s, access)
    except BaseException:
        writer.close()
        await wait_closed(writer)
        raise
    return BookieConnection(address_text, timeout_s, codec, reader, writer, access)


async def connect(host: str, port: int, timeout_s: float) -> tuple[str, StreamReader, StreamWriter]:
    """Connect without TLS, and send nothing.

    Returns:
        The bookie's address for messages, the reader and the writer.

    Raises:
        UnreadError: no connection was possible within ``timeout_s`` seconds.
    """
    address_text = address(host, port)
    try:
        async with asyncio.timeout(timeout_s):
            reader, writer = await asyncio.open_connection(host, port)
    except TimeoutError as error:
        raise UnreadError(address_text, f"no connection within {timeout_s:g} s") from error
    except OSError as error:
        # str(error) would name every address that asyncio tried.
        raise UnreadError(address_text, f"no connection: {error.strerror or error}") from error
    except ValueError as error:
        # The registered host can be any text, also one that cannot be looked up.
        raise UnreadError(address_text, f"no connection: {host!r} is not a host: {error}") from error
    return address_text, reader, writer


async def wait_closed(writer: StreamWriter) -> None:
    """Wait until a connection is closed. Abort the connection after `_CLOSE_SECONDS`."""
    try:
        async with asyncio.timeout(_CLOSE_SECONDS):
            await writer.wait_closed()
    except TimeoutError:
        writer.transport.abort()
    except OSError:
        pass  # the error of a broken connection is reported already


def address(host: str, port: int) -> str:
    """Return a bookie's address in the form that the column ``path`` of the table ``availability`` uses.

    >>> address("bk1", 3181), address("::1", 3181)
    ('rpc://bk1:3181', 'rpc://[::1]:3181')
    """
    return f"rpc://[{host}]:{port}" if ":" in host else f"rpc://{host}:{port}"


Address = tuple[str, int]
Endpoint = Address | str
"""The host and port of a bookie, or the reason why it has none."""

SHARED_ADDRESS_REASON = "another bookie is registered with the same address: answers cannot be attributed"
NOT_REGISTERED_REASON = "not registered: its address is unknown"
_MAX_PORT = 65_535


def find_endpoints(registrations: Iterable[Mapping[str, Any]], bookies: Iterable[str]) -> dict[str, Endpoint]:
    """Return the (host, port) of each bookie in ``bookies``, from rows of the table ``registrations``.

    For a bookie without a usable address, the value is the reason why it has none.

    >>> rows = [{"bookie_id": "b1", "damage": None,
    ...          "endpoints": [{"host": "h", "port": 3181, "protocol": "bookie-rpc"}]}]
    >>> find_endpoints(rows, ["b1", "b2"])
    {'b1': ('h', 3181), 'b2': 'not registered: its address is unknown'}
    """
    endpoint_by_id: dict[str, Endpoint] = {}
    for row in registrations:
        if row.get("ephemeral") is False:
            continue  # a leftover, perhaps with the address of another bookie
        # While a bookie turns read-only it is registered twice; either registration may have the address.
        if isinstance(endpoint_by_id.get(row["bookie_id"], NOT_REGISTERED_REASON), str):
            endpoint_by_id[row["bookie_id"]] = _endpoint(row)
    bookies_per_endpoint = Counter(endpoint_by_id.values())
    endpoint_by_bookie = {
        bookie_id: endpoint_by_id.get(bookie_id, NOT_REGISTERED_REASON) for bookie_id in bookies
    }
    return {
        # An answer does not name the bookie, so entries that one lacks would count as lost by the other.
        bookie_id: SHARED_ADDRESS_REASON
        if not isinstance(endpoint, str) and bookies_per_endpoint[endpoint] > 1
        else endpoint
        for bookie_id, endpoint in endpoint_by_bookie.items()
    }


def possible_replicas(ledgers: DataFrame, bookies: Collection[str]) -> DataFrame:
    """Return one row (scope_id, ledger_id, bookie_id) for each ledger that a bookie in ``bookies`` may hold.

    A bookie may be in a closed ledger's ensemble although it should hold none of its entries. The result
    omits such pairs. Most of these bookies lack the ledger, and would log an ERROR with a stack trace for
    each request. The last entry of a ledger that is not closed is unknown. So the result has all bookies of
    its ensemble.
    """
    return (
        ledgers.select(*LEDGER, "state", F.explode("replicas").alias("replica"))
        .where(F.col("replica.bookie_id").isin(list(bookies)))
        .where((F.col("state") != LedgerState.CLOSED) | (F.length("replica.groups") > 0))
        .select(*LEDGER, "replica.bookie_id")
    )


def _endpoint(row: Mapping[str, Any]) -> Endpoint:
    if row["damage"] is not None:
        return f"its registration has no readable address: {row['damage']}"
    for registered_endpoint in row["endpoints"]:
        if registered_endpoint["protocol"] == BOOKIE_RPC:
            host, port = registered_endpoint["host"], registered_endpoint["port"]
            if not host or not 0 < port <= _MAX_PORT:
                return f"the bookie registered with an invalid address: {host!r}, port {port}"
            return host, port
    return f"the bookie registered without an endpoint for {BOOKIE_RPC}"
