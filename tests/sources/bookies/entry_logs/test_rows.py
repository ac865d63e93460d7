from __future__ import annotations

import gzip
import os
from pathlib import Path

import pyarrow as pa
import pytest

from auditor.sources.bookies.entry_logs.rows import SCHEMA, list_logs, read_logs, sizes_of
from auditor.sources.bookies.parts import list_current
from tests.codecs.bookie.test_entry_log import HEADER, MAP, MAP_AT, filled

LOGS = Path(__file__).parents[3] / "data" / "entry-logs"
CLOSED = filled(HEADER).ljust(MAP_AT, b"e") + MAP


@pytest.fixture
def current(tmp_path: Path) -> Path:
    directory = tmp_path / "ledgers0" / "current"
    directory.mkdir(parents=True)
    return directory


def test_row_of_a_closed_log_has_its_sizes_and_ledger_count(current: Path) -> None:
    (current / "1f.log").write_bytes(CLOSED)
    os.utime(current / "1f.log", (70.25, 70.25))
    (row,) = read_logs(str(current.parent))
    assert row == {
        "directory": str(current.parent), "path": str(current / "1f.log"), "log_id": 31, "bytes": 1146,
        "mtime": 70_250, "version": 1, "ledgers": 2, "entry_bytes": 66, "state": "ok", "reason": None,
        "offset": None, "kind": "log", "scope_id": None, "ledger_id": None, "entries": None, "counted": "map",
        "direct": False, "header_bytes": 1024, "map_bytes": 56, "padding_bytes": 0, "tail_bytes": 0,
        "cache": None, "cache_reason": None, "cached_bytes": None, "collector_scan": None,
        "collected_bytes": None,
    }  # fmt: skip
    assert pa.Table.from_pylist([row], SCHEMA).num_rows == 1


def test_open_log_of_a_real_bookie_has_no_map_and_is_not_damaged(current: Path) -> None:
    for name, log in (("0.log", "interleaved"), ("1.log", "dbledger")):
        (current / name).write_bytes(gzip.decompress((LOGS / f"{log}.log.gz").read_bytes()))
    rows = list(read_logs(str(current.parent)))
    assert [(row["log_id"], row["bytes"], row["state"]) for row in rows] == [
        (0, 1368, "no-map"),
        (1, 10_276, "no-map"),
    ]
    assert {row["entry_bytes"] for row in rows} == {None}


def test_damaged_log_has_a_row_with_its_offset_and_other_logs_are_read(current: Path) -> None:
    (current / "0.log").write_bytes(CLOSED[:-1])
    (current / "1.log").write_bytes(b"")
    (current / "2.log").write_bytes(CLOSED[:1024])
    (current / "3.log").write_bytes(CLOSED)
    (current / "4.log").mkdir()
    rows = list(read_logs(str(current.parent)))
    assert [(row["state"], row["offset"]) for row in rows] == [
        ("unreadable", 1145),
        ("unreadable", 0),
        ("unreadable", 1024),
        ("ok", None),
        ("unreadable", None),
    ]
    assert all(row["reason"] for row in rows if row["state"] == "unreadable")
    assert rows[0]["version"] == 1


def test_only_valid_log_names_are_read_in_order_of_their_ids(current: Path) -> None:
    for name in (
        "a.log",
        "9.log",
        "b.log.compacting",
        "b.log.9.compacted",
        "lastId",
        "xyz.log",
        "ffffffff.log",
    ):
        (current / name).write_bytes(CLOSED)
    assert [row["log_id"] for row in read_logs(str(current.parent))] == [9, 10]


def test_directory_that_cannot_be_listed_is_unreadable(tmp_path: Path) -> None:
    (row,) = read_logs(str(tmp_path / "gone"))
    assert (row["state"], row["reason"], row["log_id"]) == ("unreadable", "No such file or directory", None)


def test_log_files_are_classified_by_name_like_the_server(current: Path) -> None:
    """Names are the lower-case hexadecimal digits of an id. RocksDB's own logs are in other directories."""
    logs = ("0.log", "1f.log", "7.log.compacting", "8.log.7.compacted")
    odd_names = ("1F.log", "00001f.log", "000012.log", "80000000.log", "x.log", "log", "8.log.7.compacted.gz")
    for name in (*logs, *odd_names):
        (current / name).write_bytes(b"x")
    ranges = current / "ranges" / "000000000000000" / "000012.log"
    ranges.parent.mkdir(parents=True)
    ranges.write_bytes(bytes(70))
    assert {log.name for log in list_logs(str(current.parent))} == set(logs)
    sizes = sizes_of(str(current.parent))
    assert (sizes["other_bytes"], sizes["rocksdb_bytes"]) == (len(odd_names), 70)
    assert list_current(str(current.parent))[0] == []
