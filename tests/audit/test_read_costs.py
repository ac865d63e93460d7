"""The driver reads indexes and journals only if that is quick. It estimates the time without reading them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pytest

from auditor.audit.index_scan import index_cost
from auditor.audit.journal_scan import journal_cost
from auditor.sources.bookies.journal.files import JournalDirectory
from auditor.sources.bookies.journal.tails import JournalTailPart
from auditor.sources.bookies.parts import INDEX_FILES, ROCKSDB, IndexDirectory, IndexPart
from auditor.spark import execution
from auditor.spark.execution import read_parts
from auditor.spark.part_tables import PartTable, ReadCost

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = pa.schema([("entry_id", pa.int64())])


def index(directory: Path, storage: str = INDEX_FILES) -> list[IndexPart]:
    return [IndexPart("bk1:3181", (IndexDirectory(str(directory), None, storage),), ())]


def write(path: Path, size: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * size)


def _read(part: int) -> Iterator[pa.RecordBatch]:
    yield pa.record_batch({"entry_id": [part]}, schema=COLUMNS)


@pytest.fixture
def is_short(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function: whether the driver reads a table of a cost if it may take that many seconds."""

    def reads(cost: ReadCost, seconds: float) -> bool:
        monkeypatch.setattr(execution, "DRIVER_SECONDS", seconds)
        table = PartTable.from_parts(cast("SparkSession", None), COLUMNS, _read, [7], cost)
        return isinstance(read_parts(table), pa.Table)

    return reads


def test_index_file_cost_follows_ledger_count_and_ignores_entry_logs(tmp_path: Path, is_short: Any) -> None:
    write(tmp_path / "current" / "7.log", 10_000_000)
    assert is_short(index_cost(index(tmp_path), 5_000), 0.101)
    assert not is_short(index_cost(index(tmp_path), 5_100), 0.101)
    assert is_short(index_cost(index(tmp_path, ROCKSDB), 1_000_000), 0.001), "a database is no file a ledger"


def test_costs_of_both_index_kinds_add_up(tmp_path: Path, is_short: Any) -> None:
    write(tmp_path / "rocksdb" / "current" / "ledgers" / "000007.sst", 100_000)
    parts = [*index(tmp_path / "files"), *index(tmp_path / "rocksdb", ROCKSDB)]
    assert is_short(index_cost(parts, 100), 0.004)
    assert not is_short(index_cost(parts, 190), 0.004)


@pytest.mark.parametrize("database", ["ledgers", "locations"])
def test_rocksdb_index_cost_counts_the_files_of_each_database(
    tmp_path: Path, database: str, is_short: Any
) -> None:
    write(tmp_path / "current" / database / "000007.sst", 100_000)
    write(tmp_path / "current" / "7.log", 10_000_000)
    assert is_short(index_cost(index(tmp_path, ROCKSDB), 1), 0.004)
    assert not is_short(index_cost(index(tmp_path, ROCKSDB), 1), 0.0005)


def test_journal_cost_counts_the_whole_file(tmp_path: Path, is_short: Any) -> None:
    write(tmp_path / "current" / "19.txn", 100_000)
    parts = [JournalTailPart("bk1:3181", (JournalDirectory(str(tmp_path), "", 0x19, 90_000),))]
    assert is_short(journal_cost(parts), 0.004)
    assert not is_short(journal_cost(parts), 0.0005)


def test_missing_or_empty_input_is_a_short_read(tmp_path: Path, is_short: Any) -> None:
    for cost in (
        index_cost(index(tmp_path / "gone"), 0),
        index_cost(index(tmp_path / "gone", ROCKSDB), 0),
        index_cost([], 0),
        journal_cost([]),
    ):
        assert is_short(cost, 1.5)


def test_slow_size_lookup_leaves_the_read_to_spark_tasks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_short: Any
) -> None:
    write(tmp_path / "current" / "ledgers" / "000007.sst", 10)
    monkeypatch.setattr(execution, "SIZE_LOOKUP_SECONDS", 0)
    assert not is_short(index_cost(index(tmp_path, ROCKSDB), 1), 1.5)
