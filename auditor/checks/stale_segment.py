"""Entries of segments that no longer name their bookie."""

from auditor.checks.bookie_findings import entries_besides
from auditor.checks.check import Basis, DataFrame, Need, Severity, Tables, check


@check(Severity.NOTE, rests_on=Basis.DISKS, needs={Need.COPIES}, asks="stale")
def stale_segment(tables: Tables) -> DataFrame:
    """A bookie holds entries of a segment that it has left, and is still in another segment of the ledger.

    What it finds:
        The entries are in column `stale` of the table `judged`.

    Why it matters:
        BookKeeper frees their space only with the ledger.

    How sure:
        Confirmed for closed ledgers. Suspect if all ledgers are doubtful: open, changing, or with
        `disk-id-mismatch`. Doubtful ledgers are counted apart.

    What to do:
        Nothing: the entries are good spare copies.

    Commands:
        - `bookkeeper shell ledgermetadata -l ID`.
        - `bookkeeper shell ledger ID`
          on the bookie, dumps its index of the ledger. Risk: none; it only reads files of the bookie.

    Limits:
        The bytes are an estimate by average entry length, without open ledgers.
    """
    return entries_besides(tables, "stale", "from segments that do not name it")
