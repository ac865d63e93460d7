"""Old under-replication marks of closed ledgers that have no entry."""

from auditor.checks.bookie_findings import count_per_bookie, doubtful_ledgers_clause
from auditor.checks.check import Basis, DataFrame, F, Need, Severity, Tables, check
from auditor.checks.finding_rows import finding_rows, suspect_if, words
from auditor.checks.ledger_queries import marks_by_bookie, waiting_marks


@check(
    Severity.NOTE,
    rests_on=Basis.METADATA,
    needs={Need.MARKS},
    asks="marks",
    settings=("stuck_hours",),
)
def mark_of_empty_ledger(tables: Tables) -> DataFrame:
    """Closed ledgers without entries have been marked as under-replicated for a day.

    What it finds:
        Reports old marks of closed, empty ledgers that no worker has locked.

    Why it matters:
        No data can be lost. But workers before 4.14.6 and 4.15.1 leave the lost bookie in the ensemble. The
        ledger then returns to the queue (bookkeeper #3220).

    How sure:
        Confirmed by metadata and mark. Suspect if all of the ledgers changed between the two metadata
        scans.

    What to do:
        Do nothing if the bookie comes back. If it is gone for good, replace it in these ensembles or run
        newer workers. If the workers already run newer releases, find out why none of them takes the marks.

    Commands:
        - `bookkeeper shell ledgermetadata -l ID`.
        - `bookkeeper shell queryautorecoverystatus`.
        - `bookkeeper shell recover -l ID BOOKIE`
          For an empty ledger, this only replaces the bookie in the metadata. A worker then removes the
          mark.
        - `bookkeeper shell deleteledger -l ID`
          Run it only if no application needs the ledger.

    Limits:
        Marks that old workers remove and the auditor renews never get old enough to be reported.
    """
    marks = marks_by_bookie(waiting_marks(tables).where("empty"), tables.moved_ledgers)
    return finding_rows(
        count_per_bookie(marks),
        bookie_id="bookie_id",
        confidence=suspect_if(F.col("total") == 0),
        message=words(
            "{bookie_id}: {total + doubted:closed ledger without entries has|closed ledgers without entries "
            "have} been marked for it for more than {stuck}, and no worker has locked "
            "{which}{sample:,}{doubts}",
            stuck=tables.cluster.settings.stuck_duration_text,
            which=F.when(F.col("total") + F.col("doubted") == 1, "it: ").otherwise(
                "them; for example ledger "
            ),
            doubts=doubtful_ledgers_clause(),
        ),
        evidence="total AS ledgers, doubted AS doubted_ledgers, sample, 'tables/marks' AS rows",
    )
