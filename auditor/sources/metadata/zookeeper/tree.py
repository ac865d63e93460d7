"""A live tree of znodes that changes while it is read: a walk through it, and a watch on what moves in it.

A walk reads every znode's data, and its stat says whether it has children; so a znode is listed only if it
has some, whatever its name. What disappears on the way is judged by what it could have held:

- a leaf (a ledger, mark, lock or registration) that is gone is simply gone;
- an inner znode that is gone: its parent is listed once more. Gone there too: it was deleted. Otherwise what
  was below it is unknown, and that is a gap.

A persistent recursive watch says which znodes below the root were made, changed and deleted, in the order in
which that happened, for as long as its session lasts on one server. It costs bytes for what moves, and
nothing for what stands still.

That all was told is not believed. A server leaves out events of znodes that this client may not read, and
says so to nobody. So the inner znodes are looked at when the watch is set and once more in the end: between
both looks a znode's ``cversion``, which counts the children that were ever made and deleted, must have grown
by as many events as were heard of its children. Answers and events come in one order, so that the two numbers
are of one moment. Of a cluster of ten million ledgers that is some thousands of small reads.

What neither can show: a znode that this client could read when the watch was set, whose ACL was then changed
so that it no longer can, and that was written to after that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from kazoo.exceptions import UnimplementedError, ZookeeperError

from auditor.errors import DecodeError, StoreError
from auditor.sources.clock import RateLimit
from auditor.sources.metadata.credentials import read_credentials
from auditor.sources.metadata.store import BATCH_ZNODES, LedgerMoves, StoreOptions, Tree, Znode, tree_of
from auditor.sources.metadata.tree_shape import DEPTH_LIMIT, DIVISIBLE, LEAF
from auditor.sources.metadata.zookeeper.client import NO_NODE, FailedRead, ZooKeeperReader
from auditor.sources.metadata.zookeeper.requests import (
    Answer,
    EventType,
    MultiRead,
    NodeData,
    Operation,
    WatchEvent,
)
from auditor.sources.metadata.zookeeper.session import LOST, NotReachedError, Session, reason_of


@dataclass(frozen=True, slots=True)
class Top:
    """Where a walk starts; a shallow one is read without what is below it."""

    path: str
    deep: bool = True


@dataclass(frozen=True, slots=True)
class _Inner:
    path: str
    num_children: int
    depth: int


Gap = tuple[str, str]
"""Absolute path and reason."""


def walk(reader: ZooKeeperReader, tops: Iterable[Top]) -> Iterator[tuple[list[Znode], list[Gap]]]:
    """Read the tops and everything below the deep ones, in batches of znodes and gaps.

    Held at a time: one batch, the names of the children still to be read (a batch and the widest znode),
    and the inner znodes still to be listed.
    """
    to_read = [(top.path, 0 if top.deep else DEPTH_LIMIT + 1) for top in tops]
    to_list: list[_Inner] = []
    while to_read or to_list:
        gaps: list[Gap] = []
        if to_list and len(to_read) < BATCH_ZNODES:
            listed = _take(to_list, BATCH_ZNODES - len(to_read))
            to_read += _list(reader, listed, gaps)
            if gaps:
                yield [], gaps
            continue
        chunk = to_read[-BATCH_ZNODES:]
        del to_read[-BATCH_ZNODES:]
        znodes, inner = _read_chunk(reader, chunk, gaps)
        to_list += inner
        if znodes or gaps:
            yield znodes, gaps


def _take(to_list: list[_Inner], room: int) -> list[_Inner]:
    """Inner znodes off the end of the list, with about ``room`` children together; at least one."""
    inner_znodes = [to_list.pop()]
    children = inner_znodes[0].num_children
    while to_list and children + to_list[-1].num_children <= room:
        inner_znodes.append(to_list.pop())
        children += inner_znodes[-1].num_children
    return inner_znodes


def _list(reader: ZooKeeperReader, inner: list[_Inner], gaps: list[Gap]) -> list[tuple[str, int]]:
    child_paths: list[tuple[str, int]] = []
    vanished: list[str] = []
    for znode, names in zip(inner, reader.children([znode.path for znode in inner]), strict=True):
        if not isinstance(names, FailedRead):
            child_paths += [(f"{znode.path}/{name}", znode.depth + 1) for name in names]
        elif names.code == NO_NODE:
            vanished.append(znode.path)
        else:
            gaps.append((znode.path, f"its children could not be listed: {names.reason}"))
    gaps += _reappeared_gaps(reader, vanished)
    return child_paths


def _read_chunk(
    reader: ZooKeeperReader, chunk: list[tuple[str, int]], gaps: list[Gap]
) -> tuple[list[Znode], list[_Inner]]:
    znodes: list[Znode] = []
    inner: list[_Inner] = []
    vanished: list[str] = []
    for (path, depth), answer in zip(chunk, reader.data([path for path, _ in chunk]), strict=True):
        if isinstance(answer, FailedRead):
            if answer.code != NO_NODE:
                gaps.append((path, f"it could not be read: {answer.reason}"))
            elif not LEAF.fullmatch(path.rpartition("/")[2]):
                vanished.append(path)
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
                # cversion counts what was made and what was deleted.
                (stat.cversion + stat.num_children) // 2,
                stat.num_children,
            )
        )
        if stat.num_children and depth < DEPTH_LIMIT:
            inner.append(_Inner(path, stat.num_children, depth))
        elif stat.num_children and depth == DEPTH_LIMIT:
            gaps.append((path, f"it is {DEPTH_LIMIT} levels down and has children, which were not read"))
    gaps += _reappeared_gaps(reader, vanished)
    return znodes, inner


def _reappeared_gaps(reader: ZooKeeperReader, vanished: list[str]) -> list[Gap]:
    """Gaps for inner znodes that were gone when they were read, yet are in their parent's list."""
    parents = sorted({path.rpartition("/")[0] for path in vanished})
    listings = dict(zip(parents, reader.children(parents), strict=True))
    gaps = []
    for path in vanished:
        parent, _, name = path.rpartition("/")
        names = listings[parent]
        if isinstance(names, FailedRead):
            if names.code != NO_NODE:
                gaps.append((path, f"it vanished, and its parent could not be listed: {names.reason}"))
        elif name in names:
            gaps.append((path, "it vanished while it was read and is there again"))
    return gaps


MOVES_LIMIT = 500_000
"""Paths that are kept, some 60 MB; where more moves, another full scan is not much more."""

INNER_LIMIT = 200_000
"""Inner znodes that are looked at, twice: ten seconds each at the default rate."""

_UNSIGNED = 0xFFFFFFFF
_OF_ZNODES = frozenset(EventType)


class _CountedRead(MultiRead):
    """getData of some znodes; ``counts`` are the changes heard of each one's children before the answer."""

    def __init__(self, paths: list[str], changes: Mapping[str, int]) -> None:
        super().__init__(Operation.GET_DATA, paths)
        self._changes = changes
        self.counts: list[int] = []

    def deserialize(self, buffer: bytes, offset: int) -> list[Answer]:
        self.counts = [self._changes.get(path, 0) for path in self.paths]
        return super().deserialize(buffer, offset)


class TreeWatch:
    """A watch of all ledgers below ``root``, from when it was made.

    ``operations`` counts connections and requests by kind. ``newest_zxid`` is the newest zxid seen before.
    """

    def __init__(self, hosts: Sequence[str], root: str, options: StoreOptions, newest_zxid: int) -> None:
        self.operations: Counter[str] = Counter()
        self._root = root
        self._below = root if root == "/" else f"{root}/"
        self._batch = options.batch
        self._timeout_s = options.timeout_s
        self._limit = RateLimit(options.rate_limit)
        self._changes: Counter[str] = Counter()  # children made and deleted, by their parent
        self._before: dict[str, int] = {}
        self._moved: set[str] = set()
        self._session: Session | None = None
        self._unknown: str | None = None
        try:
            self._session = self._opened(hosts, options, newest_zxid)
        except UnimplementedError:
            self._unknown = "this ZooKeeper cannot watch a tree, as servers since 3.6 can"
        except (NotReachedError, StoreError, DecodeError, *LOST, ZookeeperError) as error:
            self._unknown = f"the ledgers could not be watched: {self._why(error)}"

    def moves(self) -> LedgerMoves:
        """What has moved, up to a moment after this was called; the watch ends with it."""
        session = self._session
        if session is None:
            return LedgerMoves((), self._unknown or "the watch of the ledgers ended before")
        cversions: dict[str, int] = {}
        try:
            # All that the leader has now is told before the answer to this.
            session.sync(self._root)
            self.operations["sync"] += 1
            cversions = self._inner(session)
        except (NotReachedError, StoreError, DecodeError, *LOST, ZookeeperError) as error:
            self._unknown = f"the connection that watched them broke, or was refused: {self._why(error)}"
        self.close()  # from here on nothing is heard
        untold = sorted(path for path, since in cversions.items() if since != self._before.get(path, 0))
        if self._unknown is None and untold:
            self._unknown = f"ZooKeeper did not tell of all that changed below {untold[0]}"
        if self._unknown is None and len(self._moved) > MOVES_LIMIT:
            self._unknown = f"more than {MOVES_LIMIT:,} records moved since the first one"
        return LedgerMoves((), self._unknown) if self._unknown else LedgerMoves(tuple(sorted(self._moved)))

    def close(self) -> None:
        """End the watch's session."""
        if self._session is not None:
            session, self._session = self._session, None
            session.close()

    def _opened(self, hosts: Sequence[str], options: StoreOptions, newest_zxid: int) -> Session:
        credentials = read_credentials(options.credentials).zookeeper
        session = Session(",".join(hosts), options.timeout_s, credentials, newest_zxid)
        self.operations["connect"] += 1
        try:
            session.watch(self._root, self._hear)
            self.operations["watch"] += 1
            self._before = self._inner(session)
        except BaseException:  # Ctrl-C too: a session that nobody holds would go on connecting
            session.close()
            raise
        return session

    def _hear(self, event: WatchEvent) -> None:
        """Called in kazoo's own thread."""
        if event.type not in _OF_ZNODES:
            return
        path = event.path
        if event.type != EventType.CHANGED:
            self._changes[path.rpartition("/")[0] or "/"] += 1
            # What is made anew begins to count anew.
            self._changes.pop(path, None)
            self._before.pop(path, None)
        below = path[len(self._below) :]
        if below and tree_of(below) is Tree.LEDGERS and len(self._moved) <= MOVES_LIMIT:
            self._moved.add(path)

    def _inner(self, session: Session) -> dict[str, int]:
        """The inner znodes of the tree: what each one's cversion has beside the changes that were heard of.

        Raises:
            StoreError: one of them cannot be read, or there are too many.
        """
        cversions: dict[str, int] = {}
        level = [self._root]
        while level:
            if len(cversions) + len(level) > INNER_LIMIT:
                raise StoreError(f"there are more than {INNER_LIMIT:,} inner znodes")
            present_paths = []
            for paths in self._chunks(level):
                read = _CountedRead(paths, self._changes)
                answers = session.ask(read)
                for path, answer, count in zip(paths, answers, read.counts, strict=True):
                    if isinstance(answer, NodeData):
                        cversions[path] = (answer.stat.cversion - count) & _UNSIGNED
                        present_paths.append(path)
                    elif answer != NO_NODE:
                        raise StoreError(f"{path} cannot be read: ZooKeeper error {answer}")
            level = list(self._next_level(session, present_paths))
        return cversions

    def _next_level(self, session: Session, level: Sequence[str]) -> Iterator[str]:
        """The inner znodes below some of them; those above ledgers alone are not listed."""
        divisible = DIVISIBLE[Tree.LEDGERS]
        above = [
            path for path in level if path == self._root or divisible.fullmatch(path[len(self._below) :])
        ]
        for paths in self._chunks(above):
            answers = session.ask(MultiRead(Operation.GET_CHILDREN, paths))
            for path, names in zip(paths, answers, strict=True):
                if names == NO_NODE:
                    continue
                if not isinstance(names, list):
                    raise StoreError(f"{path} cannot be listed: ZooKeeper error {names}")
                if path == self._root:
                    yield from (f"{self._below}{name}" for name in names if divisible.fullmatch(name))
                else:
                    yield from (f"{path}/{name}" for name in names if not LEAF.fullmatch(name))

    def _why(self, error: Exception) -> str:
        return str(error) if isinstance(error, StoreError) else reason_of(error, self._timeout_s)

    def _chunks(self, paths: Sequence[str]) -> Iterator[list[str]]:
        for start in range(0, len(paths), self._batch):
            chunk = list(paths[start : start + self._batch])
            self._limit.take(len(chunk))
            self.operations["multi_read"] += 1
            yield chunk
