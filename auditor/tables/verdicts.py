"""verdicts: the class of every ledger, what it could become, and whose answer is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from auditor.model.columns import LEDGER, schema_of
from auditor.model.finding import Confidence
from auditor.model.ledger_metadata import LedgerState
from auditor.model.states import LISTED, LedgerClass
from auditor.spark import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


VERDICTS = schema_of(
    ("scope_id", pa.int64(), "BP-35 scope; 0 for every stock ledger"),
    ("ledger_id", pa.int64(), "the ledger"),
    ("state", pa.string(), "OPEN, IN_RECOVERY or CLOSED; null if unreadable"),
    (
        "class",
        pa.string(),
        "healthy, below-write-quorum, below-ack-quorum, entry-lost; not-closed where no "
        "missing copy was seen; undecided where the metadata cannot be judged",
    ),
    ("potential_class", pa.string(), "the class if all unknown copies were gone"),
    ("m", pa.int32(), "the most copies that one entry is missing, confirmed"),
    ("mu", pa.int32(), "the most copies that one entry is missing or unknown"),
    ("unread_bookies", pa.list_(pa.string()), "bookies with unknown copies"),
    ("confidence", pa.string(), "confirmed, suspect or unknown, by this run alone"),
)


def verdicts(ledgers: DataFrame, judged: DataFrame) -> DataFrame:
    """One row for every ledger with an id; ``judged`` has those with an unequal replica."""
    answers = judged.select(
        "scope_id",
        "ledger_id",
        "m",
        "mu",
        "doubts",
        F.transform("unknown", lambda entry: entry.bookie_id).alias("unread_bookies"),
    )
    rows = (
        ledgers.where(F.col("ledger_id").isNotNull() & F.col("status").isin(*LISTED))
        .select(*LEDGER, "state", "write_quorum", "ack_quorum", "undecidable")
        # A ledger without a row in judged has no unequal replica: nothing is missing of it.
        .join(answers, [*LEDGER], "left")
        .fillna({"m": 0, "mu": 0})
    )
    return rows.select(
        "scope_id",
        "ledger_id",
        "state",
        _class("m").alias("class"),
        _class("mu").alias("potential_class"),
        F.col("m").cast("int").alias("m"),
        F.col("mu").cast("int").alias("mu"),
        F.coalesce("unread_bookies", F.array().cast("array<string>")).alias("unread_bookies"),
        _confidence().alias("confidence"),
    )


def _class(copies: str) -> Column:
    return F.when(F.col("undecidable"), LedgerClass.UNDECIDED).otherwise(class_of(copies))


def class_of(copies: str) -> Column:
    """The class of a ledger whose worst entry lacks so many copies; only a closed one has lost an entry."""
    # Each entry has as many copies as the write quorum, in any ensemble.
    left = F.col("write_quorum") - F.col(copies)
    closed = F.col("state") == LedgerState.CLOSED
    return (
        F.when(F.col(copies) == 0, F.when(closed, LedgerClass.HEALTHY).otherwise(LedgerClass.NOT_CLOSED))
        .when(closed & (left <= 0), LedgerClass.ENTRY_LOST)
        .when(left < F.col("ack_quorum"), LedgerClass.BELOW_ACK_QUORUM)
        .otherwise(LedgerClass.BELOW_WRITE_QUORUM)
    )


def _confidence() -> Column:
    return (
        # Unknown copies leave a class sure as long as it would be the same without them.
        F.when(F.col("undecidable") | (_class("m") != _class("mu")), Confidence.UNKNOWN)
        .when(F.size(F.coalesce("doubts", F.array().cast("array<string>"))) > 0, Confidence.SUSPECT)
        .otherwise(Confidence.CONFIRMED)
    )
