"""Marks of ledgers that are gone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.checks.check import Basis, Need, check
from auditor.checks.finding_rows import comma_list, finding_rows, ledger_name, words
from auditor.checks.mark_states import deleted_marks
from auditor.model.finding import Severity

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from auditor.tables import Tables


@check(
    Severity.NOTE,
    group="replication",
    rests_on=Basis.METADATA,
    needs={Need.MARKS, Need.ALL_LEDGERS},
    asks="marks",
)
def mark_of_deleted_ledger(tables: Tables) -> DataFrame:
    """A ledger is marked as under-replicated and has no metadata.

    What it finds:
        Marks of ledgers that the ledger tree does not list. Where a damaged or unread part of the tree could
        hold the ledger, nothing is said.

    Why it matters:
        The ledger was deleted after it was marked. A worker that takes the mark removes it; until then it is
        counted among the under-replicated ledgers.

    How sure:
        Confirmed: the ledger tree was listed whole where the ledger would be, and does not list it.

    What to do:
        Nothing, if replication runs. If the ledger should exist, its metadata is what was lost.

    Commands:
        - `bookkeeper shell ledgermetadata -l ID`
          There should be none.

    Limits:
        Marks without a bookie's name ask for better placement and are not judged.
    """
    from pyspark.sql import functions as F

    return finding_rows(
        deleted_marks(tables),
        ledger_id="ledger_id",
        message=words(
            "ledger ",
            ledger_name(),
            " is marked for ",
            comma_list(F.col("replicas")),
            " and has no metadata",
        ),
        evidence={"path": "path", "replicas": "replicas", "since": "since"},
    )
