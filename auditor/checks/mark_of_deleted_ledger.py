"""Marks of ledgers that are gone: one finding for each bookie that they name."""

from auditor.checks.bookie_findings import count_per_bookie
from auditor.checks.check import Basis, DataFrame, F, Need, Severity, Tables, check
from auditor.checks.finding_rows import finding_rows, words
from auditor.checks.ledger_queries import deleted_marks, marks_by_bookie


@check(Severity.NOTE, rests_on=Basis.METADATA, needs={Need.MARKS, Need.ALL_LEDGERS}, asks="marks")
def mark_of_deleted_ledger(tables: Tables) -> DataFrame:
    """Ledgers are marked as under-replicated for a bookie and have no metadata.

    What it finds:
        Marks of ledgers that the ledger tree does not list. One finding per named bookie, with the number of
        ledgers; a mark of two bookies counts for both. The marks are in the table `marks`. Nothing is
        reported where a damaged or unread part of the tree could hold the ledger.

    Why it matters:
        The ledgers were deleted after they were marked. Until a worker takes and removes the mark, the ledger
        counts as under-replicated.

    How sure:
        Confirmed: the ledger tree was listed whole where the ledgers would be, and does not list them.

    What to do:
        Nothing, if replication runs. If a ledger of these should exist, its metadata is what was lost.

    Commands:
        - `bookkeeper shell ledgermetadata -l ID`
          There should be none.

    Limits:
        Marks without a bookie's name ask for better placement and are not judged.
    """
    bookie_rows = count_per_bookie(marks_by_bookie(deleted_marks(tables), tables.moved))
    return finding_rows(
        bookie_rows,
        bookie_id="bookie_id",
        message=words(
            "{bookie_id}: {total:ledger is|ledgers are} marked for it, but {which}{sample:,}",
            which=F.when(F.col("total") == 1, "has no metadata: ").otherwise("have no metadata, such as "),
        ),
        evidence="total AS ledgers, sample, 'tables/marks' AS rows",
    )
