"""Ledgers with an entry on fewer bookies than acknowledged it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.checks.check import check
from auditor.checks.copy_classes import ledgers_of_class
from auditor.model.finding import Severity

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from auditor.tables import Tables


@check(Severity.ERROR, group="replication")
def below_ack_quorum(tables: Tables) -> DataFrame:
    """A ledger has an entry with fewer copies than its ack quorum.

    What it finds:
        Ledgers whose worst entry is left on fewer bookies than the ledger's ack quorum, counting only copies
        that are confirmed absent. Of a ledger that is not closed, only finished segments are judged, without
        their last write quorum of entries, and the finding is suspect.

    Why it matters:
        A writer was told that so many bookies had the entry. The next failure of a bookie or disk may take
        the last copy, and recovery of a ledger may take an entry for never written.

    What to do:
        Have the missing copies made again before any bookie of the ledger is restarted or drained.
        - `bookkeeper shell listunderreplicated -c` shows whether the ledger is marked, and who works on it;
          it reads metadata only.
        - `bookkeeper shell queryautorecoverystatus` says whether replication is switched on;
          `bookkeeper shell autorecovery -e` enables it, which changes the metadata of the cluster.
        - `bookkeeper shell recover -q BOOKIE` only shows which ledgers it would copy away from a bookie.
          Without -q it reads from bookies, writes copies and rewrites metadata, and takes no locks: keep
          replication workers away from the same ledgers meanwhile.

    Limits:
        The index is not the data: bytes damaged inside an entry log are not seen. Bookies that could not be
        read count as having their copies; the finding says what the ledger could become without them.
    """
    return ledgers_of_class(tables, "below-ack-quorum")
