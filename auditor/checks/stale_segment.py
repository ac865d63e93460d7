"""Entries of segments that no longer name their bookie."""

from auditor.checks.bookie_findings import entries_besides
from auditor.checks.check import Basis, DataFrame, Need, Severity, Tables, check


@check(Severity.NOTE, rests_on=Basis.DISKS, needs={Need.COPIES}, asks="stale")
def stale_segment(tables: Tables) -> DataFrame:
    """A bookie holds entries of a segment that it has left, and is still in another segment of the ledger.

    What it finds:
        Entries on a bookie that only another segment of the ledger names. Table `judged`, column `stale`,
        has them.

    Why it matters:
        The bookie was replaced after it took the entries. BookKeeper frees their space only with the
        ledger.

    How sure:
        Confirmed for closed ledgers. Suspect if every ledger is open, changed between the scans, or has a
        directory with another bookie's cookie; such ledgers are counted apart.

    What to do:
        Nothing: the entries are good spare copies. Count their space when you plan.

    Commands:
        - `bookkeeper shell ledgermetadata -l ID`.
        - `bookkeeper shell ledger ID`
          on the bookie, dumps its index of the ledger. Risk: none; it only reads files of the bookie.

    Limits:
        The bytes are an estimate by average entry length, without open ledgers.
    """
    return entries_besides(tables, "stale", "from segments that do not name it")
