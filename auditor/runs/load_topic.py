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
_COPIED_COLUMNS = ("ledger_id", "fault", "state", "entries", "size", "offload")
_KIND_TEXTS = {NodeKind.TOPIC: "data", NodeKind.CURSOR: "cursor", NodeKind.SCHEMA: "schema"}


def topic_view(run: RunReader, name: str) -> TopicView:
    """Return the view of one topic.

    ``name`` is tenant/namespace/topic. The topic may end with its partition, and the name may begin with
    persistent://.

    Raises:
        UsageError: the run knows no topic of this name. The message names a similar topic.
        RunError: the run did not read owners (RunUsageError), or a table is broken.
    """
    if "ownership" not in run.table_names():
        raise RunUsageError(f"{run.path}: no owners of ledgers were read; audit with --owners")
    tenant, namespace, topic = _name_parts(name)
    is_of_topic = (
        (ds.field("tenant") == tenant) & (ds.field("namespace") == namespace) & (ds.field("topic") == topic)
    )
    rows = run.table("ownership", _COLUMNS, is_of_topic).to_pylist()
    unread_rows = _unread_rows(run, (tenant, namespace, topic))
    if not rows and not unread_rows:
        raise UsageError(f"{name}: the run has no topic with this name{topic_hint(run, name)}")
    topics = [row for row in rows if row["kind"] == "data"]
    owner_rows = [*rows, *unread_rows]
    topic_paths = [row["path"] for row in owner_rows if row["kind"] == "data"]
    topic_paths += [row["path"].rpartition("/")[0] for row in owner_rows if row["kind"] == "cursor"]
    cursors = _topic_cursors(rows, unread_rows)
    ledger_rows = [row for row in topics if row["ledger_id"] is not None]
    ledger_ids = [row["ledger_id"] for row in ledger_rows]
    class_by_ledger, reachability_by_ledger = (
        _values_by_ledger(run, "verdicts", "class", ledger_ids),
        _values_by_ledger(run, "reachability", "reach", ledger_ids),
    )
    damage_by_kind = {(row["kind"], row["status"]): row["damage"] for row in unread_rows}
    listing_damage = damage_by_kind.get(("data", "gap"))
    # Subscriptions that were not listed may need every ledger, as one does of which nothing is known.
    topic_readers = (
        cursors if listing_damage is None else [*cursors, TopicCursor("", None, None, None, listing_damage)]
    )
    return TopicView(
        f"{tenant}/{namespace}/{topic}",
        topic_paths[0] if topic_paths else owner_rows[0]["path"],
        [
            _topic_ledger(row, class_by_ledger, reachability_by_ledger, topic_readers)
            for row in sorted(ledger_rows, key=lambda row: (row["place"], row["ledger_id"]))
        ],
        cursors,
        [
            OtherReference(row["kind"], row["ledger_id"], row["detail"], row["standing"], row["fault"])
            for row in sorted(rows, key=lambda row: (row["kind"], row["ledger_id"] or -1))
            if row["kind"] not in ("data", "cursor")
        ]
        + [
            OtherReference(row["kind"], None, row["damage"], None, None)
            for row in unread_rows
            if row["kind"] == "schema"
        ],
        damage_by_kind.get(("data", "unreadable")),
        listing_damage,
    )


def _name_parts(name: str) -> tuple[str, str, str]:
    name_parts = name.partition("://")[2].split("/", 2) if "://" in name else name.split("/", 2)
    if len(name_parts) != 3 or not all(name_parts):
        raise UsageError(f"{name}: a topic name must have the form tenant/namespace/topic")
    return name_parts[0], name_parts[1], name_parts[2]


def topic_names(run: RunReader) -> Iterator[tuple[str, str]]:
    """Yield every topic of a run as a pair of its local name and tenant/namespace/topic.

    Topics that could not be read are included. A topic may come more than once. If the run read no owners,
    nothing is yielded.
    """
    if "ownership" not in run.table_names():
        return
    name_columns = ("tenant", "namespace", "topic")
    for batch in run.batches("tables/ownership", name_columns, ds.field("topic").is_valid()):
        for row in pa.Table.from_batches([batch]).group_by(list(name_columns)).aggregate([]).to_pylist():
            yield row["topic"], "/".join(row[name] for name in name_columns if row[name] is not None)
    for row in run.table("owners", ["path"], ds.field("status") != "ok").to_pylist():
        names = names_of_claim(row["path"])
        if names is not None and names.topic is not None:
            yield names.topic, f"{names.tenant}/{names.namespace}/{names.topic}"


def topic_hint(run: RunReader, unknown_name: str) -> str:
    """Return the end of a message on an unknown topic.

    It suggests a partition of the topic, or else a similar topic in the same namespace. It is empty if
    there is neither.
    """
    try:
        tenant, namespace, topic = _name_parts(unknown_name)
    except UsageError:
        return ""
    if "ownership" not in run.table_names():
        return ": the run did not read the owners of any application"
    is_in_namespace = (ds.field("tenant") == tenant) & (ds.field("namespace") == namespace)
    names = {name for name in run.table("ownership", ["topic"], is_in_namespace)["topic"].to_pylist() if name}
    name_parts = sorted(name for name in names if name.startswith(f"{topic}-partition-"))
    similar_names = name_parts[:1] or difflib.get_close_matches(topic, sorted(names), n=1)
    return f"; did you mean {tenant}/{namespace}/{similar_names[0]}?" if similar_names else ""


def _unread_rows(run: RunReader, topic: tuple[str, str, str]) -> list[dict[str, Any]]:
    """Return the path, status, damage, kind and cursor of each unreadable record or listing of a topic."""
    unread_object_rows = []
    for row in run.table("owners", ["path", "status", "damage"], ds.field("status") != "ok").to_pylist():
        names = names_of_claim(row["path"])
        if names is not None and names[1:4] == topic and names.kind in _KIND_TEXTS:
            unread_object_rows.append({**row, "kind": _KIND_TEXTS[names.kind], "cursor": names.cursor})
    return unread_object_rows


def _topic_cursors(rows: list[dict[str, Any]], unread_rows: list[dict[str, Any]]) -> list[TopicCursor]:
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
        for row in unread_rows
        if row["kind"] == "cursor"
    ]
    return sorted(cursors, key=lambda cursor: cursor.name)


def _values_by_ledger(run: RunReader, table: str, column_name: str, ledger_ids: list[int]) -> dict[int, str]:
    """Return the values of a table's column by ledger id. Empty for an older run without the table."""
    if table not in run.table_names():
        return {}
    is_listed_ledger = ds.field("ledger_id").isin(ledger_ids) & (ds.field("scope_id") == 0)
    rows = run.table(table, ["ledger_id", column_name], is_listed_ledger).to_pylist()
    return {row["ledger_id"]: row[column_name] for row in rows}


def _topic_ledger(
    row: dict[str, Any],
    class_by_ledger: dict[int, str],
    reachability_by_ledger: dict[int, str],
    cursors: list[TopicCursor],
) -> TopicLedger:
    ledger_id = row["ledger_id"]
    return TopicLedger(
        **{name: row[name] for name in _COPIED_COLUMNS},
        ownership_status=row["standing"],
        is_borrowed=row["borrowed"],
        replication_class=class_by_ledger.get(ledger_id),
        backlog=backlog_of(ledger_id, cursors),
        reachability=reachability_by_ledger.get(ledger_id),
    )
