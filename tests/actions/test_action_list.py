"""The ordered list of actions: what is on it, what holds keep off it, and the order."""

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
from auditor.tables.holds import HOLDS
from tests.reports.samples import NO_HOLDS

DOWN = FindingCount("same", "rest", "warning", "bookie-down", "confirmed", None, "bk-a", 1)
DANGER = FindingCount(
    "new", "destroys-data", "critical", "gc-would-delete-live", "confirmed", None, "bk-a", 1
)
BELOW = FindingCount("new", "below-ack-quorum", "error", "below-ack-quorum", "confirmed", None, None, 3, 0, 7)


def held(*rows: tuple[str, str, list[str], str], age_ms: int = 0) -> UnfinishedRun:
    """Holds of these objects, keys, kinds and reasons."""
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


def test_what_nothing_forbids_is_on_the_list() -> None:
    assert texts(NO_HOLDS, DOWN) == ["start bk-a"]
    assert texts(NO_HOLDS, BELOW) == ["copy ledger 7 and 2 more to other bookies before another bookie stops"]


def test_what_is_not_urgent_and_what_is_accepted_is_not() -> None:
    assert texts(NO_HOLDS, DOWN._replace(severity="note")) == []
    assert texts(NO_HOLDS, DOWN._replace(suppression=1)) == []
    # One finding of all bookies names none of them.
    unread = FindingCount("same", "unseen", "note", "bookie-unread", "unknown", None, None, 1)
    assert texts(NO_HOLDS, unread) == []


def test_a_hold_keeps_an_instruction_off_the_list_and_says_why() -> None:
    run = held(("bookie", "bk-a", ["start"], "disk-version-missing"))
    found = build_action_list(run, [DOWN, DOWN._replace(bookie_id="bk-b")], {})
    assert [action["text"] for action in found.actions] == ["start bk-b"]
    [refused] = found.forbidden_actions
    assert (refused["kind"], refused["objects"]) == ("start", "bk-a")
    assert refused["why"] == "bk-a is held (disk-version-missing)"


@pytest.mark.parametrize("reason", ["last-known-copy", "last-served-copy"])
def test_a_stop_and_a_hold_on_the_stop_become_an_order(reason: str) -> None:
    run = held(("bookie", "bk-a", ["stop"], reason))
    [text] = texts(run, DANGER)
    assert text.startswith("copy the entries that are served only by bk-a to other bookies, then stop")


def test_an_order_to_copy_needs_permission_for_the_copies_too() -> None:
    last = ("bookie", "bk-a", ["stop"], "last-served-copy")
    found = build_action_list(held(last, ("bookie", "bk-a", ["recover"], "bookie-alias")), [DANGER], {})
    assert not found.actions
    assert [(refused["kind"], refused["why"]) for refused in found.forbidden_actions] == [
        ("recover", "bk-a is held (bookie-alias)")
    ]
    stale = build_action_list(held(last, age_ms=MAX_DATA_AGE_MS + 1), [DANGER], {})
    assert not stale.actions
    assert [refused["kind"] for refused in stale.forbidden_actions] == ["recover"]


def test_nothing_is_copied_before_a_stop_that_every_writable_bookie_needs() -> None:
    run = held(("bookie", "bk-a", ["stop"], "last-served-copy"))
    [order] = build_action_list(run, [DANGER], {}, {"bk-a", "bk-b"}).actions
    assert order["text"].startswith("copy the entries")
    found = build_action_list(run, [DANGER], {}, {"bk-a"})
    assert not found.actions
    [refused] = found.forbidden_actions
    assert (refused["kind"], refused["why"]) == ("stop", ALL_STOP_REFUSAL_TEXT)


def test_a_restart_needs_the_start_too() -> None:
    twice = DOWN._replace(id="registered-twice")
    assert texts(NO_HOLDS, twice) == ["restart bk-a, one at a time"]
    found = build_action_list(held(("bookie", "bk-a", ["start"], "start-refused")), [twice], {})
    assert not found.actions
    assert [refused["kind"] for refused in found.forbidden_actions] == ["start"]


@pytest.mark.parametrize("reason", ["last-known-copy", "last-served-copy"])
def test_copies_do_not_permit_a_restart_whose_start_is_held(reason: str) -> None:
    twice = DOWN._replace(id="registered-twice")
    run = held(("bookie", "bk-a", ["stop"], reason), ("bookie", "bk-a", ["start"], "start-refused"))
    found = build_action_list(run, [twice], {})
    assert not found.actions
    assert [refused["kind"] for refused in found.forbidden_actions] == ["start"]


def test_a_stop_that_no_hold_refuses_does_not_become_an_order() -> None:
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
    found = build_action_list(run, [DANGER], {})
    assert not found.actions
    assert [refused["kind"] for refused in found.forbidden_actions] == ["stop"]


def test_one_instruction_of_two_checks_is_one_action() -> None:
    unregistered = DOWN._replace(id="on-unregistered-bookie")
    [action] = build_action_list(NO_HOLDS, [DOWN, unregistered], {}).actions
    assert (action["text"], action["count"]) == ("start bk-a", 2)
    assert {*action["checks"]} == {"bookie-down", "on-unregistered-bookie"}
    run = held(("bookie", "bk-a", ["start"], "disk-version-missing"))
    [refused] = build_action_list(run, [DOWN, unregistered], {}).forbidden_actions
    assert {*refused["checks"]} == {"bookie-down", "on-unregistered-bookie"}


def test_any_other_hold_on_a_stop_refuses_it() -> None:
    run = held(
        ("bookie", "bk-a", ["stop"], "cookie-missing"), ("bookie", "bk-a", ["stop"], "last-known-copy")
    )
    found = build_action_list(run, [DANGER], {})
    assert not found.actions
    assert [refused["kind"] for refused in found.forbidden_actions] == ["stop"]


def test_ledgers_that_are_all_held_are_refused() -> None:
    found = build_action_list(NO_HOLDS, [BELOW], {})
    assert not found.actions
    assert [refused["objects"] for refused in found.forbidden_actions] == ["ledger 7 and 2 more"]


def test_of_ledgers_the_permitted_ones_are_named() -> None:
    [text] = texts(NO_HOLDS, BELOW, **{"below-ack-quorum": PermittedLedgers(2, 0, 9)})
    assert text.startswith("copy ledger 9 and 1 more")


def test_nothing_is_copied_by_data_of_more_than_a_day() -> None:
    found = build_action_list(
        held(age_ms=MAX_DATA_AGE_MS + 1), [BELOW], {"below-ack-quorum": PermittedLedgers(3, 0, 7)}
    )
    assert not found.actions
    assert "24 hours" in found.forbidden_actions[0]["why"]


def test_actions_on_one_bookie_stand_together_in_the_order_in_which_they_are_taken() -> None:
    cookie = FindingCount("same", "rest", "error", "cookie-missing", "confirmed", None, "bk-a", 1)
    other = FindingCount("same", "rest", "error", "start-refused", "confirmed", None, "bk-b", 1)
    found = build_action_list(NO_HOLDS, [DOWN, other, cookie, DANGER], {})
    assert [(action["bookie_id"], action["kind"]) for action in found.actions] == [
        ("bk-a", "stop"), ("bk-a", "make-cookie"), ("bk-a", "start"), ("bk-b", None),
    ]  # fmt: skip


def test_of_one_bookie_with_two_ids_the_live_one_is_stopped() -> None:
    alias = FindingCount("new", "destroys-data", "critical", "bookie-alias", "confirmed", None, "bk-old", 1)
    run = held(
        ("bookie", "bk-old", ["start"], "bookie-alias"), ("bookie", "bk-new", ["start"], "bookie-alias")
    )
    [action] = build_action_list(run, [alias], {}).actions
    assert (action["bookie_id"], action["kind"]) == ("bk-new", "stop")
    assert "stop bk-new" in action["text"]


def test_an_instruction_to_copy_is_an_action_that_the_gate_permits() -> None:
    """An id that an alias goes by must not be copied off, and `ghost-bookie` said so without a question."""
    orders = re.compile(r"\bcopy\b|(ledgers|}) copied")
    copies = {check.id for check in ALL_CHECKS if orders.search(check.do_now or "")}
    assert copies - {check.id for check in ALL_CHECKS if check.action is not None} == set()


STOPS = [DANGER._replace(bookie_id=f"bk-{name}") for name in "abc"]


def order_of_stops(
    joint: list[set[str]], writable: set[str] | None = None, run: UnfinishedRun = NO_HOLDS
) -> tuple[list[str], list[str]]:
    """Texts of actions and the objects of what is forbidden, for three bookies that should stop."""
    asked: list[list[str]] = []

    def joint_holders(bookies: Collection[str]) -> list[set[str]]:
        asked.append(sorted(bookies))
        return joint

    found = build_action_list(run, STOPS, {}, writable, joint_holders)
    assert asked == [["bk-a", "bk-b", "bk-c"]]
    return [action["text"] for action in found.actions], [each["objects"] for each in found.forbidden_actions]


def test_bookies_that_alone_serve_an_entry_do_not_stop_together() -> None:
    """No hold is on any of them: each may stop while the others run."""
    stop = "stop {}: the next garbage collection deletes data that is still needed"
    assert order_of_stops([]) == ([stop.format("bk-a, bk-b and 1 more")], [])
    texts, forbidden = order_of_stops([{"bk-a", "bk-c"}])
    assert texts[0].startswith("stop bk-a, bk-b: ")
    assert (
        texts[1]
        == f"copy the entries that are served only by bk-a, bk-c to other bookies, then {stop.format('bk-c')}"
    )
    assert forbidden == []


def test_of_all_writable_bookies_the_last_ones_do_not_stop() -> None:
    """Its collector would delete needed data: it serves on, and collects nothing."""
    texts, forbidden = order_of_stops([{"bk-a", "bk-c"}], {"bk-a", "bk-b", "bk-c"})
    assert texts[0].startswith("stop bk-a, bk-b: ")
    assert texts[1].startswith("restart bk-c alone, with gcWaitTime=31536000000 ")
    assert (len(texts), forbidden) == (2, [])


def test_one_that_stops_after_its_copies_are_made_counts_as_stopped() -> None:
    last = held(("bookie", "bk-a", ["stop"], "last-served-copy"))
    texts, forbidden = order_of_stops([{"bk-a", "bk-b"}], run=last)
    assert sorted(text.partition(":")[0] for text in texts) == [
        "copy the entries that are served only by bk-a to other bookies, then stop bk-a",
        "copy the entries that are served only by bk-a, bk-b to other bookies, then stop bk-b",
        "stop bk-c",
    ]
    assert forbidden == []


def test_bookie_that_would_not_start_again_is_not_restarted() -> None:
    held_start = held(("bookie", "bk-c", ["start"], "start-refused"))
    writable = {"bk-a", "bk-b", "bk-c"}
    texts, forbidden = order_of_stops([{"bk-a", "bk-c"}], writable, held_start)
    assert len(texts) == 1
    assert forbidden == ["bk-c"]
