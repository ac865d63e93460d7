"""Next steps: the findings by check and urgency, in order."""

from __future__ import annotations

from auditor.findings.table import FindingCount, next_steps

DOWN = FindingCount("same", "rest", "warning", "bookie-down", "suspect", None, "bk-a", 1)


def test_suppressed_finding_gives_no_step() -> None:
    assert next_steps([DOWN._replace(suppression=0)], {}) == []
    assert len(next_steps([DOWN], {})) == 1


def test_certain_objects_come_first() -> None:
    [step] = next_steps([DOWN, DOWN._replace(confidence="confirmed", bookie_id="bk-b")], {})
    assert (step["bookie_id"], step["count"], step["unsure"]) == ("bk-b", 2, 1)


def test_step_instruction_comes_from_the_list_of_actions() -> None:
    [step] = next_steps([DOWN], {"bookie-down": "start bk-a"})
    assert step["action"] == "start bk-a"
    [step] = next_steps([DOWN], {})
    assert step["action"] is None
