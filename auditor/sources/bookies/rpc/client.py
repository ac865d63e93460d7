"""A client that sends one bookie many requests of the same kind, and handles silence and refusals.

A subject is the ledger or entry that a request asks about. If a connection breaks, the client opens a new
one, up to a limit. It then asks about the unanswered subjects one at a time. So if the answer for a subject
breaks the connection, no other subject is affected.

After a time-out, the client asks about a ledger that cannot exist. If the bookie answers, the connection
works, and only the subjects without an answer are unknown. If the bookie does not answer, the client treats
the connection as broken.

If a bookie refuses this client's login or certificate, the client gives up at once. Each attempt leaves stack
traces in the bookie's log.

A kind of request may have several `Codec` objects, one for each protocol version. The client tries the next
version if the bookie refuses the current one. It also does so if the bookie closes the connection before the
first answer. It keeps the first version that gets an answer.

A task asks many bookies one after another, with one connection to each bookie:

    pairs sorted by bookie -> parts of one bookie -> conversation.ask(bookie, subjects) -> replies

Only one task asks a bookie at a time. So the limits of a client are also the limits for its bookie. Spark
asks as many bookies in parallel as it runs tasks.
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
    Codec,
    Subject,
    open_connection,
)
from auditor.sources.clock import RateLimit
from auditor.sources.metadata.store import StoreOptions
from auditor.spark.types import DataFrame

Reply = TypeVar("Reply")

MAX_FAILED_CONNECTIONS = 4
"""Number of failed connections in a row, without any answer, after which the client gives up on a bookie."""
MAX_CONNECTIONS = 32  # to one bookie, after which the client gives up
MAX_SINGLE_ATTEMPTS = 2
"""Number of times that the client asks for a subject alone after a request for it broke the connection."""
MAX_SILENT_SUBJECTS = 40
"""Number of subjects without an answer after which the client gives up, even if others get answers."""
FIRST_PAUSE_S = 0.1
"""First wait before a new connection or after "too many requests", in seconds. It doubles each time."""
MAX_BUSY_ATTEMPTS = 5
"""Number of times that the client asks for a subject while the bookie answers "too many requests"."""

_OTHER_VERSION_STATUSES = (Status.EBADREQ, Status.EBADVERSION)


class BookieClient(ABC, Generic[Subject, Answer, Reply]):
    """A client of one bookie. It respects the limits ``options.in_flight`` and ``options.rate_limit``.

    After its time-out, a request no longer counts as in flight, although the bookie may still process it.

    Attributes:
        give_up_reason: The reason why the client stopped asking. Subjects without an answer are then
            unknown. None while the client still asks.
        refuses_all: Whether the client stopped because the bookie refuses its login or all its requests.
        operations: The numbers of connections and requests, by name.
    """

    REQUEST_NAME: ClassVar[str]
    """The name of this client's requests in ``operations``."""
    SUBJECT_NOUN: ClassVar[str]
    """Word for the subjects in messages, such as "ledgers"."""
    REFUSAL_TEXTS: ClassVar[dict[int, str]]
    """Text for each status, except EUA, that refuses all requests and so proves nothing about a subject."""

    def __init__(self, host: str, port: int, options: StoreOptions) -> None:
        self.give_up_reason: str | None = None
        self.refuses_all = False
        self.operations: Counter[str] = Counter()
        self._host = host
        self._port = port
        self._options = options
        self._limiter = RateLimit(options.rate_limit)
        self._access: BookieAccess | None = None
        self._wire_protocols = deque(self.wire_protocols())
        self._connection: BookieConnection[Subject, Answer] | None = None
        self._failed_connects = 0  # connections opened since the last answer
        self._has_answered = False  # the bookie answered in this protocol version
        self._got_no_answers = False  # a connection got no answer to any request
        self._timeout_count = 0
        self._replies: list[Reply] = []

    @abstractmethod
    def wire_protocols(self) -> tuple[Codec[Subject, Answer], ...]:
        """Return the request in each protocol version, in the order in which the client tries them."""

    @abstractmethod
    def absent_subject(self) -> Subject:
        """Return a ledger or entry that cannot exist. It belongs to the ledger `IMPOSSIBLE_LEDGER`."""

    @abstractmethod
    def status(self, answer: Answer) -> int:
        """Return the status code of an answer. It may be a number that is not in `Status`."""

    @abstractmethod
    def reply_from_answer(self, subject: Subject, answer: Answer) -> Reply:
        """Return the reply for a ledger or entry (``subject``) from the bookie's answer."""

    @abstractmethod
    def unknown_reply(self, subject: Subject, reason: str) -> Reply:
        """Return the reply for a ledger or entry (``subject``) that got no answer."""

    def has_enough_replies(self) -> bool:
        """Return whether `ask` should return the replies to its caller now."""
        return False

    def is_needless(self, subject: Subject) -> bool:
        """Return whether an earlier answer makes a request about this ledger or entry unnecessary."""
        return False

    def find_stop_reason(self, timeout_count: int) -> str | None:
        """Return the reason to stop after ``timeout_count`` subjects got no answer, or None to go on."""
        return None

    async def ask(self, waiting_subjects: deque[Subject]) -> list[Reply]:
        """Ask about ledgers or entries. Take them from the left of ``waiting_subjects``. Return the replies.

        Stop after the last subject, or when there are enough replies, or when the client gives up. If it
        gives up, every subject that was taken and has no reply is unknown.
        """
        self._replies = []
        while waiting_subjects and self.give_up_reason is None and not self.has_enough_replies():
            for subject in await self._ask_in_parallel(waiting_subjects):
                await self._ask_alone(subject)
        return self._replies

    async def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            await self._connection.close()
            self._connection = None

    async def _ask_in_parallel(self, waiting_subjects: deque[Subject]) -> list[Subject]:
        """Ask about several ledgers or entries in parallel until a request fails.

        Return those that the caller must ask about again, one at a time.
        """
        connection = await self._working_connection()
        if connection is None:
            return []
        silent_subjects: list[Subject] = []
        unanswered_subjects: list[Subject] = []

        async def ask_next() -> None:
            while (
                waiting_subjects
                and not silent_subjects
                and not unanswered_subjects
                and not self.give_up_reason
                and not self.has_enough_replies()
            ):
                subject = waiting_subjects.popleft()
                if self.is_needless(subject):
                    continue
                try:
                    await self._ask_subject(connection, subject)
                except TimeoutError:
                    silent_subjects.append(subject)
                except UnreadError:
                    unanswered_subjects.append(subject)

        await asyncio.gather(*(ask_next() for _ in range(self._options.in_flight)))
        if silent_subjects and not unanswered_subjects and await self._still_answers(connection):
            self._record_silence(silent_subjects)
            return []
        return silent_subjects + unanswered_subjects

    async def _ask_alone(self, subject: Subject) -> None:
        """Ask about a single ledger or entry that may have broken the connection before."""
        break_reason = ""
        for _ in range(MAX_SINGLE_ATTEMPTS):
            connection = await self._working_connection()
            if connection is None:
                return
            try:
                await self._ask_subject(connection, subject)
                return
            except TimeoutError:
                if await self._still_answers(connection):
                    self._record_silence([subject])
                    return
                break_reason = f"no answer within {self._options.timeout_s:g} s to any request"
            except UnreadError as error:
                break_reason = error.reason
        self._replies.append(
            self.unknown_reply(subject, f"{MAX_SINGLE_ATTEMPTS} single requests failed: {break_reason}")
        )

    async def _ask_subject(self, connection: BookieConnection[Subject, Answer], subject: Subject) -> None:
        for attempt_number in range(MAX_BUSY_ATTEMPTS):
            answer = await self._request(connection, subject)
            if self.status(answer) != Status.ETOOMANYREQUESTS:
                break
            if attempt_number < MAX_BUSY_ATTEMPTS - 1:
                await asyncio.sleep(FIRST_PAUSE_S * 2**attempt_number)
        status = self.status(answer)
        if status in _OTHER_VERSION_STATUSES and len(self._wire_protocols) > 1 and not self._has_answered:
            connection.end_with_reason(
                f"the bookie refused this version of the protocol: {status_text(status)}"
            )
            raise UnreadError(connection.address_text, f"refused: {status_text(status)}")
        if status == Status.EUA:
            self._stop_on_refusal(f"not authorised: {connection.access.refusal_text}: {status_text(status)}")
        elif status in self.REFUSAL_TEXTS:
            self._stop_on_refusal(f"{self.REFUSAL_TEXTS[status]}: {status_text(status)}")
        else:
            self._replies.append(self.reply_from_answer(subject, answer))

    def _stop_on_refusal(self, reason: str) -> None:
        self.give_up_reason, self.refuses_all = reason, True

    async def _request(self, connection: BookieConnection[Subject, Answer], subject: Subject) -> Answer:
        wait_seconds = self._limiter.reserve(1)
        if wait_seconds:
            await asyncio.sleep(wait_seconds)
        self.operations[self.REQUEST_NAME] += 1
        answer = await connection.ask(subject)
        if self.status(answer) not in _OTHER_VERSION_STATUSES:
            self._failed_connects, self._has_answered = 0, True
        return answer

    async def _still_answers(self, connection: BookieConnection[Subject, Answer]) -> bool:
        """Return whether the bookie still answers on a connection. Ask it for an entry that cannot exist."""
        try:
            await self._request(connection, self.absent_subject())
        except TimeoutError:
            self._got_no_answers = True
            connection.end_with_reason(f"no answer within {self._options.timeout_s:g} s to any request")
        except UnreadError:
            return False  # connection.end_error has the reason
        return connection.end_error is None

    def _record_silence(self, subjects: list[Subject]) -> None:
        """Record that some ledgers or entries got no answer, although the connection works."""
        self._timeout_count += len(subjects)
        silent_subject_reason = (
            f"no answer within {self._options.timeout_s:g} s, though the bookie answers for other "
            f"{self.SUBJECT_NOUN}"
        )
        self._replies += [self.unknown_reply(subject, silent_subject_reason) for subject in subjects]
        stop_reason = self.find_stop_reason(self._timeout_count)
        if stop_reason is not None:
            self.give_up_reason = stop_reason
        elif self._timeout_count >= MAX_SILENT_SUBJECTS:
            self.give_up_reason = (
                f"no answer for {self._timeout_count} {self.SUBJECT_NOUN} within "
                f"{self._options.timeout_s:g} s each"
            )

    async def _working_connection(self) -> BookieConnection[Subject, Answer] | None:
        """Return the connection. Open a new one if it was lost. Return None if the client gave up."""
        while self.give_up_reason is None:
            if self._connection is not None and self._connection.end_error is None:
                return self._connection
            end_error = self._connection.end_error if self._connection else None
            await self.close()
            if end_error is not None and (
                isinstance(end_error, RefusedError) or not self._use_next_protocol()
            ):
                self._give_up_on(end_error)
            if self.give_up_reason is None:
                if self._failed_connects:
                    await asyncio.sleep(FIRST_PAUSE_S * 2 ** (self._failed_connects - 1))
                self._failed_connects += 1
                self.operations["connect"] += 1
                if self._access is None:
                    self._access = read_access(self._options.credentials)
                try:
                    self._connection = await open_connection(
                        self._host, self._port, self._options.timeout_s, self._wire_protocols[0], self._access
                    )
                except UnreadError as error:
                    self._give_up_on(error)
        return None

    def _use_next_protocol(self) -> bool:
        """Switch to the next protocol version if the current one got no valid answer.

        Return whether the client has switched. Silence is no reason to switch. A bookie that does not know
        a version says so or closes the connection.
        """
        if self._has_answered or self._got_no_answers or len(self._wire_protocols) < 2:
            return False
        self._wire_protocols.popleft()
        self._failed_connects = 0
        return True

    def _give_up_on(self, error: UnreadError) -> None:
        """Give up if the bookie refuses this client, or if too many connections have failed."""
        if isinstance(error, RefusedError):
            self._stop_on_refusal(error.reason)
        elif self._failed_connects >= MAX_FAILED_CONNECTIONS:
            self.give_up_reason = (
                f"{MAX_FAILED_CONNECTIONS} connections in a row without an answer: {error.reason}"
            )
        elif self.operations["connect"] >= MAX_CONNECTIONS:
            self.give_up_reason = f"the connection was lost {MAX_CONNECTIONS} times: {error.reason}"


class Conversation(Generic[Subject, Answer, Reply]):
    """A client for many bookies, one at a time. It keeps its connection until it asks a different bookie."""

    def __init__(
        self,
        addresses: Mapping[str, Address],
        new_client: Callable[[str, int, StoreOptions], BookieClient[Subject, Answer, Reply]],
        options: StoreOptions,
    ) -> None:
        self._addresses = addresses
        self._new_client = new_client
        self._options = options
        self._bookie_id: str | None = None
        self._client: BookieClient[Subject, Answer, Reply] | None = None

    def __enter__(self) -> Conversation[Subject, Answer, Reply]:
        self._runner = asyncio.Runner()
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._end_connection()
        self._runner.close()

    def connect_to(self, bookie_id: str) -> BookieClient[Subject, Answer, Reply]:
        """Return the client of a bookie. Create a new one if the previous call was for a different bookie."""
        if self._client is None or bookie_id != self._bookie_id:
            self._end_connection()
            self._bookie_id = bookie_id
            self._client = self._new_client(*self._addresses[bookie_id], self._options)
        return self._client

    def ask(self, bookie_id: str, subjects: Iterable[Subject]) -> Iterator[list[Reply]]:
        """Yield a bookie's replies about ledgers or entries, in bounded lists. End if the client gives up."""
        client = self.connect_to(bookie_id)
        waiting_subjects = deque(subjects)
        while waiting_subjects and client.give_up_reason is None:
            replies = self._runner.run(client.ask(waiting_subjects))
            if replies:
                yield replies
        if client.give_up_reason is not None:
            self._runner.run(client.close())

    def _end_connection(self) -> None:
        if self._client is not None:
            self._runner.run(self._client.close())
            self._client = None


def split_by_bookie(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Yield (bookie id, rows) for each bookie in each batch. The batches must be sorted by ``bookie_id``."""
    for batch in batches:
        if batch.num_rows:
            bookie_column = batch.column("bookie_id")
            bookie_codes = bookie_column.dictionary_encode().indices.to_numpy(zero_copy_only=False)
            end_rows = [*(np.flatnonzero(np.diff(bookie_codes)) + 1).tolist(), batch.num_rows]
            for first_row, end_row in zip([0, *end_rows], end_rows, strict=False):
                yield bookie_column[first_row].as_py(), batch.slice(first_row, end_row - first_row)


def one_bookie_per_partition(requests: DataFrame, bookie_count: int, *order_columns: str) -> DataFrame:
    """Repartition the rows, so that all rows of a bookie are in the same partition.

    Each partition is sorted by bookie and then by ``order_columns``.
    """
    # With an explicit number of partitions Spark neither merges nor splits them.
    return requests.repartition(max(1, bookie_count), "bookie_id").sortWithinPartitions(
        "bookie_id", *order_columns
    )


def row_tuples(batch: pa.RecordBatch, *column_names: str) -> Iterator[tuple[Any, ...]]:
    """Yield each row of a batch as a tuple of its values in the given columns."""
    return zip(*(batch.column(column_name).to_pylist() for column_name in column_names), strict=True)
