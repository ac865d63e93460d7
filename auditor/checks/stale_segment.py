"""Entries of segments that a bookie has left."""

from auditor.checks.bookie_findings import entries_besides
from auditor.checks.check import Basis, DataFrame, Need, Severity, Tables, check


@check(Severity.NOTE, rests_on=Basis.DISKS, needs={Need.COPIES}, asks="stale")
def stale_segment(tables: Tables) -> DataFrame:
    """A bookie holds entries of a segment that it has left, and is still in another segment of the ledger.

    What it finds:
        Entries on a bookie that lie in a segment whose ensemble does not name it, while another segment of
        the same ledger does. One finding per bookie, with how many ledgers and entries, and their bytes as
        the ledgers' lengths suggest them. The entries are in the table `judged`, column `stale`, as groups.

    Why it matters:
        The bookie was replaced in that segment after it had taken the entries. BookKeeper collects whole
        ledgers only, so this space is not freed before the ledger is deleted.

    How sure:
        Confirmed for closed ledgers. Ledgers that are not closed, or whose metadata changed between the two
        scans of a running store, count apart, as in doubt, and so do all where a directory's cookie and place
        name two bookies; the finding is suspect where there are no others. The bytes are an estimate: an
        entry is taken to be as long as the ledger's others are on average.

    What to do:
        Nothing; count it when you plan space. The entries are good spare copies until then.

    Commands:
        - `bookkeeper shell ledgermetadata -l ID`
          Look at its segments.
        - `bookkeeper shell ledger ID`
          on the bookie, dumps its index of the ledger. Risk: none; it only reads files of the bookie.

    Limits:
        Entries of ledgers that are not closed are not in the estimate of bytes.
    """
    return entries_besides(tables, "stale", "from segments that do not name it")
