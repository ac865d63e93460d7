"""Tests of DbLedgerStorage's database of ledgers outside scope 0: its rows, its odd ones, and its absence."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auditor.model.ledger_id import LedgerId
from auditor.sources.bookies.rocksdb import scan as rocksdb_scan
from auditor.sources.bookies.rocksdb.ledgers import SCOPED_DATABASE_NAME
from tests.examples import examples
from tests.sources.rocksdb_databases import (
    entries,
    key,
    location,
    read_directory,
    write_bookie,
    write_database,
)

LONGS = st.integers(-(2**63), 2**63 - 1)
STORED_ENTRIES = st.dictionaries(
    st.builds(LedgerId, st.integers(0, 3) | LONGS, scope=st.integers(-2, 2) | LONGS),
    st.sets(st.integers(0, 9), min_size=1),
    max_size=6,
)


def scoped_key(ledger: LedgerId, entry: int) -> bytes:
    return ledger.scope.to_bytes(8, "big", signed=True) + key(ledger.id, entry)


def rows_of(stored: dict[LedgerId, set[int]]) -> dict[bytes, bytes]:
    return {scoped_key(ledger, entry): location() for ledger, ids in stored.items() for entry in ids}


def test_key_is_scope_ledger_and_entry() -> None:
    golden = "000000000000000100000000000000020000000000000003"
    assert scoped_key(LedgerId(2, scope=1), 3).hex() == golden


@settings(max_examples=examples(10), deadline=None)
@given(STORED_ENTRIES)
def test_each_ledger_of_each_scope_is_one_row_with_those_of_scope_0(stored: dict[LedgerId, set[int]]) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(rocksdb_scan, "BATCH_ROWS", 3)  # ledgers and scopes go on in the next batch
        root = write_bookie(Path(folder, "l0"), {0: range(2), 2: [5]})
        write_database(root / "current" / SCOPED_DATABASE_NAME, rows_of(stored))
        rows = read_directory(root)
        assert [row["state"] for row in rows] == ["ok"] * (2 + len(stored))
        actual = {
            (Path(row["path"]).name, LedgerId(row["ledger_id"], row["scope_id"])): entries(row["groups"])
            for row in rows
        }
        stock = {("locations", LedgerId(0)): [0, 1], ("locations", LedgerId(2)): [5]}
        assert actual == stock | {
            (SCOPED_DATABASE_NAME, ledger): sorted(ids) for ledger, ids in stored.items()
        }


def test_index_directory_follows_from_the_id_as_in_scope_0(tmp_path: Path) -> None:
    root = write_bookie(tmp_path / "l0", {0: [1]})
    stored = {LedgerId(4, scope=1): {0}, LedgerId(5, scope=1): {0}, LedgerId(-2, scope=1): {0}}
    write_database(root / "current" / SCOPED_DATABASE_NAME, rows_of(stored))
    rows = read_directory(root, position=0, disk_count=2)
    assert {(row["scope_id"], row["ledger_id"]): row["state"] for row in rows} == {
        (0, 0): "ok",
        (1, 4): "ok",
        (1, 5): "wrong-directory",
        (1, -2): "ok",
    }


def test_invalid_rows_are_reported_together_and_location_0_is_ignored(tmp_path: Path) -> None:
    root = write_bookie(tmp_path / "l0", {0: [1]})
    ledger = LedgerId(2, scope=1)
    odd = {key(2, 3): location(), scoped_key(ledger, 4): b"short", scoped_key(ledger, -1): location()}
    good = {scoped_key(ledger, 5): location(), scoped_key(ledger, 6): location(0)}
    write_database(root / "current" / SCOPED_DATABASE_NAME, odd | good)
    _, row, damage_row = read_directory(root)
    assert (row["scope_id"], row["ledger_id"], entries(row["groups"])) == (1, 2, [5])
    assert (damage_row["state"], damage_row["scope_id"], damage_row["ledger_id"]) == ("damaged", None, None)
    assert damage_row["reason"].startswith("3 rows")


@pytest.mark.parametrize("how", ["cut", "a file"])
def test_damaged_scoped_database_leaves_scope_0_unchanged(tmp_path: Path, how: str) -> None:
    root = write_bookie(tmp_path / "l0", {0: [1]})
    path = root / "current" / SCOPED_DATABASE_NAME
    if how == "cut":
        write_database(path, rows_of({LedgerId(2, scope=1): set(range(50))}))
        [table] = path.glob("*.sst")
        table.write_bytes(table.read_bytes()[:40])
    else:
        path.write_bytes(b"")
    rows = read_directory(root)
    assert [row["state"] for row in rows if row["ledger_id"] is not None] == ["ok"]
    assert {row["state"] for row in rows if row["ledger_id"] is None} & {"damaged", "gap"}
