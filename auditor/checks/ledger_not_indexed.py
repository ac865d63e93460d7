"""Ledgers that have entries on a bookie but are not in the bookie's index of ledgers."""

from auditor.checks.check import (
    ERASING_ACTIONS,
    ActionKind,
    Basis,
    DataFrame,
    F,
    HoldRule,
    HoldTarget,
    Severity,
    Tables,
    check,
)
from auditor.checks.finding_rows import finding_rows, suspect_if, with_attribution
from auditor.checks.ledger_queries import rows_of_members
from auditor.model.columns import REPLICA
from auditor.tables.parts import filter_table_part


@check(
    Severity.ERROR,
    rests_on=Basis.DISKS,
    asks="not_indexed",
    do_now="rebuild the index of ledgers on {bookies}",
    action=ActionKind.REBUILD_INDEX,
    holds=(HoldRule(HoldTarget.BOOKIE, (*ERASING_ACTIONS, ActionKind.START)),),
)
def ledger_not_indexed(tables: Tables) -> DataFrame:
    """A bookie's index has locations of a ledger's entries, but not the ledger itself.

    What it finds:
        Reports ledgers that are in DbLedgerStorage's index of locations but not in its index of ledgers.
        Their copies count as unknown.

    Why it matters:
        The bookie answers that it does not have the ledger, and a recovery may cut off the ledger's end.

    How sure:
        Confirmed: both databases were read. Suspect if the ledger changed between the two metadata scans.
        Suspect if the bookie also has `disk-id-mismatch`.

    What to do:
        Stop the bookie, save a copy of the directory, and rebuild the index of ledgers.

    Commands:
        - `bookkeeper shell check-db-ledgers-index`
          reads the index of ledgers to its end. Run it on the stopped bookie. Risk: none; it only reads.
        - `bookkeeper shell rebuild-db-ledgers-index`.

    Limits:
        Ledgers without metadata are not reported.
    """
    rows = filter_table_part("not_indexed", tables.availability).select(*REPLICA, "path", "reason")
    return finding_rows(
        with_attribution(rows_of_members(rows, tables), tables),
        ledger_id="ledger_id",
        bookie_id="bookie_id",
        confidence=suspect_if(F.col("attribution_suspect")),
        unknown=F.array("bookie_id"),
        message="{bookie_id} has entries of ledger {ledger}, but its index of ledgers does not list it",
        evidence="path, reason",
    )
