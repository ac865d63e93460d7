"""Marks, read after both scans of a live store, beside ledgers that the first scan knows."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def of_first_scan(marks: DataFrame, ledgers: DataFrame, again: DataFrame | None) -> DataFrame:
    """The marks without those of ledgers that were made after the first scan: nothing is known of these.

    ``again`` is the second scan, None where one scan stands for both.
    """
    if again is None:
        return marks
    known = ledgers.where("ledger_id is not null").select("ledger_id")
    second = again.where("ledger_id is not null").select("ledger_id")
    # From the marks on, so that the work follows these and not the ledgers.
    made_since = marks.select("ledger_id").join(known, "ledger_id", "left_anti")
    made_since = made_since.join(second, "ledger_id", "left_semi").distinct()
    return marks.join(made_since, "ledger_id", "left_anti").select(*marks.columns)
