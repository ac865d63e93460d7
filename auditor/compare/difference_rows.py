"""Differences of two stores out of their table: some of each change, or all, one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from auditor.model.comparison import CopyState, StoreDifference, StoreItem
from auditor.spark.tasks import own_errors

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_ORDER = ("change", "item", "scope_id", "ledger_id", "path")


def some_differences(differences: DataFrame, each: int) -> list[StoreDifference]:
    """The first ``each`` differences of every change."""
    found: list[StoreDifference] = []
    with own_errors():
        for change in CopyState:
            rows = differences.where(differences.change == str(change)).orderBy(*_ORDER).limit(each)
            found += map(_difference, rows.collect())
    return found


def all_differences(differences: DataFrame) -> Iterator[StoreDifference]:
    """Every difference in a fixed order; the driver holds one part of the table at a time."""
    with own_errors():
        yield from map(_difference, differences.orderBy(*_ORDER).toLocalIterator())


def _difference(row: Any) -> StoreDifference:
    return StoreDifference(
        StoreItem(row["item"]),
        CopyState(row["change"]),
        row["path"],
        row["scope_id"],
        row["ledger_id"],
        tuple(row["fields"] or ()),
        row["why"],
    )
