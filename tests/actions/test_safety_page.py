"""docs/safety.md has every kind of action, every fact that causes a hold, and every lift condition."""

from __future__ import annotations

import re
from pathlib import Path

from auditor.checks import ALL_CHECKS, CHECK_BY_ID
from auditor.model.holds import DANGEROUS_ACTIONS, ActionKind, FactReason, LiftCondition

PAGE = (Path(__file__).parents[2] / "docs" / "safety.md").read_text("utf-8")
ROWS = {
    row[0]: row for row in re.findall(r"(?m)^\| `([a-z-]+)` \| ([^|]+) \|(?: ([^|]+) \| ([^|]+) \|)?", PAGE)
}


def test_safety_page_has_no_duplicate_row() -> None:
    words = re.findall(r"(?m)^\| `([a-z-]+)` \|", PAGE)
    assert sorted(words) == sorted({*words})


def test_every_action_kind_states_its_danger_condition_and_evidence() -> None:
    for kind in ActionKind:
        _, dangerous, condition, evidence = ROWS[kind]
        assert dangerous == ("yes" if kind in DANGEROUS_ACTIONS else "no"), kind
        assert condition, kind
        assert evidence, kind


def test_every_fact_reason_and_lift_condition_has_a_row() -> None:
    assert {*FactReason} <= ROWS.keys()
    assert {*LiftCondition} <= ROWS.keys()


def test_evidence_of_an_action_names_facts_and_checks_that_forbid_the_action() -> None:
    forbidding = {(check.id, kind) for check in ALL_CHECKS for rule in check.holds for kind in rule.forbids}
    for kind in ActionKind:
        for word in re.findall(r"`([a-z-]+)`", ROWS[kind][3]):
            is_known = word in {*FactReason} or word in CHECK_BY_ID or word == "owners-suspect"
            assert is_known, (kind, word)
            if word in CHECK_BY_ID and CHECK_BY_ID[word].holds:
                assert (word, kind) in forbidding, (kind, word)
