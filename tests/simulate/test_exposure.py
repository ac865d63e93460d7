"""Tests of the sets of bookies that alone serve entries together, against a count entry by entry."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auditor.runs.directory import RunDirectory
from auditor.simulate.exposure import find_exposures, find_joint_holders
from tests.examples import examples
from tests.made_runs import write_tables
from tests.simulate.small_clusters import BOOKIES, LEDGERS, Ledger, numbered, run_of

PAIR = Ledger(7, "CLOSED", 2, 2, 2, 9, ((0, ("a", "b")),))


def register_bookies(run: Path, *names: str) -> None:
    """Register these bookies of a run. All its bookies were read."""
    rows = [
        {"bookie_id": name, "read": "read", "registered": "writable" if name in names else None}
        for name in BOOKIES
    ]
    write_tables(run, bookies=rows)


def holders_of(ledger: Ledger, unread: set[str]) -> Iterator[set[str]]:
    """Yield the bookies that have each entry of a ledger, or those that may have it if none surely does."""
    for entry, names in ledger.entries():
        lacking = {name for name in names if entry in ledger.missing.get(name, ())}
        absent = set() if ledger.doubted else lacking
        unclear = ({*names} & (ledger.unknown | unread) | lacking) - absent
        yield {*names} - absent - unclear or unclear
    if not ledger.closed:
        _, ensemble = ledger.segments[-1]
        for start in range(ledger.size):
            yield {ensemble[(start + i) % ledger.size] for i in range(ledger.write)}


@settings(max_examples=examples(300), deadline=None)
@given(LEDGERS, st.sets(st.sampled_from(BOOKIES)), st.sets(st.sampled_from(BOOKIES), max_size=2))
def test_joint_holders_equal_those_found_entry_by_entry(
    drawn_run: Path, drawn: list[Ledger], stopping: set[str], unread: set[str]
) -> None:
    ledgers = numbered(drawn)
    every_set = [holders for ledger in ledgers for holders in holders_of(ledger, unread)]
    expected = {frozenset(names) for names in every_set if len(names) > 1 and names <= stopping}
    actual = find_joint_holders(run_of(drawn_run, ledgers, unread), False, stopping)
    assert actual == sorted(expected, key=sorted)


def joint_holders(run: RunDirectory, *stopping: str) -> list[set[str]]:
    holder_sets = find_joint_holders(run, True, stopping)
    assert holder_sets is not None
    return [set(holders) for holders in holder_sets]


def test_bookie_that_is_down_serves_no_entries(drawn_run: Path) -> None:
    triple = Ledger(7, "CLOSED", 3, 3, 2, 9, ((0, ("a", "b", "c")),))
    run = run_of(drawn_run, [triple], set())
    register_bookies(drawn_run, "a", "b", "c")
    assert joint_holders(run, "a", "b") == []
    assert joint_holders(run, "a", "b", "c") == [{"a", "b", "c"}]
    register_bookies(drawn_run, "a", "b")
    assert joint_holders(run, "a", "b") == [{"a", "b"}]
    assert joint_holders(run, "a", "a") == []
    register_bookies(drawn_run, "a")
    assert joint_holders(run, "a", "b") == [], "a alone serves them: that is a hold on a"


def test_end_of_an_open_ledger_is_served_by_its_ensemble(drawn_run: Path) -> None:
    run = run_of(drawn_run, [Ledger(7, "OPEN", 2, 2, 2, -1, ((0, ("a", "b")),))], set())
    register_bookies(drawn_run, "a", "b", "c")
    assert joint_holders(run, "a", "b") == [{"a", "b"}]
    assert {exposure.last_served_possible for exposure in find_exposures(run, True)} == {0}
    register_bookies(drawn_run, "a", "c")
    [exposure] = [exposure for exposure in find_exposures(run, True) if exposure.last_served_possible]
    assert exposure.bookie_id == "a"
    assert (exposure.last_served_ledgers, exposure.last_served_degraded) == (0, 1)


def test_too_many_joint_holder_sets_are_not_listed(drawn_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = run_of(drawn_run, [PAIR], set())
    assert find_joint_holders(run, False, ["a", "b"]) == [frozenset("ab")]
    monkeypatch.setattr("auditor.simulate.exposure.MAX_JOINT_HOLDERS", 0)
    assert find_joint_holders(run, False, ["a", "b"]) is None
    assert find_joint_holders(run, False, ["a"]) == []
