"""The ordered list of actions: its actions, the holds that forbid others, and the order."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

import pyarrow as pa
import pytest

from auditor.actions.action_list import ALL_STOP_REFUSAL_TEXT, PermittedLedgers, build_action_list
from auditor.actions.gate import MAX_DATA_AGE_MS, HoldBook, UnfinishedRun
from auditor.checks import ALL_CHECKS
from auditor.findings.table import FindingCount
from auditor.model.holds import ActionKind
from auditor.tables.holds import HOLDS
from tests.reports.samples import NO_HOLDS

DOWN = FindingCount("same", "rest", "warning", "bookie-down", "confirmed", None, "bk-a", 1)
DANGER = FindingCount(
    "new", "destroys-data", "critical", "gc-would-delete-live", "confirmed", None, "bk-a", 1
)
BELOW = FindingCount("new", "below-ack-quorum", "error", "below-ack-quorum", "confirmed", None, None, 3, 0, 7)


def make_run(*rows: tuple[str, str, list[str], str], age_ms: int = 0) -> UnfinishedRun:
    """Return a run with holds of these objects, keys, kinds and reasons."""
    table = pa.Table.from_pylist(
        [
            {
                "object": object, "key": key, "forbids": forbids, "reason": reason, "certain": True,
                "first_seen": 0, "lift": "fact-gone", "message": f"{key} is held", "urgency": "rest",
                "accepted": False, "carried": False,
            }
            for object, key, forbids, reason in rows
        ],
        pa.schema([field for field in HOLDS if field.name not in ("scope_id", "ledger_id", "count")]),
    )  # fmt: skip
    book = HoldBook(
        lambda path, columns, chosen: table.filter(chosen).to_batches(),
        has_holds_table=True,
        oldest_data_time=0,
        has_earlier_run=True,
        are_logs_read=True,
        current_time=age_ms,
    )
    return UnfinishedRun(book)


def texts(run: UnfinishedRun, *counts: FindingCount, **ledgers: Any) -> list[str]:
    permitted = {"below-ack-quorum": PermittedLedgers(3, 0, 7)} | ledgers
    return [action["text"] for action in build_action_list(run, counts, permitted).actions]


def test_action_without_a_hold_is_on_the_list() -> None:
    assert texts(NO_HOLDS, DOWN) == ["start bk-a"]
    assert texts(NO_HOLDS, BELOW) == ["copy ledger 7 and 2 more to other bookies before another bookie stops"]


def test_notes_suppressed_findings_and_findings_without_a_bookie_give_no_action() -> None:
    assert texts(NO_HOLDS, DOWN._replace(severity="note")) == []
    assert texts(NO_HOLDS, DOWN._replace(suppression=1)) == []
    # One finding of all bookies names none of them.
    unread = FindingCount("same", "unseen", "note", "bookie-unread", "unknown", None, None, 1)
    assert texts(NO_HOLDS, unread) == []


def test_held_action_is_listed_as_forbidden_with_the_reason_of_its_hold() -> None:
    run = make_run(("bookie", "bk-a", ["start"], "disk-version-missing"))
    result = build_action_list(run, [DOWN, DOWN._replace(bookie_id="bk-b")], {})
    assert [action["text"] for action in result.actions] == ["start bk-b"]
    [refused] = result.forbidden_actions
    assert (refused["kind"], refused["objects"]) == ("start", "bk-a")
    assert refused["why"] == "bk-a is held (disk-version-missing)"


@pytest.mark.parametrize("reason", ["last-known-copy", "last-served-copy"])
def test_held_stop_becomes_copy_the_entries_then_stop(reason: str) -> None:
    run = make_run(("bookie", "bk-a", ["stop"], reason))
    [text] = texts(run, DANGER)
    assert text.startswith("copy the entries that are served only by bk-a to other bookies, then stop")


def test_copy_before_a_stop_needs_permission_to_recover() -> None:
    last = ("bookie", "bk-a", ["stop"], "last-served-copy")
    result = build_action_list(make_run(last, ("bookie", "bk-a", ["recover"], "bookie-alias")), [DANGER], {})
    assert not result.actions
    assert [(refused["kind"], refused["why"]) for refused in result.forbidden_actions] == [
        ("recover", "bk-a is held (bookie-alias)")
    ]
    stale = build_action_list(make_run(last, age_ms=MAX_DATA_AGE_MS + 1), [DANGER], {})
    assert not stale.actions
    assert [refused["kind"] for refused in stale.forbidden_actions] == ["recover"]


def test_no_copy_is_advised_if_every_writable_bookie_must_stop() -> None:
    run = make_run(("bookie", "bk-a", ["stop"], "last-served-copy"))
    [order] = build_action_list(run, [DANGER], {}, {"bk-a", "bk-b"}).actions
    assert order["text"].startswith("copy the entries")
    result = build_action_list(run, [DANGER], {}, {"bk-a"})
    assert not result.actions
    [refused] = result.forbidden_actions
    assert (refused["kind"], refused["why"]) == ("stop", ALL_STOP_REFUSAL_TEXT)


def test_held_start_forbids_a_restart() -> None:
    twice = DOWN._replace(id="registered-twice")
    assert texts(NO_HOLDS, twice) == ["restart bk-a, one at a time"]
    result = build_action_list(make_run(("bookie", "bk-a", ["start"], "start-refused")), [twice], {})
    assert not result.actions
    assert [refused["kind"] for refused in result.forbidden_actions] == ["start"]


@pytest.mark.parametrize("reason", ["last-known-copy", "last-served-copy"])
def test_copying_entries_does_not_permit_a_restart_with_a_held_start(reason: str) -> None:
    twice = DOWN._replace(id="registered-twice")
    run = make_run(("bookie", "bk-a", ["stop"], reason), ("bookie", "bk-a", ["start"], "start-refused"))
    result = build_action_list(run, [twice], {})
    assert not result.actions
    assert [refused["kind"] for refused in result.forbidden_actions] == ["start"]


def test_stop_is_forbidden_if_the_run_has_no_holds_table() -> None:
    run = UnfinishedRun(
        HoldBook(
            lambda *_: [],
            has_holds_table=False,
            oldest_data_time=0,
            has_earlier_run=False,
            are_logs_read=False,
            current_time=0,
        )
    )
    result = build_action_list(run, [DANGER], {})
    assert not result.actions
    assert [refused["kind"] for refused in result.forbidden_actions] == ["stop"]


def test_equal_instructions_of_two_checks_are_merged() -> None:
    unregistered = DOWN._replace(id="on-unregistered-bookie")
    [action] = build_action_list(NO_HOLDS, [DOWN, unregistered], {}).actions
    assert (action["text"], action["count"]) == ("start bk-a", 2)
    assert {*action["checks"]} == {"bookie-down", "on-unregistered-bookie"}
    run = make_run(("bookie", "bk-a", ["start"], "disk-version-missing"))
    [refused] = build_action_list(run, [DOWN, unregistered], {}).forbidden_actions
    assert {*refused["checks"]} == {"bookie-down", "on-unregistered-bookie"}


def test_hold_on_a_stop_for_another_reason_than_last_copy_forbids_it() -> None:
    run = make_run(
        ("bookie", "bk-a", ["stop"], "cookie-missing"), ("bookie", "bk-a", ["stop"], "last-known-copy")
    )
    result = build_action_list(run, [DANGER], {})
    assert not result.actions
    assert [refused["kind"] for refused in result.forbidden_actions] == ["stop"]


def test_copy_is_forbidden_if_no_ledger_is_permitted() -> None:
    result = build_action_list(NO_HOLDS, [BELOW], {})
    assert not result.actions
    assert [refused["objects"] for refused in result.forbidden_actions] == ["ledger 7 and 2 more"]


def test_copy_instruction_names_only_the_permitted_ledgers() -> None:
    [text] = texts(NO_HOLDS, BELOW, **{"below-ack-quorum": PermittedLedgers(2, 0, 9)})
    assert text.startswith("copy ledger 9 and 1 more")


def test_copy_is_forbidden_if_the_data_is_older_than_24_hours() -> None:
    result = build_action_list(
        make_run(age_ms=MAX_DATA_AGE_MS + 1), [BELOW], {"below-ack-quorum": PermittedLedgers(3, 0, 7)}
    )
    assert not result.actions
    assert "24 hours" in result.forbidden_actions[0]["why"]


def test_actions_are_grouped_by_bookie_and_ordered_by_execution() -> None:
    cookie = FindingCount("same", "rest", "error", "cookie-missing", "confirmed", None, "bk-a", 1)
    refusal = FindingCount("same", "rest", "error", "start-refused", "confirmed", None, "bk-b", 1)
    result = build_action_list(NO_HOLDS, [DOWN, refusal, cookie, DANGER], {})
    assert [(action["bookie_id"], action["kind"]) for action in result.actions] == [
        ("bk-a", "stop"), ("bk-a", "make-cookie"), ("bk-a", "start"), ("bk-b", None),
    ]  # fmt: skip


def test_bookie_alias_stops_the_new_id_not_the_old_id() -> None:
    alias = FindingCount("new", "destroys-data", "critical", "bookie-alias", "confirmed", None, "bk-old", 1)
    run = make_run(
        ("bookie", "bk-old", ["start"], "bookie-alias"), ("bookie", "bk-new", ["start"], "bookie-alias")
    )
    [action] = build_action_list(run, [alias], {}).actions
    assert (action["bookie_id"], action["kind"]) == ("bk-new", "stop")
    assert "stop bk-new" in action["text"]


def test_every_check_that_advises_a_copy_has_an_action() -> None:
    """`ghost-bookie` advised a copy without asking the gate, but data of an alias must not be copied off."""
    orders = re.compile(r"\bcopy\b|(ledgers|}) copied")
    copies = {check.id for check in ALL_CHECKS if orders.search(check.do_now or "")}
    assert copies - {check.id for check in ALL_CHECKS if check.action is not None} == set()


def test_every_check_that_stops_or_starts_a_bookie_declares_its_actions() -> None:
    """A hold forbids only declared actions: a restart that declares no start would pass a hold on starts."""
    kinds_by_verb = {
        "stop": (ActionKind.STOP, False), "restart": (ActionKind.STOP, True),
        "start": (ActionKind.START, False),
    }  # fmt: skip
    declared = {check.id: (check.action, check.restarts) for check in ALL_CHECKS}
    expected = {
        check.id: kinds_by_verb[verb]
        for check in ALL_CHECKS
        if (verb := (check.do_now or "").partition(" ")[0]) in kinds_by_verb
    }
    assert expected.items() <= declared.items()
    assert {id for id, (_, restarts) in declared.items() if restarts} <= expected.keys()


STOPS = [DANGER._replace(bookie_id=f"bk-{name}") for name in "abc"]


def order_of_stops(
    joint: list[set[str]], writable: set[str] | None = None, run: UnfinishedRun = NO_HOLDS
) -> tuple[list[str], list[str]]:
    """Return the texts of actions and the objects of forbidden stops, for three bookies that should stop."""
    requests: list[list[str]] = []

    def joint_holders(bookies: Collection[str]) -> list[set[str]]:
        requests.append(sorted(bookies))
        return joint

    lists = build_action_list(run, STOPS, {}, writable, joint_holders)
    assert requests == [["bk-a", "bk-b", "bk-c"]]
    return [action["text"] for action in lists.actions], [stop["objects"] for stop in lists.forbidden_actions]


def test_bookies_that_jointly_serve_the_last_copies_do_not_stop_together() -> None:
    """None of the bookies has a hold: each may stop while the others run."""
    stop = "stop {}: the next garbage collection deletes data that is still needed"
    assert order_of_stops([]) == ([stop.format("bk-a, bk-b and 1 more")], [])
    texts, forbidden = order_of_stops([{"bk-a", "bk-c"}])
    assert texts[0].startswith("stop bk-a, bk-b: ")
    assert (
        texts[1]
        == f"copy the entries that are served only by bk-a, bk-c to other bookies, then {stop.format('bk-c')}"
    )
    assert forbidden == []


def test_last_writable_bookie_is_restarted_without_garbage_collection() -> None:
    """The bookie's collector would delete needed data, so the bookie keeps serving and collects nothing."""
    texts, forbidden = order_of_stops([{"bk-a", "bk-c"}], {"bk-a", "bk-b", "bk-c"})
    assert texts[0].startswith("stop bk-a, bk-b: ")
    assert texts[1].startswith("restart bk-c alone, with gcWaitTime=31536000000 ")
    assert (len(texts), forbidden) == (2, [])


def test_bookie_that_stops_after_its_entries_are_copied_counts_as_stopped() -> None:
    last = make_run(("bookie", "bk-a", ["stop"], "last-served-copy"))
    texts, forbidden = order_of_stops([{"bk-a", "bk-b"}], run=last)
    assert sorted(text.partition(":")[0] for text in texts) == [
        "copy the entries that are served only by bk-a to other bookies, then stop bk-a",
        "copy the entries that are served only by bk-a, bk-b to other bookies, then stop bk-b",
        "stop bk-c",
    ]
    assert forbidden == []


def test_bookie_that_would_not_start_again_is_not_restarted() -> None:
    held_start = make_run(("bookie", "bk-c", ["start"], "start-refused"))
    writable = {"bk-a", "bk-b", "bk-c"}
    texts, forbidden = order_of_stops([{"bk-a", "bk-c"}], writable, held_start)
    assert len(texts) == 1
    assert forbidden == ["bk-c"]
