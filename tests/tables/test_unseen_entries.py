"""Indexed entries that a collector does not see: which entries, and their minimum number."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any

from auditor.tables.unseen_entries import find_unseen_rows, unseen_entries
from tests.checks.tables_builder import frame
from tests.codecs.entry_logs import Entry, log

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ENTRIES: list[Entry] = [(5, 0, 0), (7, 0, 0), (9, 0, 0), (5, 1, 0), (9, 1, 0)]
"""Each record has 20 bytes."""


def write_damaged_log(path: Path, record: int, size: int) -> Path:
    """Write a log without a map, in which one record has another size."""
    data = bytearray(log(ENTRIES, closed=False))
    offset = 1024 + 20 * record
    data[offset : offset + 4] = struct.pack(">i", size)
    path.write_bytes(data)
    return path


def located(ledger: int) -> dict[str, Any]:
    """Return the locations that an index has for a ledger in the log."""
    places = [1024 + 20 * number + 4 for number, entry in enumerate(ENTRIES) if entry[0] == ledger]
    return {"scope_id": 0, "ledger_id": ledger, "entries": len(places)} | {
        "first": min(places),
        "last": max(places),
    }


def hidden_entries(path: str, read_to: int | None = None) -> dict[int, tuple[int | None, int | None]]:
    rows = find_unseen_rows(path, [located(ledger) for ledger in (5, 7, 9)], read_to)
    return {row["ledger_id"]: (row.get("unseen"), row["offset"]) for row in rows}


def test_entries_after_size_beyond_file_are_hidden(tmp_path: Path) -> None:
    path = write_damaged_log(tmp_path / "0.log", 1, 5000)
    assert hidden_entries(str(path)) == {5: (1, 1088), 7: (1, 1048), 9: (2, 1068)}


def test_record_that_spans_other_records_hides_only_these(tmp_path: Path) -> None:
    # From the second record to the end of the third.
    path = write_damaged_log(tmp_path / "0.log", 1, 36)
    assert hidden_entries(str(path)) == {9: (1, 1068)}
    # A size that reaches into a record: each byte behind it is looked at until a size is met again.
    assert hidden_entries(str(write_damaged_log(tmp_path / "1.log", 1, 0))) == {7: (1, 1048)}


def test_intact_log_hides_no_entries_and_counts_of_absent_log_are_unknown(tmp_path: Path) -> None:
    (tmp_path / "0.log").write_bytes(log(ENTRIES))
    assert hidden_entries(str(tmp_path / "0.log")) == {}
    assert hidden_entries(str(tmp_path / "1.log"), 1090) == {9: (None, 1108)}
    assert hidden_entries("/c#/ledgers0/current/0.log", 1044) == {
        5: (None, 1088),
        7: (None, 1048),
        9: (None, 1108),
    }


def test_only_logs_with_signs_of_damage_are_read(spark: SparkSession, tmp_path: Path) -> None:
    names = ("sign", "fails", "candidate", "sound")
    paths = {
        name: str(write_damaged_log(tmp_path / f"{number}.log", 1, 5000)) for number, name in enumerate(names)
    }
    logs = [
        {"bookie_id": "bk1", "logger": 0, "log_id": number, "path": paths[name], "kind": "log"}
        | {"bytes": 1124, "tail_bytes": 0}
        | {"collector_scan": {"sign": "counts", "fails": "fails"}.get(name)}
        for number, name in enumerate(names)
    ]
    places = [
        {"bookie_id": "bk1", "logger": 0, "log_id": number, "scope_id": 0, "ledger_id": 7, "entries": 1}
        | {"first_offset": 1048, "last_offset": 1048}
        for number in range(len(names))
    ]
    candidates = [
        {"bookie_id": "bk1", "path": paths["candidate"], "state": "damaged"},
        {"bookie_id": "bk1", "path": paths["sound"], "state": "ok"},
    ]
    rows = unseen_entries(
        frame(spark, "entry_logs", logs),
        frame(spark, "locations", places),
        frame(spark, "deletion_candidates", candidates),
    ).collect()
    assert {(row["path"], row["unseen"]) for row in rows} == {(paths["sign"], 1), (paths["candidate"], 1)}
