"""Entries of entry logs that an index lacks and needs, checked with logs that the tests write."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from auditor.codecs.availability.groups import GROUP, GroupBatch
from auditor.sources.bookies.entry_logs.reader import read_ledger_entries
from auditor.tables import log_entries as module
from auditor.tables.log_entries import log_entries
from tests.checks.tables_builder import Row, frame
from tests.codecs.entry_logs import log, scoped
from tests.corpora.plain_readers import groups_entries

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BOOKIE, BOOKIE_2 = "bk1", "bk2"
ENTRY = 40
"""Bytes of an entry with a payload of 20."""

LOGS = {
    1: [(30, entry, 20) for entry in range(5)] + [(31, entry, 20) for entry in range(3)],
    2: [(30, entry, 20) for entry in (2, 3, 3, 7)] + [(32, 0, 20)],
    3: [(33, entry, 20) for entry in range(4)],
}
"""Entries of each log: ledger, entry and payload; log 2 has entry 3 of ledger 30 twice."""


def packed(*entries: int) -> bytes:
    return GroupBatch.from_tuples([[(entry, entry, 1, 0) for entry in entries]]).tobytes()


def entries_of(groups: bytes) -> list[int]:
    return sorted(groups_entries(np.frombuffer(groups, GROUP).tolist()))


def write_logs(root: Path, bookie: str = BOOKIE, damaged: int | None = None) -> list[Row]:
    """Write the logs, and return their rows of entry_logs."""
    rows: list[Row] = []
    for log_id, entries in LOGS.items():
        path = root / f"{log_id:x}.log"
        data = log(entries)
        # A size that no entry can have stands in the place of the second record.
        path.write_bytes(data if log_id != damaged else data[:1064] + b"\0\0\0\x05" + data[1068:])
        file = {"bookie_id": bookie, "logger": 0, "directory": str(root), "path": str(path)}
        file |= {"log_id": log_id, "kind": "log"}
        rows.append({**file, "bytes": len(data)})
        ledgers = sorted({ledger for ledger, *_ in entries})
        rows += [
            {**file, "scope_id": 0, "ledger_id": ledger, "entry_bytes": ENTRY * count}
            for ledger in ledgers
            for count in [sum(ledger_id == ledger for ledger_id, *_ in entries)]
        ]
    return rows


def judged(ledger: int, state: str = "CLOSED", m: int = 1, **columns: object) -> Row:
    return {
        "scope_id": 0, "ledger_id": ledger, "state": state, "m": m, "write_quorum": 2, "ack_quorum": 2,
        "missing": [], "unknown": [], "lagging": [], **columns,
    }  # fmt: skip


def missing_copies(bookie: str, *entries: int) -> list[Row]:
    return [{"bookie_id": bookie, "groups": packed(*entries), "count": len(entries)}]


LogEntries = dict[tuple[int, int], tuple[list[int] | None, int | None, list[int] | None]]


def read_logs(
    spark: SparkSession,
    logs: list[Row],
    rows: list[Row],
    located: list[Row] | None = None,
    ledgers: list[Row] | None = None,
    absent: list[Row] | None = None,
) -> LogEntries:
    """Return, by log and ledger, the entries in the log, their bytes, and the entries that no index has."""
    table = log_entries(
        frame(spark, "entry_logs", logs),
        frame(spark, "locations", located or []),
        frame(spark, "ledgers", ledgers or []),
        frame(spark, "judged", rows),
        frame(spark, "gone_entries", absent or []),
    ).collect()
    return {
        (row["log_id"], row["ledger_id"]): (
            None if row["groups"] is None else entries_of(row["groups"]),
            row["needed_bytes"],
            None if row["lost"] is None else entries_of(row["lost"]),
        )
        for row in table
    }


def test_log_entries_missing_from_index_match_judgement(spark: SparkSession, tmp_path: Path) -> None:
    """Ledger 30 lacks entries 3 and 9 on bk1. 31 lacks one that no log has; 32 one on another bookie."""
    rows = [
        judged(30, missing=missing_copies(BOOKIE, 3, 9)),
        judged(31, missing=missing_copies(BOOKIE, 8)),
        judged(32, missing=missing_copies(BOOKIE_2, 0)),
    ]
    assert read_logs(spark, write_logs(tmp_path), rows) == {
        (1, 30): ([3], ENTRY, []),
        (2, 30): ([3], 2 * ENTRY, []),
    }


def test_entries_located_in_absent_log_are_searched_in_other_logs(
    spark: SparkSession, tmp_path: Path
) -> None:
    """This also holds if no entry is judged missing, as in the collection of a running bookie."""
    absent: list[Row] = [
        {"bookie_id": BOOKIE, "scope_id": 0, "ledger_id": 30, "groups": packed(3, 9), "state": "once"},
        {"bookie_id": BOOKIE_2, "scope_id": 0, "ledger_id": 32, "groups": packed(0), "state": "agreed"},
    ]
    assert read_logs(spark, write_logs(tmp_path), [], absent=absent) == {
        (1, 30): ([3], ENTRY, []),
        (2, 30): ([3], 2 * ENTRY, []),
    }


def test_entries_without_any_copy_are_found_on_any_bookie(spark: SparkSession, tmp_path: Path) -> None:
    """The log belongs to a bookie that no ensemble names any more."""
    lost = {"groups": packed(3, 7), "count": 2}
    rows = [judged(30, m=2, missing=missing_copies(BOOKIE_2, 3, 7), class_entries=lost)]
    assert read_logs(spark, write_logs(tmp_path), rows) == {
        (1, 30): ([3], ENTRY, [3]),
        (2, 30): ([3, 7], 3 * ENTRY, [3, 7]),
    }


@pytest.mark.parametrize("is_located", [True, False])
def test_unindexed_entries_of_open_ledger_are_counted(
    spark: SparkSession, tmp_path: Path, is_located: bool
) -> None:
    replicas = [{"bookie_id": BOOKIE, "groups": b"", "depends": True}]
    ledger = {"scope_id": 0, "ledger_id": 33, "state": "OPEN", "undecidable": False, "replicas": replicas}
    located: list[Row] = [{"bookie_id": BOOKIE, "log_id": 9, "scope_id": 0, "ledger_id": 33, "entries": 1}]
    rows_by_log = read_logs(spark, write_logs(tmp_path), [], located if is_located else [], [ledger])
    assert rows_by_log == ({} if is_located else {(3, 33): ([0, 1, 2, 3], 4 * ENTRY, [])})


def test_unreadable_log_gives_null_entries(spark: SparkSession, tmp_path: Path) -> None:
    rows = [judged(30, missing=missing_copies(BOOKIE, 3))]
    logs = write_logs(tmp_path)
    Path(tmp_path, "1.log").unlink()
    assert read_logs(spark, logs, rows) == {(1, 30): (None, None, None), (2, 30): ([3], 2 * ENTRY, [])}


def test_entries_after_damage_in_log_are_unknown(spark: SparkSession, tmp_path: Path) -> None:
    """The record of entry 1 is damaged: entry 0 is known, and the following entries are unknown."""
    rows = [judged(30, missing=missing_copies(BOOKIE, 0)), judged(31, missing=missing_copies(BOOKIE, 2))]
    rows_by_log = read_logs(spark, write_logs(tmp_path, damaged=1), rows)
    assert rows_by_log == {(1, 30): ([0], ENTRY, []), (1, 31): (None, None, None)}


def test_a_task_reads_a_bounded_number_of_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pyarrow as pa

    monkeypatch.setattr(module, "MAX_TASK_BYTES", 1)
    write_logs(tmp_path)
    part = {"scope_id": 0, "ledger_id": 30, "bytes": 9, "wanted": [packed(3)], "any_entry": False}
    logs = [
        {"bookie_id": BOOKIE, "directory": "", "path": str(tmp_path / f"{log_id}.log"), "log_id": log_id}
        | {"parts": [part | {"no_copy": None}]}
        for log_id in (1, 2)
    ]
    batches = module._read_logs(iter([pa.RecordBatch.from_pylist(logs)]))
    rows = [row for batch in batches for row in batch.to_pylist()]
    assert [(row["entries"], row["reason"]) for row in rows] == [(1, None), (None, module.OVER_LIMIT_REASON)]


def test_log_entries_are_separated_by_scope(tmp_path: Path) -> None:
    path = tmp_path / "1.log"
    path.write_bytes(log([(30, 1, 20)], closed=False) + scoped(5, 30, 2, 20))
    part = {"ledger_id": 30, "bytes": 9, "wanted": [packed(1, 2)], "any_entry": False, "no_copy": None}
    rows, size = module.read_log_rows(str(path), [part | {"scope_id": 0}, part | {"scope_id": 5}])
    assert [entries_of(row["groups"]) for row in rows] == [[1], [2]]
    assert size == path.stat().st_size
    whole = read_ledger_entries(str(path), np.array([30]))
    assert (whole.scope_ids.tolist(), whole.entry_ids.tolist()) == ([0, 5], [1, 2])
    assert np.frombuffer(rows[0]["groups"], GROUP).tolist() == [(1, 1, 1, 0)]
