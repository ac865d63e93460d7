"""Ledgers with an entry on fewer bookies than their write quorum."""

from auditor.checks.check import ActionKind, Basis, DataFrame, Severity, Tables, check
from auditor.checks.ledger_queries import class_findings


@check(
    Severity.WARNING,
    rests_on=Basis.COPIES,
    asks="below_write_quorum",
    do_now="mark {ledgers} for re-replication",
    action=ActionKind.RECOVER,
)
def below_write_quorum(tables: Tables) -> DataFrame:
    """A ledger has an entry with fewer copies than its write quorum.

    What it finds:
        Reports ledgers in which every entry still has at least an ack quorum of copies.

    Why it matters:
        The ledger survives fewer failures than intended.

    How sure:
        Suspect if the ledger changed during the audit or is not closed, or for a reason that `entry-lost`
        gives.

    What to do:
        Have the ledger marked as under-replicated. Replication then makes the missing copies. BookKeeper's
        auditor rarely notices single missing entries.

    Commands:
        - `bookkeeper shell readledger -l ID -fe FIRST -le LAST`.
        - `bookkeeper shell listunderreplicated -pmr -prw`.
        - `bookkeeper shell readledger -l ID -fe FIRST -le NEXT -b BOOKIE`.
        - `bookkeeper shell recover -dr -l ID BOOKIE`.
        - `bookkeeper shell recover -l ID BOOKIE`.

    Limits:
        See `entry-lost`.
    """
    return class_findings(tables, "below-write-quorum")
