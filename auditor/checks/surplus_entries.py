"""Entries that striping does not put on a bookie."""

from auditor.checks.bookie_findings import entries_besides
from auditor.checks.check import Basis, DataFrame, Need, Severity, Tables, check


@check(Severity.NOTE, rests_on=Basis.DISKS, needs={Need.COPIES}, asks="surplus")
def surplus_entries(tables: Tables) -> DataFrame:
    """A bookie holds entries that lie past the end of the ledger or are striped to other bookies.

    What it finds:
        Entries that striping does not put on this member of the segment, and entries above the last one of a
        closed ledger, except those of `entries-past-end`. One finding per bookie, with the numbers of ledgers
        and entries and an estimate of bytes. The entries are in the table `judged`, column `surplus`, as
        groups.

    Why it matters:
        Mostly harmless: unacknowledged writes that recovery cut off, or copies by replication, which copies
        whole ranges. BookKeeper collects whole ledgers only, so the space stays until they are deleted.

    How sure:
        Confirmed for closed ledgers. Counted apart are ledgers that are not closed, that changed between the
        two scans, or whose directory's cookie and place name two bookies. Suspect where all of the ledgers
        are of these. The bytes assume that an entry has the ledger's average length.

    What to do:
        Nothing; count it when you plan space.

    Commands:
        - `bookkeeper shell ledgermetadata -l ID`
          Look at its last entry.
        - `bookkeeper shell readledger -l ID -fe FIRST -le NEXT -b BOOKIE`.

    Limits:
        Ledgers that are not closed are not in the estimate of bytes.
    """
    return entries_besides(tables, "surplus", "that lie past the end or are striped elsewhere")
