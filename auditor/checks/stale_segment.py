"""Entries of segments that a bookie has left."""

from auditor.checks.bookie_findings import entries_besides
from auditor.checks.check import Basis, DataFrame, Need, Severity, Tables, check


@check(Severity.NOTE, rests_on=Basis.DISKS, needs={Need.COPIES}, asks="stale")
def stale_segment(tables: Tables) -> DataFrame:
    """A bookie holds entries of a segment that it has left, and is still in another segment of the ledger.

    What it finds:
        Entries on a bookie of a segment whose ensemble does not name it, while another segment of the ledger
        does. One finding per bookie, with the numbers of ledgers and entries and an estimate of bytes. The
        entries are in the table `judged`, column `stale`, as groups.

    Why it matters:
        The bookie was replaced in that segment after it had taken the entries. BookKeeper collects whole
        ledgers only, so this space stays until the ledger is deleted.

    How sure:
        Confirmed for closed ledgers. Counted apart are ledgers that are not closed, that changed between the
        two scans, or whose directory's cookie and place name two bookies. Suspect where all of the ledgers
        are of these. The bytes assume that an entry has the ledger's average length.

    What to do:
        Nothing; count it when you plan space. Until then the entries are good spare copies.

    Commands:
        - `bookkeeper shell ledgermetadata -l ID`
          Look at its segments.
        - `bookkeeper shell ledger ID`
          on the bookie, dumps its index of the ledger. Risk: none; it only reads files of the bookie.

    Limits:
        Ledgers that are not closed are not in the estimate of bytes.
    """
    return entries_besides(tables, "stale", "from segments that do not name it")
