"""Ledgers with a bookie twice in one ensemble."""

from auditor.checks.check import ActionKind, Basis, DataFrame, Severity, Tables, check
from auditor.checks.ledger_queries import ledgers_breaking


@check(
    Severity.ERROR,
    rests_on=Basis.METADATA,
    asks="broken_ledgers",
    do_now="spread the copies of {ledgers} again",
    action=ActionKind.RECOVER,
)
def ensemble_duplicate(tables: Tables) -> DataFrame:
    """An ensemble of a ledger names a bookie twice.

    What it finds:
        Ledgers with a segment that lists one bookie id more than once.

    Why it matters:
        Two copies of an entry may be one: the ledger survives fewer failures than its write quorum promises.
        The metadata was edited, or an id was replaced by one that was there already.

    How sure:
        Confirmed: the record says so. Suspect where the ledger changed between the two scans.

    What to do:
        Have the segment's copies spread again. updateBookieInLedger does not undo it, for it replaces every
        occurrence of an id: do not run it again on these ids.

    Commands:
        - `bookkeeper shell ledgermetadata -l ID`
          Look at its ensembles.

    Limits:
        Whether the ledger has all its copies is undecided.
    """
    return ledgers_breaking(tables, "ensemble-duplicate")
