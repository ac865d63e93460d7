"""Ledgers with an entry on fewer bookies than their ack quorum."""

from auditor.checks.check import ActionKind, Basis, DataFrame, Severity, Tables, Urgency, check
from auditor.checks.ledger_queries import class_findings


@check(
    Severity.ERROR,
    rests_on=Basis.COPIES,
    asks="below_ack_quorum",
    urgency=Urgency.BELOW_ACK_QUORUM,
    do_now="copy {ledgers} to other bookies before another bookie stops",
    action=ActionKind.RECOVER,
)
def below_ack_quorum(tables: Tables) -> DataFrame:
    """A ledger has an entry with fewer copies than its ack quorum.

    What it finds:
        A copy counts as missing only if it is certainly absent. If a ledger is not closed, the check
        ignores its last segment. It also ignores the last Qw (write quorum) entries before that segment.

    Why it matters:
        The next failure may destroy the last copy. Recovery may treat the entry as never written.

    How sure:
        Suspect if the ledger changed during the audit or is not closed, or for a reason that `entry-lost`
        gives.

    What to do:
        Have the ledger marked as under-replicated. Replication then makes the missing copies. Until then,
        do not restart or drain a bookie of the ledger.

    Commands:
        - `bookkeeper shell readledger -l ID -fe FIRST -le LAST`.
        - `bookkeeper shell listunderreplicated -pmr -prw`.
        - `bookkeeper shell queryautorecoverystatus`.
        - `bookkeeper shell autorecovery -e`.
        - `bookkeeper shell recover -dr -l ID BOOKIE`.
        - `bookkeeper shell recover -l ID BOOKIE`.

    Limits:
        See `entry-lost`.
    """
    return class_findings(tables, "below-ack-quorum")
