"""Entries on a bookie that are past their ledger's end, or that striping sends to other bookies."""

from auditor.checks.bookie_findings import judged_column_findings
from auditor.checks.check import Basis, DataFrame, Need, Severity, Tables, check


@check(Severity.NOTE, rests_on=Basis.DISKS, needs={Need.COPIES}, asks="surplus")
def surplus_entries(tables: Tables) -> DataFrame:
    """A bookie holds entries that are past the end of the ledger or are striped to other bookies.

    What it finds:
        Reports entries in column `surplus` of the table `judged`, except those that `entries-past-end`
        reports.

    Why it matters:
        Such entries are mostly harmless: recovery cut off unacknowledged writes, or replication copied
        whole ranges. BookKeeper frees the entries' space only when the ledger is deleted.

    How sure:
        Confirmed if at least one ledger is closed and did not change during the audit, else suspect.
        Suspect if the bookie also has `disk-id-mismatch`.

    What to do:
        Do nothing.

    Commands:
        - `bookkeeper shell ledgermetadata -l ID`.
        - `bookkeeper shell readledger -l ID -fe FIRST -le NEXT -b BOOKIE`.

    Limits:
        Bytes are estimated from average entry lengths, without open ledgers.
    """
    return judged_column_findings(
        tables, "surplus", "that are beyond the last entry or not in this bookie's stripe"
    )
