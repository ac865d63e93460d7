"""Marks, read after both scans of a live store, beside ledgers that the first scan knows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.model.columns import LEDGER
from auditor.spark import functions as F
from auditor.tables.moved import new_ids

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def stock(marks: DataFrame) -> DataFrame:
    """Marks and locks with their ``scope_id``: only stock ledgers, of scope 0, can have one."""
    return marks.withColumn("scope_id", F.lit(0).cast("long"))


def of_first_scan(marks: DataFrame, moved: DataFrame | None) -> DataFrame:
    """The marks without those of ledgers that were made after the first scan: nothing is known of these.

    ``moved`` is what two scans of a live store differ in, None for a saved one.
    """
    if moved is None:
        return marks
    keys = [*LEDGER]
    return marks.join(new_ids(moved), keys, "left_anti").select(*marks.columns)
