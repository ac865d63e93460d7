"""Writing of tables into a run directory, so that runs can be repeated, compared and resumed.

To land a table is to write it, or to find it already written. A written table is read from its files, or from
memory if it is small. A plan over rows in memory needs no file scan, and no job before a broadcast. Scans and
jobs take most of the time of an audit of a small cluster. Some steps need only a few rows of a large table.
These rows are written separately, and deleted after the checks.

A table is complete once Spark has written its _SUCCESS file. A resumed run does not read such a table from
its source again, unless the store is live and the table too old. The tables of a run describe one time:
metadata, then indexes, then metadata again. If a run were resumed much later, older changes would look as if
they had happened during the audit, and damage in between would not be seen.
"""

import json
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

import pyarrow as pa

from auditor.checks.configuration import read_check_configuration
from auditor.errors import RunError
from auditor.model.amounts import format_time
from auditor.model.options import AuditOptions
from auditor.model.progress import Progress
from auditor.model.report import Report
from auditor.model.run_facts import MANIFEST, REPORT, WHOLE, program_version
from auditor.runs.directory import RunDirectory
from auditor.runs.run_index import directories_with
from auditor.sources.clock import now_ms
from auditor.sources.metadata.stores import is_live
from auditor.sources.metadata.uri import MetadataUri
from auditor.spark import functions as F
from auditor.spark.batches import TableFiles, arrow_frame, in_one_part, read_few
from auditor.spark.part_tables import PartTable
from auditor.spark.query_plans import QueryPlans, in_one_task, is_large
from auditor.spark.tasks import own_errors, report_tasks, require_shared
from auditor.spark.types import DataFrame, SparkSession, StructType
from auditor.tables.rows_of_ledgers import rows_of_ledgers
from auditor.tables.run_tables import TABLES

IN_MEMORY_BYTES = 256 << 10
"""Largest Parquet size of a table whose rows the driver keeps in memory, in bytes.

A table of some thousands of ledgers has this size.
"""

FEW_BYTES = 4 << 20
"""Largest Parquet size of a table that is sent to every task, in bytes.

A table of some hundred thousand narrow rows has this size.
"""


T = TypeVar("T")


class Landing:
    """Writer of the tables of a run. It writes each table once."""

    def __init__(
        self,
        spark: SparkSession,
        run: RunDirectory,
        progress: Progress,
        resumed: int | None = None,
        notes: Sequence[str] = (),
        plans: QueryPlans | None = None,
        second: Executor | None = None,
    ) -> None:
        self.spark = spark
        self.run = run
        self._plans = plans
        self._second = second
        self.progress = progress
        self._shared = False
        self.landed: dict[str, DataFrame] = {}
        """Tables that this run has written or found, by name."""
        self.resumed = resumed
        """Time of the oldest table that an interrupted run had left, in ms. None if there is none."""
        self.notes = tuple(notes)
        """Notes for the report on how the run was resumed."""
        self.empty: set[str] = set()
        """Names of the tables that were written without a row."""

    def land(
        self, name: str, make: Callable[[], DataFrame | PartTable | pa.Table], below: str = "tables"
    ) -> DataFrame:
        """Return a table. If its files are not complete, write it first with the result of ``make``.

        The driver writes tables that it has read, or that are made of tiny tables. If tasks read a source,
        they also write its table.
        """
        if name not in self.landed:
            where, schema, rows = _place(below, name), None, None
            if not self.run.exists(f"{where}/{WHOLE}"):
                self.progress.table(name)
                with report_tasks(self.spark, self.progress), own_errors():
                    table = make()
                    if isinstance(table, pa.Table):
                        rows = table
                    else:
                        schema = table.schema  # else Spark runs a job to look what it has written
                        if isinstance(table, PartTable):
                            self._require_shared()
                            table.write(*self.run.place(where))
                        elif in_one_task(self.spark):
                            rows = table.toArrow()
                        else:
                            self._require_shared()
                            table.write.mode("overwrite").parquet(self.where(where))
                if rows is not None:
                    self.run.write_table(where, rows)
                self.run.check_claim()
            if not self.landed and below == "tables":
                self.fit_plans(self.size(where))  # the first table says how large the others may be
            self.landed[name] = self._landed_at(name, below, schema, rows)
        return self.landed[name]

    def run_in_background(self, make: Callable[[], T]) -> Callable[[], T]:
        """Call ``make`` on a second thread if tables are small, else now. Return a function for its result.

        A small audit spends its time on query planning, which Java does in the calling thread while another
        core is idle. Tasks on large tables use all cores anyway. The returned function raises any error of
        ``make``.
        """
        if self._second is not None and self._small:
            return self._second.submit(make).result
        product = make()
        return lambda: product

    def read_small(self, table: PartTable) -> PartTable | pa.Table:
        """Read a table in this process if the audit is small. Otherwise return it for tasks."""
        return read_few(table) if self._small else table

    def values(self, name: str, column: str) -> frozenset[str] | None:
        """Return the different values of a column of a written table. None if tables are large.

        If no row has the value that a query looks for, the query can be skipped. It would take a tenth of a
        second.
        """
        if not self._small:
            return None
        return frozenset(self.run.read(f"tables/{name}", [column])[column].unique().to_pylist())

    def where(self, below: str) -> str:
        """Return the path of a table for Spark. ``below`` is its path in the run directory."""
        return f"{self.run.path}/{below}"

    def size(self, below: str) -> int:
        """Return the size of a table's files in bytes. 0 if there are none."""
        return sum(self.run.sizes(below).values())

    def files(self, name: str) -> TableFiles:
        """Return the files of a written table."""
        return TableFiles.of(*self.run.place(f"tables/{name}"))

    def _require_shared(self) -> None:
        """Check that tasks share the run directory, before one of them writes or reads a table there."""
        if not self._shared:
            require_shared(self.spark, *self.run.place(""))
            self._shared = True

    @property
    def _small(self) -> bool:
        return self._plans is not None and self._plans.small

    def tasks_of(self, table_bytes: int) -> SparkSession | None:
        """Return the session whose tasks process tables of this size. None if the driver processes them."""
        return self.spark if is_large(table_bytes) else None

    def fit_plans(self, table_bytes: int, replicas: int = 0) -> None:
        """Set Spark's query planning for tables of this size, and for the number of replicas to compare."""
        if self._plans is not None:
            self._plans.fit(table_bytes, replicas)

    def rows(
        self, name: str, rows: list[dict[str, Any]], schema: pa.Schema, below: str = "tables"
    ) -> DataFrame:
        """Write a small table from rows in the driver without Spark, because a Spark job takes longer."""
        return self.land(name, lambda: pa.Table.from_pylist(rows, schema=schema), below)

    def land_some(
        self, may_have_rows: bool, name: str, schema: pa.Schema, make: Callable[[], DataFrame | PartTable]
    ) -> DataFrame:
        """Write a table with `land` if it may have rows. Otherwise write it empty, without a query."""
        return self.land(name, make) if may_have_rows else self.rows(name, [], schema)

    def _landed_at(
        self, name: str, below: str, schema: StructType | None, rows: pa.Table | None
    ) -> DataFrame:
        """Return a written table. ``schema`` and ``rows`` are None if they are not in memory."""
        from pyspark.sql.pandas.types import from_arrow_schema

        where = _place(below, name)
        if self.size(where) > IN_MEMORY_BYTES:  # which no table without rows is
            self._require_shared()
            if schema is None and rows is not None:
                schema = from_arrow_schema(rows.schema)
            read = self.spark.read.schema(schema) if schema else self.spark.read
            return in_one_part(read.parquet(self.where(where)))
        if rows is None:
            rows = self.run.read(where)
        # As Spark gives back what it has written: any column may be null.
        table = arrow_frame(self.spark, rows, (schema or from_arrow_schema(rows.schema)).toNullable())
        if not rows.num_rows:
            self.empty.add(name)
        return table

    def broadcast_if_small(self, name: str, table: DataFrame) -> DataFrame:
        """Return a written table for a join with all ledgers. Spark broadcasts a small one to every task.

        Spark would estimate ten times the size of its files, and sort all ledgers to join a few.
        """
        size = self.size(f"tables/{name}")
        return F.broadcast(table) if IN_MEMORY_BYTES < size <= FEW_BYTES else table

    def pin_fact(self, key: str, value: Any) -> Any:
        """Return the value of a fact in the run's manifest. Save ``value`` first if there is none.

        A resumed run therefore keeps the value of its first attempt.
        """
        manifest = self.run.read_manifest()
        if key not in manifest:
            manifest[key] = value
            self.run.add_to_manifest({key: value})
        return manifest[key]

    def finish(self, report: Report) -> None:
        """Write the report. It comes last, because a run with a report counts as complete."""
        self.run.add_to_manifest(
            {
                "run": asdict(report.run),
                "coverage": asdict(report.coverage),
                "findings": self.run.sizes("findings"),
                "tables": [name for name in self.run.names("tables") if name in TABLES],
            }
        )
        self.run.write_json(REPORT, json.loads(report.to_json()))


def _place(below: str, name: str) -> str:
    """Return the path of a table in the run. Object stores do not accept ``.`` as the run's own directory."""
    return f"{below}/{name}" if below else name


STEPS = "few"
"""Directory, below the tables of a run, for tables that are deleted after the checks."""


def rows_that_matter(
    landing: Landing, few: str, table: str, rows: DataFrame, columns: Sequence[str] | None = None
) -> DataFrame:
    """Return the rows of ``table`` whose ledger id is in the table ``few``. All rows if ``few`` is large.

    Both tables must be written. ``rows`` are all rows of ``table``. ``columns`` are the columns to keep, or
    None for all.
    """
    if landing.size(f"tables/{few}") > FEW_BYTES:
        return rows
    name = f"{table}_of_{few}"
    few_rows = rows_of_ledgers(landing.spark, landing.files(table), landing.files(few), rows.schema, columns)
    landed = landing.land(name, lambda: landing.read_small(few_rows), f"tables/{STEPS}")
    return landing.broadcast_if_small(f"{STEPS}/{name}", landed)


def drop_few_rows(landing: Landing) -> None:
    """Delete the tables below `STEPS`, which no step after the checks needs."""
    landing.run.remove(f"tables/{STEPS}")


@dataclass(frozen=True, slots=True)
class Resumption:
    """The tables that a run took over from an interrupted run.

    ``since`` is when the oldest of them was written, in ms, or None if there are none. ``notes`` say in the
    report that the run was resumed.
    """

    since: int | None = None
    notes: tuple[str, ...] = ()


def resumption_of(run: RunDirectory, metadata: str | MetadataUri, options: AuditOptions) -> Resumption:
    """Return the tables that an unfinished run left in its directory. Delete them if they are too old.

    Tables of saved metadata are never too old, because saved metadata does not change.
    """
    oldest = run.oldest_table()
    if oldest is None:
        return Resumption()
    age = max(0, now_ms() - oldest) / 1000
    since = format_time(oldest)
    if is_live(metadata) and age > options.resume_within:
        run.forget()
        return Resumption(
            None,
            (f"an interrupted run was started again: its tables, from {since} on, were too old to resume",),
        )
    return Resumption(
        oldest, (f"this run was resumed: it has tables of an interrupted run, from {since} on",)
    )


def run_identity(kind: str, metadata: str, bookies: Sequence[str], options: AuditOptions) -> dict[str, Any]:
    """Return the identity of a run for its manifest. Only a run with the same identity resumes it.

    Raises:
        UsageError: the settings of the checks are wrong (`read_check_configuration`).
    """
    identity = {
        "kind": kind,
        "version": program_version(),
        "metadata": metadata,
        "bookies": list(bookies),
        "options": asdict(options),
        "checks": read_check_configuration(options).identity,
    }
    # As JSON has it, where a tuple is a list: an unfinished run's manifest is compared with it.
    as_json: dict[str, Any] = json.loads(json.dumps(identity))
    return as_json


def unfinished_run(runs: str, identity: dict[str, Any], within: float) -> str | None:
    """Return the newest interrupted run directly below ``runs`` with this identity. None if there is none.

    A run of a live store is left alone if its oldest table is older than ``within`` seconds, because it would
    start anew. Directories that are not runs of this program are skipped.

    Raises:
        RunError: ``runs`` exists and cannot be listed.
    """
    live = is_live(identity["metadata"])
    unfinished: list[tuple[int, str]] = []
    for path in directories_with(MANIFEST, runs, may_be_missing=True):
        run = RunDirectory(path)
        try:
            if run.exists(REPORT):
                continue
            same = run.read_manifest().get("identity") == identity
            oldest = run.oldest_table()
            files, manifest = run.place(MANIFEST)
            begun = files.get_file_info(manifest).mtime_ns
        except (OSError, ValueError, AttributeError, RunError):
            continue
        if same and not (live and oldest is not None and time.time() - oldest / 1000 > within):
            unfinished.append((begun, path))
    return max(unfinished)[1] if unfinished else None
