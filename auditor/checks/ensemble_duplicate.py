"""Ledgers with a bookie twice in one ensemble."""

from auditor.checks.check import ActionKind, Basis, DataFrame, Severity, Tables, check
from auditor.checks.ledger_queries import broken_rule_findings


@check(
    Severity.ERROR,
    rests_on=Basis.METADATA,
    asks="broken_ledgers",
    do_now="spread the copies of {ledgers} over different bookies",
    action=ActionKind.RECOVER,
)
def ensemble_duplicate(tables: Tables) -> DataFrame:
    """An ensemble of a ledger names a bookie twice.

    What it finds:
        Reports ledgers with a segment that lists the same bookie id more than once.

    Why it matters:
        Two copies of an entry may be the same copy. Somebody edited the metadata.

    How sure:
        Confirmed: the metadata says so. Suspect if the ledger changed between the two metadata scans.

    What to do:
        Have the segment's entries copied to distinct bookies. Do not run updateBookieInLedger on these ids,
        because it replaces every occurrence.

    Commands:
        - `bookkeeper shell ledgermetadata -l ID`.

    Limits:
        The audit does not judge the ledger's copies.
    """
    return broken_rule_findings(tables, "ensemble-duplicate")
