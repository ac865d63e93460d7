"""Ledgers without segments, or with segments out of order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.checks.broken_rules import ledgers_breaking
from auditor.checks.check import check
from auditor.model.finding import Severity

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from auditor.tables import Tables


@check(Severity.ERROR, group="metadata")
def segment_order(tables: Tables) -> DataFrame:
    """The segments of a ledger are not in ascending order, or there is none.

    What it finds:
        Ledgers whose metadata lists segments by descending or repeated first entries, and ledgers without a
        segment.

    Why it matters:
        Servers keep segments sorted by their first entry, so a list in another order was written by something
        else, and a repeated first entry hides one of two ensembles. Without a segment nobody knows where any
        entry is.

    What to do:
        Restore the ledger's metadata from a backup of the store, if there is one.
        - `bookkeeper shell ledgermetadata -l ID -dumptofile FILE` keeps what is there; it reads metadata
          only.
        - `bookkeeper shell ledgermetadata -l ID -restorefromfile FILE` writes a record back; it changes
          metadata, and a wrong ensemble makes entries unfindable.

    Limits:
        Whether the ledger has all its copies is undecided.
    """
    return ledgers_breaking(tables, "segment-order", "no-segment")
