"""Live data under a bookie's old id, which the bookie's own collector takes for left-overs."""

from auditor.checks.check import (
    ERASES,
    ActionKind,
    Basis,
    DataFrame,
    F,
    HoldRule,
    HoldTarget,
    Lift,
    Severity,
    Tables,
    Urgency,
    check,
)
from auditor.checks.finding_rows import finding_rows, suspect_if, with_attribution, with_ledgers
from auditor.model.alias_evidence import LEAST_LEDGERS
from auditor.model.columns import LEDGER
from auditor.model.ledger_metadata import LedgerState


@check(
    Severity.CRITICAL,
    rests_on=Basis.DISKS,
    asks="over_replicated",
    urgency=Urgency.DESTROYS_DATA,
    do_now="stop {bookies}",
    action=ActionKind.STOP,
    holds=(HoldRule(HoldTarget.BOOKIE, (*ERASES, ActionKind.START), Lift.DATA_ELSEWHERE),),
)
def alias_gc_danger(tables: Tables) -> DataFrame:
    """A live bookie holds, entry for entry, what ledgers ask of an id that is no longer there.

    What it finds:
        Registered bookies with ledgers that no ensemble gives to them, of which they hold exactly the entries
        of an id that is not registered and has no disk. One finding per bookie, with each such id, its number
        of ledgers and of closed ones, and a few of them. `over-replicated-ledger` of these ledgers says what
        is deleted, this finding why it must not be. Of an id that `bookie-alias` takes for the same bookie
        all such ledgers count, whatever entries are left.

    Why it matters:
        The bookie was renamed (bookieId, advertisedAddress, useHostNameAsBookieID) and its ledgers were not.
        Its garbage collector takes a closed ledger that does not name it for over-replicated and deletes it
        within a day: these are the ledgers' own copies, and perhaps the last.

    How sure:
        Confirmed from five ledgers of one id on, and of an id that `bookie-alias` names too. Suspect below
        that (someone may be copying a dead bookie's ledgers), and where a disk of the bookie lies in
        another's place.

    What to do:
        Stop the bookie, or set gcOverreplicatedLedgerWaitTime=0 in its configuration and restart it, before
        anything else. Then either give it its old id back, or teach the ledgers the new one, and the cookie
        only when the ledgers are done. Do not run decommissionbookie or cookie_delete for the old id before
        that.

    Commands:
        - `bookkeeper shell ledgermetadata -l ID`
          A few of the ledgers are enough to see that they name the old id.
        - `bookkeeper shell updateBookieInLedger -sb OLD -db NEW`.
        - `bookkeeper shell updateledgers -bookieId hostname`.
        - `bookkeeper shell updatecookie -b hostname`
          Do it only when the ledgers are done.

    Limits:
        A bookie that was replaced and came back may hold the same as its dead successor; stopping the
        collector is right then too. Ledgers without a judged entry, such as open ones without a finished
        segment, are not counted.
    """
    closed = F.count(F.when(F.col("state") == LedgerState.CLOSED, F.lit(1))).alias("closed")
    alias_rows = with_ledgers(
        _copies_of_the_gone(tables),
        ("bookie_id", "alias"),
        closed,
        F.first("has_cookie").alias("has_cookie"),
        F.coalesce(F.first("same_bookie"), F.lit(False)).alias("same_bookie"),
    ).withColumnRenamed("total", "ledgers")
    bookie_rows = alias_rows.groupBy("bookie_id").agg(
        F.sum("ledgers").alias("ledgers"),
        F.sum("closed").alias("closed"),
        F.max((F.col("ledgers") >= LEAST_LEDGERS) | F.col("same_bookie")).alias("sure"),
        F.array_join(F.array_sort(F.collect_set("alias")), ", ").alias("ids"),
        F.array_sort(
            F.collect_list(F.struct("alias", "has_cookie", "ledgers", "closed", "sample", "same_bookie"))
        ).alias("aliases"),
    )
    return finding_rows(
        with_attribution(bookie_rows, tables),
        bookie_id="bookie_id",
        confidence=suspect_if(~F.col("sure") | F.col("attribution_suspect")),
        message="{bookie_id} holds copies of {ledgers:ledger that names|ledgers that name} {ids}, which "
        "is not registered: its garbage collector will delete {closed} of them",
        evidence="aliases, ledgers, closed, attribution_suspect",
    )


def _copies_of_the_gone(tables: Tables) -> DataFrame:
    """Ledgers that a live bookie has too many of, beside the ids gone whose share of them it holds."""

    from auditor.tables.gc_foresight import other_ids

    live = tables.bookies.where("registered is not null and not foreign_instance").select("bookie_id")
    lost_ids = tables.unregistered.where("not found").select(F.col("bookie_id").alias("alias"), "has_cookie")
    pairs = tables.over_replicated.where("not locked").select(*LEDGER, "bookie_id", "state")
    held_copies = tables.unequal.where("index_state = 'ok' and length(held) > 0").select(
        *LEDGER, "bookie_id", "held"
    )
    due = (
        tables.ledgers.where("undecidable = false")
        .join(held_copies.select(*LEDGER), [*LEDGER], "left_semi")
        .select(*LEDGER, F.explode("replicas").alias("r"))
        .select(*LEDGER, F.col("r.bookie_id").alias("alias"), "r.groups")
        # First of all: where no id is gone, Spark sees it before it reads any ledger.
        .join(F.broadcast(lost_ids), "alias")
    )
    same = other_ids(tables.bookies.sparkSession, tables.roster.aliases).select(
        "bookie_id", F.col("other").alias("alias"), F.lit(True).alias("same_bookie")
    )
    return (
        pairs.join(F.broadcast(live), "bookie_id")
        .join(held_copies, [*LEDGER, "bookie_id"])
        .join(due, [*LEDGER])
        .join(F.broadcast(same), ["bookie_id", "alias"], "left")
        .where("groups = held or (same_bookie and length(groups) > 0)")
    )
