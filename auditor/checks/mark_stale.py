"""Under-replication marks of ledgers that have all their copies again."""

from auditor.checks.bookie_findings import count_per_bookie, doubtful_ledgers_clause
from auditor.checks.check import Basis, DataFrame, F, Need, Severity, Tables, check
from auditor.checks.finding_rows import finding_rows, suspect_if, words
from auditor.checks.ledger_queries import marks_by_bookie


@check(Severity.NOTE, rests_on=Basis.COPIES, needs={Need.MARKS, Need.COPIES}, asks="stale_marks")
def mark_stale(tables: Tables) -> DataFrame:
    """Ledgers are marked as under-replicated but have all their copies.

    What it finds:
        Reports marks whose bookies all came back, or left all ensembles of the ledger (table `stale_marks`).

    Why it matters:
        The number of marks no longer shows how many ledgers need replication.

    How sure:
        Confirmed: no copy is unknown. Suspect if all of the ledgers changed between the two metadata scans.

    What to do:
        Usually, do nothing: a worker that takes the mark removes it.

    Commands:
        - `bookkeeper shell listunderreplicated -pmr -prw`.
        - `bookkeeper shell queryautorecoverystatus`.

    Limits:
        Marks that name no bookie do not count.
    """
    marks = marks_by_bookie(tables.stale_marks, tables.moved_ledgers, "why")
    returned_flag = (F.col("why") == "returned").cast("bigint").alias("returned")
    bookie_rows = count_per_bookie(marks.select("*", returned_flag), "returned")
    return finding_rows(
        bookie_rows,
        bookie_id="bookie_id",
        confidence=suspect_if(F.col("total") == 0),
        message=words(
            "{bookie_id}: {total + doubted:ledger is|ledgers are} marked for it, but "
            "{which}{sample:,}{doubts}",
            which=F.when(
                F.col("total") + F.col("doubted") == 1, "all its copies exist, so the mark is unnecessary: "
            ).otherwise("all their copies exist, so the marks are unnecessary; for example ledger "),
            doubts=doubtful_ledgers_clause(),
        ),
        evidence="total AS ledgers, returned, total - returned AS repaired, doubted AS doubted_ledgers, "
        "sample, 'tables/stale_marks' AS rows",
    )
