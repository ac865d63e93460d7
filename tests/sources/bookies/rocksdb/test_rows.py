"""Tests that turn rows of two databases into rows of availability: every state and order, in flat memory."""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auditor.codecs.availability import fold
from auditor.codecs.availability.fold import fold_entries
from auditor.sources.bookies import part_rows
from auditor.sources.bookies.availability import SCHEMA
from auditor.sources.bookies.parts import ROCKSDB, IndexDirectory, IndexPart, plan_parts
from auditor.sources.bookies.rocksdb import rows as rocksdb_rows
from auditor.sources.bookies.rocksdb import scan as rocksdb_scan
from auditor.sources.bookies.rocksdb.ledgers import group_locations
from auditor.sources.bookies.rocksdb.scan import Rows, Strings, UnexpectedRows
from benchmarks.rocksdb import write_index
from tests.examples import examples
from tests.sources.rocksdb_databases import (
    EXISTING,
    LIMBO,
    VERSION,
    copy_of,
    entries,
    files_of,
    key,
    ledger_key,
    location,
    open_database,
    read_directory,
    read_with_rocksdict,
    write_bookie,
    write_database,
)

MOST = 2**63 - 1
FLAGS_KEY = ledger_key(-0xEEFD)


def states(rows: list[dict[str, object]]) -> dict[object, object]:
    return {row["ledger_id"]: row["state"] for row in rows}


def test_each_ledger_is_one_row_up_to_the_largest_id(tmp_path: Path) -> None:
    root = write_bookie(tmp_path / "l0", {0: range(5), 7: [0, 2, 4], MOST: [MOST]})
    rows = read_directory(root)
    assert [(row["ledger_id"], row["state"], entries(row["groups"])) for row in rows] == [
        (0, "ok", [0, 1, 2, 3, 4]),
        (7, "ok", [0, 2, 4]),
        (MOST, "ok", [MOST]),
    ]
    assert list(rows[0]) == SCHEMA.names
    assert {name: rows[0][name] for name in ("bookie_id", "scope_id", "reason", "path", "storage")} == {
        "bookie_id": "bk",
        "scope_id": 0,
        "reason": None,
        "path": f"{root}/current/locations",
        "storage": "rocksdb",
    }
    assert {rows[0][name] for name in ("offset", "page_bytes", "mtime", "answered")} == {None}


def test_ledger_data_decides_the_state_of_a_ledger(tmp_path: Path) -> None:
    ledgers = {
        ledger_key(1): EXISTING,
        ledger_key(2): LIMBO,
        ledger_key(3): bytes.fromhex("080010001a00"),  # does not exist
        ledger_key(4): b"\x08",
        ledger_key(6): EXISTING,
    }
    root = write_bookie(tmp_path / "l0", {ledger: [0, 1] for ledger in (1, 2, 3, 4, 5)}, ledgers)
    rows = read_directory(root)
    assert [(row["ledger_id"], row["state"], entries(row["groups"])) for row in rows] == [
        (1, "ok", [0, 1]),
        (2, "limbo", [0, 1]),
        (3, "not-indexed", [0, 1]),
        (4, "unreadable", []),
        (5, "not-indexed", [0, 1]),
        (6, "ok", []),  # known, and holds nothing
    ]
    assert "ledger data" in rows[3]["reason"]
    assert all((row["reason"] is None) == (row["state"] == "ok") for row in rows)


def test_keys_of_both_lengths_are_read_and_the_longer_one_wins(tmp_path: Path) -> None:
    ledgers = {ledger_key(1) + bytes(8): EXISTING, ledger_key(2): EXISTING, ledger_key(2) + bytes(8): LIMBO}
    root = write_bookie(tmp_path / "l0", {1: [0], 2: [0]}, ledgers)
    assert states(read_directory(root)) == {1: "ok", 2: "limbo"}


def test_both_keys_of_a_ledger_may_be_in_different_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rocksdb_scan, "BATCH_ROWS", 1)
    ledgers = {ledger_key(2): EXISTING, ledger_key(2) + bytes(8): LIMBO, ledger_key(3): EXISTING}
    root = write_bookie(tmp_path / "l0", {2: [0, 1], 3: [5]}, ledgers)
    assert states(read_directory(root)) == {2: "limbo", 3: "ok"}


@pytest.mark.parametrize(("position", "is_gap"), [(0, True), (1, False)])
def test_pending_integrity_check_is_a_gap_of_the_whole_bookie(
    tmp_path: Path, position: int, is_gap: bool
) -> None:
    ledgers = {ledger_key(position): EXISTING, FLAGS_KEY: location(1), ledger_key(-5): b"reserved"}
    root = write_bookie(tmp_path / "l0", {position: [0]}, ledgers)
    rows = read_directory(root, position, 2)
    assert states(rows) == {position: "ok"} | ({None: "gap"} if is_gap else {})
    if is_gap:
        assert "NEEDS_INTEGRITY_CHECK" in rows[-1]["reason"]


def test_flags_without_integrity_check_are_no_gap(tmp_path: Path) -> None:
    root = write_bookie(tmp_path / "l0", {1: [0]}, {ledger_key(1): EXISTING, FLAGS_KEY: location(2)})
    assert states(read_directory(root)) == {1: "ok"}


def test_ledger_in_an_unexpected_index_directory_is_reported(tmp_path: Path) -> None:
    root = write_bookie(tmp_path / "l0", {ledger: [0] for ledger in (1, 2, 3, 4)})
    rows = read_directory(root, 1, 3)
    assert states(rows) == {1: "ok", 2: "wrong-directory", 3: "wrong-directory", 4: "ok"}
    assert (
        rows[1]["reason"] == "in index directory 2 of 3, but the bookie looks for this ledger in directory 3"
    )
    assert rows[1]["groups"] == b""


def test_unexpected_rows_are_damage_and_hide_no_ledger(tmp_path: Path) -> None:
    root = tmp_path / "l0"
    rows = {key(1, 0): location(), key(1, 2): location(), key(1, 3): b"short", key(3, 0): location()}
    rows |= {key(1, 4): location(0), b"odd": location(), key(-2, 1): location(), key(2, -1): location()}
    write_database(root / "current/locations", rows)
    ledger_rows = {ledger_key(ledger): EXISTING for ledger in (1, 3)}
    write_database(root / "current/ledgers", ledger_rows | {b"x": b"", FLAGS_KEY: b"2 bytes"})
    (root / "current/VERSION").write_bytes(VERSION)
    result = read_directory(root)
    assert [
        (row["ledger_id"], row["state"], entries(row["groups"])) for row in result if row["ledger_id"]
    ] == [
        (1, "ok", [0, 2]),
        (3, "ok", [0]),
    ]
    damaged = {row["path"].rpartition("/")[2]: row["reason"] for row in result if row["state"] == "damaged"}
    assert damaged["locations"].startswith("4 rows that DbLedgerStorage does not write; the first has ")
    assert damaged["ledgers"].startswith("2 rows that DbLedgerStorage does not write; the first has ")
    assert key(1, 3).hex() in damaged["locations"]


def test_ledger_with_too_many_groups_is_unreadable_and_the_next_is_ok(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fold, "MAX_GROUPS", 3)
    monkeypatch.setattr(rocksdb_scan, "BATCH_ROWS", 5)
    root = write_bookie(tmp_path / "l0", {1: [number**2 for number in range(40)], 2: range(20), 3: [1]})
    assert states(read_directory(root)) == {1: "unreadable", 2: "ok", 3: "ok"}


@pytest.mark.parametrize("missing", ["locations", "ledgers"])
def test_one_database_without_the_other_is_damage(tmp_path: Path, missing: str) -> None:
    root = write_bookie(tmp_path / "l0", {1: [0]})
    for file in (root / "current" / missing).iterdir():
        file.unlink()
    (root / "current" / missing).rmdir()
    [row] = read_directory(root)
    assert (row["ledger_id"], row["state"]) == (None, "damaged")
    assert row["path"] == f"{root}/current/{missing}"


def test_empty_database_has_no_rows(tmp_path: Path) -> None:
    root = write_bookie(tmp_path / "l0", {})
    assert read_directory(root) == []


def test_index_files_beside_the_databases_make_the_storage_unclear(tmp_path: Path) -> None:
    root = write_bookie(tmp_path / "l0", {1: [0]})
    (root / "current/0/1").mkdir(parents=True)
    assert states(read_directory(root)) == {1: "ok"}  # a conversion leaves empty directories
    (root / "current/0/1/1.idx").write_bytes(bytes(2048))
    [row] = read_directory(root)
    assert (row["ledger_id"], row["state"], row["reason"]) == (
        None,
        "gap",
        rocksdb_rows.UNCLEAR_STORAGE_REASON,
    )


def test_directories_of_rebuild_tools_are_ignored_and_strays_are_reported(tmp_path: Path) -> None:
    root = write_bookie(tmp_path / "l0", {1: [0]})
    for name in ("locations.TEMP-1795237658197", "ledgers.PREV-1795237658197", "metadata-cache"):
        (root / "current" / name).mkdir()
    (root / "current" / "notes.txt").write_bytes(b"")
    assert states(read_directory(root)) == {1: "ok", None: "stray"}


def test_disk_that_changed_since_planning_is_a_gap(tmp_path: Path) -> None:
    root = write_bookie(tmp_path / "l0", {1: [0]})
    (root / "current/VERSION").write_bytes(b"another")
    assert "gap" in states(read_directory(root)).values()


def test_scan_that_fails_keeps_earlier_rows_and_reports_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = write_bookie(tmp_path / "l0", {ledger: range(200) for ledger in range(200)})
    table = max((root / "current/locations").glob("*.sst"), key=lambda path: path.stat().st_size)
    data = bytearray(table.read_bytes())
    data[len(data) * 3 // 4] ^= 1
    table.write_bytes(data)
    monkeypatch.setattr(rocksdb_scan, "BATCH_ROWS", 1000)
    *before, last = read_directory(root)
    assert 0 < len(before) < 200
    assert {row["state"] for row in before} == {"ok"}
    assert all(entries(row["groups"]) == list(range(200)) for row in before)
    assert (last["ledger_id"], last["state"], last["path"]) == (None, "damaged", str(table))
    assert last["offset"] > 0


def test_reading_does_not_change_files_of_the_bookie(tmp_path: Path) -> None:
    root = write_bookie(tmp_path / "l0", {1: range(100), 2: range(9)})
    before = files_of(root)
    assert len(read_directory(root)) == 2
    assert files_of(root) == before


def test_each_database_directory_is_one_part_beside_index_file_parts(tmp_path: Path) -> None:
    (tmp_path / "files/current/0").mkdir(parents=True)
    files = IndexDirectory.from_version(str(tmp_path / "files"), None)
    databases = [IndexDirectory.from_version(f"/l{n}", VERSION, ROCKSDB, n, 2) for n in (0, 1)]
    planned = plan_parts([("bk1", databases), ("bk2", [files]), ("bk3", [])], 4)
    assert [(part.bookie_id, part.storage_kind, len(part.directories)) for part in planned] == [
        ("bk1", "rocksdb", 1),
        ("bk1", "rocksdb", 1),
        ("bk2", "idx", 1),
    ]


def test_rows_come_in_batches_of_bounded_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rocksdb_rows, "MAX_BATCH_ROWS", 10)
    monkeypatch.setattr(rocksdb_scan, "BATCH_ROWS", 8)
    root = write_bookie(tmp_path / "l0", {ledger: [0] for ledger in range(100)})
    part = IndexPart("bk", (IndexDirectory.from_version(str(root), VERSION, ROCKSDB),), ())
    sizes = [len(batch) for batch in part_rows.read_part(part)]
    assert sum(sizes) == 100
    assert max(sizes) < 30


ledger_ids = st.integers(0, 4) | st.sampled_from([MOST, 2**40])
entry_ids = st.integers(0, 30) | st.sampled_from([MOST, 2**40])
writes = st.lists(
    st.tuples(st.just("put"), ledger_ids, entry_ids)
    | st.tuples(st.just("zero"), ledger_ids, entry_ids)
    | st.tuples(st.just("delete"), ledger_ids, entry_ids)
    | st.tuples(st.just("drop"), ledger_ids, st.just(0))
    | st.tuples(st.sampled_from(["flush", "compact"]), st.just(0), st.just(0)),
    max_size=60,
)


@settings(max_examples=examples(25), deadline=None)
@given(writes, st.sets(ledger_ids), st.integers(1, 20))
def test_any_order_of_writes_reads_like_a_dict(
    done: list[tuple[str, int, int]], known_ids: set[int], batch_rows: int
) -> None:
    stored: dict[int, set[int]] = {}
    with tempfile.TemporaryDirectory() as scratch, pytest.MonkeyPatch.context() as patch:
        patch.setattr(rocksdb_scan, "BATCH_ROWS", batch_rows)
        root = Path(scratch, "l0")
        database = open_database(Path(scratch, "database"))
        for what, ledger, entry in done:
            if what == "put":
                database[key(ledger, entry)] = location()
                stored.setdefault(ledger, set()).add(entry)
            elif what == "zero":
                database[key(ledger, entry)] = location(0)
                stored.setdefault(ledger, set()).discard(entry)
            elif what == "delete":
                del database[key(ledger, entry)]
                stored.setdefault(ledger, set()).discard(entry)
            elif what == "drop":
                # As the bookie does it: the last key there can be is not in the range.
                database.delete_range(key(ledger, 0), key(ledger, MOST))
                stored[ledger] = stored.get(ledger, set()) & {MOST}
            elif what == "flush":
                database.flush()
            else:
                database.compact_range(None, None)
        (root / "current").mkdir(parents=True)
        copy_of(Path(scratch, "database"), root / "current" / "locations")
        database.close()
        write_database(root / "current" / "ledgers", {ledger_key(ledger): EXISTING for ledger in known_ids})
        (root / "current" / "VERSION").write_bytes(VERSION)
        opinion: dict[int, set[int]] = {}
        for name, value in read_with_rocksdict(root / "current" / "locations").items():
            if any(value):
                ledger, entry = (int.from_bytes(half, "big") for half in (name[:8], name[8:]))
                opinion.setdefault(ledger, set()).add(entry)
        rows = read_directory(root)
    expected = {ledger: sorted(entries_) for ledger, entries_ in stored.items() if entries_}
    assert {ledger: sorted(entries_) for ledger, entries_ in opinion.items()} == expected
    assert {row["ledger_id"]: entries(row["groups"]) for row in rows if row["groups"]} == expected
    assert states(rows) == dict.fromkeys(expected, "not-indexed") | dict.fromkeys(known_ids, "ok")
    for row in rows:
        whole = np.array(expected.get(row["ledger_id"], []), np.int64)
        assert row["groups"] == fold_entries(whole, np.array([0, len(whole)])).tobytes()


def endless(ledger: int, total: int, size: int) -> Iterator[Rows]:
    """Yield a ledger of ``total`` striped entries in the form of a scan."""
    for start in range(0, total, size):
        pairs = np.empty((size, 2), ">i8")
        pairs[:, 0] = ledger
        number = np.arange(start, start + size)
        pairs[:, 1] = number // 2 * 3 + number % 2
        values = np.full(size, 1028, ">i8")
        yield Rows(
            Strings(pairs.view(np.uint8).ravel(), np.arange(0, 16 * size + 1, 16).astype(np.int32)),
            Strings(values.view(np.uint8), np.arange(0, 8 * size + 1, 8).astype(np.int32)),
        )


def test_memory_does_not_grow_with_the_entries_of_a_ledger() -> None:
    def peak() -> int:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    list(group_locations(endless(1, 10 << 16, 1 << 16), UnexpectedRows("")))
    before = peak()
    [folded] = list(
        group_locations(endless(1, 200 << 16, 1 << 16), UnexpectedRows(""))
    )  # 13 million entries, 200 MB of keys
    assert folded.groups.groups().tolist() == [(0, (13_107_200 // 2 - 1) * 3, 2, 3)]
    assert peak() - before < 20 << 10  # KiB


def test_two_million_rows_of_a_real_database_are_read_in_flat_memory(tmp_path: Path) -> None:
    small, large = (write_index(tmp_path / str(count), count, 100_000) for count in (200_000, 2_000_000))

    def peak(directory: IndexDirectory) -> int:
        """Return the peak memory in KiB, measured in a separate process."""
        program = (
            "import resource, sys\n"
            "from auditor.sources.bookies.parts import ROCKSDB, IndexDirectory, IndexPart\n"
            "from auditor.sources.bookies.part_rows import read_part\n"
            "directory = IndexDirectory.from_version(sys.argv[1], b'5\\n', ROCKSDB)\n"
            "assert sum(map(len, read_part(IndexPart('bk', (directory,), ())))) > 0\n"
            "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", program, directory.path],
            check=True,
            capture_output=True,
            text=True,
            cwd=Path(__file__).parents[4],
        )
        return int(done.stdout)

    assert peak(large) - peak(small) < 30 << 10
