"""Ledgers with an entry on fewer bookies than were asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.checks.check import check
from auditor.checks.copy_classes import ledgers_of_class
from auditor.model.finding import Severity

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from auditor.tables import Tables


@check(Severity.WARNING, group="replication")
def below_write_quorum(tables: Tables) -> DataFrame:
    """A ledger has an entry with fewer copies than its write quorum.

    What it finds:
        Ledgers whose worst entry lacks a copy and still has at least as many as the ack quorum. Entries are
        compared one by one with the striping of every segment, so that one missing entry in the middle of a
        ledger is found too.

    Why it matters:
        Nothing is lost, but the ledger survives fewer failures than it was made for. A writer needs no more
        than the ack quorum, so some such entries are old: BookKeeper's own check reads only a few entries
        of a ledger and may never have noticed.

    What to do:
        Replication makes the missing copies once the ledger is marked.
        - `bookkeeper shell listunderreplicated` shows the marks; it reads metadata only.
        - `bookkeeper shell triggeraudit` makes the auditor look for lost bookies now; it changes nothing but
          marks. It does not see single missing entries.
        - `bookkeeper shell readledger -l ID -fe FIRST -le LAST -b BOOKIE` confirms on the bookie that an
          entry is absent; it only reads.

    Limits:
        The index is not the data. Bookies that could not be read count as having their copies. Where ack
        quorum and write quorum are equal this class cannot occur.
    """
    return ledgers_of_class(tables, "below-write-quorum")
