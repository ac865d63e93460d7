"""Ledgers that an unreadable index on a bookie leaves without an answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.checks.check import check
from auditor.checks.copy_classes import judged_with_class, unknown_bookies
from auditor.checks.finding_rows import finding_rows, listed, words
from auditor.model.finding import Confidence, Severity

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from auditor.tables import Tables


@check(Severity.NOTE, group="replication")
def replication_undecided(tables: Tables) -> DataFrame:
    """A ledger's class is not known, because a bookie's index of it cannot be read.

    What it finds:
        Ledgers that could be in a worse class than they are in, where a bookie was read and its index of just
        this ledger is damaged, cut, or not served. The finding names those bookies and the worse class.

    Why it matters:
        What could not be read is neither there nor missing. The ledger may be healthy, and may be losing its
        copies while nobody can tell.

    What to do:
        Repair the index (see the index-unreadable finding of that bookie) and audit again.
        - `bookkeeper shell readledger -l ID -b BOOKIE` asks the bookie itself for every entry; it only reads,
          and it loads the bookie.

    Limits:
        Bookies that were not read at all are told once each (bookie-unread), not once a ledger.
    """
    from pyspark.sql import functions as F

    unreadable = F.exists("unknown", lambda copies: copies["why"] == "unreadable")
    rows = judged_with_class(tables).where(unreadable & (F.col("class") != F.col("potential_class")))
    return finding_rows(
        rows,
        ledger_id="ledger_id",
        confidence=Confidence.UNKNOWN,
        unknown=unknown_bookies(),
        message=words(
            "ledger ",
            F.col("ledger_id"),
            " is ",
            F.col("class"),
            " as far as known and could be ",
            F.col("potential_class"),
            ": its index cannot be read on ",
            listed(unknown_bookies()),
        ),
        evidence={
            "class": "class",
            "potential_class": "potential_class",
            "state": "state",
            "copies_missing": "m",
            "copies_missing_or_unknown": "mu",
            "unknown_copies": "unknown",
            "doubts": "doubts",
        },
    )
