"""Rows of the table marks: under-replication marks, directories and locks below ``underreplication``."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from auditor.codecs.store import underreplication
from auditor.errors import DecodeError
from auditor.keys import ledger_path
from auditor.model.columns import make_schema
from auditor.model.states import MarkRowKind
from auditor.sources.metadata.store import NO_TIME, UNKNOWN_COUNT, ZnodeBatch

MARKS = make_schema(
    (
        "kind",
        pa.string(),
        "kind of the row: mark, lock, directory (of the queue, without marks) or gap (not listed)",
    ),
    ("ledger_id", pa.int64(), "the ledger; null: the name has no ledger id"),
    ("path", pa.string(), "its znode"),
    ("replicas", pa.list_(pa.string()), "for a mark: bookies that lack copies, according to its record"),
    ("owner", pa.string(), "for a lock: host of the replication worker that has the lock"),
    (
        "ctime",
        pa.int64(),
        "time when the ledger was last marked, the lock was taken, or the directory was created, ms",
    ),
    ("version", pa.int64(), "version of the znode"),
    ("mtime", pa.int64(), "time when the znode last changed, ms"),
    (
        "misplaced",
        pa.bool_(),
        "for a mark: whether it is in a branch of the queue that the server does not read",
    ),
    ("damage", pa.string(), "why the mark or lock could not be read"),
)


def mark_rows(batch: ZnodeBatch, root: str) -> pa.RecordBatch:
    """Turn a batch of znodes below ``underreplication`` into rows of `MARKS`. Damaged znodes give a row too.

    A directory gives a row only if it has no children. Some stores do not report the number of children. In
    such a store, a directory gives a row if this batch has none of its children. The directory may still
    have children in another batch.
    """
    root_length = len(root) + 1 if root != "/" else 1
    rows: list[dict[str, Any]] = []
    parent_paths = {path.rpartition("/")[0] for path in batch.paths}
    children = batch.children if batch.children is not None else np.full(len(batch.paths), UNKNOWN_COUNT)
    for path, znode_data, ctime, mtime, version, child_count in zip(
        batch.paths,
        batch.data,
        _nullable_times(batch.ctime),
        _nullable_times(batch.mtime),
        batch.version.tolist(),
        children.tolist(),
        strict=True,
    ):
        relative_path = path[root_length:]
        mark_row = {"path": path, "version": version, "mtime": mtime, "misplaced": False}
        if relative_path.startswith(ledger_path.LOCKS_PATH + "/"):
            rows.append({**mark_row, **_lock_columns(relative_path, znode_data), "ctime": ctime})
        elif (classified_path := ledger_path.classify_mark(relative_path)).kind in (
            "mark",
            "misplaced",
            "malformed",
        ):
            rows.append({**mark_row, **_mark_columns(classified_path, znode_data)})
        elif (
            classified_path.kind == "inner"
            and relative_path != ledger_path.MARKS_PATH
            and child_count <= 0
            and path not in parent_paths
        ):
            rows.append({**mark_row, "kind": MarkRowKind.DIRECTORY, "ctime": ctime})
    rows += [{"kind": MarkRowKind.GAP, "path": path, "damage": reason} for path, reason in batch.gaps]
    return pa.RecordBatch.from_pylist(rows, schema=MARKS)


def _nullable_times(times_ms: NDArray[np.int64]) -> list[int | None]:
    """Return times in ms, with None instead of a time that the store does not keep (etcd)."""
    return [None if time_ms == NO_TIME else time_ms for time_ms in times_ms.tolist()]


def _mark_columns(classified_path: ledger_path.MarkPath, znode_data: bytes) -> dict[str, Any]:
    mark_row: dict[str, Any] = {
        "kind": MarkRowKind.MARK,
        "ledger_id": classified_path.ledger_id,
        "misplaced": classified_path.kind == "misplaced",
    }
    if classified_path.kind == "malformed":
        return {**mark_row, "damage": "the name of a mark has no ledger id"}
    try:
        mark = underreplication.decode_mark(znode_data)
    except DecodeError as error:
        return {**mark_row, "damage": str(error)}
    return {**mark_row, "replicas": list(mark.replicas), "ctime": mark.ctime}


def _lock_columns(relative_path: str, znode_data: bytes) -> dict[str, Any]:
    lock_row: dict[str, Any] = {
        "kind": MarkRowKind.LOCK,
        "ledger_id": ledger_path.lock_from_path(relative_path),
    }
    if lock_row["ledger_id"] is None:
        return {**lock_row, "damage": "the name of a lock has no ledger id"}
    try:
        return {**lock_row, "owner": underreplication.decode_lock(znode_data)}
    except DecodeError as error:
        return {**lock_row, "damage": str(error)}
