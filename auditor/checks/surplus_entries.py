"""Entries on a member of their segment that striping does not put there."""

from auditor.checks.bookie_findings import entries_besides
from auditor.checks.check import Basis, DataFrame, Need, Severity, Tables, check


@check(Severity.NOTE, rests_on=Basis.DISKS, needs={Need.COPIES}, asks="surplus")
def surplus_entries(tables: Tables) -> DataFrame:
    """A bookie holds entries that are past the end of the ledger or are striped to other bookies.

    What it finds:
        The entries, except `entries-past-end`, are in column `surplus` of the table `judged`.

    Why it matters:
        Mostly harmless: recovery cut off unacknowledged writes, or replication copied whole ranges.
        BookKeeper frees the space only with the ledger.

    How sure:
        Confirmed for closed ledgers. Suspect if all ledgers are doubtful: open, changing, or with
        `disk-id-mismatch`. Doubtful ledgers are counted apart.

    What to do:
        Nothing.

    Commands:
        - `bookkeeper shell ledgermetadata -l ID`.
        - `bookkeeper shell readledger -l ID -fe FIRST -le NEXT -b BOOKIE`.

    Limits:
        The bytes are an estimate by average entry length, without open ledgers.
    """
    return entries_besides(tables, "surplus", "that are beyond the last entry or not in this bookie's stripe")
