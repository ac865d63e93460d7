"""Additions to Spark's column functions."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import auditor
from auditor.spark import functions as F

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_lowercase_digits_converts_hex_digits_to_lower_case(spark: SparkSession) -> None:
    rows = spark.createDataFrame([("0123456789ABCDEFabcdef-",), (None,)], "digits string")
    assert [row[0] for row in rows.select(F.lowercase_digits("digits")).collect()] == [
        "0123456789abcdefabcdef-",
        None,
    ]


def test_only_functions_module_uses_spark_case_conversion() -> None:
    house = Path(auditor.__file__).parent
    asking = re.compile(r"\bF\.(lower|upper|initcap)\(|[\"'(, ](lower|upper|lcase|ucase|initcap)\((?!\))")
    file_names = [
        path.name
        for path in house.rglob("*.py")
        if path.name != "functions.py" and asking.search(path.read_text("utf-8"))
    ]
    assert file_names == []
