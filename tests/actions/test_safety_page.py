"""docs/safety.md has every kind of action, every fact that holds, and every lifting condition."""

from __future__ import annotations

import re
from pathlib import Path

from auditor.checks import ALL_CHECKS, CHECK_BY_ID
from auditor.model.holds import DANGEROUS_ACTIONS, ActionKind, FactReason, LiftCondition

PAGE = (Path(__file__).parents[2] / "docs" / "safety.md").read_text("utf-8")
ROWS = {
    row[0]: row for row in re.findall(r"(?m)^\| `([a-z-]+)` \| ([^|]+) \|(?: ([^|]+) \| ([^|]+) \|)?", PAGE)
}


def test_no_row_stands_twice() -> None:
    words = re.findall(r"(?m)^\| `([a-z-]+)` \|", PAGE)
    assert sorted(words) == sorted({*words})


def test_every_kind_says_whether_it_is_dangerous_and_what_must_be_true() -> None:
    for kind in ActionKind:
        _, dangerous, condition, evidence = ROWS[kind]
        assert dangerous == ("yes" if kind in DANGEROUS_ACTIONS else "no"), kind
        assert condition, kind
        assert evidence, kind


def test_every_fact_and_every_condition_is_explained() -> None:
    assert {*FactReason} <= ROWS.keys()
    assert {*LiftCondition} <= ROWS.keys()


def test_what_an_action_rests_on_is_a_check_or_a_fact_that_forbids_it() -> None:
    forbidding = {(check.id, kind) for check in ALL_CHECKS for rule in check.holds for kind in rule.forbids}
    for kind in ActionKind:
        for word in re.findall(r"`([a-z-]+)`", ROWS[kind][3]):
            known = word in {*FactReason} or word in CHECK_BY_ID or word == "owners-suspect"
            assert known, (kind, word)
            if word in CHECK_BY_ID and CHECK_BY_ID[word].holds:
                assert (word, kind) in forbidding, (kind, word)
