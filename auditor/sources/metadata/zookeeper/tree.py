"""A walk through a tree of znodes that may change during the walk, and a watch that reports changes.

The walk reads the data of every znode. The stat of a znode shows whether it has children, so the walk lists
only znodes with children. A znode can disappear during the walk:

- A leaf (ledger, under-replication mark, lock or registration) that disappears was deleted.
- For an inner znode, the walk lists its parent again. If the parent no longer has the znode, it was
  deleted. Otherwise, its content is unknown, and the walk reports a gap: the path and the reason.

A persistent recursive watch reports, in order, which znodes below the root were created, changed or
deleted. It does so while its session stays on one server. It costs bytes only for znodes that change.

The watch alone proves nothing, because a server silently leaves out events of znodes that this client may
not read. So `TreeWatch` reads the inner znodes when it sets the watch, and again at the end. The
``cversion`` of a znode counts all creations and deletions of its children. Between the two reads, it must
have grown by the number of events about these children. Answers and events arrive in one common order. So
the ``cversion`` and the number of events belong to the same moment. For a cluster of ten million ledgers,
this takes some thousands of small reads.

One case remains undetected. When the watch is set, a znode is readable. Then a change of its ACL takes away
this client's READ permission. Later, another client writes to the znode.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from kazoo.exceptions import UnimplementedError, ZookeeperError

from auditor.errors import DecodeError, StoreError
from auditor.sources.clock import RateLimit
from auditor.sources.metadata.credentials import read_credentials
from auditor.sources.metadata.store import BATCH_ZNODES, LedgerChanges, StoreOptions, Tree, Znode, tree_of
from auditor.sources.metadata.tree_shape import DEPTH_LIMIT, DIVISIBLE_PATHS, LEAF_NAME
from auditor.sources.metadata.zookeeper.client import NO_NODE, FailedRead, ZooKeeperReader
from auditor.sources.metadata.zookeeper.requests import (
    EventType,
    MultiRead,
    NodeData,
    Operation,
    PathAnswer,
    WatchEvent,
)
from auditor.sources.metadata.zookeeper.session import (
    CONNECTION_ERRORS,
    NotReachedError,
    Session,
    failure_reason,
)


@dataclass(frozen=True, slots=True)
class TopZnode:
    """A znode at which a walk starts. If ``is_recursive`` is False, the walk reads nothing below it."""

    path: str
    is_recursive: bool = True


@dataclass(frozen=True, slots=True)
class _InnerZnode:
    path: str
    num_children: int
    tree_depth: int


Gap = tuple[str, str]
"""An absolute path and a reason: znodes at or below the path may be missing from the result."""


def walk(reader: ZooKeeperReader, top_znodes: Iterable[TopZnode]) -> Iterator[tuple[list[Znode], list[Gap]]]:
    """Read ``top_znodes`` and everything below the recursive ones; yield batches of znodes and gaps.

    A gap is a path that could not be read, with the reason. The walk keeps three things in memory: one
    batch, the paths to read, and the inner znodes to list. The number of paths to read has a limit: the size
    of a batch, plus the largest number of children of a znode.
    """
    unread_paths = [
        (top_znode.path, 0 if top_znode.is_recursive else DEPTH_LIMIT + 1) for top_znode in top_znodes
    ]
    unlisted_znodes: list[_InnerZnode] = []
    while unread_paths or unlisted_znodes:
        gaps: list[Gap] = []
        if unlisted_znodes and len(unread_paths) < BATCH_ZNODES:
            chunk_parents = _take_unlisted(unlisted_znodes, BATCH_ZNODES - len(unread_paths))
            unread_paths += _list_children(reader, chunk_parents, gaps)
            if gaps:
                yield [], gaps
            continue
        path_chunk = unread_paths[-BATCH_ZNODES:]
        del unread_paths[-BATCH_ZNODES:]
        znodes, inner_znodes = _read_chunk(reader, path_chunk, gaps)
        unlisted_znodes += inner_znodes
        if znodes or gaps:
            yield znodes, gaps


def _take_unlisted(unlisted_znodes: list[_InnerZnode], max_children: int) -> list[_InnerZnode]:
    """Remove some inner znodes from the end of the list, and return them.

    The returned znodes have at most ``max_children`` children together. A znode with more children is
    returned alone.
    """
    inner_znodes = [unlisted_znodes.pop()]
    child_count = inner_znodes[0].num_children
    while unlisted_znodes and child_count + unlisted_znodes[-1].num_children <= max_children:
        inner_znodes.append(unlisted_znodes.pop())
        child_count += inner_znodes[-1].num_children
    return inner_znodes


def _list_children(
    reader: ZooKeeperReader, inner_znodes: list[_InnerZnode], gaps: list[Gap]
) -> list[tuple[str, int]]:
    child_paths: list[tuple[str, int]] = []
    vanished_paths: list[str] = []
    for znode, names in zip(
        inner_znodes, reader.children([znode.path for znode in inner_znodes]), strict=True
    ):
        if not isinstance(names, FailedRead):
            child_paths += [(f"{znode.path}/{name}", znode.tree_depth + 1) for name in names]
        elif names.code == NO_NODE:
            vanished_paths.append(znode.path)
        else:
            gaps.append((znode.path, f"its children could not be listed: {names.reason}"))
    gaps += _reappeared_gaps(reader, vanished_paths)
    return child_paths


def _read_chunk(
    reader: ZooKeeperReader, path_chunk: list[tuple[str, int]], gaps: list[Gap]
) -> tuple[list[Znode], list[_InnerZnode]]:
    znodes: list[Znode] = []
    inner_znodes: list[_InnerZnode] = []
    vanished_paths: list[str] = []
    for (path, tree_depth), answer in zip(
        path_chunk, reader.data([path for path, _ in path_chunk]), strict=True
    ):
        if isinstance(answer, FailedRead):
            if answer.code != NO_NODE:
                gaps.append((path, f"it could not be read: {answer.reason}"))
            elif not LEAF_NAME.fullmatch(path.rpartition("/")[2]):
                vanished_paths.append(path)
            continue
        data, stat = answer
        znodes.append(
            Znode(
                path,
                data,
                stat.czxid,
                stat.mzxid,
                stat.ctime,
                stat.mtime,
                stat.version,
                stat.ephemeral_owner,
                # cversion counts creations and deletions of children.
                (stat.cversion + stat.num_children) // 2,
                stat.num_children,
            )
        )
        if stat.num_children and tree_depth < DEPTH_LIMIT:
            inner_znodes.append(_InnerZnode(path, stat.num_children, tree_depth))
        elif stat.num_children and tree_depth == DEPTH_LIMIT:
            gaps.append((path, f"its children were not read: it is {DEPTH_LIMIT} levels deep"))
    gaps += _reappeared_gaps(reader, vanished_paths)
    return znodes, inner_znodes


def _reappeared_gaps(reader: ZooKeeperReader, vanished_paths: list[str]) -> list[Gap]:
    """Return a gap (path, reason) for each of ``vanished_paths`` that its parent still lists."""
    parent_paths = sorted({path.rpartition("/")[0] for path in vanished_paths})
    names_by_parent = dict(zip(parent_paths, reader.children(parent_paths), strict=True))
    gaps = []
    for path in vanished_paths:
        parent_path, _, name = path.rpartition("/")
        names = names_by_parent[parent_path]
        if isinstance(names, FailedRead):
            if names.code != NO_NODE:
                gaps.append((path, f"it was deleted, and its parent could not be listed: {names.reason}"))
        elif name in names:
            gaps.append((path, "it was deleted and created again during the scan"))
    return gaps


MAX_CHANGED_PATHS = 500_000
"""Largest number of changed paths to keep, some 60 MB. With more, another full scan costs little more."""

MAX_INNER_ZNODES = 200_000
"""Largest number of inner znodes that a watch reads. Reading this many takes ten seconds at the default rate.

A watch reads them twice.
"""

_UINT32_MASK = 0xFFFFFFFF
_ZNODE_EVENT_TYPES = frozenset(EventType)


class _CountedRead(MultiRead):
    """A getData request for some znodes that also records the number of their child events.

    ``event_counts`` has, for each znode, the number of events about its children that arrived before the
    answer.
    """

    def __init__(self, paths: list[str], child_event_counts: Mapping[str, int]) -> None:
        super().__init__(Operation.GET_DATA, paths)
        self._child_events = child_event_counts
        self.event_counts: list[int] = []

    def deserialize(self, buffer: bytes, offset: int) -> list[PathAnswer]:
        self.event_counts = [self._child_events.get(path, 0) for path in self.paths]
        return super().deserialize(buffer, offset)


class TreeWatch:
    """A watch of all ledgers below ``root``. It starts when the object is created.

    ``operations`` counts connections and requests of each kind. A server that is behind ``newest_zxid``
    refuses the connection.
    """

    def __init__(self, hosts: Sequence[str], root: str, options: StoreOptions, newest_zxid: int) -> None:
        self.operations: Counter[str] = Counter()
        self._root = root
        self._path_prefix = root if root == "/" else f"{root}/"
        self._batch_size = options.batch
        self._timeout_s = options.timeout_s
        self._limit = RateLimit(options.rate_limit)
        self._child_events: Counter[str] = Counter()  # children made and deleted, by their parent
        self._first_cversions: dict[str, int] = {}
        self._changed_paths: set[str] = set()
        self._session: Session | None = None
        self._unknown_reason: str | None = None
        try:
            self._session = self._open_session(hosts, options, newest_zxid)
        except UnimplementedError:
            self._unknown_reason = "this ZooKeeper cannot watch a tree; this requires version 3.6"
        except (NotReachedError, StoreError, DecodeError, *CONNECTION_ERRORS, ZookeeperError) as error:
            self._unknown_reason = f"the ledgers could not be watched: {self._lost_reason(error)}"

    def changed_ledgers(self) -> LedgerChanges:
        """End the watch, and return the ledger paths that changed since it started.

        The result includes all changes before this call, and possibly some later ones.
        """
        session = self._session
        if session is None:
            return LedgerChanges((), self._unknown_reason or "the watch of the ledgers ended too early")
        cversions: dict[str, int] = {}
        try:
            # The server sends all earlier events before the answer to sync.
            session.sync(self._root)
            self.operations["sync"] += 1
            cversions = self._count_inner_znodes(session)
        except (NotReachedError, StoreError, DecodeError, *CONNECTION_ERRORS, ZookeeperError) as error:
            self._unknown_reason = (
                f"the connection of the watch broke or was refused: {self._lost_reason(error)}"
            )
        self.close()  # no more events after this
        unreported_paths = sorted(
            path for path, cversion in cversions.items() if cversion != self._first_cversions.get(path, 0)
        )
        if self._unknown_reason is None and unreported_paths:
            self._unknown_reason = f"ZooKeeper did not report every change below {unreported_paths[0]}"
        if self._unknown_reason is None and len(self._changed_paths) > MAX_CHANGED_PATHS:
            self._unknown_reason = (
                f"more than {MAX_CHANGED_PATHS:,} ledger records changed since the first scan"
            )
        return (
            LedgerChanges((), self._unknown_reason)
            if self._unknown_reason
            else LedgerChanges(tuple(sorted(self._changed_paths)))
        )

    def close(self) -> None:
        """End the watch's session."""
        if self._session is not None:
            session, self._session = self._session, None
            session.close()

    def _open_session(self, hosts: Sequence[str], options: StoreOptions, newest_zxid: int) -> Session:
        credentials = read_credentials(options.credentials).zookeeper
        session = Session(",".join(hosts), options.timeout_s, credentials, newest_zxid)
        self.operations["connect"] += 1
        try:
            session.watch(self._root, self._on_event)
            self.operations["watch"] += 1
            self._first_cversions = self._count_inner_znodes(session)
        except BaseException:  # Ctrl-C too: an unreferenced session would go on connecting
            session.close()
            raise
        return session

    def _on_event(self, event: WatchEvent) -> None:
        """Record one event. kazoo's own thread calls this."""
        if event.type not in _ZNODE_EVENT_TYPES:
            return
        path = event.path
        if event.type != EventType.CHANGED:
            self._child_events[path.rpartition("/")[0] or "/"] += 1
            # A created or deleted znode's own cversion starts at 0 again.
            self._child_events.pop(path, None)
            self._first_cversions.pop(path, None)
        relative_path = path[len(self._path_prefix) :]
        if (
            relative_path
            and tree_of(relative_path) is Tree.LEDGERS
            and len(self._changed_paths) <= MAX_CHANGED_PATHS
        ):
            self._changed_paths.add(path)

    def _count_inner_znodes(self, session: Session) -> dict[str, int]:
        """Return a number for each inner znode (not a leaf): its cversion minus its number of child events.

        Child events are events about the znode's children.

        Raises:
            StoreError: a znode cannot be read, or there are too many inner znodes.
        """
        cversions: dict[str, int] = {}
        level_paths = [self._root]
        while level_paths:
            if len(cversions) + len(level_paths) > MAX_INNER_ZNODES:
                raise StoreError(f"there are more than {MAX_INNER_ZNODES:,} inner znodes")
            present_paths = []
            for paths in self._chunks(level_paths):
                multi_read = _CountedRead(paths, self._child_events)
                answers = session.ask(multi_read)
                for path, answer, child_event_count in zip(
                    paths, answers, multi_read.event_counts, strict=True
                ):
                    if isinstance(answer, NodeData):
                        cversions[path] = (answer.stat.cversion - child_event_count) & _UINT32_MASK
                        present_paths.append(path)
                    elif answer != NO_NODE:
                        raise StoreError(f"{path} cannot be read: ZooKeeper error {answer}")
            level_paths = list(self._next_level(session, present_paths))
        return cversions

    def _next_level(self, session: Session, level_paths: Sequence[str]) -> Iterator[str]:
        """Yield the inner znodes that are children of the znodes in ``level_paths``.

        An inner znode is not a leaf of the tree. The method does not list the children of a znode that has
        only ledgers below it, because they are not inner znodes.
        """
        divisible_path = DIVISIBLE_PATHS[Tree.LEDGERS]
        inner_paths = [
            path
            for path in level_paths
            if path == self._root or divisible_path.fullmatch(path[len(self._path_prefix) :])
        ]
        for paths in self._chunks(inner_paths):
            answers = session.ask(MultiRead(Operation.GET_CHILDREN, paths))
            for path, names in zip(paths, answers, strict=True):
                if names == NO_NODE:
                    continue
                if not isinstance(names, list):
                    raise StoreError(f"{path} cannot be listed: ZooKeeper error {names}")
                if path == self._root:
                    yield from (
                        f"{self._path_prefix}{name}" for name in names if divisible_path.fullmatch(name)
                    )
                else:
                    yield from (f"{path}/{name}" for name in names if not LEAF_NAME.fullmatch(name))

    def _lost_reason(self, error: Exception) -> str:
        return str(error) if isinstance(error, StoreError) else failure_reason(error, self._timeout_s)

    def _chunks(self, paths: Sequence[str]) -> Iterator[list[str]]:
        for chunk_start in range(0, len(paths), self._batch_size):
            path_chunk = list(paths[chunk_start : chunk_start + self._batch_size])
            self._limit.take(len(path_chunk))
            self.operations["multi_read"] += 1
            yield path_chunk
