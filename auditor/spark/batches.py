"""Arrow batches to tables and back: read and worked on by Spark's tasks, or by the driver where they are few.

Two Python processes start before a task has its first row, and load what the driver has loaded already. A
data source that is asked for by name is planned in four more: so sources are planned here. Files of a landed
table are read by driver and tasks as they lie, where no rows of Spark's are needed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa
from pyarrow import fs
from pyarrow import parquet as pq

from auditor.model.batch_bounds import batch_rows, column_bytes, group_lots
from auditor.spark import functions as F
from auditor.spark.part_tables import PartTable, part_table, spark_types
from auditor.spark.query_plans import in_one_task
from auditor.spark.types import DataFrame, DataSource, InputPartition, SparkSession, StructType

Work = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

HERE_BYTES = 16 << 20
"""Of rows in memory: some 30,000 ledgers, or their indexes."""
HERE_S = 5.0
"""What takes longer is for tasks, which read side by side."""
_ROWS = 4096


def map_batches(rows: DataFrame, work: Work, columns: pa.Schema | StructType) -> DataFrame:
    """What ``work`` makes of the batches of a table: rows of these columns.

    Of tiny tables it is made here and now, for the Python processes of a task take longer to start than the
    work takes.
    """
    spark, schema = rows.sparkSession, spark_types(columns)
    if not in_one_task(spark):
        return rows.mapInArrow(work, schema)
    batches = rows.toArrow().to_batches(max_chunksize=_ROWS)
    return arrow_frame(spark, table_of(work(iter(batches)), schema), schema)


def map_rows(
    rows: DataFrame, make: Callable[[list[dict[str, Any]]], pa.RecordBatch], columns: pa.Schema
) -> DataFrame:
    """The same, where ``make`` is given the rows of a batch as dicts."""

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return (make(batch.to_pylist()) for batch in batches)

    return map_batches(rows, work, columns)


def arrow_frame(spark: SparkSession, table: pa.Table, schema: StructType | None = None) -> DataFrame:
    """A table that the driver holds, as Spark has it; in the types of ``schema``, or as Arrow has them.

    It goes over in one chunk: Spark 4.3 takes an empty one for the end, and drops the rows behind it.
    """
    frame = spark.createDataFrame(table.combine_chunks(), schema or spark_types(table.schema))
    # Told so, Spark drops every join with an empty table from the plans of the queries to come.
    return in_one_part(frame) if table.num_rows else frame.where("false")


def in_one_part(rows: DataFrame) -> DataFrame:
    """Rows, in one partition where all tables are; of the driver's and of a file's Spark does not know it."""
    return rows.coalesce(1) if in_one_task(rows.sparkSession) else rows


def table_of(batches: Iterable[pa.RecordBatch], schema: StructType) -> pa.Table:
    """Batches as one table, in the Arrow types that Spark has for the columns of ``schema``."""
    from pyspark.sql.pandas.types import to_arrow_schema

    arrow_schema = to_arrow_schema(schema)
    parts = [pa.Table.from_batches([batch]).cast(arrow_schema) for batch in batches]
    return pa.concat_tables(parts) if parts else arrow_schema.empty_table()


def read_source(
    spark: SparkSession, source: DataSource, parts: Sequence[InputPartition] | None = None
) -> pa.Table | PartTable:
    """The rows of a source: read here and now where they are few, else a table that tasks will read.

    ``parts`` are those to read, None: all that its reader has.

    Raises: as `source_rows`; what reading raises where it is read here.
    """
    return read_few(part_table(spark, source, parts))


def read_few(table: PartTable) -> pa.Table | PartTable:
    """The rows of a table where they are few; where not, what was read, and the other parts for tasks."""
    driver_batches: list[pa.RecordBatch] = []
    size, begun = 0, time.monotonic()
    for number, (read, part) in enumerate(table.parts):
        batches: list[pa.RecordBatch] = []
        with closing(read(part)) as rows:  # type: ignore[type-var]  # ours are generators
            for batch in rows:
                batches.append(batch)
                size += batch.nbytes
                if size > HERE_BYTES or time.monotonic() - begun > HERE_S:
                    remaining_parts = table.parts[number:]
                    return replace(
                        table,
                        parts=((iter, driver_batches), *remaining_parts)
                        if driver_batches
                        else remaining_parts,
                    )
        driver_batches += batches
    return table_of(driver_batches, table.schema)


def as_frame(spark: SparkSession, rows: pa.Table | PartTable | DataFrame) -> DataFrame:
    """What `read_source` gives as a table that queries can be asked of."""
    if isinstance(rows, pa.Table):
        return arrow_frame(spark, rows)
    return rows.frame() if isinstance(rows, PartTable) else rows


def source_rows(spark: SparkSession, source: DataSource) -> DataFrame:
    """The table of a source, one task a part, as `part_table` has it.

    Raises: what the source's ``reader`` and ``partitions`` raise.
    """
    return part_table(spark, source).frame()


_LOTS_PER_CORE = 4
_FOOTERS_AT_ONCE = 16


@dataclass(frozen=True)
class TableFiles:
    """Parquet files of one table on a file system, by name, each with its bytes; it travels to the tasks."""

    system: fs.FileSystem
    files: tuple[tuple[str, int], ...]

    @classmethod
    def of(cls, system: fs.FileSystem, where: str) -> TableFiles:
        """All files of the table below a directory; none where there is no table."""
        file_infos = system.get_file_info(fs.FileSelector(where, allow_not_found=True))
        parts = [file_info for file_info in file_infos if file_info.type == fs.FileType.File]
        parts = [file_info for file_info in parts if file_info.base_name.endswith(".parquet")]
        return cls(system, tuple(sorted((file_info.path, file_info.size) for file_info in parts)))

    def lots(self, lot_count: int) -> list[TableFiles]:
        """The files in as many lots, or fewer, of about as many bytes: one lot is one task's."""
        task_files: list[list[tuple[str, int]]] = [[] for _ in range(min(lot_count, len(self.files)))]
        sizes = [0] * len(task_files)
        for path, size in sorted(self.files, key=lambda file: (-file[1], file[0])):
            least = sizes.index(min(sizes))
            task_files[least].append((path, size))
            sizes[least] += size
        return [replace(self, files=tuple(files)) for files in task_files]

    def row_groups(self, columns: Sequence[str], coded: Sequence[str], enough: int) -> Iterator[pa.Table]:
        """Some columns, about ``enough`` rows at a time, and no more bytes than `read_bounded` allows."""
        for path, _ in self.files:
            yield from read_bounded(partial(self._open, path), slice(None), columns, coded, enough)

    def open(self, coded: Sequence[str] = ()) -> Iterator[pq.ParquetFile]:
        """Each file in turn, closed when the next is asked for; ``coded`` columns come as codes."""
        for path, _ in self.files:
            with self._open(path, coded) as file:
                yield file

    def read(self, columns: Sequence[str]) -> pa.Table:
        """Some columns of all rows, in memory: for tables that are known to be small."""
        tables = [file.read(list(columns), use_threads=False) for file in self.open()]
        return pa.concat_tables(tables)

    def column_bytes(self, columns: Sequence[str]) -> int:
        """How many bytes some columns of all files have in memory, by the files' footers."""
        with ThreadPoolExecutor(_FOOTERS_AT_ONCE) as pool:
            return sum(pool.map(partial(self._file_bytes, columns), [path for path, _ in self.files]))

    def _open(self, path: str, coded: Sequence[str]) -> pq.ParquetFile:
        # What a store is asked for piece by piece is asked for beforehand; a disk gives it at once.
        ahead = self.system.type_name != "local"
        return pq.ParquetFile(path, read_dictionary=list(coded), pre_buffer=ahead, filesystem=self.system)

    def _file_bytes(self, columns: Sequence[str], path: str) -> int:
        metadata = pq.read_metadata(path, filesystem=self.system)
        return sum(column_bytes(metadata, group, columns) for group in range(metadata.num_row_groups))


OpenParquet = Callable[[Sequence[str]], pq.ParquetFile]
"""Opens a file so that some columns are read as codes."""


def read_bounded(
    open_file: OpenParquet, groups: slice, columns: Sequence[str], coded: Sequence[str], max_rows: int
) -> Iterator[pa.Table]:
    """Some columns of some row groups of a file, in batches of bounded size; ``coded`` columns as codes.

    A batch has whole row groups of about ``max_rows`` rows, or a part of a row group that is larger than
    `auditor.model.batch_bounds.MAX_BATCH_BYTES`.
    """
    with open_file(coded) as file:
        metadata = file.metadata
        for row_groups in group_lots(metadata, range(file.num_row_groups)[groups], columns, max_rows):
            first = metadata.row_group(row_groups[0])
            most = batch_rows(first.num_rows, column_bytes(metadata, row_groups[0], columns), max_rows)
            if len(row_groups) > 1 or most >= first.num_rows:
                yield file.read_row_groups(row_groups, list(columns), use_threads=False)
                continue
            # Read as codes, each batch would have the values of all batches before it.
            with open_file(()) as plain:
                for batch in plain.iter_batches(most, row_groups, list(columns), use_threads=False):
                    yield _encoded(batch, coded)


def _encoded(batch: pa.RecordBatch, coded: Sequence[str]) -> pa.Table:
    columns = {
        name: column.dictionary_encode() if name in coded else column
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    }
    return pa.table(columns)


Reader = Callable[[TableFiles], Iterator[pa.RecordBatch]]


def select_columns(rows: DataFrame, columns: pa.Schema) -> DataFrame:
    """Rows with these columns, in their order; null where they have none of the name."""
    kinds = {field.name: field.dataType for field in spark_types(columns).fields}
    values = {name: F.col(name) if name in rows.columns else F.lit(None) for name in kinds}
    return rows.select(*(value.cast(kinds[name]).alias(name) for name, value in values.items()))


def lots_of(spark: SparkSession, table: TableFiles, read: Reader) -> Iterable[tuple[Reader, TableFiles]]:
    """What tasks do to read a table: parts of a `PartTable`, some for each core."""
    return ((read, files) for files in table.lots(spark.sparkContext.defaultParallelism * _LOTS_PER_CORE))


def from_files(
    spark: SparkSession, columns: pa.Schema | StructType, table: TableFiles, read: Reader
) -> PartTable:
    """What ``read`` makes of the files of a table: rows of these columns, one task a lot."""
    return PartTable(spark, spark_types(columns), tuple(lots_of(spark, table, read)))


def counts_in_files(
    spark: SparkSession | None, schema: pa.Schema, table: TableFiles, count: Reader, numbers: Sequence[str]
) -> pa.Table:
    """Rows of ``schema``: those that ``count`` makes of any files, with the columns ``numbers`` summed.

    Tasks of ``spark`` count, a lot each; None: they are counted here and now. The sums, which are as few as
    there are kinds of rows, are the driver's.
    """
    if spark is None:
        rows = pa.Table.from_batches(count(table), schema)
    else:
        rows = from_files(spark, schema, table, count).frame().toArrow().cast(schema)
    kinds = [name for name in schema.names if name not in numbers]
    sums = rows.group_by(kinds).aggregate([(name, "sum") for name in numbers])
    return sums.rename_columns([*kinds, *numbers]).select(schema.names).cast(schema)
