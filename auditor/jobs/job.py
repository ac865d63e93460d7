"""A command of ``bkaudit`` in the Spark session that spark-submit configured.

Without spark-submit it is the plain command, which starts a session of its own.
"""

from __future__ import annotations

import os
import sys

from auditor.cli import main
from auditor.spark.types import SparkSession

LOG_LEVEL = "spark.log.level"
QUIET = "ERROR"
"""Log level that prints errors only, so that the report can be found."""

_SUBMITTED = "PYSPARK_GATEWAY_PORT"
"""Environment variable that spark-submit sets for the program that it starts."""


def run_command(name: str) -> None:
    """Run ``bkaudit NAME`` with the arguments of this process, and exit with the command's exit code."""
    submitted = _SUBMITTED in os.environ
    main([name, *sys.argv[1:]], prog_name="bkaudit", obj=(lambda: _session(name)) if submitted else None)


def _session(name: str) -> SparkSession:
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(f"bkaudit {name}")
    if not SparkConf().contains(LOG_LEVEL):
        builder = builder.config(LOG_LEVEL, QUIET)
    return builder.getOrCreate()
