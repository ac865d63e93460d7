"""What BookKeeper leaves behind in numbers as a matter of course: one finding per bookie, with counts.

A worker that copies a fragment whole, a bookie that comes back: each leaves one row for each of thousands of
ledgers, and nobody acts on one of them. The rows stay in a table of the run.
"""

from __future__ import annotations

from auditor.checks.attribution import with_attribution
from auditor.checks.finding_rows import comma_list, finding_rows, quantity, suspect_if, with_ledgers, words
from auditor.model.columns import LEDGER
from auditor.model.ledger_metadata import LedgerState
from auditor.spark import functions as F
from auditor.spark.types import Column, DataFrame
from auditor.tables import Tables
from auditor.tables.parts import only


def count_per_bookie(rows: DataFrame, *sums: str) -> DataFrame:
    """One row per bookie: ``total`` rows that are sure, ``doubted`` ones, a ``sample``, and sums of both
    kinds.

    ``rows`` are about a ledger and a bookie each, and have ``doubtful`` and the columns ``sums``; of each of
    these there is the sum of the sure rows under its name, and that of the others as ``doubted_`` and its
    name. The sample is of sure rows where there are any.
    """
    kinds = with_ledgers(rows, ["bookie_id", "doubtful"], *(F.sum(name).alias(name) for name in sums))

    def total(name: str, condition: str, called: str) -> Column:
        return F.expr(f"coalesce(sum(CASE WHEN {condition} THEN {name} END), 0) AS {called}")

    totals = kinds.groupBy("bookie_id").agg(
        total("total", "NOT doubtful", "sure"),
        total("total", "doubtful", "doubted"),
        F.expr("min_by(sample, doubtful) AS sample"),
        *(total(name, "NOT doubtful", name) for name in sums),
        *(total(name, "doubtful", f"doubted_{name}") for name in sums),
    )
    return totals.withColumnRenamed("sure", "total")


def entries_besides(tables: Tables, column: str, what: str) -> DataFrame:
    """One finding for each bookie in a column of ``judged`` that lists held entries.

    A ledger counts apart where it is not closed, moved between the scans, or may be another bookie's.
    """

    from auditor.tables.moved import doubtful

    each = (
        only(column, tables.judged)
        .select(*LEDGER, "state", "length", "last_entry_id", F.explode(column).alias("held"))
        .select(*LEDGER, "state", "length", "last_entry_id", "held.*")
    )
    rows = with_attribution(doubtful(each, tables.moved), tables)
    # An entry is taken to be as long as the ledger's others are.
    entry = F.try_divide("length", F.col("last_entry_id") + 1)
    bytes = F.when((F.col("state") == LedgerState.CLOSED) & (F.col("length") > 0), F.col("count") * entry)
    unsure = (F.col("state") != LedgerState.CLOSED) | F.col("moved") | F.col("attribution_suspect")
    rows = rows.select(
        *LEDGER,
        "bookie_id",
        unsure.alias("doubtful"),
        F.col("count").alias("entries"),
        F.coalesce(bytes.cast("bigint"), F.lit(0)).alias("bytes"),
    )
    found = count_per_bookie(rows, "entries", "bytes")
    every = F.col("total") + F.col("doubted")
    return finding_rows(
        found,
        bookie_id="bookie_id",
        confidence=suspect_if(F.col("total") == 0),
        message=words(
            F.col("bookie_id"),
            " holds ",
            quantity(F.col("entries") + F.col("doubted_entries"), "entry", "entries"),
            " of ",
            quantity(every, "ledger", "ledgers"),
            f" {what}: about ",
            quantity(F.col("bytes") + F.col("doubted_bytes"), "byte", "bytes"),
            " by the ledgers' lengths, such as of ledger ",
            comma_list(F.col("sample")),
            doubts(),
        ),
        evidence={
            "ledgers": "total",
            "entries": "entries",
            "bytes_estimate": "bytes",
            "doubted_ledgers": "doubted",
            "doubted_entries": "doubted_entries",
            "doubted_bytes_estimate": "doubted_bytes",
            "sample": "sample",
            "rows": F.lit(f"tables/judged, column {column}"),
        },
    )


def doubts() -> Column:
    """The end of a sentence about a row of `count_per_bookie`: how many of its ledgers count apart."""
    some = words("; ", F.col("doubted"), " of these ledgers are in doubt: not closed, or changing")
    return F.when(F.col("doubted") > 0, some).otherwise("")
