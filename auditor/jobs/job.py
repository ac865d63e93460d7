"""A command of ``bkaudit`` in the Spark session that spark-submit configured.

Without spark-submit, the command starts a session of its own.
"""

from __future__ import annotations

import os
import sys

from auditor.cli import main
from auditor.spark.types import SparkSession

LOG_LEVEL_SETTING = "spark.log.level"
ERRORS_ONLY_LEVEL = "ERROR"
"""Log level that prints errors alone. With more log lines, the report would be hard to find."""

_SUBMIT_VARIABLE = "PYSPARK_GATEWAY_PORT"
"""Environment variable that spark-submit sets for the program that it starts."""


def run_command(name: str) -> None:
    """Run ``bkaudit NAME`` with the arguments of this process, and exit with the command's exit code."""
    is_submitted = _SUBMIT_VARIABLE in os.environ
    main(
        [name, *sys.argv[1:]],
        prog_name="bkaudit",
        obj=(lambda: _submitted_session(name)) if is_submitted else None,
    )


def _submitted_session(name: str) -> SparkSession:
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

    session_builder = SparkSession.builder.appName(f"bkaudit {name}")
    if not SparkConf().contains(LOG_LEVEL_SETTING):
        session_builder = session_builder.config(LOG_LEVEL_SETTING, ERRORS_ONLY_LEVEL)
    return session_builder.getOrCreate()
