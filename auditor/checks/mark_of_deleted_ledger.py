"""Under-replication marks of deleted ledgers, grouped by the bookie that the mark names."""

from auditor.checks.bookie_findings import count_per_bookie
from auditor.checks.check import Basis, DataFrame, F, Need, Severity, Tables, check
from auditor.checks.finding_rows import finding_rows, words
from auditor.checks.ledger_queries import marks_by_bookie, marks_of_deleted_ledgers


@check(Severity.NOTE, rests_on=Basis.METADATA, needs={Need.MARKS, Need.ALL_LEDGERS}, asks="marks")
def mark_of_deleted_ledger(tables: Tables) -> DataFrame:
    """Ledgers are marked as under-replicated but have no metadata.

    What it finds:
        Reports marks of ledgers that are not in the ledger tree. A mark is not reported if a damaged or
        unread part of the tree could contain the ledger's metadata.

    Why it matters:
        Deleted ledgers count as under-replicated until a worker removes their marks.

    How sure:
        Confirmed: the ledger tree was listed.

    What to do:
        Do nothing if replication runs. If such a ledger should exist, its metadata was lost.

    Commands:
        - `bookkeeper shell ledgermetadata -l ID`
          Expect no metadata.

    Limits:
        Marks that name no bookie do not count.
    """
    bookie_rows = count_per_bookie(marks_by_bookie(marks_of_deleted_ledgers(tables), tables.moved_ledgers))
    return finding_rows(
        bookie_rows,
        bookie_id="bookie_id",
        message=words(
            "{bookie_id}: {total:ledger is|ledgers are} marked for it, but {which}{sample:,}",
            which=F.when(F.col("total") == 1, "has no metadata: ").otherwise(
                "have no metadata; for example ledger "
            ),
        ),
        evidence="total AS ledgers, sample, 'tables/marks' AS rows",
    )
