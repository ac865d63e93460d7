"""Entries that striping does not put on a bookie."""

from auditor.checks.bookie_findings import entries_besides
from auditor.checks.check import Basis, DataFrame, Need, Severity, Tables, check


@check(Severity.NOTE, rests_on=Basis.DISKS, needs={Need.COPIES}, asks="surplus")
def surplus_entries(tables: Tables) -> DataFrame:
    """A bookie holds entries that lie past the end of the ledger or are striped to other bookies.

    What it finds:
        Entries on a member of the segment that striping does not put there, and entries of a closed ledger
        above its last entry, but for those that `entries-past-end` reports. One finding per bookie, with how
        many ledgers and entries, and their bytes as the ledgers' lengths suggest them. The entries are in the
        table `judged`, column `surplus`, as groups.

    Why it matters:
        Mostly harmless: writes that were never acknowledged and that recovery cut off, or copies made by
        replication, which copies whole ranges. BookKeeper collects whole ledgers only, so that the space is
        not freed before they are deleted.

    How sure:
        Confirmed for closed ledgers. Ledgers that are not closed, or whose metadata changed between the two
        scans of a running store, count apart, as in doubt, and so do all where a directory's cookie and place
        name two bookies; the finding is suspect where there are no others. The bytes are an estimate: an
        entry is taken to be as long as the ledger's others are on average.

    What to do:
        Nothing; count it when you plan space.

    Commands:
        - `bookkeeper shell ledgermetadata -l ID`
          Look at its last entry.
        - `bookkeeper shell readledger -l ID -fe FIRST -le NEXT -b BOOKIE`.

    Limits:
        Entries of ledgers that are not closed are not in the estimate of bytes.
    """
    return entries_besides(tables, "surplus", "that lie past the end or are striped elsewhere")
