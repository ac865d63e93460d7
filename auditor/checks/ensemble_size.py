"""Ledgers with an ensemble of the wrong size."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.checks.broken_rules import ledgers_breaking
from auditor.checks.check import check
from auditor.model.finding import Severity

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from auditor.tables import Tables


@check(Severity.ERROR, group="metadata")
def ensemble_size(tables: Tables) -> DataFrame:
    """An ensemble of a ledger is not as large as the ledger says.

    What it finds:
        Ledgers with a segment that lists more or fewer bookies than the ensemble size.

    Why it matters:
        Striping counts round the ensemble size, so with another number of bookies nobody can say where an
        entry is. BookKeeper's own replicas check waits for its timeout on such a ledger.

    What to do:
        Restore the ledger's metadata from a backup of the store, if there is one.
        - `bookkeeper shell ledgermetadata -l ID -dumptofile FILE` keeps what is there; it reads metadata
          only.
        - `bookkeeper shell ledgermetadata -l ID -restorefromfile FILE` writes a record back; it changes
          metadata, and a wrong ensemble makes entries unfindable.

    Limits:
        Whether the ledger has all its copies is undecided.
    """
    return ledgers_breaking(tables, "ensemble-size")
