"""Logs that garbage collection deletes next: they are read whole, and maps with wrong ledgers are found."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from auditor.tables.log_foresight import compare_map, deletion_candidates
from tests.checks.tables_builder import frame
from tests.codecs.entry_logs import header, ledgers_map, log, record

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def renamed(ledger: int) -> bytes:
    """Return a log of two entries of ledger 7 whose map gives their bytes, rightly summed, to ``ledger``."""
    entries = b"".join(record(7, entry, 2) for entry in (0, 1))
    return header(1024 + len(entries), 1) + entries + ledgers_map([(ledger, len(entries))])


def test_map_with_right_sum_and_wrong_ledger_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "0.log").write_bytes(renamed(9))
    assert compare_map(str(tmp_path / "0.log")) == {
        "state": "map-wrong",
        "reason": "the ledgers map is wrong for 2 ledgers: it lists 0 bytes for ledger 7; the log has 44",
    }
    (tmp_path / "1.log").write_bytes(renamed(7))
    assert compare_map(str(tmp_path / "1.log")) == {"state": "ok", "reason": None}


def test_only_logs_counted_by_map_and_about_to_be_deleted_are_read(
    spark: SparkSession, tmp_path: Path
) -> None:
    wrong, other_log, kept_log, scanned = (str(tmp_path / f"{number}.log") for number in range(4))
    Path(wrong).write_bytes(renamed(9))
    Path(other_log).write_bytes(log([(5, 0, 2)]))
    logs = [
        {"path": path, "kind": "log", "counted": "scan" if path == scanned else "map"}
        for path in (wrong, other_log, kept_log, scanned, "/c#/l/0.log")
    ]
    plans = [
        {"bookie_id": "bk1", "path": path, "bytes": 1, "action": "keep" if path == kept_log else "delete"}
        for path in (wrong, other_log, kept_log, scanned, "/c#/l/0.log")
    ]
    rows = deletion_candidates(
        frame(spark, "entry_logs", logs), frame(spark, "log_foresight", plans)
    ).collect()
    assert {row["path"]: row["state"] for row in rows} == {wrong: "map-wrong", other_log: "ok"}
