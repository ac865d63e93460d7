"""The metadata store that reads a file of ``etcdctl snapshot save``, or a copy of a member's ``snap/db``.

The file is a bbolt database; ``snapshot save`` appends its SHA-256. Single pages have no checksums. If the
hash is wrong, or bytes are missing, the store still reads everything that it can. But every ledger that is
not found then counts as unknown, because a flipped bit can turn one ledger's key into another's. A ledger
whose last change lies before an unreadable page counts as unreadable (a gap). That page may have changed or
deleted the ledger.

A copy of ``snap/db`` has no hash, and lacks the changes that were only in the server's write-ahead
log. `ClusterNodes.notes` says so.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from auditor.codecs.etcd.bbolt import Meta, PageSpan, elements, read_meta
from auditor.codecs.etcd.mvcc import decode_key_value, key_spans, revisions
from auditor.errors import DecodeError, NoRootError, StoreError
from auditor.keys import etcd
from auditor.keys.ledger_tree import LayoutKind
from auditor.sources.metadata.etcd.key_ranges import (
    NO_MARKS_NOTE,
    NO_TIMES_NOTE,
    key_znode,
    nodes_by_name,
    nodes_of_root,
)
from auditor.sources.metadata.etcd.snapshot_index import EtcdSnapshotIndex, KeyKind, build_index, find_roots
from auditor.sources.metadata.other_roots import CLUSTER_MARKERS, PATH_MARKERS, other_roots_sentence
from auditor.sources.metadata.saved_files import BBOLT, SavedStore, file_kind, wrong_kind_text
from auditor.sources.metadata.store import ClusterNodes, Part, Tree, Znode, ZnodeBatch, tree_of, znode_batches
from auditor.sources.metadata.uri import MetadataUri
from auditor.sources.metadata.zookeeper.files import map_file

MAX_PART_LEAVES = 20_000
"""Largest number of leaf pages in a part. A larger part would exceed 1 MB, where Spark warns of large tasks.
"""

LEAVES_PER_READ = 1000  # leaves to decode at a time in a task

_HASH_BYTES, _HASH_CHUNK_BYTES = 32, 16 * 1024 * 1024
_SECTOR_BYTES = 512  # etcd appends the hash if the length beyond whole sectors is that of a hash
_STALE_REASON = "later changes could not be read: the record may have changed, or may be deleted"


@dataclass(frozen=True, eq=False)
class LeavesPart(Part):
    """The work of one task: leaf pages of the database, with ``change_count`` changes of keys.

    ``size`` and ``transaction`` show whether the file is still the one that was indexed. Damage follows the
    first ``at_risk_count`` changes in the file. So a later change of the same keys may be lost.
    """

    file: str
    size: int
    transaction: int
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    change_count: int
    last_changes: bytes  # a bit for every change: see `Leaves.last_changes`
    at_risk_count: int
    tree: Tree = Tree.WHOLE  # keys of other trees are skipped


@dataclass(frozen=True)
class GapsPart(Part):
    """Work of a task that reads no pages, and only reports gaps (unreadable paths) for the whole tree."""

    gaps: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class _SnapshotState:
    size: int
    meta: Meta
    index: EtcdSnapshotIndex
    nodes: dict[str, Znode]
    gaps: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]
    modified_ms: int


class EtcdSnapshotStore(SavedStore[_SnapshotState]):
    """A metadata store that reads a saved etcd in BookKeeper's own layout."""

    keeps_marks = False
    keeps_times = False
    key_kind = KeyKind.UUIDS
    note = NO_MARKS_NOTE
    markers: tuple[str, ...] = CLUSTER_MARKERS
    root_parameter = "scope"
    make_nodes = staticmethod(nodes_by_name)  # turns the cluster's own keys into ZooKeeper's names

    def __init__(self, uri: MetadataUri) -> None:
        super().__init__(uri)
        self._key_kind = self.key_kind
        self._keys = 0

    def cluster(self) -> ClusterNodes:
        """Read the file once, on the driver; see `MetadataStore.cluster`.

        ``scan_time`` is the modification time of the file. The keys of ``nodes`` are ZooKeeper's names of
        znodes (`auditor.keys.etcd.node_name`).
        """
        snapshot_state = self._load_keys(self.key_kind)
        revision_text = f"revision {snapshot_state.index.revision}"
        return ClusterNodes(
            snapshot_state.nodes,
            snapshot_state.modified_ms,
            revision_text,
            snapshot_state.gaps,
            snapshot_state.notes,
        )

    def parts(self, tree: Tree, layout: LayoutKind, part_count: int) -> list[Part]:
        """Return parts of neighbouring leaf pages. Pages without a ledger are left out.

        See `MetadataStore.parts`.
        """
        if tree is Tree.MARKS and not self.keeps_marks:
            return []
        snapshot_state = self._load_keys(KeyKind.ALL_KEYS if tree is Tree.WHOLE else self.key_kind)
        gaps: list[Part] = [GapsPart(snapshot_state.gaps)] if snapshot_state.gaps else []
        tree_to_split = tree if snapshot_state.index.kind is KeyKind.PATH_KEYS else Tree.WHOLE
        return [*gaps, *self._leaf_parts(snapshot_state, part_count, tree_to_split)]

    def read(self, part: Part) -> Iterator[ZnodeBatch]:
        """Read one part; see `MetadataStore.read`.

        Raises:
            StoreError: the snapshot is missing, or is not the file that was indexed.
        """
        if isinstance(part, GapsPart):
            yield ZnodeBatch.from_znodes([], list(part.gaps))
            return
        assert isinstance(part, LeavesPart)
        with map_file(Path(part.file)) as data:
            _require_same_file(data, part)
            is_last_change = np.unpackbits(
                np.frombuffer(part.last_changes, np.uint8), count=part.change_count
            ).astype(bool)
            change_start = 0
            for first_leaf in range(0, len(part.start), LEAVES_PER_READ):
                leaf_range = slice(first_leaf, first_leaf + LEAVES_PER_READ)
                leaf_elements = elements(data, part.start[leaf_range], part.end[leaf_range])
                if leaf_elements.error_by_leaf:
                    raise StoreError(f"{part.file} changed while it was read")
                last_change_rows = np.flatnonzero(
                    is_last_change[change_start : change_start + len(leaf_elements.leaf_index)]
                )
                keys = key_spans(data, leaf_elements)
                leaf_columns = (
                    leaf_elements.value_offsets,
                    leaf_elements.value_ends,
                    revisions(data, leaf_elements).main_revisions,
                    *keys,
                )
                change_rows = zip(
                    *(leaf_column[last_change_rows].tolist() for leaf_column in leaf_columns), strict=True
                )
                stale_risks = (last_change_rows + change_start < part.at_risk_count).tolist()
                yield from znode_batches(self._znodes_and_gaps(data, change_rows, stale_risks, part.tree))
                change_start += len(leaf_elements.leaf_index)
            if change_start != part.change_count:
                raise StoreError(f"{part.file} changed while it was read")

    def sibling_value(self, name: str) -> bytes | None:
        """Return the value of the key ``name`` beside the root, or None if there is no such key.

        This reads the whole file once more. See `SiblingValueStore.sibling_value`.
        """
        path = f"{self.root.rpartition('/')[0]}/{name}"
        try:
            with map_file(self._path) as data:
                index = build_index(data, read_meta(data), path, KeyKind.ALL_KEYS)
                value_span = index.keys.get(etcd.key_bytes(path))
                return None if value_span is None else _znode(data, value_span, None).data
        except DecodeError as damage:
            raise StoreError(f"{self._path}: {path}: {damage}") from damage

    def operations(self) -> dict[str, int]:
        """Return the number of keys read."""
        return {"keys": self._keys}

    def _znodes_and_gaps(
        self, data: memoryview, change_rows: Iterator[tuple[int, ...]], stale_risks: list[bool], tree: Tree
    ) -> Iterator[Znode | tuple[str, str]]:
        for (value_at, value_end, key_revision, key_start, key_end), has_stale_risk in zip(
            change_rows, stale_risks, strict=True
        ):
            self._keys += 1
            path = etcd.key_text(bytes(data[key_start:key_end]))
            if tree is not Tree.WHOLE and tree_of(path[len(self.root) + 1 :]) is not tree:
                continue
            try:
                znode = _znode(data, PageSpan(value_at, value_end), key_revision)
                yield (path, _STALE_REASON) if has_stale_risk else znode
            except DecodeError as damage:
                yield path, f"byte {value_at}: {damage}"

    def _leaf_parts(self, snapshot_state: _SnapshotState, part_count: int, tree: Tree) -> Iterator[Part]:
        leaf_pages = snapshot_state.index.leaves
        change_ends = np.cumsum(leaf_pages.counts)
        used_leaves = np.flatnonzero(leaf_pages.counts)
        if len(used_leaves):
            used_leaves = used_leaves[
                np.logical_or.reduceat(
                    leaf_pages.last_changes, (change_ends - leaf_pages.counts)[used_leaves]
                )
            ]
        leaves_per_part = min(MAX_PART_LEAVES, max(1, -(-len(used_leaves) // max(1, part_count))))
        for first_leaf in range(0, len(used_leaves), leaves_per_part):
            part_leaves = used_leaves[first_leaf : first_leaf + leaves_per_part]
            last_change_bits = np.concatenate(
                [
                    leaf_pages.last_changes[
                        change_ends[leaf_number] - leaf_pages.counts[leaf_number] : change_ends[leaf_number]
                    ]
                    for leaf_number in part_leaves
                ]
            )
            at_risk_count = int(
                leaf_pages.counts[part_leaves][change_ends[part_leaves] <= leaf_pages.at_risk_count].sum()
            )
            yield LeavesPart(
                str(self._path),
                snapshot_state.size,
                snapshot_state.meta.transaction,
                leaf_pages.start[part_leaves],
                leaf_pages.end[part_leaves],
                len(last_change_bits),
                np.packbits(last_change_bits).tobytes(),
                at_risk_count,
                tree,
            )

    def _load_keys(self, key_kind: KeyKind) -> _SnapshotState:
        """Return the content of the file, indexed for keys of the kind ``key_kind``.

        Read the file again if the present index is for another kind.
        """
        if self._key_kind is not key_kind:
            self._key_kind, self._content = key_kind, None
        return self._load()

    def _advice(self) -> str:
        """Return advice for a root that does not exist: the roots in the snapshot, or how to name a root."""
        with map_file(self._path) as data:
            roots = find_roots(data, self.markers)
        store = self.uri.text.partition("?")[0]
        return other_roots_sentence(store, roots, self.root_parameter) or (
            f"pass the cluster's {self.root_parameter} with ?{self.root_parameter}=/path, exactly as in "
            "BookKeeper's configuration"
        )

    def _read_files(self) -> _SnapshotState:
        key_kind = self._key_kind
        try:
            with map_file(self._path) as data:
                modified_ms = self._path.stat().st_mtime_ns // 1_000_000
                database_meta = read_meta(data)
                incompleteness_reasons, notes = _completeness_problems(data, database_meta)
                index = build_index(data, database_meta, self.root, key_kind)
                notes += index.notes
                if index.damage:
                    more_damage_note = f" (and {len(index.damage) - 1} more)" if len(index.damage) > 1 else ""
                    incompleteness_reasons.append(f"{index.damage[0]}{more_damage_note}")
                nodes, unread_gaps = _nodes(data, index)
                size = len(data)
        except DecodeError as damage:
            raise _unreadable_error(self._path, damage) from damage
        gaps = tuple(
            [(self.root, f"{self._path.name}: {reason}") for reason in incompleteness_reasons] + unread_gaps
        )
        if not (nodes or index.leaves.last_changes.any()) and not (key_kind is KeyKind.ALL_KEYS and gaps):
            first_gap_note = f" ({gaps[0][1]})" if gaps else ""
            if key_kind is KeyKind.ALL_KEYS:
                raise NoRootError(f"{self._path} has no key below {self.root}")
            raise StoreError(
                f"there is no BookKeeper cluster below {self.root} in {self._path}; "
                f"{self._advice()}{first_gap_note}"
            )
        messages = (self.note, *(f"{self._path.name}: {note}" for note in (*notes, *incompleteness_reasons)))
        return _SnapshotState(
            size, database_meta, index, self.make_nodes(self.root, nodes), gaps, messages, modified_ms
        )


class PathEtcdSnapshotStore(EtcdSnapshotStore):
    """A metadata store that reads a saved etcd with ZooKeeper's paths as keys, as in Pulsar's layout."""

    keeps_marks = True
    key_kind = KeyKind.PATH_KEYS
    note = NO_TIMES_NOTE
    markers = PATH_MARKERS
    root_parameter = "root"
    make_nodes = staticmethod(nodes_of_root)

    def has_sibling(self, name: str) -> bool:
        """Return whether any key exists below the path ``name`` beside the root; see `SiblingStore`."""
        sibling = EtcdSnapshotStore(replace(self.uri, root=f"{self.root.rpartition('/')[0]}/{name}"))
        try:
            return bool(sibling.parts(Tree.WHOLE, LayoutKind.ETCD, 1))
        except NoRootError:
            return False


def recognise(metadata_uri: MetadataUri) -> None:
    """Check that the first two pages of a file are those of a bbolt database.

    Raises:
        StoreError: the pages do not belong to a bbolt database. The message names the apparent kind of the
            file.
    """
    file = Path(metadata_uri.path)
    try:
        with map_file(file) as data:
            read_meta(data)
    except DecodeError as damage:
        raise _unreadable_error(file, damage) from damage


def _unreadable_error(file: Path, damage: DecodeError) -> StoreError:
    """Return the error for a snapshot file of which nothing can be read."""
    default_advice = "pass a file that `etcdctl snapshot save` wrote"
    if file_kind(file) == BBOLT:
        return StoreError(f"{file} is not a readable etcd snapshot: {damage}")
    return StoreError(f"{wrong_kind_text('a readable etcd snapshot', file, default_advice)} ({damage})")


def _require_same_file(data: memoryview, part: LeavesPart) -> None:
    try:
        is_same_file = len(data) == part.size and read_meta(data).transaction == part.transaction
    except DecodeError:
        is_same_file = False
    if not is_same_file:
        raise StoreError(f"{part.file} changed while it was read")


def _completeness_problems(data: memoryview, database_meta: Meta) -> tuple[list[str], list[str]]:
    """Return two lists for the report: reasons why data may be missing, and harmless notes on the file."""
    written_bytes = database_meta.pages * database_meta.page_size
    if len(data) < written_bytes:
        return [f"cut off: {len(data)} of {written_bytes} bytes are present"], []
    if len(data) % _SECTOR_BYTES != _HASH_BYTES:
        incompleteness_reasons = (
            []
            if database_meta.are_both_valid
            else ["one of its two meta pages is damaged, possibly the newer one"]
        )
        return incompleteness_reasons, [
            "a copy of etcd's database file: it has no hash, and lacks changes that were only in etcd's log"
        ]
    hashed_bytes = len(data) - _HASH_BYTES
    sha256 = hashlib.sha256()
    for offset in range(0, hashed_bytes, _HASH_CHUNK_BYTES):
        sha256.update(data[offset : min(offset + _HASH_CHUNK_BYTES, hashed_bytes)])
    if sha256.digest() != data[hashed_bytes:]:
        return ["its SHA-256 is wrong: some bytes changed, and it is unknown which"], []
    return [], []


def _nodes(data: memoryview, index: EtcdSnapshotIndex) -> tuple[list[Znode], list[tuple[str, str]]]:
    nodes: list[Znode] = []
    gaps: list[tuple[str, str]] = []
    for key, value_span in sorted(index.keys.items()):
        try:
            nodes.append(_znode(data, value_span, None))
        except DecodeError as damage:
            gaps.append((etcd.key_text(key), f"byte {value_span.start}: {damage}"))
    return nodes, gaps


def _znode(data: memoryview, value_span: PageSpan, key_revision: int | None) -> Znode:
    """Decode one change of a key into a znode. ``value_span`` is the position of the change in the file.

    ``key_revision`` is the revision in the database key of the change. It is None if this revision is not
    known.
    """
    key_value = decode_key_value(bytes(data[value_span.start : value_span.end]))
    if key_revision is not None and key_value.mod_revision != key_revision:
        raise DecodeError(
            "etcd key", 0, f"its key has revision {key_revision}, but its value has {key_value.mod_revision}"
        )
    path = etcd.key_text(key_value.key)
    return key_znode(
        path,
        key_value.value,
        key_value.create_revision,
        key_value.mod_revision,
        key_value.lease,
        key_value.version,
    )
