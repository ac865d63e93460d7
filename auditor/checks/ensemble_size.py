"""Ledgers with an ensemble of the wrong size."""

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
def ensemble_size(tables: Tables) -> DataFrame:
    """A ledger has an ensemble of the wrong size.

    What it finds:
        Reports ledgers with a segment that lists more or fewer bookies than the ledger's ensemble size.

    Why it matters:
        Nobody can tell on which bookies an entry is. BookKeeper's replicas check waits for its timeout on
        such a ledger.

    How sure:
        Confirmed: the metadata says so. Suspect if the ledger changed between the two metadata scans.

    What to do:
        Save the present record, then restore it from a backup with the store's own client.

    Commands:
        - `bookkeeper shell ledgermetadata -l ID`
          Fails on such a record.

    Limits:
        The audit does not judge the ledger's copies.
    """
    return broken_rule_findings(tables, "ensemble-size")
