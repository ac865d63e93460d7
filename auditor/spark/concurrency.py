"""The number of tasks that a Spark session runs at once.

The tasks of an audit share a limit on the load of a server. So each task gets a part of this limit.
`SparkContext.defaultParallelism` is not the number of tasks, because ``spark.default.parallelism`` can set it
to any value.
"""

from __future__ import annotations

from typing import Any

from auditor.spark.types import SparkSession

_UNBOUNDED_SLOTS = str((1 << 31) - 1)
"""Spark's default of ``spark.dynamicAllocation.maxExecutors``."""


def running_slots(spark: SparkSession) -> int:
    """Return the number of tasks that the current executors can run at once, at least 1."""
    context: Any = spark.sparkContext._jsc.sc()
    resource_profile = context.resourceProfileManager().defaultResourceProfile()
    return max(1, int(context.maxNumConcurrentTasks(resource_profile)))


def max_slots(spark: SparkSession) -> int | None:
    """Return the largest number of tasks that can run at once, also on executors that may still be added.

    Returns None if nothing limits the number. A standalone master without ``spark.cores.max`` uses every
    worker that joins. By default, dynamic allocation requests as many executors as there are tasks.
    """
    context = spark.sparkContext
    spark_conf, master = context.getConf(), str(context.master)
    task_cores = int(spark_conf.get("spark.task.cpus", "1"))
    if master.startswith("local") and not master.startswith("local-cluster"):
        return running_slots(spark)
    if master.startswith("spark://"):
        max_cores = spark_conf.get("spark.cores.max")
        return None if max_cores is None else max(1, int(max_cores) // task_cores)
    if not master.startswith(("yarn", "k8s://")):
        return None
    if spark_conf.get("spark.dynamicAllocation.enabled", "false") == "true":
        executors = spark_conf.get("spark.dynamicAllocation.maxExecutors", _UNBOUNDED_SLOTS)
    else:
        executors = spark_conf.get("spark.executor.instances", "2")
    if executors == _UNBOUNDED_SLOTS:
        return None
    return max(1, int(executors) * (int(spark_conf.get("spark.executor.cores", "1")) // task_cores))


def max_task_attempts(spark: SparkSession) -> int:
    """Return how many attempts of the same task can run at once.

    The result is 2 if Spark's speculative execution is enabled, otherwise 1.
    """
    return 2 if spark.sparkContext.getConf().get("spark.speculation", "false") == "true" else 1
