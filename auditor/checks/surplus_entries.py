"""Entries that striping does not put on a bookie."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.checks.check import Basis, Need, check
from auditor.checks.held_entries import entries_besides
from auditor.model.finding import Severity

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from auditor.tables import Tables


@check(Severity.NOTE, group="storage", rests_on=Basis.DISKS, needs={Need.COPIES}, asks="judged")
def surplus_entries(tables: Tables) -> DataFrame:
    """A bookie holds entries that lie past the end of the ledger or are striped to other bookies.

    What it finds:
        Entries on a member of the segment that striping does not put there, and entries of a closed ledger
        above its last entry. One finding a ledger and bookie, with the entries as groups.

    Why it matters:
        Mostly harmless: writes that were never acknowledged and that recovery cut off, or copies made by
        replication, which copies whole ranges. Many entries past the end can also mean that recovery closed
        the ledger too early, or that an id was used twice.

    How sure:
        Confirmed for closed ledgers. Suspect where the ledger is not closed, and where the directory's cookie
        and place name two bookies.

    What to do:
        Compare with the other members if it looks like the end of a ledger was cut off.

    Commands:
        - `bookkeeper shell ledgermetadata -l ID`
          shows the last entry. Risk: none; it reads metadata.
        - `bookkeeper shell readledger -l ID -fe FIRST -le NEXT -b BOOKIE`
          reads these entries from the bookie: with -b the command stops before the one after -le. Risk: load;
          it reads from the bookie, and never add -r.

    Limits:
        The evidence lists the first thousand groups of entries; its count is complete.
    """
    return entries_besides(tables, "surplus", "that it should not have: past the end, or striped elsewhere")
