"""Entry logs of a bookie as one finding: how many, their bytes, and the first few by name."""

from __future__ import annotations

from auditor.checks.finding_rows import name_of_ledger
from auditor.spark import functions as F
from auditor.spark.types import Column, DataFrame
from auditor.tables import Tables

SHOWN = 10
"""So many logs a finding names, the largest first."""

LEDGERS_SHOWN = 3
"""So many ledgers it names of each."""


def logs(tables: Tables) -> DataFrame:
    """One row a log that is closed: its ``bytes``, those of ``entries``, and those that ``remain``.

    ``keeps`` are the ledgers that the bookie keeps it for, the largest first. Left out are the log that a
    bookie writes to, one of which the owner of a byte is unknown, and what is not a log yet.
    """
    assert tables.space is not None
    name = F.expr(name_of_ledger("scope_id", "ledger_id"))
    of_ledger = F.col("ledger_id").isNotNull()
    kept = of_ledger & F.col("remains")
    # Two rows of one ledger, where a part of it is surplus, are one.
    each = (
        tables.space.where("kind = 'log' and not current and bookie_id is not null")
        .groupBy("bookie_id", "directory", "path", "scope_id", "ledger_id")
        .agg(
            F.sum("bytes").alias("bytes"),
            F.max("remains").alias("remains"),
            F.max(F.col("class").isin("owner-unknown", "not-yet-mapped")).alias("unclear"),
        )
    )
    largest = F.when(kept, F.struct((-F.col("bytes")).alias("order"), name.alias("ledger"), "bytes"))
    return (
        each.groupBy("bookie_id", "directory", "path")
        .agg(
            F.sum("bytes").alias("bytes"),
            F.coalesce(F.sum(F.when(of_ledger, F.col("bytes"))), F.lit(0)).alias("entries"),
            F.coalesce(F.sum(F.when(kept, F.col("bytes"))), F.lit(0)).alias("remain"),
            F.max("unclear").alias("unclear"),
            F.slice(F.array_sort(F.collect_list(largest)), 1, LEDGERS_SHOWN).alias("keeps"),
        )
        .where("not unclear")
        .withColumn("keeps", F.transform("keeps", lambda one: F.struct(one["ledger"], one["bytes"])))
    )


def logs_per_bookie(rows: DataFrame, *others: Column) -> DataFrame:
    """One row a bookie: ``logs``, their ``bytes``, the largest of them as ``sample``, and ``others``."""
    from pyspark.sql import Window

    place = F.row_number().over(Window.partitionBy("bookie_id").orderBy(F.desc("bytes"), "path"))
    shown = F.struct("place", "path", "bytes", "entries", "remain", "keeps")
    found = (
        rows.withColumn("place", place)
        .groupBy("bookie_id")
        .agg(
            F.count("*").alias("logs"),
            F.sum("bytes").alias("bytes"),
            F.array_sort(F.collect_list(F.when(F.col("place") <= SHOWN, shown))).alias("sample"),
            *others,
        )
    )
    fields = ("path", "bytes", "entries", "remain", "keeps")
    return found.withColumn(
        "sample", F.transform("sample", lambda one: F.struct(*(one[field] for field in fields)))
    )
