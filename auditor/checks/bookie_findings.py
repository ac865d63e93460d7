"""Findings about bookies, and counts per bookie for checks.

`bookie_finding` fills every column of a finding. BookKeeper regularly leaves thousands of useless entries or
ledgers behind, for example after a worker has copied a fragment. Checks therefore report them in one finding
per bookie, with counts. A table of the run has the single rows. A finding about entry logs has the number of
logs, their total size, and the names of the largest.
"""

import json
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any

from auditor.checks.finding_rows import (
    LEDGER_NAME,
    finding_rows,
    suspect_if,
    with_attribution,
    with_ledgers,
    words,
)
from auditor.model.columns import LEDGER
from auditor.model.finding import Confidence, Severity
from auditor.model.ledger_metadata import LedgerState
from auditor.model.states import NOT_RECLAIMABLE, SpaceClass
from auditor.spark import functions as F
from auditor.spark.types import Column, DataFrame
from auditor.tables import Tables
from auditor.tables.parts import filter_table_part
from auditor.tables.roster import TableRow


def bookie_finding(
    bookie_id: str | None,
    message: str,
    evidence: Mapping[str, Any],
    *,
    severity: Severity | None = None,
    confidence: Confidence = Confidence.CONFIRMED,
    unknown: Sequence[str] = (),
) -> TableRow:
    """Return one finding in the columns of FINDING_COLUMNS.

    Args:
        bookie_id: the bookie; None if the finding is about the cluster.
        message: one sentence for the reader.
        evidence: facts of the finding, which become a JSON object.
        severity: the severity of the finding; None for the severity of the check.
        confidence: how sure the finding is.
        unknown: ids of bookies whose copies are unknown.

    >>> bookie_finding("bk1", "bk1 is odd", {"registered": None})["evidence"]
    '{"registered":null}'
    """
    return {
        "severity": None if severity is None else str(severity),
        "confidence": str(confidence),
        "scope_id": None,
        "ledger_id": None,
        "bookie_id": bookie_id,
        "missing": [],
        "unknown": list(unknown),
        "message": message,
        "evidence": json.dumps(evidence, separators=(",", ":"), ensure_ascii=False),
    }


def suspect_or_confirmed(condition: bool) -> Confidence:
    """Return suspect if the condition is true, else confirmed."""
    return Confidence.SUSPECT if condition else Confidence.CONFIRMED


def count_text(number: int, singular_form: str, plural_form: str) -> str:
    """Return a number with the singular or plural form, as `auditor.checks.finding_rows.words` does.

    >>> count_text(1, "ledger names", "ledgers name"), count_text(0, "ledger names", "ledgers name")
    ('1 ledger names', '0 ledgers name')
    """
    return f"{number} {singular_form if number == 1 else plural_form}"


def sorted_facts(rows: Iterable[Mapping[str, Any]], *field_names: str) -> list[TableRow]:
    """Return rows with only ``field_names``, sorted by the values of these fields with null first.

    >>> sorted_facts([{"path": "b", "at": 1}, {"path": "a", "at": 2}], "path")
    [{'path': 'a'}, {'path': 'b'}]
    """
    facts = [{name: row[name] for name in field_names} for row in rows]
    return sorted(facts, key=lambda row: [(value is not None, value) for value in row.values()])


def group_rows(
    rows: Iterable[TableRow], group_key: Callable[[TableRow], Hashable]
) -> dict[Any, list[TableRow]]:
    """Group rows by the result of ``group_key``. The groups are in the order of their first rows.

    >>> group_rows([{"n": 1}, {"n": 3}, {"n": 2}], lambda row: row["n"] % 2)
    {1: [{'n': 1}, {'n': 3}], 0: [{'n': 2}]}
    """
    rows_by_key: dict[Any, list[TableRow]] = {}
    for row in rows:
        rows_by_key.setdefault(group_key(row), []).append(row)
    return rows_by_key


def count_per_bookie(rows: DataFrame, *sum_columns: str) -> DataFrame:
    """Count the doubtful rows and the other rows of each bookie.

    Args:
        rows: one row per ledger and bookie. The column ``doubtful`` tells whether the row is doubtful. The
            columns ``sum_columns`` have numbers.
        sum_columns: names of the columns to add up.

    Returns:
        One row per bookie. ``total`` is the number of rows that are not doubtful, and ``doubted`` is the
        number of doubtful rows. ``sample`` has ledgers of rows that are not doubtful, or of doubtful rows
        if there are no others. Each column of ``sum_columns`` has the sum over the rows that are not
        doubtful. The column of the same name with the prefix ``doubted_`` has the sum over the doubtful rows.
    """
    counts_by_doubt = with_ledgers(
        rows, ["bookie_id", "doubtful"], *(F.sum(name).alias(name) for name in sum_columns)
    )

    def sum_where(name: str, condition: str, column_name: str) -> Column:
        return F.expr(f"coalesce(sum(CASE WHEN {condition} THEN {name} END), 0) AS {column_name}")

    bookie_totals = counts_by_doubt.groupBy("bookie_id").agg(
        sum_where("total", "NOT doubtful", "sure"),
        sum_where("total", "doubtful", "doubted"),
        F.expr("min_by(sample, doubtful) AS sample"),
        *(sum_where(name, "NOT doubtful", name) for name in sum_columns),
        *(sum_where(name, "doubtful", f"doubted_{name}") for name in sum_columns),
    )
    return bookie_totals.withColumnRenamed("sure", "total")


def judged_column_findings(tables: Tables, column: str, description_text: str) -> DataFrame:
    """Return one finding for each bookie that has entries in one column of the table ``judged``.

    A ledger counts as doubtful if it is not closed, or if it changed between the two metadata scans. It also
    counts as doubtful if the bookie's data may belong to another bookie.

    Args:
        tables: the tables of the run.
        column: the column of ``judged`` that lists the entries.
        description_text: the words that follow "entries of 5 ledgers" in the message.
    """

    from auditor.tables.scans import drop_deleted_ledgers

    entry_rows = (
        filter_table_part(column, tables.judged)
        .select(*LEDGER, "state", "length", "last_entry_id", F.explode(column).alias("held"))
        .select(*LEDGER, "state", "length", "last_entry_id", "held.*")
    )
    rows = with_attribution(drop_deleted_ledgers(entry_rows, tables.moved_ledgers), tables)
    # Estimate: every entry has the average length of the ledger's entries.
    average_entry_bytes = F.try_divide("length", F.col("last_entry_id") + 1)
    estimated_bytes = F.when(
        (F.col("state") == LedgerState.CLOSED) & (F.col("length") > 0), F.col("count") * average_entry_bytes
    )
    is_doubtful = (F.col("state") != LedgerState.CLOSED) | F.col("moved") | F.col("attribution_suspect")
    rows = rows.select(
        *LEDGER,
        "bookie_id",
        is_doubtful.alias("doubtful"),
        F.col("count").alias("entries"),
        F.coalesce(estimated_bytes.cast("bigint"), F.lit(0)).alias("bytes"),
    )
    bookie_rows = count_per_bookie(rows, "entries", "bytes")
    return finding_rows(
        bookie_rows,
        bookie_id="bookie_id",
        confidence=suspect_if(F.col("total") == 0),
        message=words(
            "{bookie_id} holds {entries + doubted_entries:entry|entries} of {total + "
            "doubted:ledger|ledgers} {what}: about {bytes + doubted_bytes:byte|bytes} based on the "
            "ledgers' lengths; for example ledger {sample:,}{doubts}",
            what=description_text,
            doubts=doubtful_ledgers_clause(),
        ),
        evidence="total AS ledgers, entries, bytes AS bytes_estimate, doubted AS doubted_ledgers, "
        "doubted_entries, doubted_bytes AS doubted_bytes_estimate, sample, "
        f"'tables/judged, column {column}' AS rows",
    )


def doubtful_ledgers_clause() -> Column:
    """Return the last words of a message: the number of doubtful ledgers in a row of `count_per_bookie`.

    The text is empty if the row has no doubtful ledger.
    """
    doubt_clause = words("; {doubted} of these ledgers are unconfirmed: they are not closed, or are changing")
    return F.when(F.col("doubted") > 0, doubt_clause).otherwise("")


MAX_SHOWN_LOGS = 10
"""Largest number of entry logs that a finding names. The largest logs come first."""

MAX_SHOWN_LEDGERS = 3
"""Largest number of ledgers that a finding names for each entry log."""


_UNCLEAR_SPACE_CLASSES = (SpaceClass.OWNER_UNKNOWN, SpaceClass.NOT_YET_MAPPED, *NOT_RECLAIMABLE)
"""Classes of bytes that may be needed. Garbage collection or compaction may keep a log with such bytes."""


def closed_logs(tables: Tables) -> DataFrame:
    """Return one row for each closed entry log of the table space.

    The result leaves out the log that the bookie still writes to, and files that are not complete logs. It
    also leaves out logs with bytes that may be needed (`_UNCLEAR_SPACE_CLASSES`), such as bytes of a ledger
    whose metadata could not be read.

    Returns:
        ``bytes`` is the size of the log. ``entries`` is the size of its entries in bytes, and ``remain`` is
        the part of this size that garbage collection keeps. ``keeps`` has up to `MAX_SHOWN_LEDGERS` ledgers
        that keep the log, the largest first. ``unflushed`` is as in the table space.
    """
    ledger_name = F.expr(LEDGER_NAME)
    has_ledger_id = F.col("ledger_id").isNotNull()
    is_remaining_ledger = has_ledger_id & F.col("remains")
    # A ledger with surplus entries has two rows in a log; add them up.
    ledger_bytes = (
        tables.space.where("kind = 'log' and not current and bookie_id is not null")
        .groupBy("bookie_id", "directory", "path", "scope_id", "ledger_id")
        .agg(
            F.sum("bytes").alias("bytes"),
            F.max("remains").alias("remains"),
            F.max("unflushed").alias("unflushed"),
            F.max(F.col("class").isin(*_UNCLEAR_SPACE_CLASSES)).alias("unclear"),
        )
    )
    remaining_ledger = F.when(
        is_remaining_ledger, F.struct((-F.col("bytes")).alias("order"), ledger_name.alias("ledger"), "bytes")
    )
    return (
        ledger_bytes.groupBy("bookie_id", "directory", "path")
        .agg(
            F.sum("bytes").alias("bytes"),
            F.coalesce(F.sum(F.when(has_ledger_id, F.col("bytes"))), F.lit(0)).alias("entries"),
            F.coalesce(F.sum(F.when(is_remaining_ledger, F.col("bytes"))), F.lit(0)).alias("remain"),
            F.max("unclear").alias("unclear"),
            F.max("unflushed").alias("unflushed"),
            F.slice(F.array_sort(F.collect_list(remaining_ledger)), 1, MAX_SHOWN_LEDGERS).alias("keeps"),
        )
        .where("not unclear")
        .withColumn("keeps", F.transform("keeps", lambda ledger: F.struct(ledger["ledger"], ledger["bytes"])))
    )


def logs_per_bookie(rows: DataFrame, *aggregates: Column) -> DataFrame:
    """Return one row per bookie about its logs.

    ``logs`` is the number of logs, ``bytes`` is their total size, and ``sample`` has the largest logs.
    Further columns are the ``aggregates``.
    """
    size_rank = F.row_number().over(F.Window.partitionBy("bookie_id").orderBy(F.desc("bytes"), "path"))
    log_struct = F.struct("place", "path", "bytes", "entries", "remain", "keeps")
    bookie_rows = (
        rows.withColumn("place", size_rank)
        .groupBy("bookie_id")
        .agg(
            F.count("*").alias("logs"),
            F.sum("bytes").alias("bytes"),
            F.array_sort(F.collect_list(F.when(F.col("place") <= MAX_SHOWN_LOGS, log_struct))).alias(
                "sample"
            ),
            *aggregates,
        )
    )
    log_fields = ("path", "bytes", "entries", "remain", "keeps")
    return bookie_rows.withColumn(
        "sample", F.transform("sample", lambda log: F.struct(*(log[field] for field in log_fields)))
    )
