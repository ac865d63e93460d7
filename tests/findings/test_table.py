"""Checks that cannot find anything are not run, and the findings table still has its columns."""

from __future__ import annotations

from dataclasses import replace
from functools import wraps
from typing import TYPE_CHECKING

from auditor.checks import TABLE_CHECKS, TableCheck
from auditor.findings.table import ask_table_checks
from auditor.tables import Tables
from auditor.tables.run_tables import OPTIONAL_TABLES
from tests.checks.tables_builder import tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OF_MARKS = [check for check in TABLE_CHECKS if check.asks == "marks"]


def test_checks_of_empty_tables_are_not_run(spark: SparkSession) -> None:
    ids: list[str] = []

    def noted(check: TableCheck) -> TableCheck:
        @wraps(check.finder)
        def find(inputs: Tables) -> DataFrame:
            ids.append(check.id)
            rows: DataFrame = check.finder(inputs)
            return rows

        return replace(check, finder=find)

    empty = frozenset({"marks", "lagging", *OPTIONAL_TABLES})
    inputs = replace(tables(spark), empty_table_names=empty)
    ask_table_checks([noted(check) for check in TABLE_CHECKS], inputs)
    assert ids == [check.id for check in TABLE_CHECKS if check.asks not in empty]


def test_findings_table_has_its_columns_when_no_check_is_run(spark: SparkSession) -> None:
    inputs = tables(spark)
    rows = ask_table_checks(OF_MARKS, replace(inputs, empty_table_names=frozenset({"marks"})))
    assert rows.columns == ask_table_checks(OF_MARKS, replace(inputs, empty_table_names=frozenset())).columns
    assert rows.isEmpty()
