"""Tests that read the tables of a run batch by batch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from auditor.errors import FileSystemError, RunError, RunUnreadableError
from auditor.runs.directory import RunDirectory
from auditor.runs.reader import RunReader
from tests.servers.nobody import as_nobody

ROWS = 20_000


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    """Return a run whose findings are numbers and their texts, in two files with one row group each."""
    (tmp_path / "findings").mkdir()
    for part in range(2):
        numbers = range(part * ROWS, (part + 1) * ROWS)
        table = pa.table({"number": numbers, "text": [f"finding {number}" for number in numbers]})
        file = tmp_path / "findings" / f"part-{part}.parquet"
        pq.write_table(table, file, write_page_checksum=True, use_dictionary=False)
    return RunDirectory(str(tmp_path))


def test_batches_are_small_and_have_all_rows_in_order(run: RunDirectory) -> None:
    batches = list(run.batches("findings", ["text", "number"]))
    assert max(len(batch) for batch in batches) < ROWS / 2
    assert {tuple(batch.schema.names) for batch in batches} == {("text", "number")}
    assert [number for batch in batches for number in batch["number"].to_pylist()] == [*range(2 * ROWS)]
    assert next(run.batches("findings")).schema.names == ["number", "text"]


def test_filter_selects_rows_of_a_table(run: RunDirectory) -> None:
    batches = run.batches("findings", ["text"], ds.field("number") == ROWS + 1)
    assert [row for batch in batches for row in batch.to_pylist()] == [{"text": f"finding {ROWS + 1}"}]


def test_flipped_byte_and_missing_column_are_reported_as_damage(run: RunDirectory) -> None:
    with pytest.raises(RunError, match="findings is damaged"):
        list(run.batches("findings", ["nothing"]))
    file = Path(run.path, "findings", "part-1.parquet")
    bytes_ = bytearray(file.read_bytes())
    bytes_[len(bytes_) // 2] ^= 1
    file.write_bytes(bytes_)
    with pytest.raises(RunError, match="findings is damaged"):
        list(run.batches("findings"))


def test_damaged_footer_does_not_end_the_process(run: RunDirectory) -> None:
    """Arrow ends the process if it reads a column whose type in the footer differs from the schema's."""
    file = Path(run.path, "findings", "part-0.parquet")
    content = file.read_bytes()
    size = int.from_bytes(content[-8:-4], "little")
    refused = 0
    for offset in range(len(content) - 8 - size, len(content) - 8):
        file.write_bytes(content[:offset] + bytes([content[offset] ^ 4]) + content[offset + 1 :])
        try:
            list(run.batches("findings"))
        except RunError:
            refused += 1
    assert 0 < refused < size


READERS: dict[str, Callable[[str], object]] = {
    "report.json": lambda run: RunReader(run).report,
    "manifest.json": lambda run: RunDirectory(run).read_manifest(),
}


@pytest.mark.parametrize("name", READERS)
def test_unreadable_file_is_not_reported_as_damaged(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("{}")
    (tmp_path / name).chmod(0)
    with as_nobody(), pytest.raises(RunUnreadableError, match=f"{name} cannot be read: Permission denied"):
        READERS[name](str(tmp_path))
    assert RunUnreadableError.exit_code == FileSystemError.exit_code
