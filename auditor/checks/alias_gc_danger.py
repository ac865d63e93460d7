"""Copies under a bookie's old id, which the bookie's own garbage collector will delete."""

from auditor.checks.check import (
    ERASING_ACTIONS,
    ActionKind,
    Basis,
    DataFrame,
    F,
    HoldRule,
    HoldTarget,
    LiftCondition,
    Severity,
    Tables,
    Urgency,
    check,
)
from auditor.checks.finding_rows import finding_rows, suspect_if, with_attribution, with_ledgers
from auditor.model.alias_evidence import MIN_COMPARED_LEDGERS
from auditor.model.columns import LEDGER
from auditor.model.ledger_metadata import LedgerState


@check(
    Severity.CRITICAL,
    rests_on=Basis.DISKS,
    asks="over_replicated",
    urgency=Urgency.DESTROYS_DATA,
    do_now="stop {bookies}",
    action=ActionKind.STOP,
    holds=(HoldRule(HoldTarget.BOOKIE, (*ERASING_ACTIONS, ActionKind.START), LiftCondition.DATA_ELSEWHERE),),
)
def alias_gc_danger(tables: Tables) -> DataFrame:
    """A live bookie holds copies that belong to a vanished bookie id, and will delete them.

    What it finds:
        Reports an unregistered bookie id for which no directory was found. A live bookie holds exactly the
        entries that this id should hold, or had this id before (`bookie-alias`).

    Why it matters:
        Within a day, the live bookie's garbage collector deletes closed ledgers whose ensembles do not name
        this bookie. These copies may be the last ones.

    How sure:
        Confirmed if the live bookie has at least five ledgers of the vanished id, or if `bookie-alias`
        reports that id. Suspect with fewer ledgers: somebody may be copying a dead bookie's ledgers.
        Suspect if the bookie also has `disk-id-mismatch`.

    What to do:
        First stop the live bookie, or restart it with gcOverreplicatedLedgerWaitTime=0, which stops these
        deletions. Then either give the bookie its old id back, or write the new id into the ledgers'
        metadata, then into the cookie. Until then, do not run decommissionbookie or cookie_delete for the
        old id.

    Commands:
        - `bookkeeper shell ledgermetadata -l ID`.
        - `bookkeeper shell updateBookieInLedger -sb OLD -db NEW`.
        - `bookkeeper shell updateledgers -bookieId hostname`.
        - `bookkeeper shell updatecookie -b hostname`
          Run it only after the ledgers have the new id.

    Limits:
        A bookie that came back after other bookies replaced it in ensembles is reported too. Stop its
        garbage collection as well. Open ledgers without a finished segment do not count.
    """
    closed_ledger_count = F.count(F.when(F.col("state") == LedgerState.CLOSED, F.lit(1))).alias("closed")
    alias_rows = with_ledgers(
        _find_unregistered_copies(tables),
        ("bookie_id", "alias"),
        closed_ledger_count,
        F.first("has_cookie").alias("has_cookie"),
        F.coalesce(F.first("same_bookie"), F.lit(False)).alias("same_bookie"),
    ).withColumnRenamed("total", "ledgers")
    bookie_rows = alias_rows.groupBy("bookie_id").agg(
        F.sum("ledgers").alias("ledgers"),
        F.sum("closed").alias("closed"),
        F.max((F.col("ledgers") >= MIN_COMPARED_LEDGERS) | F.col("same_bookie")).alias("sure"),
        F.array_join(F.array_sort(F.collect_set("alias")), ", ").alias("ids"),
        F.array_sort(
            F.collect_list(F.struct("alias", "has_cookie", "ledgers", "closed", "sample", "same_bookie"))
        ).alias("aliases"),
    )
    return finding_rows(
        with_attribution(bookie_rows, tables),
        bookie_id="bookie_id",
        confidence=suspect_if(~F.col("sure") | F.col("attribution_suspect")),
        message=(
            "{bookie_id} holds copies of {ledgers:ledger that names|ledgers that name} {ids}, which is not "
            "registered: the garbage collector of {bookie_id} will delete {closed} of these ledgers"
        ),
        evidence="aliases, ledgers, closed, attribution_suspect",
    )


def _find_unregistered_copies(tables: Tables) -> DataFrame:
    """Return copies on live bookies, if no ensemble of the ledger names the bookie.

    The column ``alias`` has the vanished bookie id that should hold the copy.
    """

    from auditor.tables.gc_foresight import make_alias_rows

    registered_bookies = tables.bookies.where("registered is not null and not foreign_instance").select(
        "bookie_id"
    )
    vanished_ids = tables.unregistered.where("not found").select(
        F.col("bookie_id").alias("alias"), "has_cookie"
    )
    surplus_copies = tables.over_replicated.where("not locked").select(*LEDGER, "bookie_id", "state")
    held_copies = tables.unequal.where("index_state = 'ok' and length(held) > 0").select(
        *LEDGER, "bookie_id", "held"
    )
    expected_copies = (
        tables.ledgers.where("undecidable = false")
        .join(held_copies.select(*LEDGER), [*LEDGER], "left_semi")
        .select(*LEDGER, F.explode("replicas").alias("r"))
        .select(*LEDGER, F.col("r.bookie_id").alias("alias"), "r.groups")
        # This join comes first: without a vanished id Spark then reads no ledger.
        .join(F.broadcast(vanished_ids), "alias")
    )
    alias_ids = make_alias_rows(tables.bookies.sparkSession, tables.roster.aliases).select(
        "bookie_id", F.col("other").alias("alias"), F.lit(True).alias("same_bookie")
    )
    return (
        surplus_copies.join(F.broadcast(registered_bookies), "bookie_id")
        .join(held_copies, [*LEDGER, "bookie_id"])
        .join(expected_copies, [*LEDGER])
        .join(F.broadcast(alias_ids), ["bookie_id", "alias"], "left")
        .where("groups = held or (same_bookie and length(groups) > 0)")
    )
