"""Bookies whose indexes could not be read, or not all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.checks.check import Basis, check
from auditor.checks.finding_rows import counted, finding_rows, words
from auditor.model.finding import Confidence, Severity
from auditor.model.states import BookieRead

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from auditor.tables import Tables


@check(Severity.NOTE, group="replication", rests_on=Basis.METADATA)
def bookie_unread(tables: Tables) -> DataFrame:
    """A bookie was not read, so what it holds is unknown.

    What it finds:
        Bookies that an ensemble names, or of which a directory was found, and that were not read whole: no
        source covers them, a directory that their cookie names is absent, or a directory could not be listed.
        An audit without --bookies has one finding for all of them.

    Why it matters:
        The audit is incomplete: whatever is not seen on such a bookie counts as unknown, never as missing. A
        ledger that is healthy but for this bookie may not be.

    How sure:
        Always unknown: it says what was not looked at.

    What to do:
        Give the audit every index directory of the bookie: check the paths of the inventory, mounts, and that
        the user who runs the audit may read them. Where executors do not share the disks, collect beside the
        bookie and audit with what that wrote.

    Commands:
        - `bookkeeper shell cookie_get BOOKIE`
          Look at its directories.
        - `bkaudit collect --bookies PATH --out DIR`
          beside the bookie, writes its indexes as tables, a source of --bookies. Risk: none; it only reads,
          and writes to DIR.

    Limits:
        One finding a bookie. Which ledgers it leaves undecided is in the table of verdicts.
    """
    from pyspark.sql import functions as F

    rows = tables.bookies.where((F.col("named") | F.col("found")) & (F.col("read") != BookieRead.READ))
    if not tables.cluster.has_sources:
        return _none_read(rows)
    return finding_rows(
        rows,
        bookie_id="bookie_id",
        confidence=Confidence.UNKNOWN,
        unknown=F.array("bookie_id"),
        message=words(
            F.col("bookie_id"),
            F.when(F.col("read") == BookieRead.PARTIAL, " was read in part").otherwise(" was not read"),
            ": ",
            F.coalesce("reason", F.lit("no reason is known")),
            "; ",
            counted(F.col("ledgers"), "ledger names it", "ledgers name it"),
            ", ",
            counted(F.col("replicas"), "replica", "replicas"),
            " cannot be decided whole",
        ),
        evidence={"read": "read", "reason": "reason", "ledgers": "ledgers", "replicas": "replicas"},
    )


def _none_read(unread: DataFrame) -> DataFrame:
    """One finding: this was an audit of metadata alone."""
    from pyspark.sql import functions as F

    reason = "no --bookies was given"
    rows = unread.agg(
        F.count("*").alias("bookies"),
        F.coalesce(F.sum("replicas"), F.lit(0)).alias("replicas"),
        F.array_sort(F.collect_set("bookie_id")).alias("bookie_ids"),
    )
    return finding_rows(
        rows,
        confidence=Confidence.UNKNOWN,
        unknown="bookie_ids",
        message=words(
            f"no bookie was read: {reason}; only metadata was looked at, and what ",
            counted(F.col("bookies"), "bookie holds", "bookies hold"),
            " of ",
            counted(F.col("replicas"), "replica", "replicas"),
            " is unknown",
        ),
        evidence={
            "read": F.lit(BookieRead.UNREAD),
            "reason": F.lit(reason),
            "bookies": "bookies",
            "replicas": "replicas",
        },
    )
