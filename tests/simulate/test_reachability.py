"""Tests of which ledgers the registered bookies can serve, against a check entry by entry."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from auditor.runs.directory import RunDirectory
from auditor.simulate.reachability import reachability_rows
from auditor.spark.table_files import TableFiles
from tests.examples import examples
from tests.simulate.small_clusters import BOOKIES, LEDGERS, Ledger, numbered, run_of

Rows = dict[tuple[int, int], dict[str, Any]]


def reachability(run: RunDirectory, down: set[str]) -> Rows:
    files = TableFiles.from_directory(*run.locate("tables/ledgers"))
    rows = (batch.to_pylist() for batch in reachability_rows(files, run.path, BOOKIES, down))
    return {(row["scope_id"], row["ledger_id"]): row for batch in rows for row in batch}


def plain_row(ledger: Ledger, down: set[str]) -> dict[str, Any] | None:
    """Return the row of one ledger, found entry by entry, or None if every entry has two reachable copies."""
    unavailable: list[list[str]] = []
    single: list[list[str]] = []
    for entry, members in ledger.entries():
        lacking = (
            set() if ledger.doubted else {name for name in members if entry in ledger.missing.get(name, ())}
        )
        asleep = [name for name in members if name in down]
        reachable = [name for name in members if name not in down and name not in lacking]
        if set(asleep) - lacking and len(reachable) < 2:
            (single if reachable else unavailable).append(asleep)
    _, ensemble = ledger.segments[-1]
    windows = [[ensemble[(e + i) % ledger.size] for i in range(ledger.write)] for e in range(ledger.size)]
    silent = [[name for name in window if name in down] for window in windows if not ledger.closed]
    stuck = [names for names in silent if len(names) >= ledger.ack]
    for reach, concerned, entries in (
        ("unavailable", unavailable, len(unavailable)),
        ("unrecoverable", stuck, 0),
        ("single-copy", single, len(single)),
    ):
        if concerned:
            bookies = sorted({name for names in concerned for name in names})
            return {"reach": reach, "entries": entries, "bookies": bookies}
    return None


@settings(max_examples=examples(300), deadline=None)
@given(LEDGERS, st.sets(st.sampled_from(BOOKIES), max_size=5))
def test_reachability_rows_equal_those_found_entry_by_entry(
    drawn_run: Path, drawn: list[Ledger], down: set[str]
) -> None:
    ledgers = numbered(drawn)
    actual = reachability(run_of(drawn_run, ledgers, set()), down)
    expected = {}
    for ledger in ledgers:
        if (row := plain_row(ledger, down)) is not None:
            expected[ledger.scope, ledger.id] = {"scope_id": ledger.scope, "ledger_id": ledger.id, **row}
    assert actual == expected


def test_copy_on_a_down_bookie_is_the_only_copy_if_the_other_is_missing(drawn_run: Path) -> None:
    ledger = Ledger(
        7, "CLOSED", 2, 2, 2, 9, ((0, ("a", "b")),), missing={"a": frozenset(range(10))}
    )  # hazard h17: live bookie a lacks all, and b, which is down, has it
    assert reachability(run_of(drawn_run, [ledger], set()), {"b"}) == {
        (0, 7): {"scope_id": 0, "ledger_id": 7, "reach": "unavailable", "entries": 10, "bookies": ["b"]}
    }
    assert reachability(run_of(drawn_run, [ledger], {"a"}), {"a"}) == {}


def test_unread_copy_on_a_registered_bookie_counts_as_possible(drawn_run: Path) -> None:
    ledger = Ledger(7, "CLOSED", 2, 2, 2, 9, ((0, ("a", "b")),))
    rows = reachability(run_of(drawn_run, [ledger], {"a", "b"}), {"b"})
    assert rows[0, 7]["reach"] == "single-copy"
