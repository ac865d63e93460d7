"""Where index files say that entries lie, whatever state the files are in."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest

from auditor.sources.bookies.entry_logs.locations import located_batches, read_locations
from auditor.sources.bookies.parts import IndexDirectory, IndexPart

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


def located(ledgers: Path) -> list[tuple[int, int, int]]:
    """Ledger, entry and location."""
    batches = list(located_batches(part(ledgers)))
    return [
        (ledger, entry, location)
        for _, *columns in batches
        for ledger, entry, location in zip(*(column.tolist() for column in columns), strict=True)
    ]


@pytest.mark.parametrize("length", [0, 1, 500, 1023, 1024, 1031])
def test_a_file_that_ends_before_its_first_slot_has_no_entries_and_hides_no_other(
    ledgers: Path, length: int
) -> None:
    index(ledgers, 1, (HEADER + bytes(8))[:length])
    index(ledgers, 2, HEADER + struct.pack(">qq", 0, 5 << 32 | 1028))
    assert located(ledgers) == [(2, 1, 5 << 32 | 1028)]
    [rows] = read_locations(part(ledgers), [str(ledgers)])
    assert [(row["ledger_id"], row["probe"], row["reason"]) for row in rows.to_pylist()] == [
        (2, "missing", None)
    ]


def test_a_last_slot_that_is_cut_does_not_count(ledgers: Path) -> None:
    index(ledgers, 1, HEADER + struct.pack(">qq", 5 << 32 | 1028, 5 << 32 | 2000)[:15])
    assert located(ledgers) == [(1, 0, 5 << 32 | 1028)]


def test_a_file_of_a_terabyte_of_holes_is_not_read_into_memory(ledgers: Path) -> None:
    file = index(ledgers, 1, HEADER + struct.pack(">q", 5 << 32 | 1028))
    far = (1 << 40) // 8 - 1
    with file.open("r+b") as data:
        os.pwrite(data.fileno(), struct.pack(">q", 6 << 32 | 1028), 1024 + 8 * far)
    assert located(ledgers) == [(1, 0, 5 << 32 | 1028), (1, far, 6 << 32 | 1028)]
