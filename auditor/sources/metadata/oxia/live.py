"""The metadata store that reads a running Oxia. It never writes.

The keys are ZooKeeper's paths, as Pulsar's driver writes them:

    <root>/LAYOUT, INSTANCEID, cookies/ID, available/ID, available/readonly/ID, idgen ...
    <root>/00/0000/L0018, <root>/000/0000/0050/0000/L0000
    <root>/underreplication/ledgers/..., /locks/...

The values are the same as in ZooKeeper. Each directory has a record with an empty value. The Spark driver
lists the top of a tree, and cuts the tree into parts. Each task asks the leaders of all shards for the
directories in its part. The flat layout keeps all ledgers directly below the root. With this layout, a part
is therefore a group of shards. The version of a ledger is the version id of its record. A record gets a new
version id if it is changed, or if it is deleted and created again. Source: OxiaMetadataStore of Pulsar 4.2.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass

from auditor.errors import NoRootError, StoreError
from auditor.keys.etcd import key_bytes, key_text
from auditor.keys.ledger_tree import LayoutKind
from auditor.sources.clock import now_ms
from auditor.sources.metadata.oxia.client import SERVICES, OxiaClient
from auditor.sources.metadata.oxia.questions import MIXED_TIMES_NOTE, ChildKeys
from auditor.sources.metadata.oxia.walk import (
    Directory,
    Gap,
    RecordBatch,
    list_children,
    read_records,
    walk_records,
)
from auditor.sources.metadata.oxia.watch import NotificationWatch
from auditor.sources.metadata.store import (
    CLUSTER_CHILDREN,
    MARK_ROOTS,
    ClusterNodes,
    LedgerChanges,
    LedgerCount,
    Part,
    Server,
    StoreOptions,
    Tree,
    Znode,
    ZnodeBatch,
    tree_of,
)
from auditor.sources.metadata.tree_shape import DIVISIBLE_PATHS
from auditor.sources.metadata.uri import DEFAULT_NAMESPACE, MetadataUri

PATHS_PER_PART = 4
"""Number of subtrees in each part. Their sizes are unknown, and several of them even out."""

MAX_LISTED_PATHS = 2000
"""Largest number of directories that the driver lists at one level to cut a tree.

The driver sends one request for each directory to each shard.
"""


@dataclass(frozen=True)
class OxiaPart(Part):
    """The work of one task: single records (``paths``), and directories with everything below them.

    Below ``directories``, records that do not belong to ``tree`` are skipped.
    """

    tree: Tree
    paths: tuple[str, ...] = ()
    directories: tuple[Directory, ...] = ()


class OxiaStore:
    """A metadata store that reads a running Oxia. ``clock`` returns the time in ms since 1970."""

    live = True
    keeps_marks = True
    keeps_times = True

    def __init__(self, uri: MetadataUri, options: StoreOptions, clock: Callable[[], int] = now_ms) -> None:
        self.uri = uri
        self.root = uri.root
        self._clock = clock
        self._options = options
        self._client = OxiaClient(uri.hosts, uri.namespace, options)
        self._shards: frozenset[object] | None = None
        self._watch: NotificationWatch | None = None

    def cluster(self) -> ClusterNodes:
        """Read the cluster's own records; see `MetadataStore.cluster`.

        ``scan_time`` comes from this machine's clock. It is never earlier than the latest time in the
        records, which comes from the leaders' clocks.
        """
        start_ms = self._clock()  # before the servers are asked: an age must not come out too small
        shards = self._client.renew_assignments()
        self._shards = frozenset(shards)
        cluster_paths = [f"{self.root}/{name}" for name in CLUSTER_CHILDREN]
        replication_path = f"{self.root}/underreplication"
        replication_paths = [
            path for path in self._children(replication_path) if path[len(self.root) + 1 :] not in MARK_ROOTS
        ]
        walked_directories = [
            Directory(path, 1, shards)
            for path in (*cluster_paths, *replication_paths)
            if path != replication_path
        ]
        nodes: dict[str, Znode] = {}
        gaps: list[Gap] = []
        znode_batches = [
            *self._records([self.root, *cluster_paths, *replication_paths]),
            *self._walk(walked_directories),
        ]
        for znodes, batch_gaps in znode_batches:
            gaps += batch_gaps
            nodes |= {znode.path[len(self.root) + 1 :]: znode for znode in znodes}
        root = nodes.pop("", None)
        if root is None and not nodes:
            self._check_root()
        change_times = [max(znode.ctime, znode.mtime) for znode in (*nodes.values(), *filter(None, [root]))]
        newest_version = max((znode.version for znode in nodes.values()), default=0)
        position_text = f"versions up to {newest_version} in {len(shards)} shards"
        return ClusterNodes(
            nodes, max(start_ms, *change_times, 0), position_text, tuple(gaps), (MIXED_TIMES_NOTE,)
        )

    def parts(self, tree: Tree, layout: LayoutKind, part_count: int) -> list[Part]:
        """Cut a tree into subtrees, and distribute the subtrees over ``part_count`` parts.

        See `MetadataStore.parts`.
        """
        shards, part_count = self._client.shards(), max(1, part_count)
        if tree is Tree.LEDGERS and layout is LayoutKind.FLAT:
            self._check_root()
            shard_groups = [shards[group_number::part_count] for group_number in range(part_count)]
            return [
                OxiaPart(tree, (), (Directory(self.root, 0, shard_group),))
                for shard_group in shard_groups
                if shard_group
            ]
        level_paths = self._tree_root_paths(tree)
        listed_paths: list[str] = []
        while len(level_paths) < part_count * PATHS_PER_PART:
            children = self._list_next_level(tree, level_paths)
            if not children:
                break
            listed_paths += children
            level_paths = [
                path for parent_path in level_paths for path in children.get(parent_path, [parent_path])
            ]
        parts: list[Part] = []
        for part_number in range(part_count):
            subtree_paths = level_paths[part_number::part_count]
            paths = (*subtree_paths, *listed_paths[part_number::part_count])
            if paths:
                parts.append(
                    OxiaPart(tree, paths, tuple(Directory(path, 1, shards) for path in subtree_paths))
                )
        return parts

    def part_of_path(self, path: str) -> Part:
        """Return a part with only the record at ``path``; see `OnePathStore.part_of_path`."""
        return OxiaPart(Tree.WHOLE, (path,))

    def parts_of_paths(self, paths: Sequence[str], part_count: int) -> list[Part]:
        """Distribute single records over at most ``part_count`` parts.

        See `WatchableStore.parts_of_paths`.
        """
        part_count = max(1, part_count)
        path_groups = [tuple(paths[group_number::part_count]) for group_number in range(part_count)]
        return [OxiaPart(Tree.WHOLE, path_group) for path_group in path_groups if path_group]

    def watch_ledgers(self) -> None:
        """Record the current offset of each shard's log; see `WatchableStore.watch_ledgers`."""
        self._watch = NotificationWatch(self._client, self.root)

    def changed_ledgers(self) -> LedgerChanges:
        """Return the changes since `watch_ledgers`; see `WatchableStore.changed_ledgers`."""
        watch, self._watch = self._watch, None
        if watch is None:
            return LedgerChanges(unknown_reason="no watch was set before the first scan")
        return watch.changed_ledgers()

    def read(self, part: Part) -> Iterator[ZnodeBatch]:
        """Read one part; see `MetadataStore.read`."""
        assert isinstance(part, OxiaPart)

        def is_in_tree(path: str) -> bool:
            return part.tree is Tree.WHOLE or tree_of(path[len(self.root) + 1 :]) is part.tree

        for znodes, gaps in self._records(part.paths):
            yield ZnodeBatch.from_znodes(znodes, gaps)
        for znodes, gaps in walk_records(self._client, part.directories, self._options.in_flight, is_in_tree):
            yield ZnodeBatch.from_znodes(znodes, gaps)

    def read_subtree(self, path: str) -> Iterator[RecordBatch]:
        """Yield the record at a path, and all records below it."""
        yield from self._records([path])
        yield from self._walk([Directory(path, 1, self._client.shards())])

    def has_sibling(self, name: str) -> bool:
        """Return whether a record exists at the path ``name`` or directly below it; see `SiblingStore`.

        This path is next to the root: both have the same parent.
        """
        return self._exists(f"{self.root.rpartition('/')[0]}/{name}")

    def has_lost_moment(self) -> bool:
        """Return whether the shards of the namespace have changed since `cluster` read them.

        If they have changed, earlier parts refer to shards that no longer exist.
        """
        return self._shards is not None and frozenset(self._client.renew_assignments()) != self._shards

    def operations(self) -> dict[str, int]:
        """Return the numbers of connections, of calls by name, and of records and keys received.

        The store makes no other calls.
        """
        return dict(self._client.operations)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _records(self, paths: Sequence[str]) -> Iterator[RecordBatch]:
        return read_records(self._client, paths, self._options.batch)

    def _walk(self, directories: Sequence[Directory]) -> Iterator[RecordBatch]:
        return walk_records(self._client, directories, self._options.in_flight)

    def _children(self, path: str) -> list[str]:
        return list_children(self._client, [path], self._options.in_flight)[path]

    def _tree_root_paths(self, tree: Tree) -> list[str]:
        """Return the paths of the top records of a tree.

        Raises:
            NoRootError: there is nothing at the root.
        """
        if tree is Tree.MARKS:
            return [f"{self.root}/{mark_root}" for mark_root in MARK_ROOTS]
        paths = self._children(self.root)
        if not paths:
            self._check_root()
        root_length = len(self.root) + 1
        return [path for path in paths if tree is Tree.WHOLE or tree_of(path[root_length:]) is tree]

    def _list_next_level(self, tree: Tree, level_paths: list[str]) -> dict[str, list[str]]:
        """Return a dict from paths to their children, for those ``level_paths`` whose subtrees can be cut.

        Return {} if more than `MAX_LISTED_PATHS` subtrees can be cut.
        """
        divisible_paths = [
            path for path in level_paths if DIVISIBLE_PATHS[tree].fullmatch(path[len(self.root) + 1 :])
        ]
        if len(divisible_paths) > MAX_LISTED_PATHS:
            return {}
        return list_children(self._client, divisible_paths, self._options.in_flight)

    def _check_root(self) -> None:
        if not self._exists(self.root):
            raise NoRootError(
                f"there is no record {self.root} in {self._client.name}. Use the namespace in the "
                "bookies' metadataServiceUri, or, for owners, in the brokers' metadataStoreUrl"
            )

    def _exists(self, path: str) -> bool:
        """Return whether a record exists at a path, or directly below it."""
        return any(znodes for znodes, _ in self._records([path])) or bool(self._children(path))


MAX_SAMPLED_PATHS = 8
"""Number of directories to list on each level, to estimate the ledgers. Each has at most 10,000 children."""

_LEDGER_TREES = (
    (re.compile("[0-9]{2}"), 1, (LayoutKind.HIERARCHICAL, LayoutKind.LEGACY_HIERARCHICAL)),
    (re.compile("[0-9]{3}"), 3, (LayoutKind.HIERARCHICAL, LayoutKind.LONG_HIERARCHICAL)),
)
"""Ledger trees: pattern of names below the root, number of directory levels below those, and layouts."""


def count_ledgers(uri: MetadataUri, layout: LayoutKind, options: StoreOptions) -> LedgerCount:
    """Count or estimate the ledgers below the root by listing keys, because Oxia reports no counts.

    Raises:
        StoreError: Oxia cannot be reached.
    """
    with closing(OxiaClient(uri.hosts, uri.namespace, options)) as client:
        if layout is LayoutKind.FLAT:
            return LedgerCount(sum(len(keys) for keys in _list_flat_ledger_keys(client, uri.root)), True)
        root_children = list_children(client, [uri.root], options.in_flight)[uri.root]
        estimated_ledgers, is_exact, root_length = 0.0, True, len(uri.root) + 1
        for name_pattern, level_count, layouts in _LEDGER_TREES:
            level_paths = [
                path
                for path in root_children
                if layout in layouts and name_pattern.fullmatch(path[root_length:])
            ]
            sample_weight = 1.0
            for _ in range(level_count + 1):
                if len(level_paths) > MAX_SAMPLED_PATHS:
                    is_exact = False
                    sample_weight *= len(level_paths) / MAX_SAMPLED_PATHS
                    level_paths = [
                        level_paths[sample_number * len(level_paths) // MAX_SAMPLED_PATHS]
                        for sample_number in range(MAX_SAMPLED_PATHS)
                    ]
                children = list_children(client, level_paths, options.in_flight)
                level_paths = [path for parent_path in level_paths for path in children[parent_path]]
            estimated_ledgers += sample_weight * len(level_paths)
    return LedgerCount(round(estimated_ledgers), is_exact)


def _list_flat_ledger_keys(client: OxiaClient, root: str) -> Iterator[list[bytes]]:
    """Yield the keys of the ledgers directly below the root, one list for each message."""
    key_offset = len(key_bytes(root)) + 1
    for shard in client.shards():
        for keys in client.submit(shard, ChildKeys(root)).batches():
            yield [key for key in keys if tree_of(key_text(key[key_offset:])) is Tree.LEDGERS]


def probe(host: str, options: StoreOptions) -> Server:
    """Request the shards and their leaders from one server.

    The name of the gRPC service that the server accepts shows the release of the server.
    """
    start_time = time.monotonic()
    with closing(OxiaClient([host], DEFAULT_NAMESPACE, options, sleep=lambda _: None)) as client:
        problem_text = None
        try:
            client.shards()
        except StoreError as error:
            if not client.has_answer:
                return Server(host, False, failure_reason=str(error))
            problem_text = str(error)
        version = SERVICES.get(client.service or "")
        return Server(
            host, True, (time.monotonic() - start_time) * 1000, version, failure_reason=problem_text
        )
