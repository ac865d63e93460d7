"""The network addresses of bookies, and one connection to a bookie, whose answers come in any order.

The program finds a bookie as BookKeeper's own clients do: by the address that it registered (BP-41). If it
registered none (before 4.11, and on etcd), its id is the address. A bookie that is not registered is not
asked, because an id may only look like an address.

Only `open_connection` connects, starts TLS and logs in (`auditor.sources.bookies.rpc.access`). A connection
carries requests of one kind. Once it broke, or received an answer that cannot be decoded, it stays lost. The
caller decides whether to open another connection. Of a long answer only the needed bytes are kept; the rest
is dropped as it arrives.
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
from auditor.sources.bookies.rpc.access import IN_CLEAR, BookieAccess, enter
from auditor.spark import functions as F
from auditor.spark.types import DataFrame

Subject = TypeVar("Subject")
Answer = TypeVar("Answer")
_Subject = TypeVar("_Subject", contravariant=True)

_DROPPED_BYTES = 64 << 10
"""Number of unneeded bytes that are read and dropped at a time."""

_CLOSE_SECONDS = 0.2
"""Longest wait for a connection to close, in seconds. Netty does not answer the end of TLS."""


class Wire(Protocol[_Subject, Answer]):
    """One kind of request in one protocol version. An answer that cannot be decoded ends the connection."""

    @property
    def version(self) -> int:
        """The protocol version. A login on the same connection uses it too."""

    def frame(self, number: int, subject: _Subject) -> bytes:
        """Return the bytes of a request; ``number`` is unique on its connection."""

    def key(self, number: int, subject: _Subject) -> Hashable:
        """Return the key that matches an answer with its request."""

    def head(self, length: int) -> int:
        """Return how many leading bytes of an answer of ``length`` bytes are kept."""

    def answer(self, head: bytes, length: int) -> tuple[Hashable, Answer]:
        """Decode the kept bytes of an answer. Return the key of its request and the answer."""

    def mismatch(self, subject: _Subject, answer: Answer) -> DecodeError | None:
        """Return an error if an answer does not fit the request with the same key; None if it fits."""


@dataclass
class BookieConnection(Generic[Subject, Answer]):
    """A connection that can send only the requests of its ``wire``. Open it with `open_connection`.

    Attributes:
        where: The bookie's address in messages.
        timeout_s: Longest wait for one answer, in seconds.
        lost: The error that ended the connection. None while it works.
    """

    where: str
    timeout_s: float
    wire: Wire[Subject, Answer]
    reader: StreamReader
    writer: StreamWriter
    access: BookieAccess = IN_CLEAR
    lost: UnreadError | None = None
    _sent_count: int = 0
    _waiting: dict[Hashable, tuple[Subject, Future[Answer]]] = field(default_factory=dict)
    _late_keys: set[Hashable] = field(default_factory=set)
    _receiver: asyncio.Task[None] | None = None

    async def ask(self, subject: Subject) -> Answer:
        """Ask about one subject, and wait for the bookie's answer.

        Raises:
            TimeoutError: no answer came in time. The connection may still work.
            UnreadError: the connection is lost.
        """
        if self._receiver is None:
            self._receiver = asyncio.create_task(self._receive())
        if self.lost is not None:
            raise self._lost_error()
        self._sent_count += 1
        key = self.wire.key(self._sent_count, subject)
        future: Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting[key] = subject, future
        try:
            async with asyncio.timeout(self.timeout_s):
                self.writer.write(self.wire.frame(self._sent_count, subject))
                await self.writer.drain()
                return await future
        except TimeoutError:
            self._late_keys.add(key)
            raise
        except OSError as error:
            self._end_with(self.access.connection_error(self.where, error))
            raise self._lost_error() from error
        finally:
            del self._waiting[key]
            if future.done() and not future.cancelled():
                future.exception()  # retrieve it, or asyncio logs it: a failed drain skips the await

    def lose(self, reason: str) -> None:
        """End the connection. Requests without an answer fail with the reason."""
        self._end_with(UnreadError(self.where, reason))

    def _end_with(self, error: UnreadError) -> None:
        if self.lost is None:
            self.lost = error
        for _, future in self._waiting.values():
            if not future.done():
                future.set_exception(self._lost_error())
        self.writer.close()

    async def close(self) -> None:
        """Close the connection in any state."""
        self.lose("closed")
        if self._receiver is not None:
            self._receiver.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._receiver
        await end(self.writer)

    def _lost_error(self) -> UnreadError:
        assert self.lost is not None
        return type(self.lost)(self.where, self.lost.reason)

    async def _receive(self) -> None:
        try:
            while True:
                length = frame_length(await self.reader.readexactly(LENGTH.size))
                await self._receive_answer(length)
        except IncompleteReadError as error:
            cut_note = " in the middle of an answer" if error.partial else ""
            self.lose(f"the bookie closed the connection{cut_note}")
        except OSError as error:
            self._end_with(self.access.connection_error(self.where, error))
        except DecodeError as error:
            self.lose(str(error))

    async def _receive_answer(self, length: int) -> None:
        """Read one answer. It counts only after all of its bytes arrived, also those that are dropped."""
        head = await self.reader.readexactly(self.wire.head(length))
        if self.access.tls is not None and is_late_start_tls(head):
            return  # the bookie requires more than TLS, and refuses each request
        key, answer = self.wire.answer(head, length)
        remaining_bytes = length - len(head)
        while remaining_bytes:
            remaining_bytes -= len(await self.reader.readexactly(min(remaining_bytes, _DROPPED_BYTES)))
        self._deliver_answer(key, answer)

    def _deliver_answer(self, key: Hashable, answer: Answer) -> None:
        subject, future_answer = self._waiting.get(key, (None, None))
        if subject is None or future_answer is None or future_answer.done():
            if key in self._late_keys:
                self._late_keys.discard(key)
                return  # the answer came after the time-out
            raise DecodeError("bookie's answer", 0, f"answers request {key}, which was never sent")
        mismatch = self.wire.mismatch(subject, answer)
        if mismatch is not None:
            raise mismatch
        future_answer.set_result(answer)


async def open_connection(
    host: str, port: int, timeout_s: float, wire: Wire[Subject, Answer], access: BookieAccess = IN_CLEAR
) -> BookieConnection[Subject, Answer]:
    """Connect to a bookie, and start TLS and log in as ``access`` requires.

    Raises:
        RefusedError: the bookie refuses this client.
        UnreadError: no connection within ``timeout_s`` seconds.
    """
    where, reader, writer = await connect(host, port, timeout_s)
    try:
        await enter(reader, writer, where, host, wire.version, timeout_s, access)
    except BaseException:
        writer.close()
        await end(writer)
        raise
    return BookieConnection(where, timeout_s, wire, reader, writer, access)


async def connect(host: str, port: int, timeout_s: float) -> tuple[str, StreamReader, StreamWriter]:
    """Connect in clear and send nothing. Return the address in messages, the reader and the writer.

    Raises:
        UnreadError: no connection within ``timeout_s`` seconds.
    """
    where = address(host, port)
    try:
        async with asyncio.timeout(timeout_s):
            reader, writer = await asyncio.open_connection(host, port)
    except TimeoutError as error:
        raise UnreadError(where, f"no connection within {timeout_s:g} s") from error
    except OSError as error:
        # str(error) would name every address that asyncio tried.
        raise UnreadError(where, f"no connection: {error.strerror or error}") from error
    except ValueError as error:
        # The registered host can be any text, also one that cannot be looked up.
        raise UnreadError(where, f"no connection: {host!r} is not a host: {error}") from error
    return where, reader, writer


async def end(writer: StreamWriter) -> None:
    """Wait until a connection is closed."""
    try:
        async with asyncio.timeout(_CLOSE_SECONDS):
            await writer.wait_closed()
    except TimeoutError:
        writer.transport.abort()
    except OSError:
        pass  # the error of a broken connection is reported already


def address(host: str, port: int) -> str:
    """Return a bookie's address in the form of the column ``path`` of the table ``availability``.

    >>> address("bk1", 3181), address("::1", 3181)
    ('rpc://bk1:3181', 'rpc://[::1]:3181')
    """
    return f"rpc://[{host}]:{port}" if ":" in host else f"rpc://{host}:{port}"


Address = tuple[str, int]
Endpoint = Address | str
"""The host and port of a bookie, or the reason why it has none."""

SHARED_ADDRESS_REASON = "another bookie is registered with the same address: answers cannot be attributed"
NOT_REGISTERED = "not registered: its address is not known"
_MAX_PORT = 65_535


def endpoints(registrations: Iterable[Mapping[str, Any]], bookies: Iterable[str]) -> dict[str, Endpoint]:
    """Return the endpoint of each of ``bookies``, from rows of the table registrations.

    >>> rows = [{"bookie_id": "b1", "damage": None,
    ...          "endpoints": [{"host": "h", "port": 3181, "protocol": "bookie-rpc"}]}]
    >>> endpoints(rows, ["b1", "b2"])
    {'b1': ('h', 3181), 'b2': 'not registered: its address is not known'}
    """
    endpoint_by_id: dict[str, Endpoint] = {}
    for row in registrations:
        if row.get("ephemeral") is False:
            continue  # a leftover, perhaps with the address of another bookie
        # While a bookie turns read-only it is registered twice; either registration may have the address.
        if isinstance(endpoint_by_id.get(row["bookie_id"], NOT_REGISTERED), str):
            endpoint_by_id[row["bookie_id"]] = _endpoint(row)
    bookies_per_endpoint = Counter(endpoint_by_id.values())
    endpoint_by_bookie = {bookie_id: endpoint_by_id.get(bookie_id, NOT_REGISTERED) for bookie_id in bookies}
    return {
        # An answer does not name the bookie, so entries that one lacks would count as lost by the other.
        bookie_id: SHARED_ADDRESS_REASON
        if not isinstance(endpoint, str) and bookies_per_endpoint[endpoint] > 1
        else endpoint
        for bookie_id, endpoint in endpoint_by_bookie.items()
    }


def every_replica(ledgers: DataFrame, bookies: Collection[str]) -> DataFrame:
    """Return the pairs of ``bookies`` and the ledgers that they may hold: scope_id, ledger_id, bookie_id.

    For a closed ledger, a bookie that should hold none of its entries is not asked. A bookie logs an ERROR
    with a stack trace for each ledger that it lacks, and would lack most of these. For a ledger that is not
    closed the last entry is not known, so all members of the ensemble are asked.
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
    for offer in row["endpoints"]:
        if offer["protocol"] == BOOKIE_RPC:
            host, port = offer["host"], offer["port"]
            if not host or not 0 < port <= _MAX_PORT:
                return f"it registered with an invalid address: {host!r}, port {port}"
            return host, port
    return f"it registered without an endpoint for {BOOKIE_RPC}"
