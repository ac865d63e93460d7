"""View of one topic of a run, from the tables ``ownership``, ``owners`` and ``verdicts``."""

import difflib
from collections.abc import Iterator
from typing import Any

from auditor.errors import RunUsageError, UsageError
from auditor.keys.pulsar import NodeKind
from auditor.model.arrow import ds, pa
from auditor.model.views import OtherReference, TopicCursor, TopicLedger, TopicView, backlog_of
from auditor.runs.owners import names_of_claim
from auditor.runs.reader import RunReader

_COLUMNS = (
    "ledger_id", "standing", "fault", "kind", "tenant", "namespace", "topic", "cursor", "detail", "path",
    "place", "entries", "size", "offload", "borrowed", "mark_delete_ledger_id", "mark_delete_entry_id",
    "state", "damage",
)  # fmt: skip
_OF_LEDGER = ("ledger_id", "standing", "fault", "state", "entries", "size", "offload", "borrowed")
_KINDS = {NodeKind.TOPIC: "data", NodeKind.CURSOR: "cursor", NodeKind.SCHEMA: "schema"}


def topic_view(run: RunReader, name: str) -> TopicView:
    """Return the view of one topic.

    ``name`` is tenant/namespace/topic, where the topic may end with its partition. persistent:// may precede
    it.

    Raises:
        UsageError: the run knows no topic of this name. The message names a similar topic.
        RunError: the run did not read owners (RunUsageError), or a table is broken.
    """
    if "ownership" not in run.table_names():
        raise RunUsageError(f"{run.path}: it has no table ownership: no application's owners were read")
    tenant, namespace, topic = _parts(name)
    of_topic = (
        (ds.field("tenant") == tenant) & (ds.field("namespace") == namespace) & (ds.field("topic") == topic)
    )
    rows = run.table("ownership", _COLUMNS, of_topic).to_pylist()
    unread = _unread(run, (tenant, namespace, topic))
    if not rows and not unread:
        raise UsageError(f"{name}: the run knows no topic of this name{topic_hint(run, name)}")
    topics = [row for row in rows if row["kind"] == "data"]
    all_rows = [*rows, *unread]
    own = [row["path"] for row in all_rows if row["kind"] == "data"]
    own += [row["path"].rpartition("/")[0] for row in all_rows if row["kind"] == "cursor"]
    cursors = _cursors(rows, unread)
    listed = [row for row in topics if row["ledger_id"] is not None]
    ids = [row["ledger_id"] for row in listed]
    classes, reaches = _values(run, "verdicts", "class", ids), _values(run, "reachability", "reach", ids)
    why = {(row["kind"], row["status"]): row["damage"] for row in unread}
    unlisted = why.get(("data", "gap"))
    # Subscriptions that were not listed may need every ledger, as one does of which nothing is known.
    readers = cursors if unlisted is None else [*cursors, TopicCursor("", None, None, None, unlisted)]
    return TopicView(
        f"{tenant}/{namespace}/{topic}",
        own[0] if own else all_rows[0]["path"],
        [
            _ledger(row, classes, reaches, readers)
            for row in sorted(listed, key=lambda row: (row["place"], row["ledger_id"]))
        ],
        cursors,
        [
            OtherReference(row["kind"], row["ledger_id"], row["detail"], row["standing"], row["fault"])
            for row in sorted(rows, key=lambda row: (row["kind"], row["ledger_id"] or -1))
            if row["kind"] not in ("data", "cursor")
        ]
        + [
            OtherReference(row["kind"], None, row["damage"], None, None)
            for row in unread
            if row["kind"] == "schema"
        ],
        why.get(("data", "unreadable")),
        unlisted,
    )


def _parts(name: str) -> tuple[str, str, str]:
    parts = name.partition("://")[2].split("/", 2) if "://" in name else name.split("/", 2)
    if len(parts) != 3 or not all(parts):
        raise UsageError(f"{name}: a topic is named as tenant/namespace/topic")
    return parts[0], parts[1], parts[2]


def topic_names(run: RunReader) -> Iterator[tuple[str, str]]:
    """Yield every topic of a run as a pair of its own name and tenant/namespace/topic.

    Topics that could not be read are included. A topic may come more than once. A run without owners has
    none.
    """
    if "ownership" not in run.table_names():
        return
    columns = ("tenant", "namespace", "topic")
    for batch in run.batches("tables/ownership", columns, ds.field("topic").is_valid()):
        for row in pa.Table.from_batches([batch]).group_by(list(columns)).aggregate([]).to_pylist():
            yield row["topic"], "/".join(row[name] for name in columns if row[name] is not None)
    for row in run.table("owners", ["path"], ds.field("status") != "ok").to_pylist():
        names = names_of_claim(row["path"])
        if names is not None and names.topic is not None:
            yield names.topic, f"{names.tenant}/{names.namespace}/{names.topic}"


def topic_hint(run: RunReader, unknown: str) -> str:
    """Return the end of a message on an unknown topic: a partition of it, or a similar topic.

    The hint is empty if its namespace has neither.
    """
    try:
        tenant, namespace, topic = _parts(unknown)
    except UsageError:
        return ""
    if "ownership" not in run.table_names():
        return ": it read no application's owners"
    same = (ds.field("tenant") == tenant) & (ds.field("namespace") == namespace)
    names = {name for name in run.table("ownership", ["topic"], same)["topic"].to_pylist() if name}
    parts = sorted(name for name in names if name.startswith(f"{topic}-partition-"))
    near = parts[:1] or difflib.get_close_matches(topic, sorted(names), n=1)
    return f"; did you mean {tenant}/{namespace}/{near[0]}?" if near else ""


def _unread(run: RunReader, topic: tuple[str, str, str]) -> list[dict[str, Any]]:
    """Return the path, status, damage, kind and cursor of each unreadable record or listing of a topic."""
    unread_values = []
    for row in run.table("owners", ["path", "status", "damage"], ds.field("status") != "ok").to_pylist():
        names = names_of_claim(row["path"])
        if names is not None and names[1:4] == topic and names.kind in _KINDS:
            unread_values.append({**row, "kind": _KINDS[names.kind], "cursor": names.cursor})
    return unread_values


def _cursors(rows: list[dict[str, Any]], unread: list[dict[str, Any]]) -> list[TopicCursor]:
    cursors = [
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
    cursors += [
        TopicCursor(row["cursor"], None, None, None, row["damage"])
        for row in unread
        if row["kind"] == "cursor"
    ]
    return sorted(cursors, key=lambda cursor: cursor.name)


def _values(run: RunReader, table: str, column: str, ids: list[int]) -> dict[int, str]:
    """Return the values of a table's column by ledger id. Empty for an older run without the table."""
    if table not in run.table_names():
        return {}
    of_ledgers = ds.field("ledger_id").isin(ids) & (ds.field("scope_id") == 0)
    rows = run.table(table, ["ledger_id", column], of_ledgers).to_pylist()
    return {row["ledger_id"]: row[column] for row in rows}


def _ledger(
    row: dict[str, Any], classes: dict[int, str], reaches: dict[int, str], cursors: list[TopicCursor]
) -> TopicLedger:
    id, same = row["ledger_id"], {name: row[name] for name in _OF_LEDGER}
    return TopicLedger(**same, klass=classes.get(id), backlog=backlog_of(id, cursors), reach=reaches.get(id))
