"""Ledgers with quorums that cannot be."""

from auditor.checks.check import ActionKind, Basis, DataFrame, HoldRule, HoldTarget, Severity, Tables, check
from auditor.checks.ledger_queries import ledgers_breaking


@check(
    Severity.ERROR,
    rests_on=Basis.METADATA,
    asks="broken_ledgers",
    do_now="restore the metadata of {ledgers} from a backup",
    action=ActionKind.RESTORE_METADATA,
    holds=(HoldRule(HoldTarget.LEDGER, (ActionKind.RECOVER, ActionKind.DELETE_LEDGER)),),
)
def quorum_invalid(tables: Tables) -> DataFrame:
    """The quorums of a ledger cannot be.

    What it finds:
        Ledgers whose write quorum is above the ensemble size, whose ack quorum is above the write quorum, or
        where one of them is not positive.

    Why it matters:
        No client can write or recover such a ledger, and no striping follows from such numbers. The metadata
        was edited or damaged.

    How sure:
        Confirmed: the record says so. Suspect where the ledger changed between the two scans.

    What to do:
        Restore the ledger's metadata from a backup of the store, if there is one. The server refuses quorums
        above the ensemble size: keep such a record and put the other in its place with the store's own
        client.

    Commands:
        - `bookkeeper shell ledgermetadata -l ID`
          It fails on such a record.

    Limits:
        Whether the ledger has all its copies is undecided.
    """
    return ledgers_breaking(tables, "quorum-invalid")
