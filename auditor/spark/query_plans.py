"""Spark's settings for planning the queries of an audit, chosen by the size of its tables.

An audit has many queries with many columns. If the tables have only a few megabytes, preparing the queries
takes nearly all of the time. Spark generates and compiles Java code for each query. It also plans the rest
of a query again whenever a part ends. Compiling and replanning pay off only for many rows. For small tables,
these settings switch off both, and set the number of partitions to the number of cores.

Tiny tables have the rows of some ten thousand ledgers. One task finishes a step of their queries before two
tasks have started. So these tables have one partition. One task also joins the rows of such tables faster
than a job sends one of the joined tables to every task. Tables of one partition are joined without a
shuffle. A query of such tables is then one stage, in which a dozen joins cost less than one shuffle.

Large tables are joined in partitions that fit in memory. Their rows are narrow and similar to each other. So
files and shuffles compress well, and the rows take ten times their size in memory. With its defaults, Spark
would merge partitions until they no longer fit in memory, and send whole tables to every task.

The results are the same with all these settings.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from auditor.model.batch_bounds import MAX_BATCH_BYTES
from auditor.spark.types import SparkSession

SMALL_BYTES = 10 << 20
"""Largest size of small tables, ledgers and indexes together, in bytes of Parquet.

Some 120,000 ledgers, each on three bookies, have this size.
"""

TINY_BYTES = 6 << 20
"""Largest size of tiny tables, in bytes of Parquet. A table of some 60,000 ledgers has this size."""

STATIC_PLAN_SETTINGS = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # Spark otherwise validates the plan after each of its own rules.
    "spark.sql.lightweightPlanChangeValidation": "false",
}
"""Settings for small tables, with which Spark compiles no code and plans each query once."""
_DISABLE_HINTS_KEY = "spark.sql.optimizer.disableHints"
_ONE_TASK_SETTINGS = {
    # Sending a table to all tasks takes a job. Without this, these were half of all jobs of an audit.
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    # Broadcast hints of large queries would start such jobs too.
    _DISABLE_HINTS_KEY: "true",
    "spark.sql.leafNodeDefaultParallelism": "1",
}
"""Further settings for tiny tables, which have one partition each (`auditor.spark.batches.arrow_frame`)."""
_IN_MEMORY_SETTINGS = {
    # Compressed bytes of a shuffle: some 600,000 rows, which take 100 to 200 bytes each when sorted.
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": "8m",
    # Ratio of size in memory to file size. The ids of ten million ledgers take a few megabytes of Parquet.
    # With its default, Spark would send such a table to every task, and run out of memory.
    "spark.sql.sources.fileCompressionFactor": "20",
}
_PARTITIONS_KEY = "spark.sql.shuffle.partitions"
_ROWS_PER_PARTITION = 1_000_000
"""Largest number of rows in one partition of a shuffle, both sides of a join together.

The limit applies before Spark merges partitions.
"""
PARTITION_BYTES = MAX_BATCH_BYTES
"""Largest size of the entry groups, of both sides of a join, in one partition of a shuffle, in bytes.

A task has the groups in memory four times while it encodes them.
"""


def is_large(table_bytes: int) -> bool:
    """Return whether tables of this size are large. The limit is `SMALL_BYTES`.

    For large tables, several queries that each read a part are faster than one query that reads everything.
    """
    return table_bytes > SMALL_BYTES


class QueryPlans:
    """The settings of a session, which are changed to fit the tables of an audit and restored afterwards."""

    def __init__(self, spark: SparkSession) -> None:
        setting_names = (*STATIC_PLAN_SETTINGS, *_ONE_TASK_SETTINGS, *_IN_MEMORY_SETTINGS, _PARTITIONS_KEY)
        self._spark = spark
        self._earlier_settings = {
            setting_name: spark.conf.get(setting_name, None) for setting_name in setting_names
        }

    def fit_to_tables(self, table_bytes: int, replica_count: int) -> None:
        """Set the session for queries of tables of this size, with this number of replicas to compare.

        The caller may call this method again when it has written more tables.
        """
        self.restore_settings()
        spark = self._spark
        cores, earlier_partitions = spark.sparkContext.defaultParallelism, session_partitions(spark)
        is_small, is_tiny = not is_large(table_bytes), table_bytes <= TINY_BYTES
        plan_settings = (
            (STATIC_PLAN_SETTINGS | _ONE_TASK_SETTINGS if is_tiny else STATIC_PLAN_SETTINGS)
            if is_small
            else _IN_MEMORY_SETTINGS
        )
        for setting_name, setting_value in plan_settings.items():
            spark.conf.set(setting_name, setting_value)
        min_partitions = 1 if is_tiny else min(cores, earlier_partitions)
        partition_count = (
            min_partitions if is_small else max(earlier_partitions, partitions_of(spark, replica_count))
        )
        spark.conf.set(_PARTITIONS_KEY, str(partition_count))

    def restore_settings(self) -> None:
        """Restore the original settings of the session, because it may belong to a notebook."""
        for setting_name, setting_value in self._earlier_settings.items():
            if setting_value is None:
                self._spark.conf.unset(setting_name)
            else:
                self._spark.conf.set(setting_name, setting_value)


def partitions_of(spark: SparkSession, replica_count: int, group_bytes: int = 0) -> int:
    """Return the number of partitions for comparing the expected and the actual entries of replicas.

    ``replica_count`` is the number of replicas. ``group_bytes`` is the size of all their entry sets (BP-34
    groups), in bytes. A task has all entry sets of one partition in memory.
    """
    partitions_by_rows, partitions_by_bytes = (
        2 * replica_count // _ROWS_PER_PARTITION,
        -(-group_bytes // PARTITION_BYTES),
    )
    return max(2 * spark.sparkContext.defaultParallelism, partitions_by_rows, partitions_by_bytes)


def session_partitions(spark: SparkSession) -> int:
    """Return the number of partitions that the session uses, as `QueryPlans.fit_to_tables` has set it."""
    return int(spark.conf.get(_PARTITIONS_KEY) or spark.sparkContext.defaultParallelism)


def has_one_task_plans(spark: SparkSession) -> bool:
    """Return whether the session has the settings for tiny tables. Query results then fit in the driver."""
    return spark.conf.get(_DISABLE_HINTS_KEY, None) == _ONE_TASK_SETTINGS[_DISABLE_HINTS_KEY]


@contextmanager
def query_plans(spark: SparkSession) -> Iterator[QueryPlans]:
    """Yield `QueryPlans` for the session, and restore the session's settings at the end of the block."""
    plans = QueryPlans(spark)
    try:
        yield plans
    finally:
        plans.restore_settings()
