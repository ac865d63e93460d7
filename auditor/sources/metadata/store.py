"""The common interface and the common types of all metadata stores.

The rest of the program sees a store as a tree of znodes. The ledgers and the under-replication marks are its
large subtrees. They are cut into parts, which tasks read independently (`MetadataStore.parts`,
`MetadataStore.read`). The Spark driver reads all other znodes (`MetadataStore.cluster`). A running store can
also report its servers, and roughly how many ledgers it has.

A gap is a path that could not be read, together with the reason. Znodes at or below this path may be missing.
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
"""Largest number of znodes in a batch: about 10 MB of ledger metadata."""

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
"""Children of the root that are not ledgers and have no ledgers below them.

They are the names in AbstractZkLedgerManager.isSpecialZnode, and two more names.
"""

NO_TIME = -1
"""Value of ctime and mtime in a store without times (etcd). Tables have null instead."""

UNKNOWN_COUNT = -1
"""Value of `Znode.made` and `Znode.children` if the source does not report them."""

OWNER_UNKNOWN = -1
"""Value of `Znode.ephemeral_owner` if a dump lacks the owner. No session or lease has this number."""

MAX_INT64 = 2**63 - 1

MAX_RESTARTS = 3
"""Largest number of times that a scan restarts at a newer moment (`MetadataStore.has_lost_moment`)."""

MARK_ROOTS = ("underreplication/ledgers", "underreplication/locks")


class Znode(NamedTuple):
    """One znode, etcd key or Oxia record. Times are in ms.

    Attributes:
        path: absolute path.
        data: the znode's bytes.
        czxid: zxid of the creation; in etcd the create revision.
        mzxid: zxid of the last change; in etcd the mod revision.
        ctime: time of the creation; `NO_TIME` in etcd.
        mtime: time of the last change; `NO_TIME` in etcd.
        version: version of the data. In etcd the mod revision, which is a ledger's version there.
        ephemeral_owner: session that owns the znode, or lease in etcd; 0 if persistent. For Oxia, whose
            session ids begin at 0, see `owner_of_session`. `OWNER_UNKNOWN` if a dump omits it.
        made: number of children ever created below the znode; in etcd the number of writes of the key. The
            next id of an id generator follows from this number, which may be too high. `UNKNOWN_COUNT` if
            unknown.
        children: number of children when the znode was read; `UNKNOWN_COUNT` if unknown.
        modifications: number of changes, in a store that counts them apart from versions (Oxia); else
            `UNKNOWN_COUNT`.
    """

    path: str
    data: bytes
    czxid: int
    mzxid: int
    ctime: int
    mtime: int
    version: int
    ephemeral_owner: int
    made: int = UNKNOWN_COUNT
    children: int = UNKNOWN_COUNT
    modifications: int = UNKNOWN_COUNT

    @property
    def changes(self) -> int:
        """Return how often the data changed since creation; `UNKNOWN_COUNT` if the source does not report it.

        ZooKeeper's version is the number of changes. etcd counts the writes of a key, including its creation.

        >>> Znode("/bk/ledgers/L1", b"", 2, 9, NO_TIME, NO_TIME, 9, 0, made=3).changes
        2
        """
        if self.modifications != UNKNOWN_COUNT:
            return self.modifications
        if self.ctime != NO_TIME:
            return self.version
        return self.made - 1 if self.made > 0 else UNKNOWN_COUNT


def owner_of_session(session: int | None) -> int:
    """Return the `Znode.ephemeral_owner` of an Oxia session: its id plus one, or 0 without a session.

    >>> owner_of_session(None), owner_of_session(0)
    (0, 1)
    """
    return 0 if session is None else max(1, min(session, MAX_INT64 - 1) + 1)


@dataclass(frozen=True, slots=True)
class ZnodeBatch:
    """Up to `BATCH_ZNODES` znodes as columns, and the paths that could not be read (``gaps``).

    ``gaps`` has (absolute path, reason). At or below such a path, znodes may exist that no batch has.
    """

    paths: Sequence[str]
    data: Sequence[bytes]
    mzxid: NDArray[np.int64]
    ctime: NDArray[np.int64]
    mtime: NDArray[np.int64]
    version: NDArray[np.int64]
    ephemeral_owner: NDArray[np.int64]
    gaps: list[tuple[str, str]] = field(default_factory=list)
    children: NDArray[np.int64] | None = None  # number of children, or `UNKNOWN_COUNT`; None: all unknown
    changes: NDArray[np.int64] | None = None  # as `Znode.changes`; None: the same as ``version``

    @classmethod
    def from_znodes(cls, znodes: list[Znode], gaps: list[tuple[str, str]] | None = None) -> ZnodeBatch:
        """Return a batch that has the given znodes in columns, and the given unreadable paths (gaps).

        >>> ZnodeBatch.from_znodes([Znode("/ledgers/00", b"", 1, 1, 5, 5, 0, 0)]).ctime.tolist()
        [5]
        """
        paths, data, _, *numbers, _, children, _ = zip(*znodes, strict=True) if znodes else ((),) * 11
        columns = [np.array(column, np.int64) for column in (*numbers, children)]
        mzxid, ctime, mtime, version, owner, child_counts = columns
        changes = np.array([znode.changes for znode in znodes], np.int64)
        return cls(
            list(paths), list(data), mzxid, ctime, mtime, version, owner, gaps or [], child_counts, changes
        )


def znode_batches(records: Iterable[Znode | tuple[str, str]]) -> Iterator[ZnodeBatch]:
    """Group znodes and gaps (path, reason) into batches of up to `BATCH_ZNODES` znodes and gaps together.

    >>> [batch.gaps for batch in znode_batches([Znode("/a", b"", 1, 1, 5, 5, 0, 0), ("/b", "cut off")])]
    [[('/b', 'cut off')]]
    """
    record_iterator = iter(records)
    while record_chunk := list(islice(record_iterator, BATCH_ZNODES)):
        gaps = [gap for gap in record_chunk if not isinstance(gap, Znode)]
        yield ZnodeBatch.from_znodes([znode for znode in record_chunk if isinstance(znode, Znode)], gaps)


class Tree(StrEnum):
    """Trees that tasks read: ledgers, under-replication marks and locks, or an application's whole tree."""

    LEDGERS = "ledgers"
    MARKS = "marks"  # <root>/underreplication/ledgers and /locks
    WHOLE = "whole"  # everything below the root, for a root that is not BookKeeper's


@dataclass(frozen=True)
class Part:
    """The work of one task. Each store has a subclass. A part is immutable, and small when pickled."""


@dataclass(frozen=True)
class ClusterNodes:
    """All nodes below the root except ledgers, under-replication marks and locks.

    Attributes:
        nodes: znodes by their path below the root ("LAYOUT", "cookies/bk1:3181").
        scan_time: time of the scan, in ms.
        position: state of the store that was read: in ZooKeeper the zxid of the last transaction seen, in hex
            as in its logs; in etcd the revision; in Oxia the largest version id.
        gaps: (absolute path, reason) of unreadable places.
        notes: facts about the source for the report, such as a damaged snapshot that was skipped.
        proves_absence: False if the source may have been truncated without any sign of it.
        damage: reason why nodes outside ``gaps`` may be missing too; None if there is no such reason.
    """

    nodes: Mapping[str, Znode]
    scan_time: int
    position: str
    gaps: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
    proves_absence: bool = True
    damage: str | None = None
    revision: int | None = None  # etcd revision of the read; None for other stores

    def gap_reason(self, root: str) -> str | None:
        """Return the reason why anything below ``root`` may be missing, or None if there is no reason."""
        return self.damage or next((reason for path, reason in self.gaps if path == root), None)


@dataclass(frozen=True)
class StoreOptions:
    """Limits for reading a running store. Saved stores ignore them.

    The limits apply to each connection. A caller that runs n tasks at a time gives each task
    ``replace(options, rate_limit=options.rate_limit / n)``.
    """

    rate_limit: float = 20_000.0  # znodes read or listed per second; 0: no limit
    in_flight: int = 4  # largest number of requests without an answer
    timeout_s: float = 10.0  # seconds to wait for a connection, and for one answer
    batch: int = 200  # paths in one request
    credentials: str | None = None  # path of a credentials file, never its content
    revision: int | None = None  # etcd: revision to read at (`ClusterNodes.revision`); None: the newest
    revision_time: int | None = None  # when it was pinned, in ms (`ClusterNodes.scan_time`)


class History(NamedTuple):
    """The identity of a store's history. It shows later whether the store continues the same history.

    Attributes:
        cluster: etcd's own id of the cluster.
        revision: the revision that is read.
        log_lead: smallest and largest possible value of a difference: the length of etcd's log minus the
            revision. Within one history, this difference never falls, because every revision adds an entry
            to the log. A restored snapshot keeps the revision but begins a new log.

    >>> monday = History(7, revision=5_000, log_lead=(210, 214))
    >>> tuesday, restored = History(7, 6_000, (250, 250)), History(7, 6_000, (-4_990, -4_990))
    >>> tuesday.continues(monday), restored.continues(monday)
    (True, False)
    """

    cluster: int
    revision: int
    log_lead: tuple[int, int]

    def continues(self, earlier: History) -> bool:
        """Return whether this history continues ``earlier``, at the same or a later revision."""
        is_same_history = self.cluster == earlier.cluster and self.revision >= earlier.revision
        return is_same_history and self.log_lead[1] >= earlier.log_lead[0]


class LedgerChanges(NamedTuple):
    """The sorted paths in the ledger tree that were created, changed or deleted since a watch started.

    ``unknown_reason`` is the reason why these paths are not known. It is None if ``paths`` is complete.
    """

    paths: tuple[str, ...] = ()
    unknown_reason: str | None = None


class MetadataStore(Protocol):
    """A read-only store of a cluster's metadata."""

    uri: MetadataUri
    root: str
    live: bool
    keeps_marks: bool
    """True if the store keeps under-replication marks and locks."""
    keeps_times: bool
    """True if the store keeps times of creation and change."""

    def cluster(self) -> ClusterNodes:
        """Read all nodes except ledgers, under-replication marks and locks. The Spark driver calls this.

        Raises:
            StoreError: the store cannot be reached or opened, or has no such root.
        """

    def parts(self, tree: Tree, layout: LayoutKind, part_count: int) -> list[Part]:
        """Cut a tree into about ``part_count`` parts. Every znode of the tree is in exactly one part."""

    def read(self, part: Part) -> Iterator[ZnodeBatch]:
        """Read one part, and yield its znodes in batches. Any process may call this method."""

    def has_lost_moment(self) -> bool:
        """Return whether the moment that `cluster` read is lost, so that a failed scan must start again.

        etcd reads everything at one moment. A compaction can make this moment unreadable. In Oxia, the
        moment is lost if the shards change. Other stores always return False.
        """

    def operations(self) -> dict[str, int]:
        """Return the number of requests of each kind that this object has sent."""

    def close(self) -> None:
        """Close the connections. The store may be used again."""


@runtime_checkable
class OnePathStore(Protocol):
    """A store that can read one path alone. All running stores are of this kind."""

    def part_of_path(self, path: str) -> Part:
        """Return a part with only the znode or key at an absolute path. Call `cluster` first."""


@runtime_checkable
class SiblingStore(Protocol):
    """A store that can report trees beside BookKeeper's root, which have the same parent as the root."""

    def has_sibling(self, name: str) -> bool:
        """Return whether a znode ``name`` exists that has the same parent as the root. Call `cluster` first.

        Raises:
            StoreError: the store did not answer.
        """


@runtime_checkable
class SiblingValueStore(Protocol):
    """A saved store that can read values next to the root. A running store is a `OnePathStore` instead."""

    def sibling_value(self, name: str) -> bytes | None:
        """Return the value of the znode or key ``name`` beside the root, or None if it does not exist.

        Call `cluster` first.

        Raises:
            StoreError: the value exists, but could not be read.
        """


def sibling_value(store: MetadataStore, name: str) -> bytes | None:
    """Return the value of the znode or key ``name`` beside the root of any store; None if it does not exist.

    Raises:
        StoreError: the value could not be read.
    """
    if isinstance(store, SiblingValueStore):
        return store.sibling_value(name)
    assert isinstance(store, OnePathStore)
    path = f"{store.root.rpartition('/')[0]}/{name}"
    for batch in store.read(store.part_of_path(path)):
        for gap_path, reason in batch.gaps:
            raise StoreError(f"{gap_path}: {reason}")
        if path in batch.paths:
            return bytes(batch.data[list(batch.paths).index(path)])
    return None


@runtime_checkable
class WatchableStore(Protocol):
    """A store that can report which of its ledgers change while it is read."""

    def watch_ledgers(self) -> None:
        """Start to record which ledgers change. Call this before the ledgers are read."""

    def changed_ledgers(self) -> LedgerChanges:
        """End the watch. Return the paths that changed since `watch_ledgers`, at least up to this call."""

    def parts_of_paths(self, paths: Sequence[str], part_count: int) -> list[Part]:
        """Return parts that contain exactly these paths, and nothing below them."""


def tree_of(relative_path: str) -> Tree | None:
    """Return the tree (ledgers, or marks and locks) of a path relative to the root; None for other paths.

    >>> tree_of("00/0000/L0001"), tree_of("underreplication/locks/urL0000000001"), tree_of("cookies/bk1:3181")
    (<Tree.LEDGERS: 'ledgers'>, <Tree.MARKS: 'marks'>, None)
    """
    first_name = relative_path.partition("/")[0]
    if first_name == "underreplication" and "/".join(relative_path.split("/", 2)[:2]) in MARK_ROOTS:
        return Tree.MARKS
    # ID-...: short-lived nodes of the flat id generator, which are siblings of the ledgers.
    if first_name in CLUSTER_CHILDREN or first_name.startswith("ID-"):
        return None
    return Tree.LEDGERS


@dataclass(frozen=True, slots=True)
class LedgerCount:
    """A count of ledgers, or an estimate if not ``is_exact``. Only etcd counts ids over 64 bits too."""

    ledgers: int
    is_exact: bool


@dataclass(frozen=True, slots=True)
class Server:
    """A server named in the URI: whether it answers, its latency in ms, its version and its mode.

    ``failure_reason`` is why the server does not answer or does not report its version; None if it does both.
    """

    host: str
    is_reached: bool
    latency_ms: float | None = None
    version: str | None = None
    mode: str | None = None
    failure_reason: str | None = None
