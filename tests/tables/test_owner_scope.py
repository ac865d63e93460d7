"""When a set of stores of owners is proved complete, and why it is not."""

from __future__ import annotations

import pytest

from auditor.model.owner_scope import (
    EVERY_OWNER,
    NOTHING,
    OWN_REFERENCES,
    ListCounts,
    OwnerCounts,
    StoreFacts,
    incomplete_reasons,
    owner_store_rows,
)
from auditor.tables.owner_stores import OWNER_STORES, current_store

WEST, EAST = "pulsar:zk://west:2181", "pulsar:zk://east:2181/east"


def reasons(
    claims: int = 1000,
    foreign: int = 0,
    lists: dict[str, ListCounts] | None = None,
    gaps: int = 0,
    stores: tuple[str, ...] = (WEST, EAST),
    declared: tuple[str, ...] = (WEST, EAST),
) -> list[str]:
    counts = OwnerCounts(claims, foreign, 0, lists or {}, {WEST: StoreFacts(gaps, 7)})
    rows = owner_store_rows(counts, stores, declared, {WEST: 7})
    assert all(set(row) == set(OWNER_STORES.names) for row in rows)
    why = incomplete_reasons(rows)
    assert {row["scope_proved"] == row["scope_claimed"] == EVERY_OWNER for row in rows} == {not why}
    assert {row["scope_proved"] for row in rows if why} <= {OWN_REFERENCES, NOTHING}
    return why


def test_a_set_is_complete_where_all_conditions_hold() -> None:
    assert reasons() == []
    assert reasons(foreign=10) == [], "1 % of claims"
    assert reasons(lists={WEST: ListCounts(1000, 10)}) == [], "1 % of the ledgers that were listed"
    assert reasons(claims=0) == []


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (reasons(declared=()), "owners_complete does not name it"),
        (reasons(declared=(WEST,)), f"{EAST}: owners_complete does not name it"),
        (reasons(stores=(WEST,)), f"{EAST}: owners_complete names it, and it was not read"),
        (reasons(foreign=11), "11 ledgers of 1,000 claim an owner in a namespace that no store has"),
        (reasons(lists={WEST: ListCounts(1000, 11)}), f"{WEST}: its lists lost 11 ledgers of 1,000"),
        (
            reasons(stores=(WEST,), declared=(WEST,), lists={EAST: ListCounts(5, 5)}),
            f"{EAST}: it was not read in this run; its lists lost 5 ledgers of 5",
        ),
        (reasons(gaps=1), f"{WEST}: 1 place of it could not be listed"),
    ],
)
def test_what_is_not_proved_is_said(found: list[str], said: str) -> None:
    assert any(said in reason for reason in found)


def test_a_saved_store_is_the_same_one_under_another_name() -> None:
    monday, tuesday, east = (
        f"pulsar:dump:///{name}" for name in ("mon.jsonl", "tue.jsonl", "tue.jsonl?root=/east")
    )
    assert current_store(monday, [east, tuesday]) == tuesday
    assert current_store(monday, [east]) == monday
    assert current_store(None, [east]) == east, "of a run of an earlier release"
    assert current_store(WEST, [EAST]) == WEST
