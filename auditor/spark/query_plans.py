"""How Spark plans the queries of an audit: by how large its tables are.

The queries of an audit are many and wide. Where they read a few megabytes, nearly all of their time goes into
preparing them: Java code is generated and compiled for each, and what is left of a query is planned anew
whenever a part of it ends. Both pay for themselves where there are rows enough, and where there are few they
are left out, with as few partitions as there are cores. Of some ten thousand ledgers one task does a step
sooner than two are begun, and a join of what it holds sooner than a job has sent one side of it to every
task. A table of one partition meets another of one without a shuffle: a query of them is one stage then, of
which a dozen joins cost less than one shuffle does.

Large tables are joined in partitions that fit in memory. Their rows are narrow and alike, so what looks
small, packed in a file or a shuffle, is ten times that in memory: left to itself, Spark would put partitions
together until they spill, and send whole tables to every task.

The answers are the same: only how they are worked out is another. Numbers of several
tables are asked in one query.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce

from auditor.model.batch_bounds import MAX_BATCH_BYTES
from auditor.spark.types import DataFrame, SparkSession

SMALL_BYTES = 10 << 20
"""Of Parquet, ledgers and indexes together: some 120,000 ledgers, each on three bookies."""

TINY_BYTES = 6 << 20
"""Likewise: some 60,000 ledgers."""

PLANNED_ONCE = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # Spark's check of its own rules, after each of them.
    "spark.sql.lightweightPlanChangeValidation": "false",
}
"""For small tables: nothing is compiled, and nothing planned anew."""
_NO_HINTS = "spark.sql.optimizer.disableHints"
_IN_ONE_TASK = {
    # Each table that is sent to all tasks is a job of its own: half of all jobs of an audit.
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    # What large queries send to all tasks on purpose, likewise.
    _NO_HINTS: "true",
    "spark.sql.leafNodeDefaultParallelism": "1",
}
"""For tiny ones besides, each of one partition (`auditor.spark.batches.arrow_frame`)."""
_IN_MEMORY = {
    # Of a shuffle's packed bytes: some 600,000 rows, of 100 to 200 bytes while they are sorted.
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": "8m",
    # What a file's bytes are in memory. Ids of ten million ledgers are a few megabytes of Parquet: without
    # this Spark takes them for a table that may be sent to every task, and runs out of memory.
    "spark.sql.sources.fileCompressionFactor": "20",
}
_PARTITIONS = "spark.sql.shuffle.partitions"
_ROWS = 1_000_000
"""Of both sides of the join, in one of the partitions that a shuffle begins with."""
PARTITION_BYTES = MAX_BATCH_BYTES
"""Of groups of both sides, likewise: a task has them in memory four times while it gives them codes."""


def is_large(table_bytes: int) -> bool:
    """Whether tables of this size are worth more queries that are each of less."""
    return table_bytes > SMALL_BYTES


class QueryPlans:
    """The settings of a session as they were, and as they fit the tables of an audit."""

    def __init__(self, spark: SparkSession) -> None:
        keys = (*PLANNED_ONCE, *_IN_ONE_TASK, *_IN_MEMORY, _PARTITIONS)
        self._spark = spark
        self._had = {key: spark.conf.get(key, None) for key in keys}
        self.small = False
        """Whether the tables that the settings fit are small: queries are planned longer than worked on."""

    def fit(self, table_bytes: int, replicas: int) -> None:
        """Set the session for queries of tables of this size, and of so many replicas to compare.

        It may be called again when more tables have landed.
        """
        self.restore_settings()
        spark = self._spark
        cores, had = spark.sparkContext.defaultParallelism, partitions(spark)
        small, tiny = not is_large(table_bytes), table_bytes <= TINY_BYTES
        self.small = small
        chosen = (PLANNED_ONCE | _IN_ONE_TASK if tiny else PLANNED_ONCE) if small else _IN_MEMORY
        for key, value in chosen.items():
            spark.conf.set(key, value)
        fewest = 1 if tiny else min(cores, had)
        partition_count = fewest if small else max(had, partitions_of(spark, replicas))
        spark.conf.set(_PARTITIONS, str(partition_count))

    def restore_settings(self) -> None:
        """Give the session back with the settings that it had: it may be somebody's notebook."""
        for key, value in self._had.items():
            if value is None:
                self._spark.conf.unset(key)
            else:
                self._spark.conf.set(key, value)


def partitions_of(spark: SparkSession, replicas: int, group_bytes: int = 0) -> int:
    """In how many partitions so many replicas are compared with as many others.

    ``group_bytes`` are those of the groups of both sides: a task has all of a partition in memory.
    """
    by_rows, by_bytes = 2 * replicas // _ROWS, -(-group_bytes // PARTITION_BYTES)
    return max(2 * spark.sparkContext.defaultParallelism, by_rows, by_bytes)


def partitions(spark: SparkSession) -> int:
    """How many partitions `QueryPlans.fit` has chosen."""
    return int(spark.conf.get(_PARTITIONS) or spark.sparkContext.defaultParallelism)


def in_one_task(spark: SparkSession) -> bool:
    """Whether the tables of the audit are tiny: what is made of them is as much as the driver may hold."""
    return spark.conf.get(_NO_HINTS, None) == _IN_ONE_TASK[_NO_HINTS]


@contextmanager
def query_plans(spark: SparkSession) -> Iterator[QueryPlans]:
    """Plans that fit, for as long as the block runs."""
    plans = QueryPlans(spark)
    try:
        yield plans
    finally:
        plans.restore_settings()


def aggregate_many(aggregates: Mapping[str, tuple[DataFrame, Sequence[str]]]) -> dict[str, tuple[int, ...]]:
    """The numbers of each table, by the name that it is given here; 0 where SQL says null.

    ``aggregates`` has a table and aggregates in SQL. However small, a query takes a fifth of a second;
    several in one take little more. Without a table nothing is asked of Spark.

    >>> aggregate_many({})
    {}
    >>> def newest(ledgers: DataFrame, marks: DataFrame) -> dict[str, tuple[int, ...]]:
    ...     return aggregate_many({"ledgers": (ledgers, ["max(version)"]), "marks": (marks, ["count(*)"])})
    """
    if not aggregates:
        return {}
    queries = [
        table.selectExpr(f"'{name}' AS name", f"array({', '.join(map(_number, numbers))}) AS numbers")
        for name, (table, numbers) in aggregates.items()
    ]
    rows = reduce(lambda union, query: union.union(query), queries).collect()
    return {row["name"]: tuple(row["numbers"]) for row in rows}


def _number(aggregate: str) -> str:
    return f"cast(coalesce({aggregate}, 0) AS bigint)"
