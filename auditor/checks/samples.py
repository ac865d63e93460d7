"""Many rows told as one: how many there are, and the first few."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from auditor.checks.finding_rows import name_of_ledger
from auditor.model.columns import LEDGER
from auditor.spark import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

SHOWN = 10


def with_samples(rows: DataFrame, by: str | Sequence[str], of: str, *others: Column) -> DataFrame:
    """One row for each value of ``by``: ``total`` rows, the first 10 values ``of`` as ``sample``, ``others``.

    ``by`` is a column, or several; ``others`` are further aggregates. Numbering the rows first keeps the list
    of a group of millions short.
    """
    keys = [by] if isinstance(by, str) else list(by)
    number = f"row_number() OVER (PARTITION BY {', '.join(keys)} ORDER BY {of}) AS _number"
    sample = F.expr(f"array_sort(collect_list(CASE WHEN _number <= {SHOWN} THEN {of} END)) AS sample")
    return rows.selectExpr("*", number).groupBy(*keys).agg(F.expr("count(*) AS total"), sample, *others)


def with_ledgers(rows: DataFrame, by: str | Sequence[str], *others: Column) -> DataFrame:
    """`with_samples` of rows about ledgers: the sample names them as sentences do, by scope and id."""
    ledgers = rows.selectExpr("*", f"struct({', '.join(LEDGER)}) AS _ledger")
    names = F.expr(f"transform(sample, each -> {name_of_ledger('each.scope_id', 'each.ledger_id')})")
    return with_samples(ledgers, by, "_ledger", *others).withColumn("sample", names)
