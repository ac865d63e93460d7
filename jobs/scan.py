"""The metadata tables alone, under spark-submit: ``spark-submit jobs/scan.py --metadata URI --out RUN``."""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession

from auditor.cli import main

if __name__ == "__main__":
    main(["scan", *sys.argv[1:]], obj=SparkSession.builder.appName("bkaudit scan").getOrCreate)
