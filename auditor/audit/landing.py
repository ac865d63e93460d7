"""How tables land in a run directory, so that a run can be repeated, compared, and resumed.

What has landed is read from its files, or from memory if it is small: a plan over rows that are at hand needs
no scan of files and no job before a broadcast, and that is most of the time of an audit of a small cluster.
Of large tables the rows that a few others are of land besides, for the steps that ask for no others, and are
taken away when the checks are done.

A table is whole once Spark has written its _SUCCESS file; a resumed run does not read it again, unless it is
of a live store and too old by then. For the tables of a run are one look at a cluster: metadata, then
indexes, then metadata again. Where they are resumed much later, what changed in between looks as if it had
changed during the audit, and what broke in between is not seen at all.
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
"""Of Parquet: a table that is no larger is held by the driver: some thousands of ledgers."""

FEW_BYTES = 4 << 20
"""Likewise: a table that is no larger may be sent to every task: some hundred thousand narrow rows."""


T = TypeVar("T")


class Landing:
    """Writes tables of a run, each once."""

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
        """By name, the tables that this run has by now."""
        self.resumed = resumed
        """When the oldest table was written that an interrupted run had left, ms; None: there is none."""
        self.notes = tuple(notes)
        """What a reader of the report should know of how the run came about."""
        self.empty: set[str] = set()
        """Names of the tables that have landed without a row."""

    def land(
        self, name: str, make: Callable[[], DataFrame | PartTable | pa.Table], below: str = "tables"
    ) -> DataFrame:
        """The table as it lies on disk, made first where it is not whole yet.

        What the driver has read, and what is made of tiny tables, the driver writes; what a source has,
        the tasks that read it.
        """
        if name not in self.landed:
            where, schema, rows = _place(below, name), None, None
            if not self.run.exists(f"{where}/{WHOLE}"):
                self.progress.stage(name)
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
        """Make something beside what the caller goes on with, where tables are small; else make it now.

        A small audit is planning, which Java does in the thread that asks, while another core has little to
        do; of large tables tasks keep all of them at work. What was made is had by calling what this returns,
        which raises what making it raised.
        """
        if self._second is not None and self._small:
            return self._second.submit(make).result
        product = make()
        return lambda: product

    def read_small(self, table: PartTable) -> PartTable | pa.Table:
        """A table that is made of small ones, made here and now; of large ones it is left to tasks."""
        return read_few(table) if self._small else table

    def values(self, name: str, column: str) -> frozenset[str] | None:
        """What a column of a table that has landed says, where tables are small; else None: nobody looks.

        What no row says need not be asked for by a query, which takes a tenth of a second even so.
        """
        if not self._small:
            return None
        return frozenset(self.run.read(f"tables/{name}", [column])[column].unique().to_pylist())

    def where(self, below: str) -> str:
        """The path of a table, as Spark takes it."""
        return f"{self.run.path}/{below}"

    def size(self, below: str) -> int:
        """Bytes of the files of a table; 0 where there is none."""
        return sum(self.run.sizes(below).values())

    def files(self, name: str) -> TableFiles:
        """The files of a table that has landed."""
        return TableFiles.of(*self.run.place(f"tables/{name}"))

    def _require_shared(self) -> None:
        """Once, before the first table that tasks write or read."""
        if not self._shared:
            require_shared(self.spark, *self.run.place(""))
            self._shared = True

    @property
    def _small(self) -> bool:
        return self._plans is not None and self._plans.small

    def tasks_of(self, table_bytes: int) -> SparkSession | None:
        """The session whose tasks work on tables of this size; None where they are small: the driver does."""
        return self.spark if is_large(table_bytes) else None

    def fit_plans(self, table_bytes: int, replicas: int = 0) -> None:
        """Let Spark plan the queries to come by the size of the tables that have landed."""
        if self._plans is not None:
            self._plans.fit(table_bytes, replicas)

    def rows(
        self, name: str, rows: list[dict[str, Any]], schema: pa.Schema, below: str = "tables"
    ) -> DataFrame:
        """Land a small table that the driver holds; written here, for a Spark job costs more than that."""
        return self.land(name, lambda: pa.Table.from_pylist(rows, schema=schema), below)

    def land_some(
        self, may_have_rows: bool, name: str, schema: pa.Schema, make: Callable[[], DataFrame | PartTable]
    ) -> DataFrame:
        """`land`, where there can be some rows; else the table is landed without, and nothing is asked."""
        return self.land(name, make) if may_have_rows else self.rows(name, [], schema)

    def _landed_at(
        self, name: str, below: str, schema: StructType | None, rows: pa.Table | None
    ) -> DataFrame:
        """A table that has landed; its schema and its rows where they are at hand."""
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
        """A table that has landed, to be held against all ledgers: every task gets it, if it is small.

        Spark takes what its files hold for ten times what it is, and would sort all ledgers to join a few.
        """
        size = self.size(f"tables/{name}")
        return F.broadcast(table) if IN_MEMORY_BYTES < size <= FEW_BYTES else table

    def pin_fact(self, key: str, value: Any) -> Any:
        """A fact that a resumed run must not see afresh: the first value it was given."""
        manifest = self.run.read_manifest()
        if key not in manifest:
            manifest[key] = value
            self.run.add_to_manifest({key: value})
        return manifest[key]

    def finish(self, report: Report) -> None:
        """Write the report last: a run that has one is whole."""
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
    """Where a table lies in the run; an object store takes no ``.`` for the run itself."""
    return f"{below}/{name}" if below else name


STEPS = "few"
"""Where they land below the tables of a run, with what else is for these steps alone."""


def rows_that_matter(
    landing: Landing, few: str, table: str, rows: DataFrame, columns: Sequence[str] | None = None
) -> DataFrame:
    """The rows of ``table`` with a ledger id of the table ``few``; all, where those are more than a few.

    Both have landed; ``rows`` are all of ``table``. ``columns`` are those to keep, None: all.
    """
    if landing.size(f"tables/{few}") > FEW_BYTES:
        return rows
    name = f"{table}_of_{few}"
    few_rows = rows_of_ledgers(landing.spark, landing.files(table), landing.files(few), rows.schema, columns)
    landed = landing.land(name, lambda: landing.read_small(few_rows), f"tables/{STEPS}")
    return landing.broadcast_if_small(f"{STEPS}/{name}", landed)


def drop_few_rows(landing: Landing) -> None:
    """Take away what landed for the steps up to the checks alone."""
    landing.run.remove(f"tables/{STEPS}")


@dataclass(frozen=True, slots=True)
class Resumption:
    """What a run took of an interrupted one.

    ``since`` is when its oldest table was written, in ms, None where nothing was taken; ``notes`` say it to a
    reader.
    """

    since: int | None = None
    notes: tuple[str, ...] = ()


def resumption_of(run: RunDirectory, metadata: str | MetadataUri, options: AuditOptions) -> Resumption:
    """Look at what an unfinished run has left in its directory; what is too old is taken away.

    Saved metadata do not change: there is no limit to them.
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
            (f"an interrupted run was begun anew: its tables, from {since} on, were too old to resume from",),
        )
    return Resumption(
        oldest, (f"this run was resumed: it has tables of an interrupted run, from {since} on",)
    )


def run_identity(kind: str, metadata: str, bookies: Sequence[str], options: AuditOptions) -> dict[str, Any]:
    """What a run is asked, as its manifest keeps it: only the same question goes on with a run.

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
    """The newest run right below ``runs`` that broke off and was asked the same; None where there is none.

    One of a running store whose oldest table is older than ``within`` seconds would be begun anew: it is left
    alone. What lies there and is not a run of this program is passed over.

    Raises:
        RunError: ``runs`` is there and cannot be listed.
    """
    live = is_live(identity["metadata"])
    unfinished: list[tuple[int, str]] = []
    for path in directories_with(MANIFEST, runs, missing=True):
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
