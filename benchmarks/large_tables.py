"""Queries of an audit over all rows of its large tables, answered either from the files or by Spark.

The benchmark writes the tables ledgers and availability as an audit does, and joins them. Their sources are
a ZooKeeper snapshot and collected tables. Then the two ways to answer each query take turns, and must
return the same rows. The time is the processor time of this process, Java and all Python workers.
``BKAUDIT_LEDGERS`` sets the number of ledgers (1,000,000).
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F

from auditor.model.ledger_id import LayoutKind
from auditor.sources.bookies.collections.collection import Collection
from auditor.sources.metadata.spark_source import LedgerSource
from auditor.spark.batches import arrow_frame
from auditor.spark.execution import Execution
from auditor.spark.part_tables import PartTable, part_table
from auditor.spark.query_plans import QueryPlans
from auditor.spark.session import build_session
from auditor.spark.table_files import TableFiles
from auditor.tables.index_counts import COUNT_SCHEMA, LARGEST_PAGE_BYTES, count_index_rows
from auditor.tables.members import members
from auditor.tables.rows_of_ledgers import QUERIED_LEDGER_COLUMNS, rows_of_ledgers
from auditor.tables.verdicts import verdicts, verdicts_of_judged
from benchmarks.cluster import Cluster
from benchmarks.cluster_store import write_snapshot
from benchmarks.cluster_tables import write_collection
from benchmarks.join_again import find_unequal_in_blocks
from benchmarks.measure import Line, alternate
from benchmarks.sampled import LOCAL_FILE_SYSTEM, copied_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LEDGERS = int(os.environ.get("BKAUDIT_LEDGERS", "1_000_000"))
BOOKIES = 500
ROUNDS = 2
_TASK_COUNT = 8
_KEY_COLUMNS = ["scope_id", "ledger_id"]
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")

TableSource = Callable[[], "DataFrame | PartTable"]


def lines() -> Iterator[Line]:
    """Yield a line for each query over all ledgers or all indexes."""
    with tempfile.TemporaryDirectory(prefix="bkaudit-benchmark-") as folder:
        work_directory = Path(folder)
        spark = build_session("local[2]", driver_memory="2g", log_path=work_directory / "spark.log")
        try:
            yield from _TableBenchmark(work_directory).lines()
        finally:
            spark.stop()


class _TableBenchmark:
    """The written tables, and each query on them in two variants: from the files, and in Spark."""

    def __init__(self, work_directory: Path) -> None:
        from pyspark.sql import SparkSession

        self._work_directory, self._spark = work_directory, SparkSession.active()
        cluster = Cluster(LEDGERS, BOOKIES)
        uri, collected_tables = (
            write_snapshot(cluster, work_directory),
            write_collection(cluster, work_directory),
        )
        options = {"metadata": uri, "layout": LayoutKind.LONG_HIERARCHICAL.value, "parts": str(_TASK_COUNT)}
        part_table(self._spark, LedgerSource(options)).write(LOCAL_FILE_SYSTEM, self._path_of("ledgers"))
        copied_files(self._spark, Collection(str(collected_tables)), _TASK_COUNT).write(
            LOCAL_FILE_SYSTEM, self._path_of("availability")
        )
        replicas = sum(
            len(ledger_group.ids) * len(ledger_group.members) for ledger_group in cluster.groups_of_ledgers()
        )
        QueryPlans(self._spark).fit_to_tables(1 << 40, replicas)
        unequal_pairs = find_unequal_in_blocks(self._spark, work_directory, replicas)
        unequal_pairs.write.parquet(self._path_of("unequal"))
        # The questions need only the ids of judged ledgers, so the other columns have constants.
        unexpected_replicas = self._read_table("unequal").where("expected is null")
        judged_ledgers = (
            self._read_table("unequal")
            .join(unexpected_replicas, _KEY_COLUMNS, "left_anti")
            .select(*_KEY_COLUMNS)
            .distinct()
        )
        unknown_column_text = "cast(array() as array<struct<bookie_id string>>) unknown"
        quorum_column_texts = ("2 write_quorum", "2 ack_quorum", "'CLOSED' state")
        judged_ledgers.selectExpr(
            "*", "1 m", "1 mu", "array('seen late') doubts", unknown_column_text, *quorum_column_texts
        ).write.parquet(self._path_of("judged"))

    def lines(self) -> Iterator[Line]:
        spark, ledgers, indexes = self._spark, self._read_table("ledgers"), self._read_table("availability")
        pairs, judged_ledgers = (
            F.broadcast(self._read_table("unequal")),
            F.broadcast(self._read_table("judged")),
        )
        ledger_columns = [name for name in ledgers.columns if name in QUERIED_LEDGER_COLUMNS]
        pair_ledger_ids = pairs.select("ledger_id").distinct()
        files = {name: self._open_files(name) for name in ("ledgers", "availability", "unequal", "judged")}

        def index_kind_counts() -> DataFrame:
            rows = [count._asdict() for count in count_index_rows(Execution(spark), files["availability"])]
            return arrow_frame(spark, pa.Table.from_pylist(rows, COUNT_SCHEMA))

        def all_verdicts() -> PartTable:
            verdicts_of_judged(judged_ledgers).write.mode("overwrite").parquet(self._path_of("others"))
            return verdicts(spark, files["ledgers"], files["judged"], self._open_files("others"))

        def pair_table(name: str, columns: list[str]) -> PartTable:
            return rows_of_ledgers(
                spark, files[name], files["unequal"], self._read_table(name).schema, columns
            )

        yield self._measure_query(
            "members",
            lambda: arrow_frame(spark, members(Execution(spark), files["ledgers"])),
            lambda: (
                ledgers.select(F.explode("replicas").alias("r"))
                .groupBy("r.bookie_id")
                .agg(
                    F.count("*").alias("ledgers"),
                    F.sum(F.col("r.depends").cast("long")).alias("depending"),
                    F.sum((F.length("r.groups") > 0).cast("long")).alias("replicas"),
                )
            ),
        )
        page_size_exponent = F.least(F.expr("page_bytes & -page_bytes"), F.lit(LARGEST_PAGE_BYTES))
        kind_columns = {
            "length": page_size_exponent,
            "empty": F.length("groups") == 0,
            "known": F.col("ledger_id").isNotNull(),
            "placed": F.col("path").isNotNull(),
        }
        name_columns = ("bookie_id", "state", "storage")
        grouping_columns = [
            *map(F.col, name_columns),
            *(column.alias(name) for name, column in kind_columns.items()),
        ]
        yield self._measure_query(
            "counts of indexes",
            index_kind_counts,
            lambda: indexes.groupBy(*grouping_columns).agg(F.count("*").alias("number")),
        )
        yield self._measure_query(
            "ledgers of pairs",
            lambda: pair_table("ledgers", ledger_columns),
            lambda: ledgers.select(*ledger_columns).join(
                F.broadcast(pair_ledger_ids), "ledger_id", "left_semi"
            ),
        )
        yield self._measure_query(
            "indexes of pairs",
            lambda: pair_table("availability", indexes.columns),
            lambda: indexes.join(F.broadcast(pair_ledger_ids), "ledger_id", "left_semi"),
        )
        class_of_closed_ledgers = F.when(F.col("state") == "CLOSED", "healthy").otherwise("not-closed")
        healthy_ledgers = ledgers.join(
            judged_ledgers.select(*_KEY_COLUMNS), _KEY_COLUMNS, "left_anti"
        ).select(
            *_KEY_COLUMNS,
            "state",
            class_of_closed_ledgers.alias("class"),
            class_of_closed_ledgers.alias("potential_class"),
            F.lit(0).alias("m"),
            F.lit(0).alias("mu"),
            F.array().cast("array<string>").alias("unread_bookies"),
            F.lit("confirmed").alias("confidence"),
        )
        yield self._measure_query(
            "verdicts", all_verdicts, lambda: healthy_ledgers.unionByName(verdicts_of_judged(judged_ledgers))
        )

    def _measure_query(self, name: str, files_variant: TableSource, spark_variant: TableSource) -> Line:
        variants = {"files": files_variant, "spark": spark_variant}

        def write(variant: str) -> None:
            result_table = variants[variant]()
            if isinstance(result_table, PartTable):
                result_table.write(LOCAL_FILE_SYSTEM, self._path_of(variant))
            else:
                result_table.write.mode("overwrite").parquet(self._path_of(variant))

        variant_seconds = alternate(
            lambda: write("files"), lambda: write("spark"), rounds=ROUNDS, clock=processor_seconds
        )
        files, spark = (self._read_table(variant) for variant in variants)
        columns = sorted(spark.columns)
        if files.select(*columns).exceptAll(spark.select(*columns)).count() or files.count() != spark.count():
            sys.exit(f"large_tables: {name}: not the rows that Spark finds")
        return Line(
            f"{name}, processor time",
            LEDGERS,
            "ledgers",
            variant_seconds[0],
            "Spark",
            LEDGERS,
            variant_seconds[1],
        )

    def _path_of(self, name: str) -> str:
        return str(self._work_directory / name)

    def _open_files(self, name: str) -> TableFiles:
        return TableFiles.from_directory(LOCAL_FILE_SYSTEM, self._path_of(name))

    def _read_table(self, name: str) -> DataFrame:
        return self._spark.read.parquet(self._path_of(name))


def processor_seconds() -> float:
    """Return the processor time of this process and its descendants in seconds.

    Children that ended count if their parent waited for them.
    """
    parent_ids: dict[int, int] = {}
    ticks_by_process: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            stat_fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # the process has ended
        parent_ids[int(stat.parent.name)] = int(stat_fields[1])
        ticks_by_process[int(stat.parent.name)] = sum(map(int, stat_fields[11:15]))
    tree_process_ids, process_ids = set[int](), {os.getpid()}
    while process_ids:
        tree_process_ids |= process_ids
        process_ids = {
            process_id for process_id, parent_id in parent_ids.items() if parent_id in process_ids
        } - tree_process_ids
    return sum(ticks_by_process.get(process_id, 0) for process_id in tree_process_ids) / _TICKS_PER_SECOND
