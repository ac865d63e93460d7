"""A run directory: every scan lands as Parquet, so that a run can be repeated, compared, and resumed.

    RUN/manifest.json       sources, times, versions, counts
    RUN/tables/<name>/      Parquet
    RUN/findings/           Parquet: every finding
    RUN/report.json

What has landed is read from its files, or from memory if it is small: a plan over rows that are at hand needs
no scan of files and no job before a broadcast, and that is most of the time of an audit of a small cluster.

A table is whole once Spark has written its _SUCCESS file; a resumed run does not read it again, unless it is
of a live store and too old by then (`auditor.audit.resumption`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
from pyarrow import fs

from auditor.errors import RunUsageError
from auditor.model.progress import Progress
from auditor.model.report import Report
from auditor.sources.file_systems import REPORT, require_file, run_files
from auditor.spark import functions as F
from auditor.spark.batches import arrow_frame, in_one_part, read_few
from auditor.spark.part_tables import WRITTEN, PartTable
from auditor.spark.query_plans import QueryPlans, in_one_task, is_large
from auditor.spark.table_files import TableFiles
from auditor.spark.tasks import own_errors, report_tasks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

MANIFEST = "manifest.json"
WHOLE = WRITTEN
"""What marks a table that is written to the end."""
IN_MEMORY_BYTES = 256 << 10
"""Of Parquet: a table that is no larger is held by the driver: some thousands of ledgers."""

FEW_BYTES = 4 << 20
"""Likewise: a table that is no larger may be sent to every task: some hundred thousand narrow rows."""


T = TypeVar("T")


class RunDirectory:
    """Where one run is kept: a local path, or a URI of a file system that Spark and pyarrow both know."""

    def __init__(self, path: str) -> None:
        self.path = str(Path(path).absolute()) if "://" not in path else path.rstrip("/")
        self._files, self._base = run_files(self.path)

    def where(self, name: str) -> str:
        """The path of something in the run, as Spark takes it."""
        return f"{self.path}/{name}"

    def table(self, name: str) -> TableFiles:
        """The files of a table that has landed."""
        return TableFiles.of(self._files, f"{self._base}/tables/{name}")

    def write_parts(self, name: str, table: PartTable) -> None:
        """Write a table by the tasks that read it."""
        table.write(self._files, f"{self._base}/{name}")

    def exists(self, name: str) -> bool:
        """Whether a file or directory of the run is there."""
        info = self._files.get_file_info(f"{self._base}/{name}")
        return bool(info.type != fs.FileType.NotFound)

    def read_json(self, name: str) -> dict[str, Any] | None:
        """A JSON file of the run; None where it is not there."""
        if not self.exists(name):
            return None
        require_file(self._files, f"{self._base}/{name}")
        with self._files.open_input_stream(f"{self._base}/{name}") as stream:
            value: dict[str, Any] = json.loads(stream.read())
        return value

    def write_json(self, name: str, value: dict[str, Any]) -> None:
        """Write a JSON file of the run, whole or not at all on a local file system."""
        self._files.create_dir(self._base, recursive=True)
        with self._files.open_output_stream(f"{self._base}/{name}.part") as stream:
            stream.write((json.dumps(value, indent=2) + "\n").encode())
        self._files.move(f"{self._base}/{name}.part", f"{self._base}/{name}")

    def write_table(self, name: str, table: pa.Table) -> None:
        """Write a table as Spark would, whole last; what a run that broke off left of it goes."""
        from pyarrow import parquet

        where = f"{self._base}/{name}"
        self.remove(name)
        self._files.create_dir(where, recursive=True)
        # With checksums, as Spark writes them: what a later run takes over is held to them.
        parquet.write_table(
            table,
            f"{where}/part-00000.snappy.parquet",
            filesystem=self._files,
            write_page_checksum=True,
        )
        self._files.open_output_stream(f"{where}/{WHOLE}").close()

    def read_rows(self, name: str) -> list[dict[str, Any]]:
        """The rows of a small table that has landed: one of `Landing.rows`."""
        rows: list[dict[str, Any]] = self.read_table(name).to_pylist()
        return rows

    def size(self, name: str) -> int:
        """Bytes of the files of a table; 0 where there is none."""
        selected = fs.FileSelector(f"{self._base}/{name}", allow_not_found=True)
        return sum(info.size or 0 for info in self._files.get_file_info(selected))

    def files(self, name: str) -> dict[str, int]:
        """The Parquet files of a table by name, and their sizes."""
        selected = fs.FileSelector(f"{self._base}/{name}", allow_not_found=True)
        found = sorted(self._files.get_file_info(selected), key=lambda info: info.base_name)
        return {info.base_name: info.size for info in found if info.base_name.endswith(".parquet")}

    def read_table(self, name: str, columns: list[str] | None = None) -> pa.Table:
        """A table that has landed, or some columns of it, all in memory."""
        from pyarrow import parquet

        return parquet.read_table(
            f"{self._base}/{name}", columns=columns, filesystem=self._files, partitioning=None
        )

    def count(self, name: str) -> int:
        """How many rows a table that has landed has, by the ends of its files."""
        from pyarrow import dataset

        where = f"{self._base}/{name}"
        rows = dataset.dataset(where, format="parquet", filesystem=self._files, partitioning=None)
        return int(rows.count_rows())

    def remove(self, name: str) -> None:
        """Take away a directory that was only a step on the way."""
        if self.exists(name):
            self._files.delete_dir(f"{self._base}/{name}")

    def oldest_table(self) -> int | None:
        """When the oldest table that is whole was written, ms since 1970; None where there is none."""
        selected = fs.FileSelector(f"{self._base}/tables", allow_not_found=True)
        names = [info.path for info in self._files.get_file_info(selected)]
        marks = self._files.get_file_info([f"{name}/{WHOLE}" for name in names]) if names else []
        times = [mark.mtime_ns // 1_000_000 for mark in marks if mark.type == fs.FileType.File]
        return min(times, default=None)

    def forget(self) -> None:
        """Take away all that an unfinished run has read; whose it is, it stays."""
        manifest = self.read_json(MANIFEST) or {}
        for name in ("findings", "tables"):
            self.remove(name)
        self.write_json(MANIFEST, {"identity": manifest.get("identity")})

    @contextmanager
    def claimed(self, identity: dict[str, Any]) -> Iterator[None]:
        """Hold the directory as `begin` claims it; a block that fails before any table gives it back.

        A store that never answered would else leave a directory that no later command knows as a run.
        """
        self.begin(identity)
        try:
            yield
        except BaseException:
            with suppress(OSError):  # the error that ended the run is the one to tell
                if not self.exists("tables"):
                    self._files.delete_file(f"{self._base}/{MANIFEST}")
            raise

    def begin(self, identity: dict[str, Any]) -> bool:
        """Claim the directory for a run of these sources; True if an unfinished run of the same is resumed.

        Raises `RunError` where another run's results are: they are never written over.
        """
        if self._files.get_file_info(self._base).type == fs.FileType.File:
            raise RunUsageError(f"--out {self.path}: is a file; name a directory that an audit may make")
        if self.exists(REPORT):
            raise RunUsageError(f"--out {self.path}: holds a finished run; name another directory")
        manifest = self.read_json(MANIFEST)
        if manifest is None:
            if self.exists("tables"):
                raise RunUsageError(f"--out {self.path}: has tables and no manifest; name another directory")
            self.write_json(MANIFEST, {"identity": identity})
            return False
        if manifest.get("identity") != identity and not self.exists("tables"):
            # The run before got no further than its first question: a mistyped host, say.
            self.write_json(MANIFEST, {"identity": identity})
            return False
        if manifest.get("identity") != identity:
            raise RunUsageError(f"--out {self.path}: an unfinished run of other sources or options is there")
        return True


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
        self._landed: dict[str, DataFrame] = {}
        self.resumed = resumed
        """When the oldest table was written that a run which broke off had left, ms; None: there is none."""
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
        if name not in self._landed:
            where, schema, held = _place(below, name), None, None
            if not self.run.exists(f"{where}/{WHOLE}"):
                self.progress.stage(name)
                with report_tasks(self.spark, self.progress), own_errors():
                    made = make()
                    if isinstance(made, pa.Table):
                        held = made
                    else:
                        schema = made.schema  # else Spark runs a job to look what it has written
                        if isinstance(made, PartTable):
                            self.run.write_parts(where, made)
                        elif in_one_task(self.spark):
                            held = made.toArrow()
                        else:
                            made.write.mode("overwrite").parquet(self.run.where(where))
                if held is not None:
                    self.run.write_table(where, held)
            if not self._landed and below == "tables":
                self.fit_plans(self.run.size(where))  # the first table says how large the others may be
            self._landed[name] = self._landed_at(name, below, schema, held)
        return self._landed[name]

    def beside(self, make: Callable[[], T]) -> Callable[[], T]:
        """Make something beside what the caller goes on with, where tables are small; else make it now.

        A small audit is planning, which Java does in the thread that asks, while another core has little to
        do; of large tables tasks keep all of them at work. What was made is had by calling what this returns,
        which raises what making it raised.
        """
        if self._second is not None and self._small:
            return self._second.submit(make).result
        made = make()
        return lambda: made

    def read_small(self, table: PartTable) -> PartTable | pa.Table:
        """A table that is made of small ones, made here and now; of large ones it is left to tasks."""
        return read_few(table) if self._small else table

    def values(self, name: str, column: str) -> frozenset[str] | None:
        """What a column of a table that has landed says, where tables are small; else None: nobody looks.

        What no row says need not be asked for by a query, which takes a tenth of a second even so.
        """
        if not self._small:
            return None
        return frozenset(self.run.read_table(f"tables/{name}", [column])[column].unique().to_pylist())

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
        if name not in self._landed:
            held = None
            where = _place(below, name)
            if not self.run.exists(f"{where}/{WHOLE}"):
                self.progress.stage(name)
                held = pa.Table.from_pylist(rows, schema=schema)
                self.run.write_table(where, held)
            self._landed[name] = self._landed_at(name, below, None, held)
        return self._landed[name]

    def _landed_at(
        self, name: str, below: str, schema: StructType | None, held: pa.Table | None
    ) -> DataFrame:
        """A table that has landed; its schema and its rows where they are at hand."""
        from pyspark.sql.pandas.types import from_arrow_schema

        where = _place(below, name)
        if self.run.size(where) > IN_MEMORY_BYTES:  # which no table without rows is
            if schema is None and held is not None:
                schema = from_arrow_schema(held.schema)
            read = self.spark.read.schema(schema) if schema else self.spark.read
            return in_one_part(read.parquet(self.run.where(where)))
        if held is None:
            held = self.run.read_table(where)
        # As Spark gives back what it has written: any column may be null.
        table = arrow_frame(self.spark, held, (schema or from_arrow_schema(held.schema)).toNullable())
        if not held.num_rows:
            self.empty.add(name)
        return table

    def beside_all(self, name: str, table: DataFrame) -> DataFrame:
        """A table that has landed, to be held against all ledgers: every task gets it, if it is small.

        Spark takes what its files hold for ten times what it is, and would sort all ledgers to join a few.
        """
        size = self.run.size(f"tables/{name}")
        return F.broadcast(table) if IN_MEMORY_BYTES < size <= FEW_BYTES else table

    def remember(self, key: str, value: Any) -> Any:
        """A fact that a resumed run must not see afresh: the first value it was given."""
        manifest = self.run.read_json(MANIFEST) or {}
        if key not in manifest:
            manifest[key] = value
            self.run.write_json(MANIFEST, manifest)
        return manifest[key]

    def finish(self, report: Report) -> None:
        """Write the report last: a run that has one is whole."""
        manifest = {
            **(self.run.read_json(MANIFEST) or {}),
            "run": asdict(report.run),
            "coverage": asdict(report.coverage),
            "findings": self.run.files("findings"),
        }
        self.run.write_json(MANIFEST, manifest)
        self.run.write_json(REPORT, json.loads(report.to_json()))


def _place(below: str, name: str) -> str:
    """Where a table lies in the run; an object store takes no ``.`` for the run itself."""
    return f"{below}/{name}" if below else name
