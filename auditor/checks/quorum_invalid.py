"""Ledgers with impossible quorums."""

from auditor.checks.check import ActionKind, Basis, DataFrame, HoldRule, HoldTarget, Severity, Tables, check
from auditor.checks.ledger_queries import broken_rule_findings


@check(
    Severity.ERROR,
    rests_on=Basis.METADATA,
    asks="broken_ledgers",
    do_now="restore the metadata of {ledgers} from a backup",
    action=ActionKind.RESTORE_METADATA,
    holds=(HoldRule(HoldTarget.LEDGER, (ActionKind.RECOVER, ActionKind.DELETE_LEDGER)),),
)
def quorum_invalid(tables: Tables) -> DataFrame:
    """A ledger has impossible quorums.

    What it finds:
        Reports ledgers whose write quorum is above the ensemble size, or whose ack quorum is above the write
        quorum. Also reports ledgers with one of these numbers below 1.

    Why it matters:
        No client can write or recover the ledger.

    How sure:
        Confirmed: the record says so. Suspect if the ledger changed between the two metadata scans.

    What to do:
        Keep the record. Restore the metadata from a backup with the store's own client: BookKeeper's shell
        refuses quorums above the ensemble size.

    Commands:
        - `bookkeeper shell ledgermetadata -l ID`
          Fails on such a record.

    Limits:
        The audit does not judge the ledger's copies.
    """
    return broken_rule_findings(tables, "quorum-invalid")
