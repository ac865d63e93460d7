"""Tests of a topic of a run: its ledgers in order, its subscriptions, and its unreadable parts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from auditor.errors import RunError, UsageError
from auditor.model.views import Backlog, TopicCursor, TopicView, backlog_of
from auditor.reports.owners import topic_text
from auditor.runs.load_topic import topic_view
from auditor.runs.reader import RunReader
from tests.cli.test_doors import bkaudit
from tests.made_runs import made_run

Row = dict[str, Any]
PATH = "/managed-ledgers/shop/orders/persistent/returns"


def row(ledger_id: int | None, kind: str = "data", **fields: Any) -> Row:
    usual = {
        "scope_id": 0, "ledger_id": ledger_id, "standing": "owned", "kind": kind, "tenant": "shop",
        "namespace": "orders", "topic": "returns", "path": PATH, "borrowed": False,
    }  # fmt: skip
    return {**usual, **fields}


def cursor(name: str, ledger_id: int | None, position: tuple[int, int] | None) -> Row:
    place = position or (None, None)
    return row(
        ledger_id, "cursor", cursor=name, path=f"{PATH}/{name}",
        mark_delete_ledger_id=place[0], mark_delete_entry_id=place[1],
    )  # fmt: skip


@pytest.fixture
def run(tmp_path: Path) -> RunReader:
    ownership = [
        row(9, place=2, state="OPEN"),
        row(5, place=0, state="CLOSED", entries=10, size=600, offload="complete"),
        row(7, place=1, standing="dangling", fault="owner-dangling", entries=10, size=500),
        cursor("fast", None, (7, 3)),
        cursor("faster", None, (9, -1)),
        row(30, "schema", detail="0", path="/schemas/shop/orders/returns"),
        row(1, topic="returns-partition-0"),
    ]
    owners = [{"status": "unreadable", "path": f"{PATH}/spoiled", "damage": "cut at byte 3"}]
    verdicts = [
        {"scope_id": 0, "ledger_id": 5, "class": "entry-lost"},
        {"scope_id": 1, "ledger_id": 9, "class": "x"},
    ]
    made_run(tmp_path, ownership=ownership, owners=owners, verdicts=verdicts)
    return RunReader(tmp_path)


def test_ledgers_come_in_list_order_with_their_class(run: RunReader) -> None:
    view = topic_view(run, "shop/orders/returns")
    assert [(ledger.ledger_id, ledger.replication_class, ledger.fault) for ledger in view.ledgers] == [
        (5, "entry-lost", None),
        (7, None, "owner-dangling"),
        (9, None, None),
    ]
    assert [(reference.kind, reference.ledger_id) for reference in view.other_references] == [("schema", 30)]
    assert view.path == PATH


def test_unreadable_cursor_leaves_the_backlog_of_ledgers_unknown(run: RunReader) -> None:
    view = topic_view(run, "persistent://shop/orders/returns")
    assert [(sub_view.name, sub_view.position, sub_view.unread_reason) for sub_view in view.cursors] == [
        ("fast", (7, 3), None),
        ("faster", (9, -1), None),
        ("spoiled", None, "cut at byte 3"),
    ]
    assert [ledger.backlog for ledger in view.ledgers] == [
        Backlog.POSITION_UNKNOWN,
        Backlog.IN_BACKLOG,
        Backlog.IN_BACKLOG,
    ]


@pytest.mark.parametrize(
    ("cursors", "backlog"),
    [
        ([], Backlog.NO_SUBSCRIPTION),
        ([TopicCursor("a", (6, 0), None, None)], Backlog.PASSED_BY_ALL),
        ([TopicCursor("a", (6, 0), 40, "owned")], Backlog.PASSED_BY_ALL),  # what its own ledger has is newer
        ([TopicCursor("a", (5, 9), None, None)], Backlog.IN_BACKLOG),
        ([TopicCursor("a", (5, 9), 40, "owned")], Backlog.POSITION_UNKNOWN),
        ([TopicCursor("a", None, None, None)], Backlog.POSITION_UNKNOWN),
        ([TopicCursor("a", (6, 0), None, None), TopicCursor("b", (1, 0), None, None)], Backlog.IN_BACKLOG),
    ],
)
def test_backlog_of_a_ledger_follows_from_cursor_positions(
    cursors: list[TopicCursor], backlog: Backlog
) -> None:
    assert backlog_of(5, cursors) is backlog


def test_topic_text_shows_ledgers_and_damage_without_control_characters(run: RunReader) -> None:
    text = topic_text(topic_view(run, "shop/orders/returns"))
    lines = [line.split() for line in text.splitlines() if line.strip()]
    assert ["5", "entry-lost", "owned", "10", "600", "B", "complete", "not", "known"] in lines
    assert [line for line in lines if line[0] == "7"] == [
        ["7", "not", "in", "the", "store", "owner-dangling", "10", "500", "B", "-", "in", "a", "backlog"]
    ]
    assert "cut at byte 3" in text
    assert "\x1b" not in topic_text(TopicView("\x1b[31m", PATH, [], [], []))


def unread_topic(tmp_path: Path, *owners: tuple[str, str], rows: list[Row] | None = None) -> TopicView:
    owner_rows = [{"status": status, "path": path, "damage": "cut at byte 3"} for status, path in owners]
    made_run(tmp_path, ownership=rows or [], owners=owner_rows, verdicts=[])
    return topic_view(RunReader(tmp_path), "shop/orders/returns")


@pytest.mark.parametrize("rows", [[], [cursor("fast", None, (7, 3))], [row(30, "schema", path="/schemas/x")]])
def test_unreadable_ledger_list_is_not_reported_as_empty(tmp_path: Path, rows: list[Row]) -> None:
    view = unread_topic(tmp_path, ("unreadable", f"/root{PATH}"), rows=rows)
    assert (view.path, view.unread_reason) == (f"/root{PATH}", "cut at byte 3")
    assert "the topic's list of ledgers could not be read: cut at byte 3" in topic_text(view)
    assert "the list has no ledgers" not in topic_text(view)


def test_subscriptions_that_cannot_be_listed_may_need_every_ledger(tmp_path: Path) -> None:
    view = unread_topic(tmp_path, ("gap", PATH), rows=[row(5, place=0)])
    assert [ledger.backlog for ledger in view.ledgers] == [Backlog.POSITION_UNKNOWN]
    assert "the subscriptions could not be listed: cut at byte 3" in topic_text(view)
    assert "no subscription" not in topic_text(view)


def test_unreadable_subscriptions_and_schemas_keep_their_names(tmp_path: Path) -> None:
    below = f"{PATH}/a%2Fb"
    view = unread_topic(tmp_path, ("unreadable", below), ("unreadable", "/schemas/shop/orders/returns"))
    assert (view.path, view.unread_reason) == (PATH, None)
    assert [(part.name, part.unread_reason) for part in view.cursors] == [("a/b", "cut at byte 3")]
    assert [(part.kind, part.ledger_id, part.detail) for part in view.other_references] == [
        ("schema", None, "cut at byte 3")
    ]


def test_topic_with_only_a_schema_left_is_found(tmp_path: Path) -> None:
    view = unread_topic(tmp_path, ("unreadable", "/schemas/shop/orders/returns"))
    assert (view.path, len(view.other_references)) == ("/schemas/shop/orders/returns", 1)


def test_unknown_topic_name_suggests_a_similar_name(run: RunReader) -> None:
    with pytest.raises(UsageError, match="did you mean shop/orders/returns"):
        topic_view(run, "shop/orders/return")
    with pytest.raises(UsageError, match="tenant/namespace/topic"):
        topic_view(run, "returns")


def test_run_without_owners_says_so(run: RunReader) -> None:
    path = Path(run.path, "tables", "ownership")
    path.rename(path.with_name("other"))
    with pytest.raises(RunError, match="no owners of ledgers were read"):
        topic_view(run, "shop/orders/returns")
    outcome = bkaudit("explain", "topic", "shop/orders/returns", "--run", run.path)
    assert outcome.exit_code == 2
    assert "no owners of ledgers were read" in outcome.stderr
