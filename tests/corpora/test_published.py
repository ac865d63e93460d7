"""The published tables are those that a run lands, column by column."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from auditor.findings.table import FINDINGS
from auditor.tables.published import TABLES, to_json
from tests.corpora.audited import Audited

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMAS = Path(__file__).parents[2] / "schemas"


def test_the_published_file_is_current() -> None:
    assert (SCHEMAS / "tables.json").read_text("utf-8") == to_json(), (
        "run: python -m auditor.tables.published > schemas/tables.json"
    )


def test_a_run_lands_what_is_published(audited: Audited, spark: SparkSession) -> None:
    from pyspark.sql.pandas.types import to_arrow_schema

    landed = {path.name for path in (audited.out / "tables").iterdir()}
    assert landed == {*TABLES} - {"ledgers_again"}  # a saved store is scanned once
    for name in sorted(landed):
        schema = to_arrow_schema(spark.read.parquet(f"{audited.out}/tables/{name}").schema)
        assert {each.name: str(each.type) for each in schema} == {
            each.name: str(each.type) for each in TABLES[name]
        }, name
    findings = to_arrow_schema(spark.read.parquet(f"{audited.out}/findings").schema)
    assert {each.name: str(each.type) for each in findings} == {
        each.name: str(each.type) for each in FINDINGS
    }
