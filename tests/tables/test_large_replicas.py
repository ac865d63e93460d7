"""Replicas with 1 MB of groups each are compared in bounded memory, however many there are."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from auditor.model.batch_bounds import MAX_BATCH_BYTES, batch_row_groups, whole_batch_rows
from auditor.sources.bookies.availability import SCHEMA

REPLICAS = 2_200
GROUPS = 43_690
"""In 1 MB of groups: 24 bytes each."""
MAX_MIB = 500


def write_availability(path: Path, rows_per_group: int) -> None:
    """Write index rows of different ledgers with 1 MB of groups each, packed to a twentieth in the file."""
    starts = np.arange(GROUPS, dtype=np.int64) * 3
    groups = np.zeros(
        GROUPS, np.dtype([("first", ">i8"), ("last", ">i8"), ("size", ">i4"), ("period", ">i4")])
    )
    with pq.ParquetWriter(path, SCHEMA, compression="zstd", use_dictionary=["bookie_id"]) as writer:
        for start in range(0, REPLICAS, rows_per_group):
            batches = []
            for ledger in range(start, min(start + rows_per_group, REPLICAS)):
                groups["first"] = groups["last"] = starts + ledger
                groups["size"] = 1
                row = {
                    "bookie_id": "bk1:3181", "scope_id": 0, "ledger_id": ledger, "groups": groups.tobytes(),
                    "state": "ok", "storage": "idx", "page_bytes": 8192, "reused": False,
                }  # fmt: skip
                batches.append(pa.RecordBatch.from_pylist([row], schema=SCHEMA))
            writer.write_table(pa.Table.from_batches(batches))


COMPARE = """
import sys
from pathlib import Path
import pyarrow as pa
from pyarrow import fs
from auditor.spark.table_files import TableFiles
from auditor.tables.accounts import GROUP_COLUMNS, index_replicas
from auditor.tables.replica_blocks import BLOCK_SCHEMA, Evidence
from auditor.tables.unequal import BookieTrust, _compare_bucket, _pack_blocks
from auditor.spark.query_plans import PARTITION_BYTES

folder = Path(sys.argv[1])
files = TableFiles.from_directory(fs.LocalFileSystem(), str(folder / "availability"))
size = files.column_bytes(GROUP_COLUMNS)
buckets = -(-size // PARTITION_BYTES)
packed = pa.ipc.IpcWriteOptions(compression="zstd")
paths = [folder / f"{bucket}.arrows" for bucket in range(buckets)]
writers = [pa.ipc.new_stream(str(path), BLOCK_SCHEMA, options=packed) for path in paths]
for blocks in _pack_blocks(Evidence.INDEX, index_replicas, files, buckets):
    for row, bucket in enumerate(blocks["bucket"].to_pylist()):
        writers[bucket].write_batch(blocks.slice(row, 1))
for writer in writers:
    writer.close()
rows = largest = 0
for path in paths:
    with pa.OSFile(str(path)) as source:
        for batch in _compare_bucket(pa.ipc.open_stream(source), BookieTrust()):
            rows += batch.num_rows
            largest = max(largest, batch.nbytes)
[peak] = [line for line in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in line]
print(size, rows, largest, int(peak.split()[1]) / 1024)
"""
"""What tasks do with files of replicas, one after the other: Spark would keep the blocks in between."""


@pytest.mark.parametrize("rows_per_group", [64, 256])
def test_large_replicas_are_compared_in_bounded_memory(rows_per_group: int, tmp_path: Path) -> None:
    (tmp_path / "availability").mkdir()
    write_availability(tmp_path / "availability" / "part-0.parquet", rows_per_group)
    done = subprocess.run(
        [sys.executable, "-c", COMPARE, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    size, rows, largest, mib = map(float, done.stdout.split())
    assert size > REPLICAS << 20 > 2 << 30
    assert rows == REPLICAS
    assert largest <= 2 * MAX_BATCH_BYTES
    assert mib <= MAX_MIB


@pytest.fixture
def metadata(tmp_path: Path) -> pq.FileMetaData:
    """Return metadata of three row groups with 10 rows of 1 MB each, and one with 1,000 small rows."""
    rng = np.random.default_rng(7)
    schema = pa.schema([("id", pa.int64()), ("parts", pa.list_(pa.struct([("groups", pa.binary())])))])
    with pq.ParquetWriter(tmp_path / "t.parquet", schema, use_dictionary=False) as writer:
        for rows, size in ((10, 1 << 20), (10, 1 << 20), (10, 1 << 20), (1000, 24)):
            parts = [[{"groups": rng.bytes(size)}] for _ in range(rows)]
            writer.write_table(pa.table({"id": range(rows), "parts": parts}, schema=schema))
    return pq.read_metadata(tmp_path / "t.parquet")


@pytest.mark.parametrize(
    ("max_bytes", "max_rows", "columns", "batches"),
    [
        (64 << 20, 10_000, ["parts.list.element.groups"], [[0, 1, 2, 3]]),
        (25 << 20, 10_000, ["parts.list.element.groups"], [[0, 1], [2, 3]]),
        (25 << 20, 10_000, ["parts"], [[0, 1], [2, 3]]),
        (5 << 20, 10_000, ["id", "parts"], [[0], [1], [2], [3]]),
        (5 << 20, 10_000, ["id"], [[0, 1, 2, 3]]),
        (64 << 20, 20, ["parts"], [[0, 1], [2, 3]]),
    ],
)
def test_row_groups_are_read_together_within_both_bounds(
    max_bytes: int,
    max_rows: int,
    columns: list[str],
    batches: list[list[int]],
    metadata: pq.FileMetaData,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("auditor.model.batch_bounds.MAX_BATCH_BYTES", max_bytes)
    assert list(batch_row_groups(metadata, range(4), columns, max_rows)) == batches


def test_large_row_group_is_cut_by_bytes(metadata: pq.FileMetaData, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("auditor.model.batch_bounds.MAX_BATCH_BYTES", 5 << 20)
    assert [whole_batch_rows(metadata, group, 500) for group in range(4)] == [4, 4, 4, 500]
