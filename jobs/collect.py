"""A collection under spark-submit: ``spark-submit jobs/collect.py --bookies PATH --out DIR``."""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession

from auditor.cli import main

if __name__ == "__main__":
    main(["collect", *sys.argv[1:]], obj=SparkSession.builder.appName("bkaudit collect").getOrCreate)
