"""Marks, read after both scans of a live store, beside ledgers that the first scan knows."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def stock(marks: DataFrame) -> DataFrame:
    """Marks and locks with their ``scope_id``: only stock ledgers, of scope 0, can have one."""
    from pyspark.sql import functions as F

    return marks.withColumn("scope_id", F.lit(0).cast("long"))


def of_first_scan(marks: DataFrame, ledgers: DataFrame, again: DataFrame | None) -> DataFrame:
    """The marks without those of ledgers that were made after the first scan: nothing is known of these.

    ``again`` is the second scan, None where one scan stands for both.
    """
    if again is None:
        return marks
    keys = ["scope_id", "ledger_id"]
    known = ledgers.where("ledger_id is not null").select(*keys)
    second = again.where("ledger_id is not null").select(*keys)
    # From the marks on, so that the work follows these and not the ledgers.
    made_since = marks.select(*keys).join(known, keys, "left_anti")
    made_since = made_since.join(second, keys, "left_semi").distinct()
    return marks.join(made_since, keys, "left_anti").select(*marks.columns)
