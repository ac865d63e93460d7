"""Tests of the entry locations in index files, for every state of the files."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from auditor.codecs.availability import coverage
from auditor.sources.bookies.entry_logs import locations
from auditor.sources.bookies.entry_logs.locations import read_location_batches, read_locations
from auditor.sources.bookies.entry_logs.whole_entries import EntrySample, Secrets, read_whole_entries
from auditor.sources.bookies.parts import IndexDirectory, IndexPart
from auditor.tables.judge_replicas import groups_of
from tests.codecs.entry_logs import log

HEADER = struct.pack(">4sii", b"BKLE", 1, 0).ljust(1024, b"\0")


@pytest.fixture
def ledgers(tmp_path: Path) -> Path:
    (tmp_path / "ledgers0" / "current" / "0").mkdir(parents=True)
    return tmp_path / "ledgers0"


def index(ledgers: Path, ledger_id: int, data: bytes) -> Path:
    file = ledgers / "current" / "0" / f"{ledger_id:x}" / f"{ledger_id:x}.idx"
    file.parent.mkdir()
    file.write_bytes(data)
    return file


def part(ledgers: Path) -> IndexPart:
    return IndexPart("bk1:3181", (IndexDirectory(str(ledgers), None),), ("0",))


def stored_locations(ledgers: Path) -> list[tuple[int, int, int]]:
    """Return ledger, entry and location of each stored location."""
    batches = list(read_location_batches(part(ledgers)))
    return [
        (ledger, entry, location)
        for _, *columns in batches
        for ledger, entry, location in zip(*(column.tolist() for column in columns), strict=True)
    ]


@pytest.mark.parametrize("length", [0, 1, 500, 1023, 1024, 1031])
def test_index_file_without_a_slot_has_no_entries_and_hides_no_other_file(ledgers: Path, length: int) -> None:
    index(ledgers, 1, (HEADER + bytes(8))[:length])
    index(ledgers, 2, HEADER + struct.pack(">qq", 0, 5 << 32 | 1028))
    assert stored_locations(ledgers) == [(2, 1, 5 << 32 | 1028)]
    [rows] = read_locations({part(ledgers).bookie_id: [str(ledgers)]}, part(ledgers))
    assert [(row["ledger_id"], row["probe"], row["reason"]) for row in rows.to_pylist()] == [
        (2, "missing", None)
    ]


def test_location_of_another_entry_names_the_entry_at_that_location(ledgers: Path) -> None:
    entries = [(1, 0, 4), (1, 1, 4), (2, 0, 4)]
    (ledgers / "current" / "5.log").write_bytes(log(entries))
    entry_locations = [5 << 32 | 1028 + 24 * number for number in range(3)]
    index(ledgers, 1, HEADER + struct.pack(">2q", entry_locations[1], entry_locations[1]))
    index(ledgers, 2, HEADER + struct.pack(">2q", entry_locations[2], entry_locations[2]))
    index(ledgers, 3, HEADER + struct.pack(">q", 5 << 32 | 1029))
    index(ledgers, 4, HEADER + struct.pack(">q", entry_locations[2]))
    [rows] = read_locations({part(ledgers).bookie_id: [str(ledgers)]}, part(ledgers))
    probes = {
        row["ledger_id"]: (row["probe"], row["there_ledger_id"], row["there_entry_id"])
        for row in rows.to_pylist()
    }
    assert probes == {
        1: ("other", 1, 1), 2: ("ok", None, None), 3: ("other", None, None), 4: ("other", 2, 0)
    }  # fmt: skip


def test_every_whole_entry_is_compared_with_its_location(ledgers: Path) -> None:
    """All are sampled: two exchanged in a ledger, one of another ledger, one with its id overwritten."""
    data = bytearray(log([(1, 0, 16), (1, 1, 16), (2, 0, 16), (2, 1, 16)]))
    offsets = [1028 + 36 * number for number in range(4)]
    struct.pack_into(">q", data, offsets[3] + 8, 77)
    (ledgers / "current" / "5.log").write_bytes(data)
    index(ledgers, 1, HEADER + struct.pack(">2q", 5 << 32 | offsets[1], 5 << 32 | offsets[0]))
    index(
        ledgers,
        2,
        HEADER + struct.pack(">3q", 5 << 32 | offsets[2], 5 << 32 | offsets[3], 5 << 32 | offsets[0]),
    )
    index(ledgers, 3, HEADER + struct.pack(">2q", 5 << 32 | offsets[3] + 1, 6 << 32 | 1028))
    batches = read_whole_entries(
        part(ledgers), [str(ledgers)], EntrySample(0, 100, 1 << 20), Secrets(None, b"")
    )
    rows = [row for batch in batches for row in batch.to_pylist()]
    other_entries = {
        (row["ledger_id"], row["entry_id"]): (row["there_ledger_id"], row["there_entry_id"])
        for row in rows
        if row["reason"] == "other-entry"
    }
    assert other_entries == {
        (1, 0): (1, 1), (1, 1): (1, 0), (2, 1): (2, 77), (2, 2): (1, 0), (3, 0): (None, None)
    }  # fmt: skip
    assert [(row["entries"], row["ledger_id"]) for row in rows if row["reason"] == "log"] == [(1, None)]
    assert [(row["ledger_id"], row["entry_id"]) for row in rows if row["reason"] is None] == [(2, 0)]


def test_cut_last_slot_is_ignored(ledgers: Path) -> None:
    index(ledgers, 1, HEADER + struct.pack(">qq", 5 << 32 | 1028, 5 << 32 | 2000)[:15])
    assert stored_locations(ledgers) == [(1, 0, 5 << 32 | 1028)]


def test_sparse_index_file_of_a_terabyte_gives_only_its_entries(ledgers: Path) -> None:
    file = index(ledgers, 1, HEADER + struct.pack(">q", 5 << 32 | 1028))
    far = (1 << 40) // 8 - 1
    with file.open("r+b") as data:
        os.pwrite(data.fileno(), struct.pack(">q", 6 << 32 | 1028), 1024 + 8 * far)
    assert stored_locations(ledgers) == [(1, 0, 5 << 32 | 1028), (1, far, 6 << 32 | 1028)]


def rows_of(ledgers: Path) -> list[dict[str, Any]]:
    batches = read_locations({"bk1:3181": [str(ledgers)]}, part(ledgers))
    return [row for batch in batches for row in batch.to_pylist()]


def members(groups: bytes | None) -> list[int]:
    return [] if groups is None else [entry for entry in range(99) if coverage.count(clipped(groups, entry))]


def clipped(groups: bytes, entry: int) -> Any:
    return coverage.clip(groups_of(groups), entry, entry)


def test_entries_in_missing_logs_or_past_their_end_are_reported_as_gone(ledgers: Path) -> None:
    (ledgers / "current" / "5.log").write_bytes(log([(1, 0, 0), (1, 1, 0)]))
    entry_locations = (5 << 32 | 1028, 5 << 32 | 1048, 6 << 32 | 1028, 5 << 32 | 9999)
    index(ledgers, 1, HEADER + struct.pack(">4q", *entry_locations))
    probes = {row["log_id"]: (row["probe"], members(row["gone"])) for row in rows_of(ledgers)}
    assert probes == {5: ("past-end", [3]), 6: ("missing", [2])}


def test_no_entries_are_gone_for_a_bookie_without_logs(ledgers: Path) -> None:
    index(ledgers, 1, HEADER + struct.pack(">q", 5 << 32 | 1028))
    assert [(row["probe"], row["gone"]) for row in rows_of(ledgers)] == [("missing", None)]


def test_log_named_in_decimal_digits_is_misnamed_and_its_entries_are_gone(ledgers: Path) -> None:
    # A start that finishes a transactional compaction calls log 12 so (bookkeeper #4804).
    (ledgers / "current" / "12.log").write_bytes(log([(1, 0, 0)]))
    index(ledgers, 1, HEADER + struct.pack(">q", 12 << 32 | 1028))
    index(ledgers, 2, HEADER + struct.pack(">q", 12 << 32 | 1028))
    probes = {row["ledger_id"]: (row["probe"], members(row["gone"])) for row in rows_of(ledgers)}
    assert probes == {1: ("misnamed", [0]), 2: ("missing", [0])}


def test_log_created_while_the_index_is_read_is_found(ledgers: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index(ledgers, 1, HEADER + struct.pack(">q", 5 << 32 | 1028))
    (ledgers / "current" / "4.log").write_bytes(log([(1, 0, 0)]))
    read = locations.read_location_batches

    def begin_log(index_part: IndexPart) -> Iterator[locations.EntryLocations]:
        for batch in read(index_part):
            (ledgers / "current" / "5.log").write_bytes(log([(1, 0, 0)]))
            yield batch

    monkeypatch.setattr(locations, "read_location_batches", begin_log)
    assert [(row["probe"], row["gone"]) for row in rows_of(ledgers)] == [("ok", None)]
