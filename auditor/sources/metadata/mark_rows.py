"""Rows of the table marks, from a batch of znodes below ``underreplication``: marks and locks."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from auditor.codecs.store import underreplication
from auditor.errors import DecodeError
from auditor.keys import marks
from auditor.model.columns import commented
from auditor.sources.metadata.store import ZnodeBatch

MARKS = commented(
    ("kind", pa.string(), "mark, lock or gap (not listed)"),
    ("ledger_id", pa.int64(), "the ledger; null where the name says none"),
    ("path", pa.string(), "its znode"),
    ("replicas", pa.list_(pa.string()), "mark: the bookies said to lack copies"),
    ("owner", pa.string(), "lock: the host of the worker that repairs"),
    ("ctime", pa.int64(), "mark: when it was last marked; lock: when it was taken; ms"),
    ("version", pa.int64(), "the znode's version"),
    ("mtime", pa.int64(), "when the znode last changed, ms"),
    ("misplaced", pa.bool_(), "mark: in a branch where the server does not look"),
    ("damage", pa.string(), "why it could not be read"),
)


def mark_rows(batch: ZnodeBatch, root: str) -> pa.RecordBatch:
    """Turn one batch of the tree of marks into rows of `MARKS`; inner znodes leave none, damaged ones do."""
    start = len(root) + 1 if root != "/" else 1
    rows: list[dict[str, Any]] = []
    for path, data, ctime, mtime, version in zip(
        batch.paths,
        batch.data,
        batch.ctime.tolist(),
        batch.mtime.tolist(),
        batch.version.tolist(),
        strict=True,
    ):
        below = path[start:]
        row = {"path": path, "version": version, "mtime": mtime, "misplaced": False}
        if below.startswith(marks.LOCKS + "/"):
            rows.append({**row, **_lock(below, data), "ctime": ctime})
        elif (place := marks.classify(below)).kind not in ("inner", "other"):
            rows.append({**row, **_mark(place, data)})
    rows += [{"kind": "gap", "path": path, "damage": reason} for path, reason in batch.gaps]
    return pa.RecordBatch.from_pylist(rows, schema=MARKS)


def _mark(place: marks.MarkPlace, data: bytes) -> dict[str, Any]:
    row: dict[str, Any] = {
        "kind": "mark",
        "ledger_id": place.ledger_id,
        "misplaced": place.kind == "misplaced",
    }
    if place.kind == "malformed":
        return {**row, "damage": "the name of a mark says no ledger"}
    try:
        mark = underreplication.decode_mark(data)
    except DecodeError as error:
        return {**row, "damage": str(error)}
    return {**row, "replicas": list(mark.replicas), "ctime": mark.ctime}


def _lock(below: str, data: bytes) -> dict[str, Any]:
    row: dict[str, Any] = {"kind": "lock", "ledger_id": marks.lock_from_path(below)}
    if row["ledger_id"] is None:
        return {**row, "damage": "the name of a lock says no ledger"}
    try:
        return {**row, "owner": underreplication.decode_lock(data)}
    except DecodeError as error:
        return {**row, "damage": str(error)}
