"""The published tables equal those that a run writes, column by column."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from auditor.findings.table import FINDINGS_SCHEMA
from auditor.tables.run_tables import OPTIONAL_TABLES, TABLES, to_json
from tests.corpora.audited import FinishedRun

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

SCHEMAS = Path(__file__).parents[2] / "schemas"


def test_published_table_schemas_are_current() -> None:
    assert (SCHEMAS / "tables.json").read_text("utf-8") == to_json(), (
        "run: python -m auditor.tables.run_tables > schemas/tables.json"
    )


def test_run_writes_the_published_tables_and_columns(audited: FinishedRun, spark: SparkSession) -> None:
    written_names = {path.name for path in (audited.out / "tables").iterdir()}
    # A saved store, no bookie was asked, no application refers to these ledgers, and no option was given.
    assert written_names == {*TABLES} - OPTIONAL_TABLES
    for name in sorted(written_names):
        table = spark.read.parquet(f"{audited.out}/tables/{name}")
        assert columns(table.schema) == published_columns(TABLES[name].columns), name
    assert columns(spark.read.parquet(f"{audited.out}/findings").schema) == published_columns(FINDINGS_SCHEMA)


def columns(schema: StructType) -> dict[str, str]:
    return {column.name: column.dataType.simpleString() for column in schema}


def published_columns(schema: pa.Schema) -> dict[str, str]:
    from pyspark.sql.pandas.types import from_arrow_schema

    spark_schema = from_arrow_schema(schema)
    return columns(spark_schema)
