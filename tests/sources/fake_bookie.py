"""A fake bookie: it sends real frames on a loopback port, and behaves as a test requires."""

from __future__ import annotations

import asyncio
import contextlib
import struct
import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping
from types import TracebackType

import numpy as np

from auditor.codecs.availability.groups import GROUP
from auditor.codecs.availability.wire import encode_unfolded
from auditor.codecs.bookie.wire import LENGTH
from auditor.codecs.protobuf.pb import bookie_wire_pb2 as pb


class Request:
    """A received request, with a method for each way to answer it."""

    def __init__(
        self, bookie: FakeBookie, writer: asyncio.StreamWriter, connection: int, data: bytes
    ) -> None:
        self.data = data
        self.entry_id: int | None = None  # of a read
        self.version = 3
        self.txn_id = 0
        if data[0] == 2:
            self.version = 2
            _, _, _, self.ledger_id, self.entry_id = struct.unpack(">BBHqq", data)
        elif pb.EntryRequest.FromString(data).HasField("readRequest"):
            read = pb.EntryRequest.FromString(data)
            self.txn_id = read.header.txnId
            self.ledger_id, self.entry_id = read.readRequest.ledgerId, read.readRequest.entryId
        else:
            message = pb.ListRequest.FromString(data)
            self.txn_id = message.header.txnId
            self.ledger_id = message.getListOfEntriesOfLedgerRequest.ledgerId
        self.connection = connection  # the first is 1
        self._bookie = bookie
        self._writer = writer

    async def listing(self) -> None:
        """Answer a listing as a bookie does: one group per run, or the status for an absent ledger."""
        entry_ids = self._bookie.holds.get(self.ledger_id)
        await (self.status(402) if entry_ids is None else self.value(encode_listing(entry_ids)))

    async def entry(self, payload: bytes = b"payload") -> None:
        """Answer a read as a bookie does: the entry, or the status for an absent entry or ledger."""
        entry_ids = self._bookie.holds.get(self.ledger_id)
        if entry_ids is None or self.entry_id not in entry_ids:
            await self.status(402 if entry_ids is None else 403)
        else:
            await self.raw(self.frame(0, struct.pack(">qq", self.ledger_id, self.entry_id) + payload))

    def frame(self, status: int, body: bytes | None = None) -> bytes:
        """Return the response frame of a read, encoded as a server encodes it."""
        assert self.entry_id is not None
        return read_frame(self.txn_id, status, self.ledger_id, self.entry_id, body, self.version)

    async def value(self, value: bytes) -> None:
        """Answer with this encoded availability."""
        await self.raw(list_frame(self.txn_id, 0, self.ledger_id, value))

    async def status(self, status: int) -> None:
        """Answer with an error status that names the ledger and, for a read, the entry."""
        read = self.entry_id is not None
        await self.raw(self.frame(status) if read else list_frame(self.txn_id, status, self.ledger_id))

    async def send_refusal(self, status: int) -> None:
        """Answer with an error status, without the operation's own part of the response."""
        operation = 11 if self.entry_id is None else 1
        header = pb.ResponseHeader(version=3, operation=operation, txnId=self.txn_id)
        message = pb.ListResponse(header=header, status=status).SerializeToString()
        await self.raw(LENGTH.pack(len(message)) + message)

    async def raw(self, data: bytes) -> None:
        """Send any bytes as the answer."""
        self._bookie.unanswered -= 1
        self._writer.write(data)
        with contextlib.suppress(ConnectionError):
            await self._writer.drain()

    def end(self) -> None:
        """Close the connection after the bytes already written are sent."""
        self._writer.close()

    def reset(self) -> None:
        """Break the connection without an answer."""
        self._writer.transport.abort()


Behaviour = Callable[[Request], Awaitable[None]]


class FakeBookie:
    """A bookie that serves within a ``with`` block, in a thread of its own.

    ``holds`` has the entries by ledger. ``requests`` has all requests in order, ``ledger_ids`` their ledgers.
    ``most_unanswered`` is the highest number of open requests, ``connections`` the number of connections.
    """

    def __init__(
        self, holds: Mapping[int, Iterable[int]] | None = None, behaviour: Behaviour = Request.listing
    ) -> None:
        self.holds = {ledger: sorted(entries) for ledger, entries in (holds or {}).items()}
        self.host = "127.0.0.1"
        self.port = 0
        self.ledger_ids: list[int] = []
        self.requests: list[Request] = []
        self.connections = 0
        self.unanswered = 0
        self.most_unanswered = 0
        self._behaviour = behaviour
        self._started = threading.Event()

    def __enter__(self) -> FakeBookie:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=lambda: self._loop.run_until_complete(self._serve()), daemon=True
        )
        self._thread.start()
        assert self._started.wait(10)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        self._loop.close()

    async def _serve(self) -> None:
        self._stop = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        server = await asyncio.start_server(self._connection, self.host, 0)
        self.port = server.sockets[0].getsockname()[1]
        self._started.set()
        await self._stop.wait()
        server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        number = self.connections
        self.unanswered = 0
        answering: set[asyncio.Task[None]] = set()
        this = asyncio.current_task()
        assert this is not None
        self._tasks.add(this)
        try:
            while True:
                (length,) = LENGTH.unpack(await reader.readexactly(LENGTH.size))
                request = Request(self, writer, number, await reader.readexactly(length))
                self.ledger_ids.append(request.ledger_id)
                self.requests.append(request)
                self.unanswered += 1
                self.most_unanswered = max(self.most_unanswered, self.unanswered)
                answering.add(asyncio.ensure_future(self._behaviour(request)))
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            for task in answering:
                task.cancel()
            await asyncio.gather(*answering, return_exceptions=True)
            writer.close()
            self._tasks.discard(this)


def list_frame(txn_id: int, status: int, ledger_id: int, value: bytes | None = None) -> bytes:
    """Return the response frame of a listing, encoded as a server encodes it."""
    body = pb.GetListOfEntriesOfLedgerResponse(status=status, ledgerId=ledger_id)
    if value is not None:
        body.availabilityOfEntriesOfLedger = value
    message = pb.ListResponse(
        header=pb.ResponseHeader(version=3, operation=11, txnId=txn_id),
        status=status,
        getListOfEntriesOfLedgerResponse=body,
    ).SerializeToString()
    return LENGTH.pack(len(message)) + message


def read_frame(
    txn_id: int, status: int, ledger_id: int, entry_id: int, body: bytes | None = None, version: int = 3
) -> bytes:
    """Return the response frame of a read, as a server encodes it; ``body`` is the entry with its ids."""
    if version == 2:
        code = {402: 1, 403: 2, 404: 100}.get(status, status - 400 if status > 500 else status)
        message = struct.pack(">BBHiqq", 2, 2, 0, code, ledger_id, entry_id) + (body or b"")
        return LENGTH.pack(len(message)) + message
    inner = pb.ReadResponse(status=status, ledgerId=ledger_id, entryId=entry_id).SerializeToString()
    if body is not None:
        inner += b"\x22" + _varint(len(body)) + body + b"\x28\x01"
    header = pb.ResponseHeader(version=3, operation=1, txnId=txn_id)
    message = pb.EntryResponse(header=header, status=status).SerializeToString()
    message += b"\xa2\x06" + _varint(len(inner)) + inner
    return LENGTH.pack(len(message)) + message


def _varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def encode_listing(entries: Iterable[int]) -> bytes:
    """Return the value that a server sends for a listing, with one group for each run."""
    return encode_unfolded(np.array([(entry, entry, 1, 0) for entry in entries], GROUP))
