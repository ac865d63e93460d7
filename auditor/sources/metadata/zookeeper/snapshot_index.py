"""Index of a ZooKeeper snapshot, and the replay of the transaction logs on it.

One pass on the driver finds the slices of the snapshot, and the few znodes that the driver needs. A slice
is a byte range of the snapshot file. The pass also verifies the file: every record fits, the end mark is
present, and the checksums are right. So the tasks later read a file without damage.

The replay then applies the transaction logs. A snapshot is fuzzy: the server goes on working while it
writes the file. So the file may already contain effects of later transactions. For this reason, the replay
skips an operation if the znode in the snapshot is newer than the operation. It also skips the creation of a
znode that exists already. The deletion or the change of a missing znode does nothing. ZooKeeper is equally
tolerant (``DataTree.processTxn``), except that it applies older changes again. Before 3.6, the log record
for the end of a session lists no paths. If another znode has taken the place of an ephemeral one, ZooKeeper
can then keep old bytes. This replay does not keep them.

It follows only znodes below the root, and is meant for the transactions between two snapshots.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from auditor.codecs.byte_column import ByteColumn, have_prefix
from auditor.codecs.zookeeper.snapshot import (
    RecordOffsets,
    check_checksums,
    find_nodes,
    find_record_offsets,
    read_record_tails,
    session_owners,
)
from auditor.codecs.zookeeper.txnlog import (
    CloseSession,
    Create,
    CutTail,
    Delete,
    Operation,
    Transaction,
    read_log,
)
from auditor.errors import DecodeError, StoreError
from auditor.keys import ledger_path
from auditor.sources.metadata.store import Tree, Znode, tree_of
from auditor.sources.metadata.zookeeper.files import ZxidFile, map_file

SLICE_RECORDS = 20_000
SLICE_BYTES = 64 * 1024 * 1024
MAX_SIBLING_NAME_BYTES = 64
"""Longest name of a znode beside the root that the index records, in bytes."""

_ZERO_BYTE, _NINE_BYTE, _L_BYTE = b"09L"
_SCOPES_PREFIX = f"{ledger_path.SCOPES_DIRECTORY}/".encode()


@dataclass(frozen=True, slots=True)
class Slice:
    """A byte range of the snapshot with ``count`` consecutive records. It begins at byte ``offset``."""

    offset: int
    count: int


@dataclass(slots=True)
class ZooKeeperSnapshotIndex:
    """The result of one pass over a snapshot, for the znodes below a root.

    Attributes:
        slices: byte ranges of the snapshot, each with the trees that have znodes in it.
        base_znodes: the snapshot's znodes at the paths that the logs name, and all its ephemeral znodes, by
            path. The replay of the logs starts from these znodes.
        base_paths_by_slice: for each slice, the paths of those ``base_znodes`` that are in the slice.
        own_znodes: by path, the znodes outside ``base_znodes`` that `tree_of` gives no tree: no ledgers,
            under-replication marks or locks.
        newest_time: the largest ctime or mtime of all znodes that are not in ``base_znodes``, in ms.
    """

    slices: list[tuple[Slice, frozenset[Tree]]] = field(default_factory=list)
    base_znodes: dict[str, Znode] = field(default_factory=dict)
    base_paths_by_slice: list[frozenset[str]] = field(default_factory=list)
    own_znodes: dict[str, Znode] = field(default_factory=dict)
    newest_time: int = 0
    has_root: bool = False
    unreadable_offsets: list[int] = field(default_factory=list)  # offsets of records whose path is not UTF-8
    siblings: dict[str, bytes] = field(default_factory=dict)  # data of znodes beside the root, by name


def build_index(data: memoryview, root: str, changed_paths: set[str]) -> ZooKeeperSnapshotIndex:
    """Index a whole snapshot. ``changed_paths`` are the paths that the transaction logs name.

    Raises:
        DecodeError: the snapshot is damaged or cut off. The caller must not use any part of it.
    """
    index = ZooKeeperSnapshotIndex()
    changed_path_bytes = {path.encode() for path in changed_paths}
    offset, has_end_mark = find_nodes(data), False
    while not has_end_mark:
        record_bounds = find_record_offsets(data, offset, SLICE_RECORDS, SLICE_BYTES)
        if len(record_bounds.data_starts):
            _add_slice(index, data, record_bounds, root, changed_path_bytes)
        offset, has_end_mark = record_bounds.next_record, record_bounds.has_end_mark
    check_checksums(data, offset)
    return index


def read_znodes(
    data: memoryview, record_bounds: RecordOffsets, rows: NDArray[np.int64]
) -> Iterator[Znode | int]:
    """Yield the records at ``rows`` as znodes.

    For a record whose path is not UTF-8, yield the offset of the record instead.
    """
    path_offsets = record_bounds.path_offsets[rows].tolist()
    data_offsets = record_bounds.data_starts[rows].tolist()
    stat_offsets = record_bounds.tail_starts[rows]
    stat_columns = read_record_tails(data, stat_offsets)
    # On disk cversion counts creations of children alone.
    stat_names = ("czxid", "mzxid", "ctime", "mtime", "version")
    number_columns = (
        *(stat_columns[name] for name in stat_names),
        session_owners(stat_columns),
        stat_columns["cversion"],
    )
    stat_rows = zip(*(number_column.tolist() for number_column in number_columns), strict=True)
    for path_offset, data_offset, data_end, stat_row in zip(
        path_offsets, data_offsets, stat_offsets.tolist(), stat_rows, strict=True
    ):
        try:
            path_text = str(data[path_offset : data_offset - 4], "utf-8")
        except UnicodeDecodeError:
            yield path_offset - 4
            continue
        yield Znode(path_text, bytes(data[data_offset:data_end]), *stat_row)


def rows_at_or_below(data: memoryview, record_bounds: RecordOffsets, root: str) -> NDArray[np.int64]:
    """Return the positions of the records whose path is ``root`` or is below ``root``."""
    file_bytes, root_bytes = np.frombuffer(data, np.uint8), root.encode()
    path_offsets, path_ends = record_bounds.path_offsets, record_bounds.path_ends
    rows = np.flatnonzero(
        (path_ends - path_offsets >= len(root_bytes)) & have_prefix(file_bytes, path_offsets, root_bytes)
    )
    suffix_offsets = path_offsets[rows] + len(root_bytes)
    # Check the next byte too: /ledgers2 is not below /ledgers. Every record has bytes after its path.
    rows_below: NDArray[np.int64] = rows[
        (suffix_offsets == path_ends[rows]) | (file_bytes[suffix_offsets] == 0x2F)
    ]
    return rows_below


def find_certain_ledgers(
    data: memoryview, record_bounds: RecordOffsets, rows: NDArray[np.int64], root: str
) -> NDArray[np.bool_]:
    """Return a mask of ``rows``, which is True for records that certainly belong to the ledger tree.

    The path of such a record below ``root`` begins with a digit, with an L and a digit, or with
    ``scopes/``. Callers classify the few records outside the mask one by one.
    """
    file_bytes = np.frombuffer(data, np.uint8)
    name_starts = record_bounds.path_offsets[rows] + len(root.encode()) + 1
    name_ends = record_bounds.path_ends[rows]
    first_bytes, second_bytes = file_bytes[name_starts], file_bytes[name_starts + 1]
    is_digit = (first_bytes >= _ZERO_BYTE) & (first_bytes <= _NINE_BYTE)
    is_ledger: NDArray[np.bool_] = is_digit | (
        (first_bytes == _L_BYTE) & (second_bytes >= _ZERO_BYTE) & (second_bytes <= _NINE_BYTE)
    )
    unmatched_rows = np.flatnonzero(~is_ledger & (name_ends - name_starts > len(_SCOPES_PREFIX)))
    is_ledger[unmatched_rows] = have_prefix(file_bytes, name_starts[unmatched_rows], _SCOPES_PREFIX)
    return is_ledger & (name_starts < name_ends)


def _sibling_values(
    data: memoryview, record_bounds: RecordOffsets, root: str, rows: NDArray[np.int64]
) -> dict[str, bytes]:
    """Return the data of the znodes beside the root, by name.

    ``rows`` are the positions of the records at or below the root. These records are skipped.
    """
    parent_bytes = root.rpartition("/")[0].encode() + b"/"
    is_outside_root = np.ones(len(record_bounds.path_offsets), np.bool_)
    is_outside_root[rows] = False
    path_lengths = record_bounds.path_ends - record_bounds.path_offsets
    sibling_rows = np.flatnonzero(
        is_outside_root
        & (path_lengths > len(parent_bytes))
        & (path_lengths <= len(parent_bytes) + MAX_SIBLING_NAME_BYTES)
    )
    siblings: dict[str, bytes] = {}
    for row in sibling_rows.tolist():
        path = bytes(data[record_bounds.path_offsets[row] : record_bounds.path_ends[row]])
        name = path[len(parent_bytes) :]
        if path.startswith(parent_bytes) and b"/" not in name:
            sibling_value = bytes(data[record_bounds.data_starts[row] : record_bounds.tail_starts[row]])
            siblings[name.decode(errors="replace")] = sibling_value
    return siblings


def _add_slice(
    index: ZooKeeperSnapshotIndex,
    data: memoryview,
    record_bounds: RecordOffsets,
    root: str,
    changed_paths: set[bytes],
) -> None:
    rows = rows_at_or_below(data, record_bounds, root)
    index.siblings |= _sibling_values(data, record_bounds, root, rows)
    stat_columns = read_record_tails(data, record_bounds.tail_starts[rows])
    is_ledger = find_certain_ledgers(data, record_bounds, rows, root)
    is_in_base = session_owners(stat_columns) != 0
    if changed_paths:
        paths = ByteColumn(
            np.frombuffer(data, np.uint8), record_bounds.path_offsets[rows], record_bounds.path_ends[rows]
        )
        is_in_base |= paths.are_members(changed_paths)
    trees = {Tree.LEDGERS} if bool((is_ledger & ~is_in_base).any()) else set()
    if not is_in_base.all():
        trees.add(Tree.WHOLE)
    slice_base_paths: set[str] = set()
    decoded_rows = np.flatnonzero(~is_ledger | is_in_base)
    for is_base_znode, znode in zip(
        is_in_base[decoded_rows].tolist(), read_znodes(data, record_bounds, rows[decoded_rows]), strict=True
    ):
        if isinstance(znode, int):
            index.unreadable_offsets.append(znode)
            continue
        tree = tree_of(znode.path[len(root) + 1 :])
        if znode.path == root:
            index.has_root = True
        if is_base_znode:
            index.base_znodes[znode.path] = znode
            slice_base_paths.add(znode.path)
        elif tree is not None and znode.path != root:
            trees.add(tree)
        elif tree is None:
            index.own_znodes[znode.path] = znode
    newest_times = np.maximum(stat_columns["ctime"], stat_columns["mtime"])[~is_in_base]
    index.newest_time = (
        max(index.newest_time, int(newest_times.max())) if newest_times.size else index.newest_time
    )
    index.slices.append((Slice(record_bounds.first_record, len(record_bounds.data_starts)), frozenset(trees)))
    index.base_paths_by_slice.append(frozenset(slice_base_paths))


def read_slice(data: memoryview, slice_: Slice) -> RecordOffsets:
    """Find the records in one byte range (slice) again, in the task that reads the slice.

    Raises:
        DecodeError: the file is not the one that was indexed.
    """
    record_bounds = find_record_offsets(data, slice_.offset, slice_.count, len(data))
    if len(record_bounds.data_starts) != slice_.count:
        reason = f"{slice_.count} records expected, {len(record_bounds.data_starts)} found"
        raise DecodeError("ZooKeeper snapshot", slice_.offset, reason)
    return record_bounds


MAX_REPLAYED_OPERATIONS = 5_000_000
"""Largest number of operations to replay. A server writes a new snapshot after some 100,000 (snapCount)."""

_EPOCH_BITS = 32


@dataclass(slots=True)
class Replay:
    """The operations below a root in the transaction logs, after the snapshot's zxid, and faults of the logs.

    ``zxid`` is the zxid of the last transaction. ``missing_reasons`` has the reasons why transactions may
    be missing. It is empty if there is no hole in the sequence of transactions. ``notes`` has harmless
    facts about the logs.
    """

    zxid: int
    operations: list[tuple[int, int, Operation]] = field(default_factory=list)  # zxid, time in ms, operation
    missing_reasons: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    siblings: dict[str, bytes | None] = field(default_factory=dict)  # the same by name; None: it was deleted

    def paths(self) -> set[str]:
        """Return every path that an operation names."""
        paths = {
            operation.path for _, _, operation in self.operations if not isinstance(operation, CloseSession)
        }
        return paths.union(
            *(operation.paths for _, _, operation in self.operations if isinstance(operation, CloseSession))
        )

    def new_children(self) -> Counter[str]:
        """Return, for each path, the number of children that the operations create below it.

        A fuzzy snapshot may already contain some of these children.
        """
        created_paths = (
            operation.path for _, _, operation in self.operations if isinstance(operation, Create)
        )
        return Counter(path.rpartition("/")[0] for path in created_paths)

    def apply_to(self, base_znodes: dict[str, Znode]) -> dict[str, Znode | None]:
        """Return the znodes after the last operation, by path. The value is None for a deleted znode.

        Args:
            base_znodes: the snapshot's znodes at the paths that operations name, and every ephemeral znode.
        """
        state_by_path: dict[str, Znode | None] = dict(base_znodes)
        paths_by_session: defaultdict[int, set[str]] = defaultdict(set)
        for znode in base_znodes.values():
            if znode.ephemeral_owner:
                paths_by_session[znode.ephemeral_owner].add(znode.path)
        for zxid, transaction_time, operation in self.operations:
            if isinstance(operation, CloseSession):
                # Its paths are in the record (3.6 and later) or known from its znodes; ZooKeeper takes both.
                for path in paths_by_session.pop(operation.session, set()).union(operation.paths):
                    if (current_znode := state_by_path.get(path)) is None or current_znode.mzxid <= zxid:
                        state_by_path[path] = None
                continue
            current_znode = state_by_path.get(operation.path)
            if isinstance(operation, Create):
                if current_znode is None:
                    state_by_path[operation.path] = Znode(
                        operation.path,
                        operation.data,
                        zxid,
                        zxid,
                        transaction_time,
                        transaction_time,
                        0,
                        operation.owner,
                    )
                    if operation.owner:
                        paths_by_session[operation.owner].add(operation.path)
            elif current_znode is not None and current_znode.mzxid <= zxid:
                if isinstance(operation, Delete):
                    paths_by_session[current_znode.ephemeral_owner].discard(operation.path)
                    state_by_path[operation.path] = None
                else:
                    state_by_path[operation.path] = current_znode._replace(
                        data=operation.data, version=operation.version, mzxid=zxid, mtime=transaction_time
                    )
        return state_by_path


def read_logs(logs: Iterable[ZxidFile], minimum_zxid: int, root: str) -> Replay:
    """Read the operations below ``root`` of all transactions after the zxid ``minimum_zxid``.

    Args:
        logs: transaction logs in ascending order of their zxids.
        minimum_zxid: zxid of the snapshot.
        root: absolute path.

    Raises:
        StoreError: there are more operations than `MAX_REPLAYED_OPERATIONS`, or a log cannot be opened.
    """
    replay = Replay(minimum_zxid)
    logs = list(logs)
    earlier_logs = [log for log in logs if log.zxid <= minimum_zxid]
    for log in earlier_logs[-1:] + [log for log in logs if log.zxid > minimum_zxid]:
        try:
            with map_file(log.path) as data:
                for record in read_log(data):
                    if isinstance(record, CutTail):
                        replay.notes.append(f"{log.path.name} ends at byte {record.offset}: {record.reason}")
                    elif record.zxid > replay.zxid:  # a transaction can be in two logs
                        _add_record(replay, record, root, log)
        except DecodeError as damage:
            replay.missing_reasons.append(f"{log.path.name}: {damage}")
    return replay


def _add_record(replay: Replay, transaction: Transaction, root: str, log: ZxidFile) -> None:
    zxid = transaction.zxid
    # Within an epoch zxids have no holes; a new epoch begins anew, at 1.
    if zxid >> _EPOCH_BITS == replay.zxid >> _EPOCH_BITS and zxid != replay.zxid + 1:
        replay.missing_reasons.append(
            f"{log.path.name}: transactions {replay.zxid + 1:#x} to {zxid - 1:#x} are missing"
        )
    replay.zxid = zxid
    for operation in transaction.operations:
        if _is_in_tree(operation, root):
            replay.operations.append((zxid, transaction.time, operation))
        elif (
            not isinstance(operation, CloseSession)
            and operation.path.rpartition("/")[0] == root.rpartition("/")[0]
        ):
            replay.siblings[operation.path.rpartition("/")[2]] = (
                None if isinstance(operation, Delete) else operation.data
            )
    if len(replay.operations) > MAX_REPLAYED_OPERATIONS:
        raise StoreError(
            f"more than {MAX_REPLAYED_OPERATIONS} operations to replay up to {log.path}; "
            "add a newer snapshot of the server"
        )


def _is_in_tree(operation: Operation, root: str) -> bool:
    return (
        isinstance(operation, CloseSession) or operation.path == root or operation.path.startswith(root + "/")
    )
