"""The files of a landed table, as the driver and its tasks read them where no rows of Spark's are needed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyarrow import fs
from pyarrow import parquet as pq

from auditor.spark.part_tables import PartTable
from auditor.spark.types import SparkSession, StructType

_LOTS_PER_CORE = 4


@dataclass(frozen=True)
class TableFiles:
    """Parquet files of one table on a file system, by name, each with its bytes; it travels to the tasks."""

    system: fs.FileSystem
    files: tuple[tuple[str, int], ...]

    @classmethod
    def of(cls, system: fs.FileSystem, where: str) -> TableFiles:
        """All files of the table below a directory; none where there is no table."""
        found = system.get_file_info(fs.FileSelector(where, allow_not_found=True))
        return cls(system, tuple(sorted((each.path, each.size) for each in found if _is_part(each))))

    def lots(self, wanted: int) -> list[TableFiles]:
        """The files in as many lots, or fewer, of about as many bytes: one lot is one task's."""
        lots: list[list[tuple[str, int]]] = [[] for _ in range(min(wanted, len(self.files)))]
        sizes = [0] * len(lots)
        for path, size in sorted(self.files, key=lambda file: (-file[1], file[0])):
            least = sizes.index(min(sizes))
            lots[least].append((path, size))
            sizes[least] += size
        return [replace(self, files=tuple(lot)) for lot in lots]

    def open(self, coded: Sequence[str] = ()) -> Iterator[pq.ParquetFile]:
        """Each file in turn, closed when the next is asked for; ``coded`` columns come as codes."""
        # What a store is asked for piece by piece is asked for beforehand; a disk gives it at once.
        ahead = self.system.type_name != "local"
        for path, _ in self.files:
            with pq.ParquetFile(
                path, read_dictionary=list(coded), pre_buffer=ahead, filesystem=self.system
            ) as file:
                yield file

    def row_groups(self, columns: Sequence[str], coded: Sequence[str], enough: int) -> Iterator[pa.Table]:
        """Some columns, whole row groups at a time, about ``enough`` rows."""
        for file in self.open(coded):
            groups: list[int] = []
            rows = 0
            for group in range(file.num_row_groups):
                groups.append(group)
                rows += file.metadata.row_group(group).num_rows
                if rows >= enough or group == file.num_row_groups - 1:
                    yield file.read_row_groups(groups, list(columns), use_threads=False)
                    groups, rows = [], 0

    def read(self, columns: Sequence[str]) -> pa.Table:
        """Some columns of all rows, in memory: for tables that are known to be small."""
        tables = [file.read(list(columns), use_threads=False) for file in self.open()]
        return pa.concat_tables(tables)


Reader = Callable[[TableFiles], Iterator[pa.RecordBatch]]


def lots_of(spark: SparkSession, table: TableFiles, read: Reader) -> Iterable[tuple[Reader, TableFiles]]:
    """What tasks do to read a table: parts of a `PartTable`, some for each core."""
    return ((read, lot) for lot in table.lots(spark.sparkContext.defaultParallelism * _LOTS_PER_CORE))


def from_files(spark: SparkSession, schema: StructType, table: TableFiles, read: Reader) -> PartTable:
    """What ``read`` makes of the files of a table: rows of ``schema``, one task a lot."""
    return PartTable(spark, schema, tuple(lots_of(spark, table, read)))


def counts_in_files(
    spark: SparkSession | None, schema: pa.Schema, table: TableFiles, count: Reader, numbers: Sequence[str]
) -> pa.Table:
    """Rows of ``schema``: those that ``count`` makes of any files, with the columns ``numbers`` summed.

    Tasks of ``spark`` count, a lot each; None: they are counted here and now. The sums, which are as few as
    there are kinds of rows, are the driver's.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    if spark is None:
        rows = pa.Table.from_batches(count(table), schema)
    else:
        rows = from_files(spark, from_arrow_schema(schema), table, count).frame().toArrow().cast(schema)
    kinds = [name for name in schema.names if name not in numbers]
    sums = rows.group_by(kinds).aggregate([(name, "sum") for name in numbers])
    return sums.rename_columns([*kinds, *numbers]).select(schema.names).cast(schema)


def _is_part(file: fs.FileInfo) -> bool:
    return bool(file.type == fs.FileType.File) and str(file.base_name).endswith(".parquet")
