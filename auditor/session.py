"""The Spark session of an audit, when nobody brings one."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from auditor.java import ensure_java_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_DEFAULTS = {
    "spark.app.name": "bookkeeper-auditor",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    # A ledger whose index is full of holes has a large row; few rows a batch keep a Python worker small.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "4096",
    # Coalescing many compressed shuffle partitions to a few leaves cores idle in the join's last wave.
    "spark.sql.adaptive.coalescePartitions.parallelismFirst": "true",
}


def build_session(
    master: str | None = None, conf: Mapping[str, str] | None = None, driver_memory: str | None = None
) -> SparkSession:
    """Start a Spark session, or take the one that is already there.

    A running session (a notebook's, or the one that spark-submit made) is used as it is. Otherwise Java is
    looked for (`auditor.java`), and Python workers get the driver's interpreter unless PYSPARK_PYTHON says
    another: on a machine without an activated environment they would start one without pyarrow.
    """
    from pyspark.sql import SparkSession

    if (active := SparkSession.getActiveSession()) is not None:
        return active
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    ensure_java_home()
    builder = SparkSession.builder
    settings = {**_DEFAULTS, **(conf or {})}
    if master is not None and "spark.master" not in settings:
        settings["spark.master"] = master
    if driver_memory is not None:
        settings["spark.driver.memory"] = driver_memory
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session
