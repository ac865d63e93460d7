"""What an audit asks of all rows of its large tables, from the tables' files and, as its rival, by Spark.

The tables ledgers and availability land as in an audit, from a ZooKeeper snapshot and collected tables, and
are joined. Then both ways of each question take turns; the rows must be the same. Time is that of the
processors: of this process, of Java, and of all Python processes. BKAUDIT_LEDGERS sets the size (default:
1,000,000).
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from auditor.model.layout import LayoutKind
from auditor.sources.bookies.collections.collection import Collection
from auditor.sources.metadata.spark_source import LedgerSource
from auditor.spark.part_tables import PartTable, part_table
from auditor.spark.query_plans import QueryPlans, partitions_of
from auditor.spark.session import build_session
from auditor.tables.block_join import unequal_in_blocks
from auditor.tables.healthy_verdicts import verdicts_in_files
from auditor.tables.index_counts import count_in_files, index_counts
from auditor.tables.members import members, members_in_files
from auditor.tables.rows_of_few import OF_LEDGERS, rows_of_few
from auditor.tables.verdicts import verdicts
from benchmarks.cluster import Cluster
from benchmarks.cluster_store import write_snapshot
from benchmarks.cluster_tables import write_collection
from benchmarks.measure import Line, alternate
from benchmarks.sampled import copied

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LEDGERS = int(os.environ.get("BKAUDIT_LEDGERS", "1_000_000"))
BOOKIES = 500
ROUNDS = 2
_TASKS = 8
_KEYS = ["scope_id", "ledger_id"]
_TICKS = os.sysconf("SC_CLK_TCK")

Made = Callable[[], "DataFrame | PartTable"]


def lines() -> Iterator[Line]:
    """A line for each question that is asked of all ledgers or of all indexes."""
    with tempfile.TemporaryDirectory(prefix="bkaudit-benchmark-") as folder:
        work = Path(folder)
        spark = build_session("local[2]", driver_memory="2g", log=work / "spark.log")
        try:
            yield from _Questions(work).lines()
        finally:
            spark.stop()


class _Questions:
    """Tables that have landed, and what is asked of them in two ways."""

    def __init__(self, work: Path) -> None:
        from pyspark.sql import SparkSession

        self._work, self._spark = work, SparkSession.active()
        cluster = Cluster(LEDGERS, BOOKIES)
        uri, collected = write_snapshot(cluster, work), write_collection(cluster, work)
        given = {"metadata": uri, "layout": LayoutKind.LONG_HIERARCHICAL.value, "parts": str(_TASKS)}
        part_table(self._spark, LedgerSource(given)).write(self._at("ledgers"))
        copied(self._spark, Collection(str(collected)), _TASKS).write(self._at("availability"))
        replicas = sum(len(alike.ids) * len(alike.members) for alike in cluster.groups_of_ledgers())
        QueryPlans(self._spark).fit(1 << 40, replicas)
        expected, held = (Path(self._at(name)) for name in ("ledgers", "availability"))
        unequal = unequal_in_blocks(self._spark, expected, held, [], partitions_of(self._spark, replicas))
        unequal.write.parquet(self._at("unequal"))
        # What judging makes of a pair is of no account here, but which ledgers it is of.
        gone = self._table("unequal").where("expected is null")
        judged = self._table("unequal").join(gone, _KEYS, "left_anti").select(*_KEYS).distinct()
        none = "cast(array() as array<struct<bookie_id string>>) unknown"
        judged.selectExpr("*", "1 m", "1 mu", "array('seen late') doubts", none).write.parquet(
            self._at("judged")
        )

    def lines(self) -> Iterator[Line]:
        spark, ledgers, indexes = self._spark, self._table("ledgers"), self._table("availability")
        pairs, judged = F.broadcast(self._table("unequal")), F.broadcast(self._table("judged"))
        where = {name: Path(self._at(name)) for name in ("ledgers", "availability", "unequal", "judged")}
        wanted = [name for name in ledgers.columns if name in OF_LEDGERS]
        ids = pairs.select("ledger_id").distinct()

        def all_verdicts() -> PartTable:
            of_pairs = ledgers.select(*wanted).join(judged.select(*_KEYS), _KEYS, "left_semi")
            verdicts(of_pairs, judged).write.mode("overwrite").parquet(self._at("others"))
            return verdicts_in_files(spark, where["ledgers"], where["judged"], Path(self._at("others")))

        def of_pairs(name: str, columns: list[str]) -> PartTable:
            table = self._table(name)
            return rows_of_few(spark, where[name], where["unequal"], table.schema, columns)

        yield self._line(
            "members", lambda: members_in_files(spark, where["ledgers"]), lambda: members(ledgers)
        )
        yield self._line(
            "counts of indexes",
            lambda: count_in_files(spark, where["availability"]),
            lambda: index_counts(indexes),
        )
        yield self._line(
            "ledgers of pairs",
            lambda: of_pairs("ledgers", wanted),
            lambda: ledgers.select(*wanted).join(F.broadcast(ids), "ledger_id", "left_semi"),
        )
        yield self._line(
            "indexes of pairs",
            lambda: of_pairs("availability", indexes.columns),
            lambda: indexes.join(F.broadcast(ids), "ledger_id", "left_semi"),
        )
        yield self._line("verdicts", all_verdicts, lambda: verdicts(ledgers, judged))

    def _line(self, name: str, ours: Made, theirs: Made) -> Line:
        ways = {"files": ours, "spark": theirs}

        def write(way: str) -> None:
            made = ways[way]()
            if isinstance(made, PartTable):
                made.write(self._at(way))
            else:
                made.write.mode("overwrite").parquet(self._at(way))

        took = alternate(
            lambda: write("files"), lambda: write("spark"), rounds=ROUNDS, clock=processor_seconds
        )
        files, spark = (self._table(way) for way in ways)
        columns = sorted(spark.columns)
        if files.select(*columns).exceptAll(spark.select(*columns)).count() or files.count() != spark.count():
            sys.exit(f"large_tables: {name}: not the rows that Spark finds")
        return Line(f"{name}, processor time", LEDGERS, "ledgers", took[0], "Spark", LEDGERS, took[1])

    def _at(self, name: str) -> str:
        return str(self._work / name)

    def _table(self, name: str) -> DataFrame:
        return self._spark.read.parquet(self._at(name))


def processor_seconds() -> float:
    """What this process and all below it have used, those that ended and were waited for too."""
    parents: dict[int, int] = {}
    used: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it ended while we looked
        parents[int(stat.parent.name)] = int(fields[1])
        used[int(stat.parent.name)] = sum(map(int, fields[11:15]))
    found, wave = set[int](), {os.getpid()}
    while wave:
        found |= wave
        wave = {pid for pid, parent in parents.items() if parent in wave} - found
    return sum(used.get(pid, 0) for pid in found) / _TICKS
