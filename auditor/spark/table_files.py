"""The Parquet files of one table, which the driver and tasks read without Spark.

If no Spark query needs the rows of a finished table, its files are read in this way.
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

_CONCURRENT_FOOTER_READS = 16


@dataclass(frozen=True)
class TableFiles:
    """The Parquet files of one table on a file system, each with its size in bytes.

    The object can be sent to tasks.
    """

    file_system: fs.FileSystem
    files: tuple[tuple[str, int], ...]

    @classmethod
    def from_directory(cls, file_system: fs.FileSystem, directory: str) -> TableFiles:
        """Return all files of the table in a directory, or no files if there is no table."""
        file_infos = file_system.get_file_info(fs.FileSelector(directory, allow_not_found=True))
        parquet_infos = [file_info for file_info in file_infos if file_info.type == fs.FileType.File]
        parquet_infos = [file_info for file_info in parquet_infos if file_info.base_name.endswith(".parquet")]
        return cls(
            file_system, tuple(sorted((file_info.path, file_info.size) for file_info in parquet_infos))
        )

    @property
    def size(self) -> int:
        """Return the size of all files in bytes."""
        return sum(file_bytes for _, file_bytes in self.files)

    def split_files(self, max_groups: int) -> list[TableFiles]:
        """Divide the files into at most ``max_groups`` groups of about the same size, for different tasks."""
        task_files: list[list[tuple[str, int]]] = [[] for _ in range(min(max_groups, len(self.files)))]
        group_bytes = [0] * len(task_files)
        for path, file_bytes in sorted(self.files, key=lambda file: (-file[1], file[0])):
            smallest_group = group_bytes.index(min(group_bytes))
            task_files[smallest_group].append((path, file_bytes))
            group_bytes[smallest_group] += file_bytes
        return [replace(self, files=tuple(files)) for files in task_files]

    def row_groups(
        self, columns: Sequence[str], dictionary_columns: Sequence[str], group_rows: int
    ) -> Iterator[pa.Table]:
        """Yield the given columns in tables of about ``group_rows`` rows.

        The limits of `read_row_groups` apply. The ``dictionary_columns`` are dictionary-encoded.
        """
        for path, _ in self.files:
            yield from read_row_groups(
                partial(self._open_parquet, path), slice(None), columns, dictionary_columns, group_rows
            )

    def open(self, dictionary_columns: Sequence[str] = ()) -> Iterator[pq.ParquetFile]:
        """Open the files one after another, and yield each. Close a file before the next one is opened.

        The ``dictionary_columns`` are read dictionary-encoded.
        """
        for path, _ in self.files:
            with self._open_parquet(path, dictionary_columns) as file:
                yield file

    def read(self, columns: Sequence[str]) -> pa.Table:
        """Read the given columns of all rows into memory.

        Use this only for tables that are known to be small.
        """
        tables = [file.read(list(columns), use_threads=False) for file in self.open()]
        return pa.concat_tables(tables)

    def column_bytes(self, columns: Sequence[str]) -> int:
        """Return the size in memory of the given columns of all files, in bytes.

        The sizes come from the footers of the files.
        """
        with ThreadPoolExecutor(_CONCURRENT_FOOTER_READS) as thread_pool:
            return sum(thread_pool.map(partial(self._file_bytes, columns), [path for path, _ in self.files]))

    def _open_parquet(self, path: str, dictionary_columns: Sequence[str]) -> pq.ParquetFile:
        # Read ahead from remote stores, because each small read is a request; local disks need no read-ahead.
        prefetches_file = self.file_system.type_name != "local"
        return pq.ParquetFile(
            path,
            read_dictionary=list(dictionary_columns),
            pre_buffer=prefetches_file,
            filesystem=self.file_system,
        )

    def _file_bytes(self, columns: Sequence[str], path: str) -> int:
        metadata = pq.read_metadata(path, filesystem=self.file_system)
        return sum(column_bytes(metadata, row_group, columns) for row_group in range(metadata.num_row_groups))


OpenParquet = Callable[[Sequence[str]], pq.ParquetFile]
"""Function that opens a file, and reads the given columns of it as dictionary codes."""


def read_row_groups(
    open_file: OpenParquet,
    group_slice: slice,
    columns: Sequence[str],
    dictionary_columns: Sequence[str],
    max_rows: int,
) -> Iterator[pa.Table]:
    """Yield the given columns of some row groups of a file, in tables of bounded size.

    Each table consists of complete row groups, which have about ``max_rows`` rows together. A row group
    that is larger than `auditor.model.batch_bounds.MAX_BATCH_BYTES` is divided among several tables.

    Args:
        open_file: opens the file.
        group_slice: the row groups to read.
        columns: the columns to read.
        dictionary_columns: the columns that are read as dictionary codes.
        max_rows: number of rows after which a table ends.
    """
    with open_file(dictionary_columns) as file:
        metadata = file.metadata
        for row_groups in batch_row_groups(
            metadata, range(file.num_row_groups)[group_slice], columns, max_rows
        ):
            first_row_group = metadata.row_group(row_groups[0])
            max_batch_rows = batch_rows(
                first_row_group.num_rows, column_bytes(metadata, row_groups[0], columns), max_rows
            )
            if len(row_groups) > 1 or max_batch_rows >= first_row_group.num_rows:
                yield file.read_row_groups(row_groups, list(columns), use_threads=False)
                continue
            # With dictionary codes, each batch would carry the values of all earlier batches.
            with open_file(()) as plain_file:
                for batch in plain_file.iter_batches(
                    max_batch_rows, row_groups, list(columns), use_threads=False
                ):
                    yield _encode_columns(batch, dictionary_columns)


def _encode_columns(batch: pa.RecordBatch, dictionary_columns: Sequence[str]) -> pa.Table:
    columns = {
        column_name: column.dictionary_encode() if column_name in dictionary_columns else column
        for column_name, column in zip(batch.schema.names, batch.columns, strict=True)
    }
    return pa.table(columns)


FileReader = Callable[[TableFiles], Iterator[pa.RecordBatch]]
"""Function that makes rows from some files of a table."""
