"""One topic of a run, from its tables ownership, owners and verdicts."""

from __future__ import annotations

import difflib
from typing import Any

from auditor.errors import RunUsageError, UsageError
from auditor.model.topic_view import OtherReference, TopicCursor, TopicLedger, TopicView, backlog_of
from auditor.runs.reader import RunReader

_COLUMNS = (
    "ledger_id", "standing", "fault", "kind", "tenant", "namespace", "topic", "cursor", "detail", "path",
    "place", "entries", "size", "offload", "borrowed", "mark_delete_ledger_id", "mark_delete_entry_id",
    "state", "damage",
)  # fmt: skip


def topic_view(run: RunReader, name: str) -> TopicView:
    """The topic ``name``: tenant/namespace/topic, with its partition, also as persistent://....

    Raises:
        UsageError: no topic of that name; with one that is like it.
        RunError: the run did not read owners (RunUsageError), or a table is broken.
    """
    import pyarrow.dataset as ds

    if "ownership" not in run.table_names():
        raise RunUsageError(f"{run.path}: it has no table ownership: no application's owners were read")
    tenant, namespace, topic = _parts(name)
    wanted = (
        (ds.field("tenant") == tenant) & (ds.field("namespace") == namespace) & (ds.field("topic") == topic)
    )
    rows = run.table("ownership", _COLUMNS, wanted).to_pylist()
    if not rows:
        raise UsageError(f"{name}: the run knows no topic of this name{_near(run, tenant, namespace, topic)}")
    topics = [row for row in rows if row["kind"] == "data"]
    path = next((row["path"] for row in topics), None) or rows[0]["path"]
    damaged = _damage_by_path(run, path)
    cursors = _cursors(rows, damaged, path)
    listed = [row for row in topics if row["ledger_id"] is not None]
    classes = _classes(run, [row["ledger_id"] for row in listed])
    return TopicView(
        f"{tenant}/{namespace}/{topic}",
        path,
        [
            _ledger(row, classes, cursors)
            for row in sorted(listed, key=lambda row: (row["place"], row["ledger_id"]))
        ],
        cursors,
        [
            OtherReference(row["kind"], row["ledger_id"], row["detail"], row["standing"], row["fault"])
            for row in sorted(rows, key=lambda row: (row["kind"], row["ledger_id"] or -1))
            if row["kind"] not in ("data", "cursor")
        ],
        damaged.get(path),
    )


def _parts(name: str) -> tuple[str, str, str]:
    parts = name.partition("://")[2].split("/", 2) if "://" in name else name.split("/", 2)
    if len(parts) != 3 or not all(parts):
        raise UsageError(f"{name}: a topic is named as tenant/namespace/topic")
    return parts[0], parts[1], parts[2]


def _near(run: RunReader, tenant: str, namespace: str, topic: str) -> str:
    """A hint at a topic of the same namespace that is called alike, or at its partitions."""
    import pyarrow.dataset as ds

    same = (ds.field("tenant") == tenant) & (ds.field("namespace") == namespace)
    names = {name for name in run.table("ownership", ["topic"], same)["topic"].to_pylist() if name}
    parts = sorted(name for name in names if name.startswith(f"{topic}-partition-"))
    near = parts[:1] or difflib.get_close_matches(topic, sorted(names), n=1)
    return f"; did you mean {tenant}/{namespace}/{near[0]}?" if near else ""


def _damage_by_path(run: RunReader, path: str) -> dict[str, str]:
    """Why values at or below a topic's znode could not be read, by path."""
    import pyarrow.dataset as ds

    rows = run.table("owners", ["path", "damage"], ds.field("status") != "ok").to_pylist()
    return {row["path"]: row["damage"] for row in rows if (row["path"] + "/").startswith(f"{path}/")}


def _cursors(rows: list[dict[str, Any]], damaged: dict[str, str], path: str) -> list[TopicCursor]:
    found = [
        TopicCursor(
            row["cursor"],
            (row["mark_delete_ledger_id"], row["mark_delete_entry_id"])
            if row["mark_delete_ledger_id"] is not None
            else None,
            row["ledger_id"],
            row["standing"],
        )
        for row in rows
        if row["kind"] == "cursor"
    ]
    found += [
        TopicCursor(below.rpartition("/")[2], None, None, None, why)
        for below, why in damaged.items()
        if below != path
    ]
    return sorted(found, key=lambda cursor: cursor.name)


def _classes(run: RunReader, ids: list[int]) -> dict[int, str]:
    import pyarrow.dataset as ds

    wanted = ds.field("ledger_id").isin(ids) & (ds.field("scope_id") == 0)
    rows = run.table("verdicts", ["ledger_id", "class"], wanted).to_pylist()
    return {row["ledger_id"]: row["class"] for row in rows}


def _ledger(row: dict[str, Any], classes: dict[int, str], cursors: list[TopicCursor]) -> TopicLedger:
    return TopicLedger(
        row["ledger_id"],
        row["standing"],
        row["fault"],
        classes.get(row["ledger_id"]),
        row["state"],
        row["entries"],
        row["size"],
        row["offload"],
        row["borrowed"],
        backlog_of(row["ledger_id"], cursors),
    )
