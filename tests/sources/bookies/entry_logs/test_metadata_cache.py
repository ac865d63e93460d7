"""Tests of a collector's metadata cache against the logs: equal, dropped and wrong records."""

from __future__ import annotations

import struct
import tarfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditor.sources.bookies.entry_logs.parts import CACHE_NAME, LogPart, open_cache, read_logs_of
from auditor.sources.bookies.entry_logs.reader import contents_of
from tests.codecs.bookie.test_entry_log_records import scan_one_by_one
from tests.codecs.entry_logs import Entry, log
from tests.sources.rocksdb_databases import write_database

ENTRIES: list[Entry] = [(5, 0, 2), (5, 1, 2), (9, 2, 2)]
WHOLE = {5: 44, 9: 22}


GOLDEN = Path(__file__).parents[3] / "data" / "entry-logs" / "collected.tar.gz"
"""Two closed logs of a bookie of 4.17, with its metadata cache, after it collected ledger 5."""


def test_cache_of_a_real_collector_matches_its_logs(tmp_path: Path) -> None:
    with tarfile.open(GOLDEN) as archive:
        archive.extractall(tmp_path, filter="data")
    part = LogPart("bk1", 0, str(tmp_path), None, verify=True)
    all_rows = [row for batch in read_logs_of(part) for row in batch.to_pylist()]
    files = [row for row in all_rows if row["ledger_id"] is None]
    assert [(row["log_id"], row["state"], row["cache"], row["counted"]) for row in files] == [
        (0, "ok", "ok", "scan"),
        (2, "ok", "ok", "scan"),
    ]
    for row in files:
        data = (tmp_path / "current" / f"{row['log_id']:x}.log").read_bytes()
        parts = ("header_bytes", "entry_bytes", "padding_bytes", "map_bytes", "tail_bytes")
        assert sum(row[name] for name in parts) == len(data) == row["bytes"]
        sizes: Counter[int] = Counter()
        for _, size, _, ledger, _ in scan_one_by_one(data):
            sizes[ledger] += size
        ledger_sizes = {
            ledger_row["ledger_id"]: ledger_row["entry_bytes"]
            for ledger_row in all_rows
            if ledger_row["log_id"] == row["log_id"] and ledger_row["ledger_id"] is not None
        }
        assert ledger_sizes == sizes
    dropped = [row for row in all_rows if row["cached_bytes"] == 0]
    assert [(row["log_id"], row["ledger_id"], row["entry_bytes"]) for row in dropped] == [(2, 5, 1300)]


def value(
    ledgers: Mapping[int, int], log_id: int = 31, total: int = 66, remaining: int | None = None
) -> bytes:
    remaining = sum(ledgers.values()) if remaining is None else remaining
    head = struct.pack(">hqqqq", 0, log_id, total, remaining, len(ledgers))
    return head + b"".join(struct.pack(">qq", *pair) for pair in ledgers.items())


def rows(root: Path, *cached: bytes, cache: Path | None = None) -> list[dict[str, Any]]:
    """Return the rows of a directory with log 1f, for which the cache has the records ``cached``."""
    current = root / "current"
    current.mkdir(exist_ok=True)
    (current / "1f.log").write_bytes(log(ENTRIES))
    written = {struct.pack(">q", 31 + number): record for number, record in enumerate(cached)}
    write_database((cache or root) / "current" / CACHE_NAME, written)
    part = LogPart("bk1", 0, str(root), None, cache=str(cache) if cache else None)
    return [row for batch in read_logs_of(part) for row in batch.to_pylist()]


def test_cache_equal_to_its_log_is_ok(tmp_path: Path) -> None:
    file, *ledgers = rows(tmp_path, value(WHOLE))
    assert (file["cache"], file["cache_reason"], file["state"]) == ("ok", None, "ok")
    assert {row["ledger_id"]: row["cached_bytes"] for row in ledgers} == WHOLE


def test_ledger_dropped_by_the_collector_is_reported_and_no_contradiction(tmp_path: Path) -> None:
    file, *ledgers = rows(tmp_path, value({9: 22}))
    assert file["cache"] == "ok"
    assert {row["ledger_id"]: row["cached_bytes"] for row in ledgers} == {5: 0, 9: 22}


def test_cache_in_the_first_directory_serves_the_other_directories(tmp_path: Path) -> None:
    (tmp_path / "l0").mkdir()
    (tmp_path / "l1").mkdir()
    file, *_ = rows(tmp_path / "l1", value(WHOLE), cache=tmp_path / "l0")
    assert file["cache"] == "ok"


WRONG = {
    "other bytes of a ledger": (value({5: 40, 9: 22}), "lists 40 bytes for ledger 5; the log has 44"),
    "a ledger that is not there": (value({5: 44, 7: 1}), "lists 1 bytes for ledger 7; the log has 0"),
    "another sum": (value(WHOLE, total=70), "lists 70 bytes of entries; the log has 66"),
    "more that remains": (value({5: 44}, remaining=66), "66 bytes remain, but its ledgers have 44 bytes"),
    "another log": (value(WHOLE, log_id=30), "the record for this log has log id 30"),
}


@pytest.mark.parametrize(("cached", "reason"), WRONG.values(), ids=WRONG.keys())
def test_cache_that_contradicts_its_log_is_wrong(tmp_path: Path, cached: bytes, reason: str) -> None:
    file, *_ = rows(tmp_path, cached)
    assert (file["cache"], file["cache_reason"]) == ("wrong", f"{CACHE_NAME}: {reason}")


def test_invalid_cache_value_is_unreadable_with_its_offset(tmp_path: Path) -> None:
    file, *ledgers = rows(tmp_path, value(WHOLE)[:-1])
    assert file["cache"] == "unreadable"
    assert file["cache_reason"] == (
        f"{CACHE_NAME}: entry log metadata: 2 ledgers of 16 bytes each declared, 31 bytes present "
        "(at byte 26)"
    )
    assert {row["cached_bytes"] for row in ledgers} == {None}


def test_log_without_cache_record_and_directory_without_cache_have_no_state(tmp_path: Path) -> None:
    file, *ledgers = rows(tmp_path)
    assert (file["cache"], {row["cached_bytes"] for row in ledgers}) == (None, {None})
    with open_cache(str(tmp_path / "nowhere")) as cache:
        assert cache.check_record(31, contents_of(lambda offset, length: b"", 0)).state is None


def test_invalid_cache_database_is_unreadable_and_logs_are_still_read(tmp_path: Path) -> None:
    rows(tmp_path, value(WHOLE))
    for file in (tmp_path / "current" / CACHE_NAME).glob("MANIFEST-*"):
        file.write_bytes(b"no manifest")
    part = LogPart("bk1", 0, str(tmp_path), None)
    log_row, *ledgers = [row for batch in read_logs_of(part) for row in batch.to_pylist()]
    assert (log_row["cache"], log_row["state"]) == ("unreadable", "ok")
    assert log_row["cache_reason"].startswith(f"{CACHE_NAME}: ")
    assert {row["ledger_id"]: row["entry_bytes"] for row in ledgers} == WHOLE


@given(st.dictionaries(st.sampled_from([5, 9]), st.just(None)))
def test_any_subset_of_the_ledgers_of_a_log_agrees(dropped: dict[int, None]) -> None:
    from auditor.codecs.bookie.entry_log import decode_metadata
    from auditor.sources.bookies.entry_logs.parts import find_contradiction

    data = log(ENTRIES)
    contents = contents_of(lambda offset, length: data[offset : offset + length], len(data))
    remaining = {ledger: size for ledger, size in WHOLE.items() if ledger not in dropped}
    assert find_contradiction(31, decode_metadata(value(remaining)), remaining, contents) is None
