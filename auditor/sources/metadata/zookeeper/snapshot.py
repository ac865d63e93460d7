"""The metadata store that reads a ZooKeeper server's own files.

The store takes the newest valid snapshot, and replays the transaction logs on it. The result is the tree
after the last transaction in the logs. A slice is a byte range of the snapshot file. Most znodes of a large
cluster have not changed since the snapshot. Tasks read these znodes from slices of the file. The Spark
driver computes all other znodes: those that the logs change, and every ephemeral znode. It passes them to
the tasks.

If a snapshot is damaged, the store skips it and takes the next older one, as ZooKeeper does.
`ClusterNodes.notes` then says so. Transactions may be missing between this older snapshot and the logs. The
store then reports the whole tree as a gap, which is a path that could not be read.

A server deletes the ephemeral znodes of a dead client only when it ends the client's session. So in these
files, a bookie can appear registered although a running server would soon remove its registration.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from auditor.codecs.byte_column import ByteColumn, TextColumn
from auditor.codecs.zookeeper.snapshot import read_record_tails, session_owners
from auditor.errors import DecodeError, NoRootError, StoreError
from auditor.keys.ledger_tree import LayoutKind
from auditor.sources.metadata.saved_files import SavedStore
from auditor.sources.metadata.store import BATCH_ZNODES, ClusterNodes, Part, Tree, Znode, ZnodeBatch, tree_of
from auditor.sources.metadata.uri import MetadataUri
from auditor.sources.metadata.zookeeper.files import map_file, snapshots_and_logs
from auditor.sources.metadata.zookeeper.snapshot_index import (
    Replay,
    Slice,
    ZooKeeperSnapshotIndex,
    build_index,
    find_certain_ledgers,
    read_logs,
    read_slice,
    rows_at_or_below,
)

SNAPSHOT_ATTEMPTS = 100
"""Largest number of snapshots to try for a valid one, as in ZooKeeper (``FileSnap.deserialize``)."""

MAX_COMPRESSED_PARTS = 4
"""Largest number of parts of a compressed snapshot: each part unpacks the whole file again."""

PART_BYTES = 512 * 1024  # Spark warns above 1 MB a task


@dataclass(frozen=True)
class SlicesPart(Part):
    """The work of one task: slices, which are byte ranges of the snapshot file.

    Each slice has a set of paths to skip. The driver computes the znodes at the skipped paths.
    """

    file: str
    tree: Tree
    slices: tuple[tuple[Slice, frozenset[str]], ...]


@dataclass(frozen=True)
class ZnodesPart(Part):
    """The work of one task: znodes that the driver has computed, and unreadable paths (gaps).

    A gap is a path with the reason. It concerns the whole tree.
    """

    znodes: tuple[Znode, ...]
    gaps: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class _SnapshotState:
    """The data that the driver keeps in memory. Ledgers that the logs do not change are not part of it.

    ``znode_by_path`` has the znodes that the driver has computed, by path.
    """

    file: Path
    index: ZooKeeperSnapshotIndex
    replay: Replay
    znode_by_path: dict[str, Znode]
    gaps: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]


class ZooKeeperSnapshotStore(SavedStore[_SnapshotState]):
    """A metadata store that reads the ``version-2`` directory of a ZooKeeper server."""

    keeps_marks = True
    keeps_times = True

    def __init__(self, uri: MetadataUri) -> None:
        super().__init__(uri)
        self._record_count = 0

    def cluster(self) -> ClusterNodes:
        """Read the files once, on the driver; see `MetadataStore.cluster`."""
        snapshot_state = self._load()
        name_start = len(self.root) + 1
        nodes = {path[name_start:]: znode for path, znode in snapshot_state.index.own_znodes.items()}
        nodes |= {
            path[name_start:]: znode
            for path, znode in snapshot_state.znode_by_path.items()
            if tree_of(path[name_start:]) is None
        }
        new_children = snapshot_state.replay.new_children()
        # The logs created some of the children, and also every znode that the snapshot lacks.
        nodes = {
            name: znode._replace(made=max(znode.made, 0) + new_children[znode.path])
            for name, znode in nodes.items()
        }
        change_times = [max(znode.ctime, znode.mtime) for znode in snapshot_state.znode_by_path.values()]
        scan_time = max([snapshot_state.index.newest_time, *change_times])
        return ClusterNodes(
            nodes, scan_time, hex(snapshot_state.replay.zxid), snapshot_state.gaps, snapshot_state.notes
        )

    def parts(self, tree: Tree, layout: LayoutKind, part_count: int) -> list[Part]:
        """Return parts of neighbouring slices (byte ranges), and parts of znodes that the driver computed.

        See `MetadataStore.parts`.
        """
        snapshot_state = self._load()
        slice_parts = [
            (slice_, base_paths)
            for (slice_, trees), base_paths in zip(
                snapshot_state.index.slices, snapshot_state.index.base_paths_by_slice, strict=True
            )
            if tree in trees
        ]
        if snapshot_state.file.suffix in (".gz", ".snappy"):
            part_count = min(part_count, MAX_COMPRESSED_PARTS)
        slices_per_part = max(1, -(-len(slice_parts) // max(1, part_count)))
        file = str(snapshot_state.file)
        parts: list[Part] = [
            SlicesPart(file, tree, tuple(slice_parts[slice_start : slice_start + slices_per_part]))
            for slice_start in range(0, len(slice_parts), slices_per_part)
        ]
        return parts + self._znode_parts(snapshot_state, tree)

    def read(self, part: Part) -> Iterator[ZnodeBatch]:
        """Read one part; see `MetadataStore.read`.

        Raises:
            StoreError: the snapshot is missing, or is not the file that was indexed.
        """
        if isinstance(part, ZnodesPart):
            yield ZnodeBatch.from_znodes(list(part.znodes), list(part.gaps))
            return
        assert isinstance(part, SlicesPart)
        try:
            with map_file(Path(part.file)) as data:
                for slice_, base_paths in part.slices:
                    yield from self._read_slice(data, slice_, base_paths, part.tree)
        except DecodeError as damage:
            raise StoreError(f"{part.file} changed while it was read: {damage}") from damage

    def has_sibling(self, name: str) -> bool:
        """Return whether the znode ``name`` exists beside the root after the last transaction.

        See `SiblingStore.has_sibling`.
        """
        return self.sibling_value(name) is not None

    def sibling_value(self, name: str) -> bytes | None:
        """Return the data of the znode ``name`` beside the root after the last transaction.

        See `SiblingValueStore.sibling_value`.
        """
        snapshot_state = self._load()
        return (snapshot_state.index.siblings | snapshot_state.replay.siblings).get(name)

    def operations(self) -> dict[str, int]:
        """Return the number of records that tasks read from the snapshot file, under the key ``records``."""
        return {"records": self._record_count}

    def _read_files(self) -> _SnapshotState:
        snapshots, logs = snapshots_and_logs(self._path)
        notes: list[str] = []
        for zxid, file in snapshots[:SNAPSHOT_ATTEMPTS]:
            replay = read_logs(logs, zxid, self.root)
            try:
                with map_file(file) as data:
                    index = build_index(data, self.root, replay.paths())
            except DecodeError as damage:
                notes.append(f"{file.name} was skipped: {damage}")
                continue
            state_by_path = replay.apply_to(index.base_znodes)
            if not (index.has_root or state_by_path.get(self.root)):
                raise NoRootError(f"{file} has no znode {self.root}; pass the right root with ?root=/path")
            state_by_path.pop(self.root, None)
            existing_znodes = {
                path: znode
                for path, znode in state_by_path.items()
                if znode and path.startswith(self.root + "/")
            }
            if not logs:
                notes.append(f"{file.name} has no transaction logs next to it")
            gaps = [(self.root, reason) for reason in replay.missing_reasons]
            gaps += [
                (self.root, f"{file.name}: the path at byte {offset} is not UTF-8")
                for offset in index.unreadable_offsets
            ]
            return _SnapshotState(file, index, replay, existing_znodes, tuple(gaps), (*notes, *replay.notes))
        raise StoreError(f"no valid snapshot in {self._path}: {'; '.join(notes)}")

    def _znode_parts(self, snapshot_state: _SnapshotState, tree: Tree) -> list[Part]:
        name_start = len(self.root) + 1
        parts: list[Part] = []
        part_znodes: list[Znode] = []
        part_bytes = 0
        for path, znode in sorted(snapshot_state.znode_by_path.items()):
            if tree is Tree.WHOLE or tree_of(path[name_start:]) is tree:
                part_znodes.append(znode)
                part_bytes += len(path) + len(znode.data) + 64
            if part_bytes >= PART_BYTES:
                parts.append(ZnodesPart(tuple(part_znodes), ()))
                part_znodes, part_bytes = [], 0
        if part_znodes or snapshot_state.gaps:
            parts.append(ZnodesPart(tuple(part_znodes), snapshot_state.gaps))
        return parts

    def _read_slice(
        self, data: memoryview, slice_: Slice, base_paths: frozenset[str], tree: Tree
    ) -> Iterator[ZnodeBatch]:
        record_bounds = read_slice(data, slice_)
        self._record_count += slice_.count
        rows = rows_at_or_below(data, record_bounds, self.root)
        is_ledger = find_certain_ledgers(data, record_bounds, rows, self.root)
        if tree is Tree.WHOLE:
            is_ledger = np.ones(len(rows), np.bool_)
        elif tree is not Tree.LEDGERS:
            rows, is_ledger = rows[~is_ledger], is_ledger[~is_ledger]
        name_start = len(self.root) + 1
        base_path_bytes = [path.encode() for path in base_paths]
        for chunk_start in range(0, len(rows), BATCH_ZNODES):
            chunk_rows, is_in_tree = (
                rows[chunk_start : chunk_start + BATCH_ZNODES],
                is_ledger[chunk_start : chunk_start + BATCH_ZNODES].copy(),
            )
            # Nothing is copied: the batch is a view of the file.
            chunk_offset, chunk_end = (
                int(record_bounds.path_offsets[chunk_rows[0]]),
                int(record_bounds.tail_starts[chunk_rows[-1]]),
            )
            file_octets = np.frombuffer(data[chunk_offset:chunk_end], np.uint8)
            paths = ByteColumn(
                file_octets,
                record_bounds.path_offsets[chunk_rows] - chunk_offset,
                record_bounds.path_ends[chunk_rows] - chunk_offset,
            )
            # A path that is not UTF-8 cannot be a ledger's. The batch keeps it, to count as malformed.
            path_texts = TextColumn(paths)
            for row in np.flatnonzero(~is_in_tree).tolist():
                is_in_tree[row] = (
                    len(path := path_texts[row]) > name_start and tree_of(path[name_start:]) is tree
                )
            if base_path_bytes:
                is_in_tree &= ~paths.are_members(base_path_bytes)
            if not is_in_tree.any():
                continue
            chunk_rows = chunk_rows[is_in_tree]
            stat_columns = read_record_tails(data, record_bounds.tail_starts[chunk_rows])
            yield ZnodeBatch(
                TextColumn(paths.take_rows(np.flatnonzero(is_in_tree))),
                ByteColumn(
                    file_octets,
                    record_bounds.data_starts[chunk_rows] - chunk_offset,
                    record_bounds.tail_starts[chunk_rows] - chunk_offset,
                ),
                stat_columns["mzxid"].astype(np.int64),
                stat_columns["ctime"].astype(np.int64),
                stat_columns["mtime"].astype(np.int64),
                stat_columns["version"].astype(np.int64),
                session_owners(stat_columns),
            )
