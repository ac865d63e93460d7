"""When a set of owner stores is proved complete, and the reasons why it is not."""

from __future__ import annotations

import pytest

from auditor.model.owner_scope import (
    SCOPE_EVERY_OWNER,
    SCOPE_NOTHING,
    SCOPE_OWN_REFERENCES,
    ListCounts,
    OwnerCounts,
    StoreFacts,
    incomplete_reasons,
    owner_store_rows,
)
from auditor.runs.run_inputs import owner_identities
from auditor.tables.owner_stores import (
    OWNER_STORES,
    StoreMatches,
    StoreReferences,
    find_current_store,
    make_store_identity,
    match_stores,
)

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
    assert {row["scope_proved"] == row["scope_claimed"] == SCOPE_EVERY_OWNER for row in rows} == {not why}
    assert {row["scope_proved"] for row in rows if why} <= {SCOPE_OWN_REFERENCES, SCOPE_NOTHING}
    return why


def test_owner_set_is_complete_if_all_conditions_hold() -> None:
    assert reasons() == []
    assert reasons(foreign=10) == [], "1 % of claims"
    assert reasons(lists={WEST: ListCounts(1000, 10)}) == [], "1 % of the ledgers that were listed"
    assert reasons(claims=0) == []


@pytest.mark.parametrize(
    ("reason_texts", "expected_text"),
    [
        (reasons(declared=()), "owners_complete does not contain this store"),
        (reasons(declared=(WEST,)), f"{EAST}: owners_complete does not contain this store"),
        (reasons(stores=(WEST,)), f"{EAST}: owners_complete contains this store, but it was not read"),
        (
            reasons(foreign=11),
            "of 1,000 ledgers that name an owner, 11 name an owner in a namespace that no store contains",
        ),
        (
            reasons(lists={WEST: ListCounts(1000, 11)}),
            f"{WEST}: the store no longer lists 11 of 1,000 ledgers that an earlier run saw there",
        ),
        (
            reasons(stores=(WEST,), declared=(WEST,), lists={EAST: ListCounts(5, 5)}),
            f"{EAST}: the store was not read in this run; the store no longer lists 5 of 5 ledgers that an "
            "earlier run saw there",
        ),
        (reasons(gaps=1), f"{WEST}: 1 path of the store could not be listed"),
    ],
)
def test_incomplete_owner_set_gives_reason(reason_texts: list[str], expected_text: str) -> None:
    assert any(expected_text in reason for reason in reason_texts)


MONDAY, TUESDAY, OTHER_STORE, EAST_SAVED = (
    f"pulsar:dump:///{name}" for name in ("mon.jsonl", "tue.jsonl", "b.jsonl", "tue.jsonl?root=/east")
)


def test_saved_store_under_another_name_is_the_same_store() -> None:
    assert find_current_store(MONDAY, [EAST_SAVED, TUESDAY], {}) == TUESDAY
    assert find_current_store(MONDAY, [EAST_SAVED], {}) == MONDAY
    assert find_current_store(None, [EAST_SAVED], {}) == EAST_SAVED, "of a run of an earlier release"
    assert find_current_store(WEST, [EAST], {}) == WEST


def test_other_store_with_the_same_chroot_is_a_different_store() -> None:
    matched = {MONDAY: TUESDAY}
    assert find_current_store(OTHER_STORE, [TUESDAY], matched) == OTHER_STORE, "a store that was not read"
    assert find_current_store(OTHER_STORE, [TUESDAY, OTHER_STORE], matched) == OTHER_STORE
    # The file that had the one store has the other by now.
    swapped = {OTHER_STORE: MONDAY}
    assert find_current_store(OTHER_STORE, [MONDAY], swapped) == MONDAY
    assert find_current_store(MONDAY, [MONDAY], swapped) == f"{MONDAY} of an earlier run"


def matches(
    stores: list[str],
    shared: dict[tuple[str, str], int] | None = None,
    twins: list[tuple[str, str]] | None = None,
    earlier: dict[str, str | None] | None = None,
) -> StoreMatches:
    first = {store: number for number, store in enumerate(stores, 10)}
    return match_stores(stores, StoreReferences(first, twins or [], shared or {}), earlier or {})


def test_two_saved_stores_with_equal_chroot_are_different_stores() -> None:
    store_matches = matches([MONDAY, OTHER_STORE])
    assert (store_matches.first_name_by_alias, store_matches.name_by_earlier_name) == ({}, {})
    assert store_matches.identity_by_name == {
        MONDAY: "pulsar saved  of ledger 10",
        OTHER_STORE: "pulsar saved  of ledger 11",
    }
    # Each keeps its name in every run, whatever its file is called.
    earlier: dict[str, str | None] = dict(store_matches.identity_by_name)
    again = matches(
        [OTHER_STORE, TUESDAY], {(TUESDAY, MONDAY): 3, (OTHER_STORE, OTHER_STORE): 1}, earlier=earlier
    )
    assert again.identity_by_name == {TUESDAY: earlier[MONDAY], OTHER_STORE: earlier[OTHER_STORE]}
    assert again.name_by_earlier_name == {MONDAY: TUESDAY, OTHER_STORE: OTHER_STORE}


def test_store_named_twice_is_counted_once() -> None:
    store_matches = matches([MONDAY, OTHER_STORE, TUESDAY], twins=[(MONDAY, TUESDAY)])
    assert store_matches.first_name_by_alias == {TUESDAY: MONDAY}
    assert store_matches.identity_by_name.keys() == {MONDAY, OTHER_STORE}
    # It takes the place of no other store of the earlier run.
    earlier: dict[str, str | None] = dict(matches([MONDAY, OTHER_STORE]).identity_by_name)
    shared = {(MONDAY, MONDAY): 3, (TUESDAY, MONDAY): 3}
    twice = matches([MONDAY, TUESDAY], shared, [(MONDAY, TUESDAY)], earlier)
    assert list(twice.identity_by_name.values()) == [earlier[MONDAY]]


def test_running_store_is_identified_by_its_uri() -> None:
    assert matches([WEST, EAST]).identity_by_name == {WEST: WEST, EAST: EAST}
    # Of a run of an earlier version, which says less.
    store_matches = matches([TUESDAY], {(TUESDAY, MONDAY): 3}, earlier={MONDAY: None})
    assert store_matches.identity_by_name == {TUESDAY: make_store_identity(MONDAY)}


def test_set_with_one_store_named_twice_is_incomplete() -> None:
    counts = OwnerCounts(10, 0, 0, {}, {}, name_by_alias={EAST: WEST}, store_identities={WEST: WEST})
    rows = owner_store_rows(counts, (WEST, EAST), (WEST, EAST), {})
    assert f"{EAST}: it is the same store as {WEST}, under a second name" in incomplete_reasons(rows)
    assert [row["identity"] for row in rows] == [WEST, None]
    lists = [row | {"dropped": 0, "listed_before": 0} for row in rows]
    assert owner_identities(lists) == (WEST,)
