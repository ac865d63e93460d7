"""One connection to a bookie: list requests go out, answers come back in any order.

A connection that broke, or said what cannot be understood, stays lost; who asks decides whether to open
another.
"""

from __future__ import annotations

import asyncio
import contextlib
from asyncio import Future, IncompleteReadError, StreamReader, StreamWriter
from dataclasses import dataclass, field

from auditor.codecs.bookie_wire import LENGTH, Answer, answer, frame_length, list_request
from auditor.errors import DecodeError, UnreadError


@dataclass
class BookieConnection:
    """A connection that can ask for nothing but listings. Open it with `open_connection`.

    ``where`` is its address in messages; ``timeout_s`` bounds the wait for one answer, in seconds.
    """

    where: str
    timeout_s: float
    reader: StreamReader
    writer: StreamWriter
    lost: UnreadError | None = None
    _sent: int = 0
    _waiting: dict[int, tuple[int, Future[Answer]]] = field(default_factory=dict)
    _receiver: asyncio.Task[None] | None = None

    async def list_entries(self, ledger_id: int) -> Answer:
        """Ask which entries of a ledger the bookie holds, and wait for its answer.

        Raises:
            TimeoutError: no answer in time; the connection may be as good as ever.
            UnreadError: the connection is lost.
        """
        if self._receiver is None:
            self._receiver = asyncio.create_task(self._receive())
        if self.lost is not None:
            raise self._why()
        self._sent += 1
        txn_id = self._sent
        heard: Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting[txn_id] = ledger_id, heard
        try:
            async with asyncio.timeout(self.timeout_s):
                self.writer.write(list_request(txn_id, ledger_id))
                await self.writer.drain()
                return await heard
        except TimeoutError:
            raise
        except OSError as error:
            self.lose(f"the connection broke: {error.strerror or error}")
            raise self._why() from error
        finally:
            del self._waiting[txn_id]
            if heard.done() and not heard.cancelled():
                heard.exception()  # seen: where drain failed first, nobody else looks at it

    def lose(self, reason: str) -> None:
        """Give the connection up: what waits for an answer hears why."""
        if self.lost is None:
            self.lost = UnreadError(self.where, reason)
        for _, heard in self._waiting.values():
            if not heard.done():
                heard.set_exception(self._why())
        self.writer.close()

    async def close(self) -> None:
        """End it, whatever state it is in."""
        self.lose("closed")
        if self._receiver is not None:
            self._receiver.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._receiver
        # What a broken connection says when it is closed is known already.
        with contextlib.suppress(OSError):
            await self.writer.wait_closed()

    def _why(self) -> UnreadError:
        assert self.lost is not None
        return UnreadError(self.where, self.lost.reason)

    async def _receive(self) -> None:
        try:
            while True:
                length = frame_length(await self.reader.readexactly(LENGTH.size))
                self._deliver(answer(await self.reader.readexactly(length)))
        except IncompleteReadError as error:
            cut = " in the middle of an answer" if error.partial else ""
            self.lose(f"the bookie closed the connection{cut}")
        except OSError as error:
            self.lose(f"the connection broke: {error.strerror or error}")
        except DecodeError as error:
            self.lose(str(error))

    def _deliver(self, heard: Answer) -> None:
        ledger_id, waiting = self._waiting.get(heard.txn_id, (None, None))
        if waiting is None or waiting.done():
            if 0 < heard.txn_id <= self._sent:
                return  # it comes after its time
            raise DecodeError("bookie's answer", 0, f"to request {heard.txn_id}, which was never made")
        if heard.ledger_id not in (None, ledger_id):
            raise DecodeError(
                "bookie's answer", heard.at, f"of ledger {heard.ledger_id}; asked was {ledger_id}"
            )
        waiting.set_result(heard)


async def open_connection(host: str, port: int, timeout_s: float) -> BookieConnection:
    """Connect to a bookie; nothing is sent yet, for the protocol knows no greeting.

    Raises:
        UnreadError: nobody there, or not in ``timeout_s`` seconds.
    """
    where = address(host, port)
    try:
        async with asyncio.timeout(timeout_s):
            reader, writer = await asyncio.open_connection(host, port)
    except TimeoutError as error:
        raise UnreadError(where, f"no connection within {timeout_s:g} s") from error
    except OSError as error:
        # asyncio's own words name every address that it tried.
        raise UnreadError(where, f"no connection: {error.strerror or error}") from error
    except ValueError as error:
        # A registration can say anything: this is no name that could be looked up.
        raise UnreadError(where, f"no connection: {host!r} is no host: {error}") from error
    return BookieConnection(where, timeout_s, reader, writer)


def address(host: str, port: int) -> str:
    """A bookie's address as paths of the table availability have it.

    >>> address("bk1", 3181), address("::1", 3181)
    ('rpc://bk1:3181', 'rpc://[::1]:3181')
    """
    return f"rpc://[{host}]:{port}" if ":" in host else f"rpc://{host}:{port}"
