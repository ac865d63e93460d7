"""A read-only client that reads many znodes of ZooKeeper at a time.

The client puts many paths into each multiRead request, and sends several requests at a time. A server
before 3.6 does not know multiRead, so it gets one request for each path. If a connection breaks, the client
opens a new one and repeats the requests that were lost. It accepts answers only from servers that have seen
every transaction that earlier answers reported.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kazoo.exceptions import UnimplementedError, ZookeeperError

from auditor.errors import DecodeError, StoreError
from auditor.sources.clock import RateLimit
from auditor.sources.metadata.credentials import read_credentials
from auditor.sources.metadata.store import StoreOptions
from auditor.sources.metadata.zookeeper.requests import NodeData, Operation, PathAnswer
from auditor.sources.metadata.zookeeper.session import (
    CONNECTION_ERRORS,
    NotReachedError,
    Session,
    failure_reason,
)

NO_NODE = -101
NO_AUTH = -102
MAX_ATTEMPTS = 3
"""Largest number of attempts to read one path, or to connect to a server, if the connection breaks each time.
"""
MAX_REQUEST_BYTES = 256 * 1024
"""Largest request, in bytes: a quarter of the default of jute.maxbuffer.

A server closes the connection if a request is larger than jute.maxbuffer.
"""

_REASON_BY_CODE = {NO_NODE: "no such znode", NO_AUTH: "not authorised to read it"}


@dataclass(frozen=True, slots=True)
class FailedRead:
    """A read that failed, and the reason.

    ``code`` is ZooKeeper's error code. It is None if there is no such code.
    """

    code: int | None
    reason: str


@dataclass(slots=True)
class _PathChunk:
    """The positions of one request's paths in the caller's list (``path_positions``).

    ``attempts`` is the number of requests that were already sent for these paths.
    """

    path_positions: list[int]
    attempts: int = 0


class ZooKeeperReader:
    """A reader of znodes and of lists of children, for many paths at a time.

    The reader connects at the first read. ``operations`` counts connections, requests of each kind, znodes
    read and znodes listed.
    """

    def __init__(self, hosts: Sequence[str], options: StoreOptions, probe_path: str) -> None:
        self.operations: Counter[str] = Counter()
        self._hosts = ",".join(hosts)
        self._options = options
        self._limit = RateLimit(options.rate_limit)
        self._session: Session | None = None
        self._has_multi_read: bool | None = None  # None: not known for this connection yet
        self._probe_path = probe_path
        self._newest_zxid = 0

    @property
    def last_zxid(self) -> int:
        """Return the newest zxid (transaction id) that a server reported in an answer to this reader."""
        if self._session is not None:
            self._newest_zxid = max(self._newest_zxid, self._session.last_zxid)
        return self._newest_zxid

    def require_zxid(self, zxid: int) -> None:
        """From now on, accept answers only from servers that have seen the transaction ``zxid``.

        The caller got this zxid from another reader.
        """
        if zxid > self.last_zxid:
            self.close()
            self._newest_zxid = zxid

    def sync_with_leader(self) -> None:
        """Wait until the reader's server has every transaction that the leader had when this wait began."""
        if self._session is None:
            return  # the next connection syncs too
        self.operations["sync"] += 1
        try:
            self._session.sync(self._probe_path)
        except NotReachedError:
            self.close()

    def data(self, paths: Sequence[str]) -> list[NodeData | FailedRead]:
        """Return the data and stat of each path in order, or a `FailedRead` for a path that was not read.

        Raises:
            StoreError: the server cannot be reached.
        """
        self.operations["znodes_read"] += len(paths)
        answers = self._ask(Operation.GET_DATA, paths)
        return [answer if isinstance(answer, NodeData) else _failed_read(answer) for answer in answers]

    def children(self, paths: Sequence[str]) -> list[list[str] | FailedRead]:
        """Return the names of each path's children in order, or a `FailedRead` if it was not listed."""
        self.operations["znodes_listed"] += len(paths)
        answers = self._ask(Operation.GET_CHILDREN, paths)
        return [answer if isinstance(answer, list) else _failed_read(answer) for answer in answers]

    def close(self) -> None:
        """End the session. A later read opens a new one."""
        if self._session is not None:
            self._newest_zxid = self.last_zxid
            session, self._session, self._has_multi_read = self._session, None, None
            session.close()

    def _ask(self, operation: Operation, paths: Sequence[str]) -> list[PathAnswer | FailedRead]:
        answers: list[PathAnswer | FailedRead] = [FailedRead(None, "not asked")] * len(paths)
        unsent_chunks = deque(self._chunks(paths))
        sent_chunks: deque[tuple[_PathChunk, list[Any]]] = deque()
        single_chunk_count = 0  # chunks to ask one at a time
        while unsent_chunks or sent_chunks:
            session = self._session_for(may_reconnect=not sent_chunks)
            while unsent_chunks and len(sent_chunks) < (1 if single_chunk_count else self._options.in_flight):
                path_chunk = unsent_chunks.popleft()
                self._limit.take(len(path_chunk.path_positions))
                sent_chunks.append(
                    (
                        path_chunk,
                        self._send(
                            session,
                            operation,
                            [paths[path_position] for path_position in path_chunk.path_positions],
                        ),
                    )
                )
            path_chunk, pending_requests = sent_chunks.popleft()
            try:
                chunk_answers = self._receive(session, pending_requests)
            except (*CONNECTION_ERRORS, UnimplementedError) as read_error:
                # Every request in flight is lost. Only a chunk that was alone is known to be the cause.
                lost_chunks = (
                    [path_chunk, *(sent_path_chunk for sent_path_chunk, _ in sent_chunks)]
                    if sent_chunks
                    else self._split_or_record(path_chunk, read_error, answers)
                )
                single_chunk_count = max(0, single_chunk_count - 1) + len(lost_chunks)
                sent_chunks.clear()
                unsent_chunks.extendleft(reversed(lost_chunks))
                self.close()
                continue
            except (ZookeeperError, DecodeError) as read_error:
                lost_chunks = self._split_or_record(path_chunk, read_error, answers)
                unsent_chunks.extendleft(reversed(lost_chunks))
                single_chunk_count += len(lost_chunks) if single_chunk_count else 0
            else:
                for position, answer in zip(path_chunk.path_positions, chunk_answers, strict=True):
                    answers[position] = answer
            single_chunk_count = max(0, single_chunk_count - 1)
        return answers

    def _chunks(self, paths: Sequence[str]) -> list[_PathChunk]:
        chunks = [_PathChunk([])]
        request_bytes = 0
        for path_position, path in enumerate(paths):
            request_bytes += (
                len(path) * 3 + 16
            )  # a character takes three bytes of UTF-8 at most, the frame 14
            if len(chunks[-1].path_positions) >= self._options.batch or request_bytes > MAX_REQUEST_BYTES:
                chunks.append(_PathChunk([]))
                request_bytes = len(path) * 3 + 16
            chunks[-1].path_positions.append(path_position)
        return chunks if paths else []

    def _split_or_record(
        self, path_chunk: _PathChunk, read_error: Exception, answers: list[PathAnswer | FailedRead]
    ) -> list[_PathChunk]:
        """Return the chunks to request again after the request for ``path_chunk`` failed.

        A chunk of several paths is cut into halves, to separate an unreadable znode from the others. A
        single path is requested up to `MAX_ATTEMPTS` times. After the last attempt, the method returns an
        empty list, and records the error in ``answers``.
        """
        if len(path_chunk.path_positions) > 1:
            half_path_count = len(path_chunk.path_positions) // 2
            return [
                _PathChunk(path_chunk.path_positions[:half_path_count]),
                _PathChunk(path_chunk.path_positions[half_path_count:]),
            ]
        path_chunk.attempts += 1
        if path_chunk.attempts < MAX_ATTEMPTS:
            return [path_chunk]
        reason = failure_reason(read_error, self._options.timeout_s)
        answers[path_chunk.path_positions[0]] = FailedRead(getattr(read_error, "code", None), reason)
        return []

    def _send(self, session: Session, operation: Operation, paths: list[str]) -> list[Any]:
        if self._has_multi_read:
            self.operations["multi_read"] += 1
            return [session.multi_read(operation, paths)]
        self.operations["get" if operation is Operation.GET_DATA else "get_children"] += len(paths)
        return [session.read(operation, path) for path in paths]

    def _receive(self, session: Session, pending_requests: list[Any]) -> list[PathAnswer]:
        if self._has_multi_read:
            return session.answers(pending_requests[0])
        return [session.answer(pending_request) for pending_request in pending_requests]

    def _session_for(self, may_reconnect: bool) -> Session:
        """Return the session for the next request, and find out whether its server knows multiRead.

        Args:
            may_reconnect: True if no answer is pending. In this case, a session that has moved to another
                server is replaced.
        """
        if self._session is not None and self._session.has_moved and may_reconnect:
            self.close()
        for _ in range(MAX_ATTEMPTS):
            session = self._session = self._session or self._open_session()
            if self._has_multi_read is not None:
                return session
            self.operations["multi_read"] += 1
            try:
                session.answers(session.multi_read(Operation.GET_DATA, [self._probe_path]))
                self._has_multi_read = True
                return session
            except UnimplementedError:
                break
            except CONNECTION_ERRORS:
                self.close()
        # A server before 3.6 answers "unimplemented" and ends the session.
        self.close()
        session = self._session = self._open_session()
        self._has_multi_read = False
        return session

    def _open_session(self) -> Session:
        """Open a session with a server that has every transaction that the leader has now.

        If no server accepts the very first connection, raise an error at once, because the hosts may be
        wrong. Later, try again, because a server may be restarting, or the ensemble may be electing a
        leader.
        """
        credentials = read_credentials(self._options.credentials).zookeeper
        for attempt in range(1, MAX_ATTEMPTS + 1):
            self.operations["connect"] += 1
            session = None
            try:
                session = Session(self._hosts, self._options.timeout_s, credentials, self._newest_zxid)
                # A server that lags behind its leader may not have older ledgers yet.
                self.operations["sync"] += 1
                session.sync(self._probe_path)
                return session
            except NotReachedError as read_error:
                if session is not None:
                    session.close()
                if attempt == MAX_ATTEMPTS or (session is None and not self._newest_zxid):
                    raise StoreError(
                        f"cannot connect to ZooKeeper at {self._hosts}: {read_error}. Check the hosts of the "
                        "metadata URI, that this machine can reach them, and whether they require TLS"
                    ) from read_error
            except StoreError:
                if session is not None:
                    session.close()
                raise
        raise AssertionError("the last attempt returns or raises")


def _failed_read(answer: PathAnswer | FailedRead) -> FailedRead:
    if isinstance(answer, FailedRead):
        return answer
    if isinstance(answer, int):
        return FailedRead(answer, _REASON_BY_CODE.get(answer, f"ZooKeeper error {answer}"))
    return FailedRead(None, "the server sent an answer to another kind of request")
