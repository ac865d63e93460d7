"""Open ledgers whose last entries are not yet on every member of the ensemble."""

from auditor.checks.check import Basis, Confidence, DataFrame, F, Severity, Tables, check
from auditor.checks.finding_rows import finding_rows
from auditor.tables.parts import filter_table_part


@check(Severity.NOTE, rests_on=Basis.COPIES, asks="lagging")
def copy_lagging(tables: Tables) -> DataFrame:
    """An open ledger has an acknowledged entry that one bookie of its ensemble does not have yet.

    What it finds:
        Reports entries of the last segment that a bookie's index lacks, but that an ack quorum's indexes
        have. Ledgers in recovery count as open.

    Why it matters:
        A short lag is usually harmless. A bookie that lags in many audits drops writes.

    How sure:
        Always suspect: an index lags behind its journal.

    What to do:
        Audit again later. If the bookie still lags, check its log and disks.

    Commands:
        - `bookkeeper shell ledgermetadata -l ID`.

    Limits:
        No other check covers an open ledger's last segment.
    """
    return finding_rows(
        filter_table_part("lagging", tables.judged),
        ledger_id="ledger_id",
        confidence=Confidence.SUSPECT,
        missing=F.array_sort("lagging"),
        message="ledger {ledger} ({state}): acknowledged entries are not yet on "
        "{array_sort(lagging.bookie_id):,}",
        evidence="state, write_quorum, ack_quorum, mtime",
    )
