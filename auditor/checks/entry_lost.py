"""Closed ledgers with an entry that no bookie has any more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.checks.check import check
from auditor.checks.copy_classes import ledgers_of_class
from auditor.model.finding import Severity

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from auditor.tables import Tables


@check(Severity.CRITICAL, group="replication")
def entry_lost(tables: Tables) -> DataFrame:
    """A closed ledger has an entry with no copy left.

    What it finds:
        Closed ledgers in which some entry is absent from the index of every bookie that should hold it, all
        of those bookies having been read. The finding lists everything that is absent in the whole ledger,
        bookie by bookie.

    Why it matters:
        The entry was promised to be kept, and a reader of the ledger fails at it. Replication cannot bring it
        back: it copies from bookies that have it, and there is none. The ledger's mark, if it has one, stays.

    What to do:
        Stop whatever deletes data on these bookies before anything else, and look for the disks that had the
        entries: a replaced volume, a directory missing from the configuration, an index restored from an old
        backup.
        - `bookkeeper shell readledger -l ID -fe FIRST -le LAST -b BOOKIE` asks one bookie for the entries; it
          only reads. Never add -r to it here: that recovers, and so closes, the ledger.
        - `bookkeeper shell regenerate-interleaved-storage-index-file -l ID -dryRun`, on the bookie, says what
          its entry logs still hold. Without -dryRun it replaces the index file: keep a copy of it.
        - `bookkeeper shell rebuild-db-ledger-locations-index`, on a stopped bookie with DbLedgerStorage,
          reads every entry log and replaces the index; it takes long, and needs a copy of the old one.

    Limits:
        An index says what a bookie can find, not that the bytes in its entry log are good. An entry still
        in the journal only is not seen: a ledger that changed shortly before the index was written is
        reported as suspect. Ledgers that are not closed never get this class.
    """
    return ledgers_of_class(tables, "entry-lost")
