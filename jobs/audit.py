"""An audit under spark-submit: ``spark-submit jobs/audit.py --metadata URI --bookies PATH --out RUN``."""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession

from auditor.cli import main

if __name__ == "__main__":
    main(["audit", *sys.argv[1:]], obj=SparkSession.builder.appName("bkaudit audit").getOrCreate)
