"""Bookies that refuse to read ledgers until their data integrity check ends."""

from auditor.checks.check import (
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
from auditor.checks.finding_rows import finding_rows, suspect_if, with_attribution, with_ledgers
from auditor.model.columns import LEDGER
from auditor.model.ledger_metadata import LedgerState
from auditor.model.states import DECODED
from auditor.tables.parts import filter_table_part


@check(
    Severity.WARNING,
    rests_on=Basis.DISKS,
    asks="in_limbo",
    do_now="let the data integrity check of {bookies} finish",
    holds=(HoldRule(HoldTarget.BOOKIE, (ActionKind.DECOMMISSION, ActionKind.DELETE_COOKIE)),),
)
def ledgers_in_limbo(tables: Tables) -> DataFrame:
    """A bookie has ledgers in the state limbo, and refuses to read them.

    What it finds:
        Reports ledgers in limbo. A bookie with dataIntegrityChecking puts its open ledgers into this
        state after the loss of a disk. These copies count as unknown.

    Why it matters:
        Replication cannot use copies in limbo ("unknown ledger state").

    How sure:
        Confirmed: the index says so. Suspect if the bookie also has `disk-id-mismatch`.

    What to do:
        Wait for the end of the bookie's data integrity check. If it does not end, read the bookie's log.
        Then also start the ledgers' other bookies, because the check reads from them.

    Commands:
        - `bookkeeper shell readledger -l ID -fe FIRST -le NEXT -b BOOKIE`.
        - `bookkeeper shell ledgermetadata -l ID`.

    Limits:
        A ledger that the running bookie serves does not count. The bookie still serves ledgers in limbo to
        clients of protocol version 2.
    """
    rows = filter_table_part("in_limbo", tables.availability).select(*LEDGER, "bookie_id")
    ensemble_members = (
        tables.ledgers.where(F.col("status").isin(*DECODED))
        .join(rows, [*LEDGER], "left_semi")
        .select(*LEDGER, "state", F.explode("replicas").alias("replica"))
        .select(*LEDGER, "state", "replica.bookie_id", (F.length("replica.groups") > 0).alias("due"))
    )
    unknown_copies = (
        tables.judged.join(rows, [*LEDGER], "left_semi")
        .select(*LEDGER, F.explode("unknown.bookie_id").alias("bookie_id"))
        .withColumn("unknown", F.lit(True))
    )
    replica_columns = [*LEDGER, "bookie_id"]
    # The bookie has unknown copies of the ledger, unless it served an entry when asked.
    is_refused = F.coalesce("unknown", ~F.col("due"))
    limbo_replicas = (
        rows.join(ensemble_members, replica_columns)
        .join(unknown_copies, replica_columns, "left")
        .where(is_refused)
    )
    closed_ledger_count = F.count_if(F.col("state") == LedgerState.CLOSED.value).alias("closed")
    return finding_rows(
        with_attribution(with_ledgers(limbo_replicas, "bookie_id", closed_ledger_count), tables),
        bookie_id="bookie_id",
        confidence=suspect_if(F.col("attribution_suspect")),
        unknown=F.array("bookie_id"),
        message="{bookie_id} has {total:ledger|ledgers} in limbo and refuses to read their entries; "
        "closed ledgers among them: {closed}",
        evidence="total AS ledgers, closed, sample",
    )
