"""Ledgers without segments, or with segments out of order."""

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
def segment_order(tables: Tables) -> DataFrame:
    """The segments of a ledger are not in ascending order, or the ledger has none.

    What it finds:
        Reports ledgers without a segment, and ledgers whose segments have descending or repeated first
        entries.

    Why it matters:
        A repeated first entry hides an ensemble. Without a segment, no entry is found.

    How sure:
        Confirmed: the record says so. Suspect if the ledger changed between the two metadata scans.

    What to do:
        Keep the record. Restore the metadata from a backup with the store's own client: BookKeeper's
        shell refuses such a record.

    Commands:
        - `bookkeeper shell ledgermetadata -l ID`
          Fails on such a record.

    Limits:
        The audit does not judge the ledger's copies.
    """
    return broken_rule_findings(tables, "segment-order", "no-segment")
