"""Open ledgers whose last entries are not yet on every member."""

from auditor.checks.check import Basis, Confidence, DataFrame, F, Severity, Tables, check
from auditor.checks.finding_rows import finding_rows
from auditor.tables.parts import filter_part


@check(Severity.NOTE, rests_on=Basis.COPIES, asks="lagging")
def copy_lagging(tables: Tables) -> DataFrame:
    """An open ledger has an acknowledged entry that one member does not show yet.

    What it finds:
        Open or recovering ledgers, and entries of their last segment that at least an ack quorum of the
        indexes has and that of another member lacks.

    Why it matters:
        Mostly nothing: a writer does not wait for the slowest bookie, and an index lags behind its journal.
        If it stays for many audits, that member is dropping writes.

    How sure:
        Always suspect: the end of an open ledger is not known, and an index lags behind its journal.

    What to do:
        Audit again later. If the same bookie lags in every audit, look at its log and its disks. Do not run
        readledger with -r to find out: it recovers the ledger, and so fences its writer.

    Commands:
        - `bookkeeper shell ledgermetadata -l ID`
          Look at its ensemble.

    Limits:
        Nothing else is reported of the last segment of an open ledger.
    """
    return finding_rows(
        filter_part("lagging", tables.judged),
        ledger_id="ledger_id",
        confidence=Confidence.SUSPECT,
        missing=F.array_sort("lagging"),
        message="ledger {ledger} ({state}): acknowledged entries are not yet on "
        "{array_sort(lagging.bookie_id):,}",
        evidence="state, write_quorum, ack_quorum, mtime",
    )
