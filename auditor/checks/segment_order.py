"""Ledgers without segments, or with segments out of order."""

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
def segment_order(tables: Tables) -> DataFrame:
    """The segments of a ledger are not in ascending order, or there is none.

    What it finds:
        Ledgers whose metadata lists segments by descending or repeated first entries, and ledgers without a
        segment.

    Why it matters:
        Servers sort segments by first entry, so something else wrote this list, and a repeated first entry
        hides one of two ensembles. Without a segment nobody knows where any entry is.

    How sure:
        Confirmed: the record says so. Suspect where the ledger changed between the two scans.

    What to do:
        Restore the ledger's metadata from a backup of the store, if there is one. The server refuses to read
        such a record: keep it and put the other in its place with the store's own client.

    Commands:
        - `bookkeeper shell ledgermetadata -l ID`
          It fails on such a record.

    Limits:
        Whether the ledger has all its copies is undecided.
    """
    return ledgers_breaking(tables, "segment-order", "no-segment")
