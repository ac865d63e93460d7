"""Ledgers that were deleted from the store during the audit."""

from auditor.checks.check import Basis, DataFrame, F, Need, Severity, Tables, check
from auditor.checks.finding_rows import finding_rows, suspect_if, words
from auditor.checks.gc_guards import orphan_doubt_clause, orphan_doubts


@check(Severity.NOTE, rests_on=Basis.DISKS, needs={Need.TWO_SCANS, Need.DISKS}, asks="orphans")
def orphan_ledger_deleting(tables: Tables) -> DataFrame:
    """A bookie keeps a ledger that was deleted while the audit ran.

    What it finds:
        Reports ledgers in a bookie's index that only the first of the two metadata scans lists.

    Why it matters:
        The bookie's next garbage collection deletes the data.

    How sure:
        Confirmed by both metadata scans. Suspect if an unreadable or misplaced record may be the ledger's
        metadata (`doubt`). Suspect if the bookie also has `disk-id-mismatch`.

    What to do:
        Do nothing. If the deletion was a mistake, stop garbage collection on the bookie at once.

    Commands:
        - `bookkeeper shell ledgermetadata -l ID`.
        - `bookkeeper shell ledgermetadata -l ID -restorefromfile FILE`.

    Limits:
        Nothing is found in saved metadata, because it has only one scan.
    """
    return finding_rows(
        orphan_doubts(tables).where("in_m0 and not in_m1"),
        ledger_id="ledger_id",
        bookie_id="bookie_id",
        confidence=suspect_if(F.size("doubts") > 0),
        message=words(
            "ledger {ledger} is on {bookie_id}, but was deleted during the audit{doubt_clause}",
            doubt_clause=orphan_doubt_clause(),
        ),
        evidence="in_m0, in_m1, doubts, doubt",
    )
