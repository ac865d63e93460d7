"""Parquet files of one table, as driver and tasks read them without Spark.

If no query needs the rows of a finished table, driver and tasks read its files directly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa
from pyarrow import fs
from pyarrow import parquet as pq

from auditor.model.batch_bounds import batch_row_groups, batch_rows, column_bytes

_FOOTERS_AT_ONCE = 16


@dataclass(frozen=True)
class TableFiles:
    """Parquet files of one table on a file system, each with its size in bytes. It can be sent to tasks."""

    system: fs.FileSystem
    files: tuple[tuple[str, int], ...]

    @classmethod
    def of(cls, system: fs.FileSystem, where: str) -> TableFiles:
        """Return all files of the table in the directory ``where``. There are none if there is no table."""
        file_infos = system.get_file_info(fs.FileSelector(where, allow_not_found=True))
        parts = [file_info for file_info in file_infos if file_info.type == fs.FileType.File]
        parts = [file_info for file_info in parts if file_info.base_name.endswith(".parquet")]
        return cls(system, tuple(sorted((file_info.path, file_info.size) for file_info in parts)))

    @property
    def size(self) -> int:
        """Return the size of all files in bytes."""
        return sum(size for _, size in self.files)

    def lots(self, lot_count: int) -> list[TableFiles]:
        """Divide the files among tasks: into at most ``lot_count`` groups of about equal size."""
        task_files: list[list[tuple[str, int]]] = [[] for _ in range(min(lot_count, len(self.files)))]
        sizes = [0] * len(task_files)
        for path, size in sorted(self.files, key=lambda file: (-file[1], file[0])):
            smallest_lot = sizes.index(min(sizes))
            task_files[smallest_lot].append((path, size))
            sizes[smallest_lot] += size
        return [replace(self, files=tuple(files)) for files in task_files]

    def row_groups(self, columns: Sequence[str], coded: Sequence[str], group_rows: int) -> Iterator[pa.Table]:
        """Yield some columns in tables of about ``group_rows`` rows, within the limits of `read_bounded`.

        ``coded`` columns are dictionary codes.
        """
        for path, _ in self.files:
            yield from read_bounded(
                partial(self._open_parquet, path), slice(None), columns, coded, group_rows
            )

    def open(self, coded: Sequence[str] = ()) -> Iterator[pq.ParquetFile]:
        """Open each file in turn, and close it before the next. ``coded`` columns become dictionary codes."""
        for path, _ in self.files:
            with self._open_parquet(path, coded) as file:
                yield file

    def read(self, columns: Sequence[str]) -> pa.Table:
        """Read some columns of all rows into memory. Use it only for tables that are known to be small."""
        tables = [file.read(list(columns), use_threads=False) for file in self.open()]
        return pa.concat_tables(tables)

    def column_bytes(self, columns: Sequence[str]) -> int:
        """Return the number of bytes that some columns of all files take in memory, by the files' footers."""
        with ThreadPoolExecutor(_FOOTERS_AT_ONCE) as pool:
            return sum(pool.map(partial(self._file_bytes, columns), [path for path, _ in self.files]))

    def _open_parquet(self, path: str, coded: Sequence[str]) -> pq.ParquetFile:
        # Read ahead from remote stores, because each small read is a request; local disks need no read-ahead.
        reads_ahead = self.system.type_name != "local"
        return pq.ParquetFile(
            path, read_dictionary=list(coded), pre_buffer=reads_ahead, filesystem=self.system
        )

    def _file_bytes(self, columns: Sequence[str], path: str) -> int:
        metadata = pq.read_metadata(path, filesystem=self.system)
        return sum(column_bytes(metadata, group, columns) for group in range(metadata.num_row_groups))


OpenParquet = Callable[[Sequence[str]], pq.ParquetFile]
"""Type of a function that opens a file so that the given columns are read as dictionary codes."""


def read_bounded(
    open_file: OpenParquet, groups: slice, columns: Sequence[str], coded: Sequence[str], max_rows: int
) -> Iterator[pa.Table]:
    """Yield some columns of some row groups of a file, in tables of bounded size.

    A table has whole row groups, with about ``max_rows`` rows together. If a row group is larger than
    `auditor.model.batch_bounds.MAX_BATCH_BYTES`, a table has only a part of it.

    Args:
        open_file: opens the file.
        groups: the row groups to read.
        columns: the columns to read.
        coded: the columns that are read as dictionary codes.
        max_rows: number of rows after which a table ends.
    """
    with open_file(coded) as file:
        metadata = file.metadata
        for row_groups in batch_row_groups(metadata, range(file.num_row_groups)[groups], columns, max_rows):
            first = metadata.row_group(row_groups[0])
            max_batch_rows = batch_rows(
                first.num_rows, column_bytes(metadata, row_groups[0], columns), max_rows
            )
            if len(row_groups) > 1 or max_batch_rows >= first.num_rows:
                yield file.read_row_groups(row_groups, list(columns), use_threads=False)
                continue
            # With dictionary codes, each batch would carry the values of all earlier batches.
            with open_file(()) as plain_file:
                for batch in plain_file.iter_batches(
                    max_batch_rows, row_groups, list(columns), use_threads=False
                ):
                    yield _encode_columns(batch, coded)


def _encode_columns(batch: pa.RecordBatch, coded: Sequence[str]) -> pa.Table:
    columns = {
        name: column.dictionary_encode() if name in coded else column
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    }
    return pa.table(columns)


FileReader = Callable[[TableFiles], Iterator[pa.RecordBatch]]
"""Type of a function that makes rows from some files of a table."""
