"""Writing of tables into a run directory, so that runs can be repeated, compared and resumed.

To land a table is to write it, or to find it already written. Some steps need only a few rows of a large
table. These rows are written separately, and deleted after the checks.

A table is complete once Spark has written its _SUCCESS file. A resumed run does not read such a table from
its source again, unless the store is live and the table too old. The tables of a run describe one time:
metadata, then indexes, then metadata again. If a run were resumed much later, older changes would look as if
they had happened during the audit, and damage in between would not be seen.
"""

import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import pyarrow as pa
from pyarrow import fs

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
from auditor.spark.batches import Rows
from auditor.spark.execution import Execution
from auditor.spark.table_files import TableFiles
from auditor.spark.table_queries import TableQuery, TablesT, due_queries, names_without_rows
from auditor.spark.tasks import own_errors, report_tasks
from auditor.spark.types import DataFrame, SparkSession
from auditor.tables.rows_of_ledgers import rows_of_ledgers
from auditor.tables.run_tables import TABLES


@dataclass(frozen=True)
class _RunTable:
    """The place of one table in a run directory (`auditor.spark.execution.TablePlace`)."""

    run: RunDirectory
    below: str

    @property
    def path(self) -> str:
        """Return the table's path for Spark."""
        return f"{self.run.path}/{self.below}"

    def files(self) -> TableFiles:
        """Return the files of the table."""
        return TableFiles.of(*self.place())

    def place(self) -> tuple[fs.FileSystem, str]:
        """Return the file system, and the table's path there."""
        return self.run.place(self.below)

    def shared_place(self) -> tuple[fs.FileSystem, str]:
        """Return the file system, and the run directory there."""
        return self.run.place("")

    def read(self) -> pa.Table:
        """Return all rows of the table."""
        return self.run.read(self.below)

    def write(self, rows: pa.Table) -> None:
        """Write the table."""
        self.run.write_table(self.below, rows)


class Landing:
    """Writer of the tables of a run. It writes each table once."""

    def __init__(
        self,
        execution: Execution,
        run: RunDirectory,
        progress: Progress,
        resumed: int | None = None,
        notes: Sequence[str] = (),
    ) -> None:
        self.execution = execution
        self.run = run
        self.progress = progress
        self.landed: dict[str, DataFrame] = {}
        """Tables that this run has written or found, by name."""
        self.resumed = resumed
        """Time of the oldest table that an interrupted run had left, in ms. None if there is none."""
        self.notes = tuple(notes)
        """Notes for the report on how the run was resumed."""

    @property
    def spark(self) -> SparkSession:
        """Return the session for queries."""
        return self.execution.spark

    @property
    def known_empty(self) -> frozenset[str]:
        """Return the names of tables that were written or found without a row (`due_queries`)."""
        return names_without_rows(self.landed)

    def land(self, name: str, make: Callable[[], Rows], below: str = "tables") -> DataFrame:
        """Return a table. If its files are not complete, write it first with the result of ``make``."""
        if name not in self.landed:
            table = _RunTable(self.run, _place(below, name))
            if self.run.exists(f"{table.below}/{WHOLE}"):
                rows = self.execution.open_table(table)
            else:
                self.progress.table(name)
                with report_tasks(self.spark, self.progress), own_errors():
                    rows = self.execution.write_table(table, make())
                self.run.check_claim()
            if not self.landed and below == "tables":
                # The first table says how large the others may be.
                self.execution.plan_for(table.files().size)
            self.landed[name] = rows
        return self.landed[name]

    def rows(
        self, name: str, rows: list[dict[str, Any]], schema: pa.Schema, below: str = "tables"
    ) -> DataFrame:
        """Write a small table from rows in the driver without Spark, because a Spark job takes longer."""
        return self.land(name, lambda: pa.Table.from_pylist(rows, schema=schema), below)

    def write_or_empty(
        self, may_have_rows: bool, name: str, schema: pa.Schema, make: Callable[[], Rows]
    ) -> DataFrame:
        """Write a table with `land` if it may have rows. Otherwise write it empty, without a query."""
        return self.land(name, make) if may_have_rows else self.rows(name, [], schema)

    def write_query(
        self,
        name: str,
        schema: pa.Schema,
        query: TableQuery[TablesT],
        tables: TablesT,
    ) -> DataFrame:
        """Write a table with the rows of a query of ``tables``."""
        is_due = bool(due_queries((query,), tables))
        return self.write_or_empty(is_due, name, schema, partial(query, tables))

    def count(self, name: str) -> int:
        """Return the number of rows of a table, from its files. 0 if the run has no such table."""
        return self.run.count(f"tables/{name}") if name in self.landed else 0

    def values(self, name: str, column: str) -> frozenset[str]:
        """Return the different values of a column of a written table, of which there are few."""
        schema = pa.schema([(column, pa.string()), ("number", pa.int64())])
        counts = self.execution.count_rows(
            schema, self.files(name), partial(count_values, column=column, schema=schema), ("number",)
        )
        return frozenset(counts[column].to_pylist())

    def where(self, below: str) -> str:
        """Return the path of a table for Spark. ``below`` is its path in the run directory."""
        return f"{self.run.path}/{below}"

    def files(self, name: str) -> TableFiles:
        """Return the files of a written table."""
        return _RunTable(self.run, f"tables/{name}").files()

    def plan_for(self, names: Iterable[str], replicas: int) -> None:
        """Set Spark's query planning for these tables, and for the number of replicas to compare."""
        self.execution.plan_for(sum(self.files(name).size for name in names), replicas)

    def broadcast(self, name: str, table: DataFrame) -> DataFrame:
        """Mark a written table for joins with all ledgers (`Execution.broadcast`)."""
        return self.execution.broadcast(table, self.files(name))

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


def count_values(files: TableFiles, column: str, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Count the values of a column of text in some files of a table: rows of ``schema``."""
    for rows in files.row_groups((column,), (column,), _ROWS_AT_ONCE):
        counts = rows[column].cast(pa.string()).value_counts()
        yield pa.RecordBatch.from_arrays([counts.field(0), counts.field(1)], schema=schema)


_ROWS_AT_ONCE = 1 << 18


def _place(below: str, name: str) -> str:
    """Return the path of a table in the run. Object stores do not accept ``.`` as the run's own directory."""
    return f"{below}/{name}" if below else name


STEPS = "few"
"""Directory, below the tables of a run, for tables that are deleted after the checks."""


def semi_join_scratch(
    landing: Landing, keys: str, table: str, rows: DataFrame, columns: Sequence[str] | None = None
) -> DataFrame:
    """Return at least the rows of ``table`` whose ledger id is in the table ``keys``.

    Both tables must be written. ``rows`` are all rows of ``table``. ``columns`` are the columns to keep, or
    None for all.
    """
    name = f"{table}_of_{keys}"
    table_files, key_files = landing.files(table), landing.files(keys)

    def join() -> tuple[DataFrame, TableFiles]:
        joined_rows = partial(rows_of_ledgers, landing.spark, table_files, key_files, rows.schema, columns)
        joined = landing.land(name, joined_rows, f"tables/{STEPS}")
        return joined, landing.files(f"{STEPS}/{name}")

    return landing.execution.semi_join(rows, key_files, join)


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
