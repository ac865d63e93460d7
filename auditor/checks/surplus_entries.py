"""Entries on a member of their segment that striping does not put there."""

from auditor.checks.bookie_findings import entries_besides
from auditor.checks.check import Basis, DataFrame, Need, Severity, Tables, check


@check(Severity.NOTE, rests_on=Basis.DISKS, needs={Need.COPIES}, asks="surplus")
def surplus_entries(tables: Tables) -> DataFrame:
    """A bookie holds entries that are past the end of the ledger or are striped to other bookies.

    What it finds:
        Entries of another bookie's stripe, and entries past the end of a closed ledger, except
        `entries-past-end`. Table `judged`, column `surplus`, has them.

    Why it matters:
        Mostly harmless: recovery cut off unacknowledged writes, or replication copied whole ranges.
        BookKeeper frees the space only with the ledger.

    How sure:
        Confirmed for closed ledgers. Suspect if every ledger is open, changed between the scans, or has a
        directory with another bookie's cookie; such ledgers are counted apart.

    What to do:
        Nothing. Count their space when you plan.

    Commands:
        - `bookkeeper shell ledgermetadata -l ID`.
        - `bookkeeper shell readledger -l ID -fe FIRST -le NEXT -b BOOKIE`.

    Limits:
        The bytes are an estimate by average entry length, without open ledgers.
    """
    return entries_besides(tables, "surplus", "that are beyond the last entry or not in this bookie's stripe")
