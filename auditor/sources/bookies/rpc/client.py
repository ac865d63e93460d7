"""One bookie asked many questions of one kind, and what to make of its silences and refusals.

A connection that broke is made again a bounded number of times. What it left unanswered is then asked one
subject at a time, so that one whose answer breaks the connection does not take others along.

After a time-out the bookie is asked about a ledger that cannot exist. If it answers that, the connection is
well, and what stayed silent is unknown by itself. If it does not, the connection is as good as broken.

A bookie that does not take this client's login or certificate is given up at once, for each attempt leaves
stack traces in its log.

A kind of question may have wires of several versions. Where the first brings no answer before the bookie ends
its connection, or the bookie refuses the version, the next one is tried; the one that brings an answer stays.

Questions to many bookies in one task: one bookie after another, each with a connection of its own.

    pairs sorted by bookie -> parts of one bookie -> conversation.ask(bookie, subjects) -> what was heard

A bookie is asked by one task at a time, so that the limits of one client are the limits of the bookie; as
many bookies are asked side by side as Spark runs tasks.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
import pyarrow as pa

from auditor.codecs.bookie.wire import Status, status_text
from auditor.errors import RefusedError, UnreadError
from auditor.sources.bookies.rpc.access import BookieAccess, read_access
from auditor.sources.bookies.rpc.connection import (
    Address,
    Answer,
    BookieConnection,
    Subject,
    Wire,
    open_connection,
)
from auditor.sources.clock import RateLimit
from auditor.sources.metadata.store import StoreOptions
from auditor.spark.types import DataFrame

Reply = TypeVar("Reply")

CONNECTIONS = 4
"""Connections in a row that brought no answer, before a bookie is given up."""
MOST_CONNECTIONS = 32
SINGLE_ATTEMPTS = 2
"""How often a subject is asked about by itself after the connection broke with it."""
MOST_SILENT = 40
"""Subjects without an answer, before a bookie that does answer others is given up."""
PAUSE_S = 0.1
"""The first wait before connecting again, or after "too many requests"; each next one is twice as long."""
BUSY = 5
"""How often a subject is asked about while the bookie says "too many requests"."""

_OTHER_VERSION = (Status.EBADREQ, Status.EBADVERSION)


class BookieClient(ABC, Generic[Subject, Answer, Reply]):
    """Asks one bookie, ``options.in_flight`` requests at a time and ``options.rate_limit`` a second.

    A request whose time is over counts as in flight no more, though the bookie may still have it.
    ``given_up`` is the reason why it is asked no more; whatever it has not said by then is unknown.
    ``refuses``: the reason is a refusal of `REFUSALS`.
    ``operations`` counts connections and requests.
    """

    OPERATION: ClassVar[str]
    """What one request is called among the operations."""
    SUBJECTS: ClassVar[str]
    """What is asked about, in messages: "ledgers"."""
    REFUSALS: ClassVar[dict[int, str]]
    """A refusal of these, or EUA, says nothing of a subject: every other request would meet it as well."""

    def __init__(self, host: str, port: int, options: StoreOptions) -> None:
        self.given_up: str | None = None
        self.refuses = False
        self.operations: Counter[str] = Counter()
        self._host = host
        self._port = port
        self._options = options
        self._limit = RateLimit(options.rate_limit)
        self._access: BookieAccess | None = None
        self._wires = deque(self.wires())
        self._connection: BookieConnection[Subject, Answer] | None = None
        self._barren = 0  # connections opened since the last answer
        self._understood = False  # the wire has brought an answer
        self._mute = False  # a connection stayed silent to everything
        self._silent = 0
        self._replies: list[Reply] = []

    @abstractmethod
    def wires(self) -> tuple[Wire[Subject, Answer], ...]:
        """The versions of the question, the one to be tried first in front."""

    @abstractmethod
    def impossible(self) -> Subject:
        """A subject of `IMPOSSIBLE_LEDGER`."""

    @abstractmethod
    def status(self, answer: Answer) -> int:
        """What an answer says of the request: a `Status`, or a number that is none."""

    @abstractmethod
    def note(self, subject: Subject, answer: Answer) -> Reply:
        """What an answer says of its subject."""

    @abstractmethod
    def unknown(self, subject: Subject, reason: str) -> Reply:
        """What is known of a subject without an answer."""

    def enough(self) -> bool:
        """Whether so much was heard that it is to be handed on."""
        return False

    def can_skip(self, subject: Subject) -> bool:
        """Whether an earlier answer says all about a subject."""
        return False

    def mute(self, silent: int) -> str | None:
        """Why a bookie that stayed silent on so many subjects need not be asked about others."""
        return None

    async def ask(self, waiting: deque[Subject]) -> list[Reply]:
        """Ask about subjects, taken from the left, until none waits, enough was heard, or there is no use.

        What is neither among the answers nor still waiting stays unknown; the bookie is given up then.
        """
        self._replies = []
        while waiting and self.given_up is None and not self.enough():
            for subject in await self._side_by_side(waiting):
                await self._alone(subject)
        return self._replies

    async def close(self) -> None:
        """Let go of the connection."""
        if self._connection is not None:
            await self._connection.close()
            self._connection = None

    async def _side_by_side(self, waiting: deque[Subject]) -> list[Subject]:
        """Ask until something goes wrong; the subjects that are to be asked about again, one by one."""
        connection = await self._connected()
        if connection is None:
            return []
        silent: list[Subject] = []
        lost: list[Subject] = []

        async def work() -> None:
            while waiting and not silent and not lost and not self.given_up and not self.enough():
                subject = waiting.popleft()
                if self.can_skip(subject):
                    continue
                try:
                    await self._hear(connection, subject)
                except TimeoutError:
                    silent.append(subject)
                except UnreadError:
                    lost.append(subject)

        await asyncio.gather(*(work() for _ in range(self._options.in_flight)))
        if silent and not lost and await self._is_well(connection):
            self._note_silence(silent)
            return []
        return silent + lost

    async def _alone(self, subject: Subject) -> None:
        """Ask about a subject that may be to blame for a lost connection."""
        broken = ""
        for _ in range(SINGLE_ATTEMPTS):
            connection = await self._connected()
            if connection is None:
                return
            try:
                await self._hear(connection, subject)
                return
            except TimeoutError:
                if await self._is_well(connection):
                    self._note_silence([subject])
                    return
                broken = f"no answer within {self._options.timeout_s:g} s, to anything"
            except UnreadError as error:
                broken = error.reason
        self._replies.append(self.unknown(subject, f"asked for by itself {SINGLE_ATTEMPTS} times: {broken}"))

    async def _hear(self, connection: BookieConnection[Subject, Answer], subject: Subject) -> None:
        for attempt in range(BUSY):
            answer = await self._request(connection, subject)
            if self.status(answer) != Status.ETOOMANYREQUESTS:
                break
            if attempt < BUSY - 1:
                await asyncio.sleep(PAUSE_S * 2**attempt)
        status = self.status(answer)
        if status in _OTHER_VERSION and len(self._wires) > 1 and not self._understood:
            connection.lose(f"the bookie refused this version of the protocol: {status_text(status)}")
            raise UnreadError(connection.where, f"refused: {status_text(status)}")
        if status == Status.EUA:
            self._refuse(f"not authorised: {connection.access.refusal}: {status_text(status)}")
        elif status in self.REFUSALS:
            self._refuse(f"{self.REFUSALS[status]}: {status_text(status)}")
        else:
            self._replies.append(self.note(subject, answer))

    def _refuse(self, reason: str) -> None:
        self.given_up, self.refuses = reason, True

    async def _request(self, connection: BookieConnection[Subject, Answer], subject: Subject) -> Answer:
        wait = self._limit.due(1)
        if wait:
            await asyncio.sleep(wait)
        self.operations[self.OPERATION] += 1
        answer = await connection.ask(subject)
        if self.status(answer) not in _OTHER_VERSION:
            self._barren, self._understood = 0, True
        return answer

    async def _is_well(self, connection: BookieConnection[Subject, Answer]) -> bool:
        """Whether a connection answers at all: asked is what no bookie can hold."""
        try:
            await self._request(connection, self.impossible())
        except TimeoutError:
            self._mute = True
            connection.lose(f"no answer within {self._options.timeout_s:g} s, to anything")
        except UnreadError:
            return False  # the connection knows why
        return connection.lost is None

    def _note_silence(self, subjects: list[Subject]) -> None:
        """Real subjects got no answer on a connection that is well."""
        self._silent += len(subjects)
        waited = (
            f"no answer within {self._options.timeout_s:g} s, though the bookie answers for other "
            f"{self.SUBJECTS}"
        )
        self._replies += [self.unknown(subject, waited) for subject in subjects]
        mute = self.mute(self._silent)
        if mute is not None:
            self.given_up = mute
        elif self._silent >= MOST_SILENT:
            self.given_up = (
                f"no answer for {self._silent} {self.SUBJECTS}, each within {self._options.timeout_s:g} s"
            )

    async def _connected(self) -> BookieConnection[Subject, Answer] | None:
        """The connection, made again if it was lost; None, and given up, where that leads nowhere."""
        while self.given_up is None:
            if self._connection is not None and self._connection.lost is None:
                return self._connection
            lost = self._connection.lost if self._connection else None
            await self.close()
            if lost is not None and (isinstance(lost, RefusedError) or not self._next_wire()):
                self._give_up_on(lost)
            if self.given_up is None:
                if self._barren:
                    await asyncio.sleep(PAUSE_S * 2 ** (self._barren - 1))
                self._barren += 1
                self.operations["connect"] += 1
                if self._access is None:
                    self._access = read_access(self._options.credentials)
                try:
                    self._connection = await open_connection(
                        self._host, self._port, self._options.timeout_s, self._wires[0], self._access
                    )
                except UnreadError as error:
                    self._give_up_on(error)
        return None

    def _next_wire(self) -> bool:
        """A connection was lost: if its version never brought an answer, the next one may.

        Silence is no matter of the version: a bookie that does not know one says so, or hangs up.
        """
        if self._understood or self._mute or len(self._wires) < 2:
            return False
        self._wires.popleft()
        self._barren = 0
        return True

    def _give_up_on(self, error: UnreadError) -> None:
        """A connection failed: if the bookie refuses, or it was one too many, that is the end."""
        if isinstance(error, RefusedError):
            self._refuse(error.reason)
        elif self._barren >= CONNECTIONS:
            self.given_up = f"{CONNECTIONS} connections in a row without an answer: {error.reason}"
        elif self.operations["connect"] >= MOST_CONNECTIONS:
            self.given_up = f"the connection was lost {MOST_CONNECTIONS} times: {error.reason}"


class Conversation(Generic[Subject, Answer, Reply]):
    """Talks to one bookie at a time; keeps its connection while it is the same one."""

    def __init__(
        self,
        addresses: Mapping[str, Address],
        client: Callable[[str, int, StoreOptions], BookieClient[Subject, Answer, Reply]],
        options: StoreOptions,
    ) -> None:
        self._addresses = addresses
        self._new_client = client
        self._options = options
        self._bookie_id: str | None = None
        self._client: BookieClient[Subject, Answer, Reply] | None = None

    def __enter__(self) -> Conversation[Subject, Answer, Reply]:
        self._runner = asyncio.Runner()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._part()
        self._runner.close()

    def connect_to(self, bookie_id: str) -> BookieClient[Subject, Answer, Reply]:
        """The client of a bookie; of another one than the last, a new one."""
        if self._client is None or bookie_id != self._bookie_id:
            self._part()
            self._bookie_id = bookie_id
            self._client = self._new_client(*self._addresses[bookie_id], self._options)
        return self._client

    def ask(self, bookie_id: str, subjects: Iterable[Subject]) -> Iterator[list[Reply]]:
        """What a bookie says of these subjects, a bounded part at a time; nothing once it was given up."""
        client = self.connect_to(bookie_id)
        waiting = deque(subjects)
        while waiting and client.given_up is None:
            replies = self._runner.run(client.ask(waiting))
            if replies:
                yield replies
        if client.given_up is not None:
            self._runner.run(client.close())

    def _part(self) -> None:
        if self._client is not None:
            self._runner.run(self._client.close())
            self._client = None


def each_bookie(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The parts of batches that are about one bookie each; the batches are sorted by ``bookie_id``."""
    for batch in batches:
        if batch.num_rows:
            bookies = batch.column("bookie_id")
            numbers = bookies.dictionary_encode().indices.to_numpy(zero_copy_only=False)
            ends = [*(np.flatnonzero(np.diff(numbers)) + 1).tolist(), batch.num_rows]
            for start, end in zip([0, *ends], ends, strict=False):
                yield bookies[start].as_py(), batch.slice(start, end - start)


def one_bookie_per_partition(pairs: DataFrame, bookies: int, *order: str) -> DataFrame:
    """Rows for tasks that ask: all of one bookie in one partition, in the order of these columns."""
    # With a number of its own Spark neither brings parts together nor splits one.
    return pairs.repartition(max(1, bookies), "bookie_id").sortWithinPartitions("bookie_id", *order)


def columns(batch: pa.RecordBatch, *names: str) -> Iterator[tuple[Any, ...]]:
    """The rows of a batch, as the values of these columns."""
    return zip(*(batch.column(name).to_pylist() for name in names), strict=True)
