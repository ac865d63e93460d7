"""The tables that a run has written or found, and their files.

A table is not computed again if its files are complete. Some steps need only a few rows of a large table.
These rows are written to scratch tables, which are deleted after the checks.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
from pyarrow import fs

from auditor.audit.run_store import RunStore
from auditor.model.progress import Progress
from auditor.model.run_facts import DONE_FILE
from auditor.runs.directory import RunDirectory
from auditor.spark.batches import Rows
from auditor.spark.execution import Execution
from auditor.spark.table_files import TableFiles
from auditor.spark.table_queries import TableQuery, TablesT, drop_empty_queries, names_without_rows
from auditor.spark.tasks import report_tasks, restore_task_errors
from auditor.spark.types import DataFrame, SparkSession
from auditor.tables.rows_of_ledgers import rows_of_ledgers


@dataclass(frozen=True)
class _RunTable:
    """The location of one table in a run directory (`auditor.spark.execution.TableLocation`)."""

    run: RunDirectory
    table_directory: str

    @property
    def path(self) -> str:
        """Return the table's path for Spark."""
        return f"{self.run.path}/{self.table_directory}"

    def files(self) -> TableFiles:
        """Return the files of the table."""
        return TableFiles.from_directory(*self.file_system_path())

    def file_system_path(self) -> tuple[fs.FileSystem, str]:
        """Return the file system, and the path of the table in it."""
        return self.run.locate(self.table_directory)

    def shared_directory(self) -> tuple[fs.FileSystem, str]:
        """Return the file system, and the path of the run directory in it."""
        return self.run.locate("")

    def read(self) -> pa.Table:
        """Return all rows of the table."""
        return self.run.read(self.table_directory)

    def write(self, rows: pa.Table) -> None:
        """Write the table."""
        self.run.write_table(self.table_directory, rows)


class TableCache:
    """The tables that a run has written or found. It writes each table once."""

    def __init__(self, execution: Execution, run_store: RunStore, progress: Progress) -> None:
        self.execution = execution
        self.run_store = run_store
        self.progress = progress
        self.frames: dict[str, DataFrame] = {}
        """Tables that this run has written or found, by path below ``tables``.

        A table of a subdirectory may have the same name as a table of the run, such as ``placement``.
        """

    @property
    def run(self) -> RunDirectory:
        """Return the run's directory."""
        return self.run_store.directory

    @property
    def spark(self) -> SparkSession:
        """Return the session for queries."""
        return self.execution.spark

    @property
    def empty_table_names(self) -> frozenset[str]:
        """Return the names of the tables that have no row. `drop_empty_queries` uses them."""
        return names_without_rows(self.frames)

    def write_table(self, name: str, make_rows: Callable[[], Rows], directory: str = "tables") -> DataFrame:
        """Return a table. If its files are incomplete or missing, first write the result of ``make_rows``."""
        key = _table_path(directory, name).removeprefix("tables/")
        if key not in self.frames:
            table = _RunTable(self.run, _table_path(directory, name))
            if self.run.exists(f"{table.table_directory}/{DONE_FILE}"):
                rows = self.execution.open_table(table)
            else:
                self.progress.table(name)
                with report_tasks(self.spark, self.progress), restore_task_errors():
                    rows = self.execution.write_table(table, make_rows())
                self.run.check_claim()
            if not self.frames and directory == "tables":
                # The size of the first table is an estimate of the size of the others.
                self.execution.plan_for(table.files().size)
            self.frames[key] = rows
        return self.frames[key]

    def write_rows(
        self, name: str, rows: list[dict[str, Any]], schema: pa.Schema, directory: str = "tables"
    ) -> DataFrame:
        """Write and return a small table of driver rows. A Spark job would take longer, so none runs."""
        return self.write_table(name, lambda: pa.Table.from_pylist(rows, schema=schema), directory)

    def write_or_empty(
        self, may_have_rows: bool, name: str, schema: pa.Schema, make_rows: Callable[[], Rows]
    ) -> DataFrame:
        """Write a table with `write_table` if it may have rows, else write it empty without a query."""
        return self.write_table(name, make_rows) if may_have_rows else self.write_rows(name, [], schema)

    def write_query(
        self,
        name: str,
        schema: pa.Schema,
        query: TableQuery[TablesT],
        tables: TablesT,
    ) -> DataFrame:
        """Write and return the result of ``query`` as a table, or an empty table if its inputs are empty."""
        can_have_rows = bool(drop_empty_queries((query,), tables))
        return self.write_or_empty(can_have_rows, name, schema, partial(query, tables))

    def count(self, name: str) -> int:
        """Return the number of rows of a table, from its files.

        Raises:
            KeyError: the number of rows is unknown, because the run has neither written nor found the
                table.
        """
        if name not in self.frames:
            raise KeyError(name)
        return self.run.count(f"tables/{name}")

    def distinct_values(self, name: str, column: str) -> frozenset[str]:
        """Return the distinct values of a column of a written table.

        The column must have few distinct values.
        """
        schema = pa.schema([(column, pa.string()), ("number", pa.int64())])
        row_counts = self.execution.count_rows(
            schema, self.files(name), partial(count_values, column=column, schema=schema), ("number",)
        )
        return frozenset(row_counts[column].to_pylist())

    def spark_path(self, directory: str) -> str:
        """Return the path of a table for Spark. ``directory`` is its path in the run directory."""
        return f"{self.run.path}/{directory}"

    def files(self, name: str) -> TableFiles:
        """Return the files of a written table."""
        return _RunTable(self.run, f"tables/{name}").files()

    def adapt_planning(self, names: Iterable[str], replicas: int) -> None:
        """Adapt Spark's query planning to the size of these tables and the number of replicas to compare."""
        self.execution.plan_for(sum(self.files(name).size for name in names), replicas)

    def broadcast(self, name: str, table: DataFrame) -> DataFrame:
        """Return the table. A small table is marked for broadcast, so that joins copy it to every task."""
        return self.execution.broadcast(table, self.files(name))


def count_values(table_files: TableFiles, column: str, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the number of rows for each value of a text column. The result has the columns of ``schema``."""
    for rows in table_files.row_groups((column,), (column,), _MAX_BATCH_ROWS):
        row_counts = rows[column].cast(pa.string()).value_counts()
        yield pa.RecordBatch.from_arrays([row_counts.field(0), row_counts.field(1)], schema=schema)


_MAX_BATCH_ROWS = 1 << 18


def _table_path(directory: str, name: str) -> str:
    """Return the path of a table in the run. The path has no part ``.``, because object stores reject it."""
    return f"{directory}/{name}" if directory else name


SCRATCH_DIRECTORY = "scratch"
"""Directory, below the tables of a run, for tables that are deleted after the checks."""


def semi_join_scratch(
    cache: TableCache, key_table: str, table: str, rows: DataFrame, columns: Sequence[str] | None = None
) -> DataFrame:
    """Return at least the rows of ``table`` whose ledger id is in the table ``key_table``.

    If the key table is large, the result has all rows. Both tables must already be written. ``rows`` are
    all rows of ``table``. ``columns`` are the columns to keep, or None for all columns.
    """
    name = f"{table}_of_{key_table}"
    table_files, key_files = cache.files(table), cache.files(key_table)

    def join() -> tuple[DataFrame, TableFiles]:
        joined_rows = partial(rows_of_ledgers, cache.spark, table_files, key_files, rows.schema, columns)
        joined_table = cache.write_table(name, joined_rows, f"tables/{SCRATCH_DIRECTORY}")
        return joined_table, cache.files(f"{SCRATCH_DIRECTORY}/{name}")

    return cache.execution.semi_join(rows, key_files, join)


def drop_scratch_tables(cache: TableCache) -> None:
    """Delete the tables below `SCRATCH_DIRECTORY`. No step after the checks needs them."""
    cache.run.remove(f"tables/{SCRATCH_DIRECTORY}")
