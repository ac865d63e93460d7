"""Every rule of ledger metadata, broken on purpose, and changes that break no rule."""

from __future__ import annotations

from typing import Any

import pytest

from auditor.model.ledger_metadata import LedgerMetadata, LedgerState, Segment, broken_rules


def ledger(*segments: tuple[int, list[str]], quorums: tuple[int, int, int] = (2, 2, 1)) -> LedgerMetadata:
    parts = tuple(Segment(first, tuple(ensemble)) for first, ensemble in segments)
    return LedgerMetadata(3, *quorums, LedgerState.OPEN, segments=parts)


@pytest.mark.parametrize(
    "sound",
    [
        ledger((0, ["a", "b"])),
        ledger((0, ["a", "b"]), (1, ["a", "c"]), (9, ["c", "d"])),
        ledger((0, ["a"]), quorums=(1, 1, 1)),
    ],
)
def test_valid_ledger_breaks_no_rule(sound: LedgerMetadata) -> None:
    assert broken_rules(sound) == ()


@pytest.mark.parametrize(
    ("broken", "rule", "refused"),
    [
        pytest.param(ledger((0, ["a", "b"]), quorums=(2, 3, 1)), "quorum-invalid", True, id="W above E"),
        pytest.param(ledger((0, ["a", "b"]), quorums=(2, 1, 2)), "quorum-invalid", True, id="A above W"),
        pytest.param(ledger((0, ["a", "b"]), quorums=(2, 2, 0)), "quorum-invalid", False, id="A of none"),
        pytest.param(ledger((0, ["a", "b"]), quorums=(2, -1, -1)), "quorum-invalid", False, id="negative"),
        pytest.param(ledger(), "no-segment", True, id="no segment"),
        pytest.param(ledger((1, ["a", "b"])), "segment-gap", False, id="starts late"),
        pytest.param(ledger((-1, ["a", "b"])), "segment-gap", False, id="starts early"),
        pytest.param(ledger((0, ["a", "b", "c"])), "ensemble-size", True, id="one too many"),
        pytest.param(ledger((0, ["a", "b"]), (5, ["a"])), "ensemble-size", True, id="one too few"),
        pytest.param(ledger((0, ["a", "b"]), (0, ["c", "d"])), "segment-order", True, id="same start"),
        pytest.param(ledger((0, ["a", "a"])), "ensemble-duplicate", False, id="twice"),
        pytest.param(ledger((0, ["a", "readonly"])), "bookie-id-invalid", True, id="reserved"),
        pytest.param(ledger((0, ["a", "b c"])), "bookie-id-invalid", True, id="blank"),
    ],
)
def test_broken_rule_is_named_with_the_servers_refusal(
    broken: LedgerMetadata, rule: str, refused: bool
) -> None:
    assert [(violation.rule, violation.refused) for violation in broken_rules(broken)] == [(rule, refused)]


def test_a_rule_broken_often_is_named_once() -> None:
    segments = [(first, ["a", "a"]) for first in range(1000)]
    assert [violation.rule for violation in broken_rules(ledger(*segments))] == ["ensemble-duplicate"]


def test_huge_ensemble_and_ids_give_short_reasons() -> None:
    broken = broken_rules(ledger((0, ["x " * 10_000] * 100_000)))
    assert {violation.rule for violation in broken} == {
        "bookie-id-invalid",
        "ensemble-size",
        "ensemble-duplicate",
    }
    assert all(len(violation.reason) < 300 for violation in broken)


def test_equal_metadata_is_equal_and_hashable() -> None:
    values: list[Any] = [ledger((0, ["a", "b"])), ledger((0, ["a", "b"]))]
    assert len(set(values)) == 1
