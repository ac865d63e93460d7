"""A ZooKeeper connection that can only read.

The client library can write; the one class here that holds it has no method that does, and hands it to
nobody. Reads go out as multiRead requests of many paths, several at a time; to servers before 3.6, which know
no multiRead, as many single ones.
"""

from __future__ import annotations

import contextlib
import logging
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import (
    ConnectionClosedError,
    ConnectionLoss,
    KazooException,
    SessionExpiredError,
    UnimplementedError,
    ZookeeperError,
)
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.retry import KazooRetry

from auditor.errors import DecodeError, StoreError
from auditor.sources.rate_limit import RateLimit
from auditor.sources.store import StoreOptions
from auditor.sources.zk_multi_read import Answer, MultiRead, Operation, Stat, Stored

NO_NODE = -101
NO_AUTH = -102
ATTEMPTS = 3
"""How often one path is asked for when the connection breaks each time."""
REQUEST_BYTES = 256 * 1024
"""A quarter of jute.maxbuffer's default; a server cuts the connection at a larger request."""

_LOST = (ConnectionLoss, ConnectionClosedError, SessionExpiredError, KazooTimeoutError)
_CODES = {NO_NODE: "no such znode", NO_AUTH: "not authorised to read it"}
# What kazoo reports about lost connections is raised here as well, with the way out. Its debug messages hold
# whole answers, and ledger metadata holds passwords: no program around this one may switch them on.
_LOGGER = logging.getLogger(__name__)
_LOGGER.addHandler(logging.NullHandler())
_LOGGER.setLevel(logging.INFO)


@dataclass(frozen=True, slots=True)
class Failed:
    """A read that gave nothing: ZooKeeper's error code where it gave one, and the reason."""

    code: int | None
    reason: str


@dataclass(slots=True)
class _Chunk:
    """Paths of one request, by their place in the caller's list."""

    places: list[int]
    attempts: int = 0


class ZooKeeperReader:
    """Reads znodes and lists of children, many at a time. Connects at the first read.

    ``operations`` counts connections, requests by kind, znodes read and znodes listed.
    """

    def __init__(self, hosts: Sequence[str], options: StoreOptions, probe: str) -> None:
        self.operations: Counter[str] = Counter()
        self._hosts = ",".join(hosts)
        self._options = options
        self._limit = RateLimit(options.rate_limit)
        self._client: Any = None  # kazoo has no types
        self._multi_read: bool | None = None  # None: not yet asked on this connection
        self._probe = probe

    @property
    def last_zxid(self) -> int:
        """The newest transaction that the server had seen when it answered last."""
        return int(self._client.last_zxid) if self._client is not None else 0

    def data(self, paths: Sequence[str]) -> list[Stored | Failed]:
        """Read znodes; answers in the order of the paths.

        Raises:
            StoreError: the server cannot be reached.
        """
        self.operations["znodes_read"] += len(paths)
        answers = self._ask(Operation.GET_DATA, paths)
        return [answer if isinstance(answer, Stored) else _failed(answer) for answer in answers]

    def children(self, paths: Sequence[str]) -> list[list[str] | Failed]:
        """List the names of the children; answers in the order of the paths."""
        self.operations["znodes_listed"] += len(paths)
        answers = self._ask(Operation.GET_CHILDREN, paths)
        return [answer if isinstance(answer, list) else _failed(answer) for answer in answers]

    def close(self) -> None:
        """End the session; a later read opens another."""
        if self._client is not None:
            client, self._client, self._multi_read = self._client, None, None
            # kazoo's stop writes to a socket that a broken connection may have closed already.
            with contextlib.suppress(OSError, KazooException):
                client.stop()
            client.close()

    def _ask(self, operation: Operation, paths: Sequence[str]) -> list[Answer | Failed]:
        answers: list[Answer | Failed] = [Failed(None, "not asked")] * len(paths)
        waiting = deque(self._chunks(paths))
        sent: deque[tuple[_Chunk, list[Any]]] = deque()
        alone = 0  # chunks to ask one at a time
        self._connect()
        while waiting or sent:
            while waiting and len(sent) < (1 if alone else self._options.in_flight):
                chunk = waiting.popleft()
                self._limit.take(len(chunk.places))
                sent.append((chunk, self._send(operation, [paths[place] for place in chunk.places])))
            chunk, pending = sent.popleft()
            try:
                received = self._receive(pending)
            except (*_LOST, UnimplementedError) as error:
                # All that was sent is lost, and only a chunk that was alone is known to be the one to blame.
                lost = [chunk, *(other for other, _ in sent)] if sent else self._again(chunk, error, answers)
                alone = max(0, alone - 1) + len(lost)
                sent.clear()
                waiting.extendleft(reversed(lost))
                self.close()
                self._connect()
                continue
            except (ZookeeperError, DecodeError) as error:
                lost = self._again(chunk, error, answers)
                waiting.extendleft(reversed(lost))
                alone += len(lost) if alone else 0
            else:
                for place, answer in zip(chunk.places, received, strict=True):
                    answers[place] = answer
            alone = max(0, alone - 1)
        return answers

    def _chunks(self, paths: Sequence[str]) -> list[_Chunk]:
        chunks = [_Chunk([])]
        size = 0
        for place, path in enumerate(paths):
            size += len(path) * 3 + 16  # a character takes three bytes of UTF-8 at most, the frame 14
            if len(chunks[-1].places) >= self._options.batch or size > REQUEST_BYTES:
                chunks.append(_Chunk([]))
                size = len(path) * 3 + 16
            chunks[-1].places.append(place)
        return chunks if paths else []

    def _again(self, chunk: _Chunk, error: Exception, answers: list[Answer | Failed]) -> list[_Chunk]:
        """What to ask once more: halves, so that one znode that cannot be read does not take others along."""
        if len(chunk.places) > 1:
            middle = len(chunk.places) // 2
            return [_Chunk(chunk.places[:middle]), _Chunk(chunk.places[middle:])]
        chunk.attempts += 1
        if chunk.attempts < ATTEMPTS:
            return [chunk]
        answers[chunk.places[0]] = Failed(getattr(error, "code", None), self._reason(error))
        return []

    def _send(self, operation: Operation, paths: list[str]) -> list[Any]:
        if self._multi_read:
            self.operations["multi_read"] += 1
            answer = self._client.handler.async_result()
            self._client._call(MultiRead(operation, paths), answer)
            return [answer]
        if operation is Operation.GET_DATA:
            self.operations["get"] += len(paths)
            return [self._client.get_async(path) for path in paths]
        self.operations["get_children"] += len(paths)
        return [self._client.get_children_async(path) for path in paths]

    def _receive(self, pending: list[Any]) -> list[Answer]:
        if self._multi_read:
            answers: list[Answer] = pending[0].get(timeout=self._options.timeout_s)
            return answers
        return [_single(answer, self._options.timeout_s) for answer in pending]

    def _connect(self) -> None:
        """Connect, and find out whether the server knows multiRead; the next one may be another version."""
        if self._client is None:
            self._open()
        if self._multi_read is None:
            self._multi_read = True
            try:
                self._receive(self._send(Operation.GET_DATA, [self._probe]))
            except (*_LOST, UnimplementedError):
                # A server before 3.6 answers "unimplemented" and ends the session.
                self.close()
                self._open()
                self._multi_read = False

    def _open(self) -> None:
        for attempt in range(1, ATTEMPTS + 1):
            self._client = self._started()
            # A server that lags behind its leader could miss ledgers that were made long before this moment.
            self.operations["sync"] += 1
            try:
                self._client.sync_async(self._probe).get(timeout=self._options.timeout_s)
                return
            except (*_LOST, ZookeeperError) as error:
                self.close()
                if attempt == ATTEMPTS:
                    reason = f"ZooKeeper at {self._hosts} does not answer: {self._reason(error)}"
                    raise StoreError(reason) from error

    def _started(self) -> Any:
        self.operations["connect"] += 1
        timeout = self._options.timeout_s
        retry = KazooRetry(max_tries=-1, delay=0.1, max_delay=1.0)
        client = KazooClient(self._hosts, timeout=timeout, logger=_LOGGER, connection_retry=retry)
        try:
            client.start(timeout=timeout)
        except (KazooTimeoutError, KazooException, OSError) as error:
            client.close()
            raise StoreError(
                f"cannot connect to ZooKeeper at {self._hosts} within {timeout:g} s; "
                "check the hosts of the metadata URI and that this machine may reach them"
            ) from error
        return client

    def _reason(self, error: Exception) -> str:
        if isinstance(error, KazooTimeoutError):
            return f"no answer within {self._options.timeout_s:g} s; the time-out is an option"
        return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _single(pending: Any, timeout_s: float) -> Answer:
    """One answer of a server without multiRead, in the form that multiRead has."""
    try:
        answer = pending.get(timeout=timeout_s)
    except _LOST:
        raise
    except ZookeeperError as error:
        return int(error.code)
    if isinstance(answer, list):
        return answer
    data, stat = answer
    return Stored(data or b"", Stat._make(stat))


def _failed(answer: Answer | Failed) -> Failed:
    if isinstance(answer, Failed):
        return answer
    if isinstance(answer, int):
        return Failed(answer, _CODES.get(answer, f"ZooKeeper error {answer}"))
    return Failed(None, "the server answered another question")
