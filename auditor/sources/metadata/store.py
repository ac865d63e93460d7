"""What a metadata store is: the types that all of them share.

All of them are one thing to the rest of the house: a tree of znodes, of which the small part is read on the
driver (`MetadataStore.cluster`) and the large parts, ledgers and under-replication marks, are cut into parts
that tasks read on their own (`MetadataStore.parts`, `MetadataStore.read`). A running one tells about itself
too: its servers, and about how many ledgers it has.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import islice
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from auditor.errors import StoreError
from auditor.keys.ledger_tree import LayoutKind
from auditor.sources.metadata.uri import MetadataUri

BATCH_ZNODES = 20_000
"""No batch of a store holds more znodes than this: about 10 MB of ledger metadata."""

CLUSTER_CHILDREN = (
    "LAYOUT",
    "INSTANCEID",
    "cookies",
    "available",
    "idgen",
    "idgen-long",
    "ms-idgen",
    "underreplication",
    "disableHealthCheck",
)
"""Children of the root that hold no ledgers (AbstractZkLedgerManager.isSpecialZnode and two more)."""

NO_TIME = -1
"""The ctime and mtime of what a store keeps without times (etcd); null in tables."""

UNCOUNTED = -1
"""`Znode.made` and `Znode.children` where the source does not tell."""

OWNER_UNKNOWN = -1
"""`Znode.ephemeral_owner` where a dump does not say it: no session and no lease has this number."""

MAX_INT64 = 2**63 - 1

RESTARTS = 3
"""How often a scan begins anew at a newer moment, because its own was lost (`MetadataStore.moment_lost`)."""

MARK_ROOTS = ("underreplication/ledgers", "underreplication/locks")


class Znode(NamedTuple):
    """One znode or etcd key: absolute path, bytes, and the part of its stat that an audit uses; times in ms.

    Of an etcd key: ``czxid`` and ``mzxid`` are the revisions of its creation and last change, ``version`` is
    the latter too (what a ledger's version is there), ``ephemeral_owner`` the lease; etcd keeps no times:
    `NO_TIME`. An ``ephemeral_owner`` of 0 is that of a persistent znode, so that a session of Oxia is
    one more than its id (`owner_of_session`); `OWNER_UNKNOWN` where a dump leaves
    it out. ``made`` is how many children were ever made below a znode, or how often an etcd key was
    written: what id generators count by. It may be too high, and is `UNCOUNTED` where a source does not tell.
    ``children`` is how many a znode had when it was read, or `UNCOUNTED`. ``modifications`` is how often it
    was changed where the store counts that apart from its versions (Oxia), else `UNCOUNTED`.
    """

    path: str
    data: bytes
    czxid: int
    mzxid: int
    ctime: int
    mtime: int
    version: int
    ephemeral_owner: int
    made: int = UNCOUNTED
    children: int = UNCOUNTED
    modifications: int = UNCOUNTED

    @property
    def changes(self) -> int:
        """How often its data were changed since it was created; `UNCOUNTED` where the source does not tell.

        ZooKeeper's version counts changes. etcd counts writes of a key, and its creation is one of them.

        >>> Znode("/bk/ledgers/L1", b"", 2, 9, NO_TIME, NO_TIME, 9, 0, made=3).changes
        2
        """
        if self.modifications != UNCOUNTED:
            return self.modifications
        if self.ctime != NO_TIME:
            return self.version
        return self.made - 1 if self.made > 0 else UNCOUNTED


def owner_of_session(session: int | None) -> int:
    """Return the `Znode.ephemeral_owner` of a session: 0 is that of a record without one.

    >>> owner_of_session(None), owner_of_session(0)
    (0, 1)
    """
    return 0 if session is None else max(1, min(session, MAX_INT64 - 1) + 1)


@dataclass(frozen=True, slots=True)
class ZnodeBatch:
    """Up to `BATCH_ZNODES` znodes, column by column, and what could not be read beside them.

    ``gaps`` are (absolute path, reason): at or below that path znodes may exist that no batch shows.
    """

    paths: Sequence[str]
    data: Sequence[bytes]
    mzxid: NDArray[np.int64]
    ctime: NDArray[np.int64]
    mtime: NDArray[np.int64]
    version: NDArray[np.int64]
    ephemeral_owner: NDArray[np.int64]
    gaps: list[tuple[str, str]] = field(default_factory=list)
    children: NDArray[np.int64] | None = None  # of each znode, or `UNCOUNTED`; None: of all of them
    changes: NDArray[np.int64] | None = None  # of each znode as `Znode.changes`; None: the versions

    @classmethod
    def of(cls, znodes: list[Znode], gaps: list[tuple[str, str]] | None = None) -> ZnodeBatch:
        """Turn rows into columns.

        >>> ZnodeBatch.of([Znode("/ledgers/00", b"", 1, 1, 5, 5, 0, 0)]).ctime.tolist()
        [5]
        """
        paths, data, _, *numbers, _, children, _ = zip(*znodes, strict=True) if znodes else ((),) * 11
        columns = [np.array(column, np.int64) for column in (*numbers, children)]
        mzxid, ctime, mtime, version, owner, below = columns
        changes = np.array([znode.changes for znode in znodes], np.int64)
        return cls(list(paths), list(data), mzxid, ctime, mtime, version, owner, gaps or [], below, changes)


def znode_batches(records: Iterable[Znode | tuple[str, str]]) -> Iterator[ZnodeBatch]:
    """Znodes, and gaps between them, in batches of `BATCH_ZNODES` of both together.

    >>> [batch.gaps for batch in znode_batches([Znode("/a", b"", 1, 1, 5, 5, 0, 0), ("/b", "cut off")])]
    [[('/b', 'cut off')]]
    """
    iterator = iter(records)
    while chunk := list(islice(iterator, BATCH_ZNODES)):
        gaps = [gap for gap in chunk if not isinstance(gap, Znode)]
        yield ZnodeBatch.of([znode for znode in chunk if isinstance(znode, Znode)], gaps)


class Tree(StrEnum):
    """The two parts of the metadata that grow with the number of ledgers; and another tree's all."""

    LEDGERS = "ledgers"
    MARKS = "marks"  # <root>/underreplication/ledgers and /locks
    WHOLE = "whole"  # everything below the root, whatever its name: of a root that is not BookKeeper's


@dataclass(frozen=True)
class Part:
    """What one task reads; each store has its own. Frozen, and small to pickle."""


@dataclass(frozen=True)
class ClusterNodes:
    """Everything below the root that is neither ledger tree nor mark nor lock.

    ``nodes`` is keyed by the path below the root ("LAYOUT", "cookies/bk1:3181"). ``scan_time`` is in ms.
    ``position`` is the zxid of the last transaction seen, in hex as ZooKeeper's own logs write it.
    ``notes`` say what a reader of the report should know about the source, such as a damaged snapshot that
    was passed over for an older one. ``proves_absence`` is false of a source that could be cut without a
    trace; ``cut`` is why more may be missing everywhere than the gaps name, None where nothing says so.
    """

    nodes: Mapping[str, Znode]
    scan_time: int
    position: str
    gaps: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
    proves_absence: bool = True
    cut: str | None = None
    revision: int | None = None  # etcd's, at which all of this was read: one moment; others have none

    def cut_below(self, root: str) -> str | None:
        """Why any part of what lies below ``root`` may be missing; None where nothing says so."""
        return self.cut or next((reason for path, reason in self.gaps if path == root), None)


@dataclass(frozen=True)
class StoreOptions:
    """How hard a live store may be read; saved ones have nothing to spare.

    Every connection keeps to these bounds by itself: who runs n tasks at a time gives each
    ``replace(options, rate_limit=options.rate_limit / n)``.
    """

    rate_limit: float = 20_000.0  # znodes read or listed per second; 0: no limit
    in_flight: int = 4  # requests not yet answered
    timeout_s: float = 10.0  # to connect, and to wait for one answer
    batch: int = 200  # paths in one request
    credentials: str | None = None  # a file: `auditor.sources.metadata.credentials`; never what is in it
    revision: int | None = None  # of etcd: read at this one (`ClusterNodes.revision`); None: the newest
    revision_time: int | None = None  # when it was pinned, in ms (`ClusterNodes.scan_time`)


class History(NamedTuple):
    """Which history of a store one looks at, so that a later look can tell whether it is the same.

    ``cluster`` is etcd's own id of the cluster, ``revision`` the one that is read. ``ahead`` is by how much
    its log was longer than its revision: at least and at most. In one history that never falls, for every
    revision takes an entry of the log; but whoever restores a snapshot keeps the revision, and begins a log.

    >>> monday = History(7, revision=5_000, ahead=(210, 214))
    >>> tuesday, restored = History(7, 6_000, (250, 250)), History(7, 6_000, (-4_990, -4_990))
    >>> tuesday.continues(monday), restored.continues(monday)
    (True, False)
    """

    cluster: int
    revision: int
    ahead: tuple[int, int]

    def continues(self, earlier: History) -> bool:
        """Whether ``earlier`` was a look at the same history, at the same revision or before."""
        same = self.cluster == earlier.cluster and self.revision >= earlier.revision
        return same and self.ahead[1] >= earlier.ahead[0]


class LedgerMoves(NamedTuple):
    """Paths of the ledger tree that were made, changed or deleted since some moment: all of them, in order.

    ``unknown`` is why nobody can say which ones; None: these.
    """

    paths: tuple[str, ...] = ()
    unknown: str | None = None


class MetadataStore(Protocol):
    """Anything that holds a cluster's metadata. It is only read."""

    uri: MetadataUri
    root: str
    live: bool
    keeps_marks: bool
    """Whether under-replication marks and locks are kept at all."""
    keeps_times: bool
    """Whether it keeps when something was made and changed."""

    def cluster(self) -> ClusterNodes:
        """Read, on the driver, what is bounded by the number of bookies.

        Raises:
            StoreError: the store cannot be reached or opened, or has no such root.
        """

    def parts(self, tree: Tree, layout: LayoutKind, part_count: int) -> list[Part]:
        """Cut a tree into about ``part_count`` parts; together they cover it exactly once."""

    def read(self, part: Part) -> Iterator[ZnodeBatch]:
        """Read one part, in any process."""

    def moment_lost(self) -> bool:
        """Whether what `cluster` saw can no longer be read, so that a scan which failed must start afresh.

        Only where all is read at one moment (etcd at a revision, which may be compacted); others say False.
        """

    def operations(self) -> dict[str, int]:
        """What this object asked its source for, by kind."""

    def close(self) -> None:
        """Let go of connections; the store may be used again."""


@runtime_checkable
class OnePathStore(Protocol):
    """A store that can be asked for one path alone, as running ones can."""

    def part_of(self, path: str) -> Part:
        """The part that reads the znode or key at an absolute path and nothing else; after `cluster`."""


@runtime_checkable
class NeighbourStore(Protocol):
    """A store that can tell which other trees it holds, beside BookKeeper's own."""

    def has_beside(self, name: str) -> bool:
        """Whether a znode of this name lies beside the root; after `cluster`.

        Raises:
            StoreError: the store did not say.
        """


@runtime_checkable
class NeighbourValueStore(Protocol):
    """A saved store that can tell the values beside the root; a running one is a `OnePathStore`."""

    def value_beside(self, name: str) -> bytes | None:
        """The value of the znode or key of this name beside the root; None: there is none; after `cluster`.

        Raises:
            StoreError: it is there, and could not be read.
        """


def value_beside(store: MetadataStore, name: str) -> bytes | None:
    """The value of the znode or key of this name beside the root of any store; None: there is none.

    Raises:
        StoreError: it could not be read.
    """
    if isinstance(store, NeighbourValueStore):
        return store.value_beside(name)
    assert isinstance(store, OnePathStore)
    path = f"{store.root.rpartition('/')[0]}/{name}"
    for batch in store.read(store.part_of(path)):
        for place, reason in batch.gaps:
            raise StoreError(f"{place}: {reason}")
        if path in batch.paths:
            return bytes(batch.data[list(batch.paths).index(path)])
    return None


@runtime_checkable
class WatchableStore(Protocol):
    """A store that says by itself what changes while it is read."""

    def watch_ledgers(self) -> None:
        """From here on keep which ledgers move; whoever reads them begins after this."""

    def ledgers_moved(self) -> LedgerMoves:
        """Which paths moved since, at least up to now; that ends the watch."""

    def parts_of(self, paths: Sequence[str], part_count: int) -> list[Part]:
        """Parts that read these paths, without what is below them."""


def tree_of(below_root: str) -> Tree | None:
    """The tree that a path below the root belongs to; None for the cluster's own nodes.

    >>> tree_of("00/0000/L0001"), tree_of("underreplication/locks/urL0000000001"), tree_of("cookies/bk1:3181")
    (<Tree.LEDGERS: 'ledgers'>, <Tree.MARKS: 'marks'>, None)
    """
    first = below_root.partition("/")[0]
    if first == "underreplication" and "/".join(below_root.split("/", 2)[:2]) in MARK_ROOTS:
        return Tree.MARKS
    # ID-...: the flat id generator's short-lived nodes lie among the ledgers.
    if first in CLUSTER_CHILDREN or first.startswith("ID-"):
        return None
    return Tree.LEDGERS


@dataclass(frozen=True, slots=True)
class LedgerCount:
    """So many ledgers of scope 0 (etcd: of all); ``exact`` where nothing stands for another."""

    ledgers: int
    exact: bool


@dataclass(frozen=True, slots=True)
class Server:
    """A server of the URI: whether it answers, in how many ms, its version and mode.

    ``trouble`` says why it does not answer, or why it does not tell its version, which is None then.
    """

    host: str
    reached: bool
    latency_ms: float | None = None
    version: str | None = None
    mode: str | None = None
    trouble: str | None = None
