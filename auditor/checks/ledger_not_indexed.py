"""Ledgers with entries on a bookie whose ledger index lacks them."""

from auditor.checks.check import (
    ERASES,
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
from auditor.checks.ledger_queries import of_members
from auditor.model.columns import REPLICA
from auditor.tables.parts import filter_part


@check(
    Severity.ERROR,
    rests_on=Basis.DISKS,
    asks="not_indexed",
    do_now="rebuild the index of ledgers on {bookies}",
    action=ActionKind.REBUILD_INDEX,
    holds=(HoldRule(HoldTarget.BOOKIE, (*ERASES, ActionKind.START)),),
)
def ledger_not_indexed(tables: Tables) -> DataFrame:
    """A bookie has locations of a ledger's entries and does not list the ledger.

    What it finds:
        Ledgers whose metadata names the bookie, where DbLedgerStorage's index of locations has entries and
        its index of ledgers has none. One finding per ledger and bookie. Their copies count as unknown.

    Why it matters:
        The bookie answers that it does not know the ledger, although the entries are on its disk. A recovery
        that hears this may close the ledger too early.

    How sure:
        Confirmed where both databases were read completely. Suspect where the ledger changed between the two
        scans, and where the directory's cookie and place name two bookies.

    What to do:
        Rebuild the index of ledgers, with the bookie stopped and a copy of the directory made.

    Commands:
        - `bookkeeper shell check-db-ledgers-index`
          on the stopped bookie, reads the index of ledgers to its end. Risk: none; it only reads.
        - `bookkeeper shell rebuild-db-ledgers-index`.

    Limits:
        Locations of a ledger without metadata are the normal delay of deletion, and not reported.
    """
    rows = filter_part("not_indexed", tables.availability).select(*REPLICA, "path", "reason")
    return finding_rows(
        with_attribution(of_members(rows, tables), tables),
        ledger_id="ledger_id",
        bookie_id="bookie_id",
        confidence=suspect_if(F.col("attribution_suspect")),
        unknown=F.array("bookie_id"),
        message="{bookie_id} has entries of ledger {ledger} and does not list the ledger",
        evidence="path, reason",
    )
