"""Entries on a bookie that is no longer in the ensemble of their segment."""

from auditor.checks.bookie_findings import judged_column_findings
from auditor.checks.check import Basis, DataFrame, Need, Severity, Tables, check


@check(Severity.NOTE, rests_on=Basis.DISKS, needs={Need.COPIES}, asks="stale")
def stale_segment(tables: Tables) -> DataFrame:
    """A bookie of a ledger holds entries of a segment whose ensemble does not contain the bookie.

    What it finds:
        Reports entries of a segment on a bookie that is only in other ensembles of the ledger.

    Why it matters:
        BookKeeper frees the entries' space only when the ledger is deleted.

    How sure:
        Confirmed if at least one ledger is closed and did not change during the audit, else suspect.
        Suspect if the bookie also has `disk-id-mismatch`.

    What to do:
        Do nothing: the entries are good spare copies.

    Commands:
        - `bookkeeper shell ledgermetadata -l ID`.
        - `bookkeeper shell ledger ID`
          dumps the bookie's index of the ledger. Run it on the bookie. Risk: none; it only reads.

    Limits:
        Bytes are estimated from average entry lengths, without open ledgers.
    """
    return judged_column_findings(tables, "stale", "from segments that do not name this bookie")
