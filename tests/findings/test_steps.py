"""Steps: what to do about findings, in order."""

from __future__ import annotations

from auditor.findings.table import FindingCount, next_steps

UNREAD = ("same", "unseen", "note", "bookie-unread", "unknown", None)


def test_a_bookie_that_was_not_read_is_named() -> None:
    [step] = next_steps([FindingCount(*UNREAD, "bk-a", 1)])
    assert step["action"] == "give the audit all directories of bk-a"


def test_one_finding_of_all_bookies_asks_for_no_directories() -> None:
    [step] = next_steps([FindingCount(*UNREAD, None, 1)])
    assert (step["action"], step["bookie_id"]) == (None, None)


def test_what_a_suppression_names_is_no_step() -> None:
    down = FindingCount("same", "rest", "warning", "bookie-down", "confirmed", 0, "bk-a", 1)
    assert next_steps([down]) == []
    assert [step["action"] for step in next_steps([down._replace(suppression=None)])] == ["start bk-a"]


def test_certain_objects_come_first() -> None:
    down = FindingCount("same", "rest", "warning", "bookie-down", "suspect", None, "bk-a", 1)
    [step] = next_steps([down, down._replace(confidence="confirmed", bookie_id="bk-b")])
    assert (step["action"], step["count"], step["unsure"]) == ("start bk-b, bk-a", 2, 1)
