"""The metadata store that reads a running ZooKeeper. It never writes.

The Spark driver reads all znodes except ledgers, under-replication marks and locks. It also lists the top of
a tree, in order to cut the tree into parts. Each task opens a connection of its own to read its part. The
flat layout keeps all ledgers directly below the root. With this layout, each task lists the root. A part then
consists of the children of the root whose names have a certain hash.

ZooKeeper reports the number of children of each znode. So `count_ledgers` looks only at the znodes above
the leaves, level by level. If a level has more than `MAX_SAMPLED_PATHS` znodes, it extrapolates from an
evenly spread sample of this size.

A server answers the command ``srvr`` if ``4lw.commands.whitelist`` allows it, which is the default. `probe`
sends this command only without TLS. For a TLS port, `probe` only finds out whether the port can be reached.
"""

from __future__ import annotations

import re
import socket
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from auditor.errors import NoRootError, StoreError
from auditor.keys.ledger_tree import LayoutKind
from auditor.sources.clock import now_ms
from auditor.sources.metadata.credentials import read_credentials
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
from auditor.sources.metadata.uri import MetadataUri
from auditor.sources.metadata.zookeeper.client import NO_AUTH, NO_NODE, FailedRead, ZooKeeperReader
from auditor.sources.metadata.zookeeper.tree import TopZnode, TreeWatch, walk

SUBTREES_PER_PART = 4
"""Number of subtrees in each part. Their sizes are unknown, and several of them even out."""

MAX_LISTED_PATHS = 2000
"""Largest number of inner znodes that the driver lists at one level to cut a tree.

With 10,000 children each, this takes seconds.
"""


@dataclass(frozen=True)
class SubtreesPart(Part):
    """The work of one task: whole subtrees, and single znodes whose children are in other parts.

    ``tops`` has the top znodes of the subtrees, and the single znodes.
    """

    tops: tuple[TopZnode, ...]
    zxid: int = 0  # zxid of the server when the parts were cut


@dataclass(frozen=True)
class ChildSharePart(Part):
    """The work of one task: some children of the root, with everything below them.

    A child belongs to this part if the hash of its name modulo ``share_count`` is ``share_number``.
    """

    share_number: int
    share_count: int
    zxid: int = 0  # like `SubtreesPart.zxid`


class ZooKeeperStore:
    """A metadata store that reads a running ZooKeeper. ``clock`` returns the time in ms since 1970."""

    live = True
    keeps_marks = True
    keeps_times = True

    def __init__(self, uri: MetadataUri, options: StoreOptions, clock: Callable[[], int] = now_ms) -> None:
        self.uri = uri
        self.root = uri.root
        self._hosts = uri.hosts
        self._clock = clock
        self._options = options
        self._reader = ZooKeeperReader(uri.hosts, options, probe_path=uri.root)
        self._watch: TreeWatch | None = None
        self._watch_operations: Counter[str] = Counter()

    def cluster(self) -> ClusterNodes:
        """Read all znodes except ledgers, marks and locks; see `MetadataStore.cluster`.

        ZooKeeper does not tell its clients the time. So ``scan_time`` comes from this machine's clock. It
        is never earlier than the latest ctime or mtime of the znodes, which come from the servers' clocks.
        """
        # A second scan on the same connection must see everything that exists when it begins.
        self._reader.sync_with_leader()
        newest_time = self._check_root()
        gaps: list[tuple[str, str]] = []
        names = [name for name in CLUSTER_CHILDREN if name != "underreplication"]
        top_znodes = [TopZnode(f"{self.root}/{name}") for name in names] + self._replication_znodes(gaps)
        answers = self._reader.data([top_znode.path for top_znode in top_znodes])
        # Most of them are optional: `walk` must not take an absent one for a deleted one.
        top_znodes = [
            top_znode
            for top_znode, answer in zip(top_znodes, answers, strict=True)
            if not (isinstance(answer, FailedRead) and answer.code == NO_NODE)
        ]
        nodes: dict[str, Znode] = {}
        for znodes, subtree_gaps in walk(self._reader, top_znodes):
            gaps += subtree_gaps
            for znode in znodes:
                nodes[znode.path[len(self.root) + 1 :]] = znode
                newest_time = max(newest_time, znode.ctime, znode.mtime)
        return ClusterNodes(nodes, max(self._clock(), newest_time), hex(self._reader.last_zxid), tuple(gaps))

    def parts(self, tree: Tree, layout: LayoutKind, part_count: int) -> list[Part]:
        """Cut a tree into subtrees, and distribute the subtrees over ``part_count`` parts.

        See `MetadataStore.parts`.
        """
        self._reader.sync_with_leader()
        part_count = max(1, part_count)
        if tree is Tree.LEDGERS and layout is LayoutKind.FLAT:
            self._check_root()
            return [
                ChildSharePart(part_number, part_count, self._reader.last_zxid)
                for part_number in range(part_count)
            ]
        level_paths = self._tree_root_paths(tree)
        listed_znodes: list[TopZnode] = []
        while len(level_paths) < part_count * SUBTREES_PER_PART:
            children_by_path = self._list_next_level(tree, level_paths)
            if not children_by_path:
                break
            listed_znodes += [TopZnode(path, is_recursive=False) for path in children_by_path]
            level_paths = [
                child_path for path in level_paths for child_path in children_by_path.get(path, [path])
            ]
        return self._group_znodes([*map(TopZnode, level_paths), *listed_znodes], part_count)

    def _group_znodes(self, top_znodes: list[TopZnode], part_count: int) -> list[Part]:
        znode_groups = [tuple(top_znodes[group_number::part_count]) for group_number in range(part_count)]
        return [
            SubtreesPart(znode_group, self._reader.last_zxid) for znode_group in znode_groups if znode_group
        ]

    def _tree_root_paths(self, tree: Tree) -> list[str]:
        """Return the paths of the top znodes of a tree."""
        if tree is Tree.MARKS:
            return [f"{self.root}/{mark_root}" for mark_root in MARK_ROOTS]
        names = sorted(self._children(self.root))
        return [f"{self.root}/{name}" for name in names if tree is Tree.WHOLE or tree_of(name) is tree]

    def _list_next_level(self, tree: Tree, level_paths: list[str]) -> dict[str, list[str]]:
        """Return the children of those znodes in ``level_paths`` whose subtrees can be cut.

        Return {} if more than `MAX_LISTED_PATHS` subtrees can be cut.
        """
        divisible_paths = [
            path for path in level_paths if DIVISIBLE_PATHS[tree].fullmatch(path[len(self.root) + 1 :])
        ]
        if len(divisible_paths) > MAX_LISTED_PATHS:
            return {}
        children_by_path: dict[str, list[str]] = {}
        for path, answer in zip(divisible_paths, self._reader.children(divisible_paths), strict=True):
            # A znode that cannot be listed is not cut. Its task reports the reason.
            if not isinstance(answer, FailedRead):
                children_by_path[path] = [f"{path}/{name}" for name in sorted(answer)]
        return children_by_path

    def part_of_path(self, path: str) -> Part:
        """Return a part with only the znode at ``path``; see `OnePathStore.part_of_path`."""
        return SubtreesPart((TopZnode(path, is_recursive=False),), self._reader.last_zxid)

    def watch_ledgers(self) -> None:
        """Watch the ledger tree on a separate connection; see `WatchableStore.watch_ledgers`.

        A reader that connects after this call waits until its server has everything that the leader has. So
        this reader reads nothing that is older than the watch.
        """
        self._end_watch()
        self._watch = TreeWatch(self._hosts, self.root, self._options, self._reader.last_zxid)

    def changed_ledgers(self) -> LedgerChanges:
        """Return the changes since `watch_ledgers`; see `WatchableStore.changed_ledgers`."""
        if self._watch is None:
            return LedgerChanges(unknown_reason="no watch was set before the first scan")
        ledger_changes = self._watch.changed_ledgers()
        self._end_watch()
        return ledger_changes

    def parts_of_paths(self, paths: Sequence[str], part_count: int) -> list[Part]:
        """Distribute single znodes over at most ``part_count`` parts.

        See `WatchableStore.parts_of_paths`.
        """
        self._reader.sync_with_leader()
        return self._group_znodes([TopZnode(path, is_recursive=False) for path in paths], max(1, part_count))

    def read(self, part: Part) -> Iterator[ZnodeBatch]:
        """Read one part; see `MetadataStore.read`.

        Answers are accepted only from a server that has seen the zxid at which the parts were cut. If a
        server is behind this zxid, existing ledgers would look deleted.
        """
        assert isinstance(part, (ChildSharePart, SubtreesPart))
        self._reader.require_zxid(part.zxid)
        if isinstance(part, ChildSharePart):
            names = self._children(self.root)
            top_znodes = [
                TopZnode(f"{self.root}/{name}")
                for name in sorted(names)
                if tree_of(name) is Tree.LEDGERS
                and zlib.crc32(name.encode()) % part.share_count == part.share_number
            ]
        else:
            top_znodes = list(part.tops)
        for znodes, gaps in walk(self._reader, top_znodes):
            yield ZnodeBatch.from_znodes(znodes, gaps)

    def has_sibling(self, name: str) -> bool:
        """Return whether the znode ``name`` exists beside the root; see `SiblingStore.has_sibling`."""
        path = f"{self.root.rpartition('/')[0]}/{name}"
        (answer,) = self._reader.data([path])
        if not isinstance(answer, FailedRead) or answer.code == NO_AUTH:
            return True  # not readable, but it exists
        if answer.code == NO_NODE:
            return False
        raise StoreError(f"cannot find out whether {path} exists: {answer.reason}")

    def has_lost_moment(self) -> bool:
        """Return False. A scan of ZooKeeper does not depend on one moment that the server could discard."""
        return False

    def operations(self) -> dict[str, int]:
        """Return the numbers of connections, of requests of each kind, and of znodes read and listed.

        The store sends no other requests.
        """
        watch = self._watch.operations if self._watch else Counter()
        return dict(self._reader.operations + self._watch_operations + watch)

    def close(self) -> None:
        """End the session and the watch."""
        self._end_watch()
        self._reader.close()

    def _end_watch(self) -> None:
        if self._watch is not None:
            self._watch.close()
            self._watch_operations += self._watch.operations
            self._watch = None

    def _check_root(self) -> int:
        (answer,) = self._reader.data([self.root])
        if isinstance(answer, FailedRead):
            raise self._missing_root_error(answer)
        return max(answer.stat.ctime, answer.stat.mtime)

    def _children(self, path: str) -> list[str]:
        (names,) = self._reader.children([path])
        if isinstance(names, FailedRead):
            raise self._missing_root_error(names)
        return names

    def _missing_root_error(self, failed_read: FailedRead) -> StoreError:
        location = f"{self.root} in ZooKeeper at {','.join(self._hosts)}"
        if failed_read.code == NO_NODE:
            return NoRootError(f"there is no znode {location}; end the metadata URI with the cluster's root")
        if failed_read.code == NO_AUTH:
            return StoreError(
                f"not authorised to read {location}. Give this client's user or address READ "
                "permission there, or set a permitted user in the --credentials file"
            )
        return StoreError(f"cannot read {location}: {failed_read.reason}")

    def _replication_znodes(self, gaps: list[tuple[str, str]]) -> list[TopZnode]:
        """Return the znodes to read at and below ``underreplication``. Add an unreadable path to ``gaps``.

        Under-replication marks and locks are left out. Their number grows with the number of ledgers.
        """
        path = f"{self.root}/underreplication"
        (names,) = self._reader.children([path])
        if isinstance(names, FailedRead):
            if names.code != NO_NODE:
                gaps.append((path, f"its children could not be listed: {names.reason}"))
            return []
        child_names = [name for name in sorted(names) if f"underreplication/{name}" not in MARK_ROOTS]
        return [TopZnode(path, is_recursive=False), *(TopZnode(f"{path}/{name}") for name in child_names)]


MAX_SAMPLED_PATHS = 64
"""Largest number of znodes to look at on one level to count ledgers: some hundreds of reads for a tree."""

_LEDGER_TREES = (
    (re.compile("[0-9]{2}"), 1, (LayoutKind.HIERARCHICAL, LayoutKind.LEGACY_HIERARCHICAL)),
    (re.compile("[0-9]{3}"), 3, (LayoutKind.HIERARCHICAL, LayoutKind.LONG_HIERARCHICAL)),
)
"""Ledger trees: pattern of names below the root, number of inner levels below those, and layouts."""

MAX_SRVR_BYTES = 4096
"""Largest number of bytes to read of an answer to ``srvr``. A usual answer has 200."""

_VERSION_PATTERN = re.compile(r"^Zookeeper version: ([0-9][\w.]*)", re.MULTILINE)
_MODE_PATTERN = re.compile(r"^Mode: (\w+)", re.MULTILINE)


def count_ledgers(uri: MetadataUri, layout: LayoutKind, options: StoreOptions) -> LedgerCount:
    """Return the number of ledgers below the URI's root, or an estimate (``is_exact`` is then False).

    Raises:
        StoreError: ZooKeeper cannot be reached.
    """
    root = uri.root
    reader = ZooKeeperReader(uri.hosts, options, probe_path=root)

    def list_children_of(paths: Sequence[str]) -> list[str]:
        listed_paths = zip(paths, reader.children(paths), strict=True)
        return [
            f"{path}/{child_name}"
            for path, names in listed_paths
            if not isinstance(names, FailedRead)
            for child_name in sorted(names)
        ]

    def count_grandchildren(paths: Sequence[str]) -> int:
        return sum(
            answer.stat.num_children for answer in reader.data(paths) if not isinstance(answer, FailedRead)
        )

    try:
        if layout is LayoutKind.FLAT:  # the list itself could be too long for one answer
            cluster_answers = reader.data([f"{root}/{name}" for name in CLUSTER_CHILDREN])
            child_count = sum(not isinstance(answer, FailedRead) for answer in cluster_answers)
            return LedgerCount(max(0, count_grandchildren([root]) - child_count), True)
        top_znodes = list_children_of([root])
        ledgers, is_exact = 0.0, True
        for name_pattern, level_count, layouts in _LEDGER_TREES:
            level_paths = [
                path
                for path in top_znodes
                if layout in layouts and name_pattern.fullmatch(path[len(root) + 1 :])
            ]
            sample_weight = 1.0
            for level_number in range(level_count + 1):
                if len(level_paths) > MAX_SAMPLED_PATHS:
                    is_exact = False
                    sample_weight *= len(level_paths) / MAX_SAMPLED_PATHS
                    level_paths = [
                        level_paths[sample_number * len(level_paths) // MAX_SAMPLED_PATHS]
                        for sample_number in range(MAX_SAMPLED_PATHS)
                    ]
                if level_number < level_count:
                    level_paths = list_children_of(level_paths)
            ledgers += sample_weight * count_grandchildren(level_paths)
        return LedgerCount(round(ledgers), is_exact)
    finally:
        reader.close()


def probe(host: str, options: StoreOptions) -> Server:
    """Request the version and the mode of one server with the command ``srvr``."""
    uses_tls = read_credentials(options.credentials).zookeeper.tls is not None
    server_name, _, port = host.rpartition(":")
    start_time = time.monotonic()
    srvr_answer = b""
    try:
        with socket.create_connection((server_name.strip("[]"), int(port)), options.timeout_s) as connection:
            latency_ms = (time.monotonic() - start_time) * 1000
            if uses_tls:
                return Server(host, True, latency_ms, failure_reason="the command srvr is not sent over TLS")
            connection.sendall(b"srvr")
            while len(srvr_answer) < MAX_SRVR_BYTES and (received_bytes := connection.recv(MAX_SRVR_BYTES)):
                srvr_answer += received_bytes
    except OSError as error:
        if not srvr_answer:
            return Server(host, False, failure_reason=error.strerror or str(error))
    answer_text = srvr_answer.decode("utf-8", "replace")
    server_version, server_mode = _VERSION_PATTERN.search(answer_text), _MODE_PATTERN.search(answer_text)
    if server_version is None:
        refusal_reason = (
            "the server does not allow the command srvr"
            if "whitelist" in answer_text
            else "the server does not answer the command srvr"
        )
        return Server(host, True, latency_ms, failure_reason=refusal_reason)
    return Server(host, True, latency_ms, server_version[1], server_mode[1] if server_mode else None)
