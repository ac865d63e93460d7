"""Bookies for which the metadata itself looks wrong."""

from auditor.checks.check import (
    ERASES,
    ActionKind,
    Basis,
    Column,
    DataFrame,
    F,
    HoldRule,
    HoldTarget,
    Severity,
    Tables,
    Urgency,
    check,
)
from auditor.checks.finding_rows import finding_rows, suspect_if, words
from auditor.checks.gc_guards import distrusted_bookies
from auditor.model.amounts import format_time
from auditor.tables import ClusterFacts


@check(
    Severity.CRITICAL,
    rests_on=Basis.DISKS,
    asks="orphans_or_foreign",
    urgency=Urgency.DESTROYS_DATA,
    do_now="stop {bookies} until it is clear whether metadata or data is right",
    action=ActionKind.STOP,
    holds=(
        HoldRule(HoldTarget.BOOKIE, (*ERASES, ActionKind.START, ActionKind.MAKE_COOKIE)),
        HoldRule(HoldTarget.METADATA, (ActionKind.DELETE_LEDGER,)),
    ),
    settings=(
        "orphan_share_percent",
        "least_orphans",
        "vanished_block_ids",
        "vanished_ledgers",
        "large_orphan_share_percent",
        "least_unexplained",
    ),
)
def metadata_suspect(tables: Tables) -> DataFrame:
    """So much of a bookie's data has no metadata that the metadata itself is in doubt.

    What it finds:
        Bookies of which so many ledgers are orphans that the metadata itself may be wrong. The evidence names
        the rules; each orphan is an `orphan-ledger` too. `orphan-share`: at least 100 orphans, more than 5 %
        of the ledgers. `every-ledger`: at least 100, and all. `vanished-ranges`: at least 100 ledgers of a
        block of 10,000 ids, all orphans. `foreign-instance`: all directories carry another cluster's instance
        id. `store-older`: an orphan's id is not yet given out by the id generator, while all listed ids are
        (a restored backup, or another cluster's store). `store-bare`: an orphan, and neither LAYOUT nor id
        generator in a store that is not Pulsar's with ledgers. Never confirmed: `large-orphan-share`, more
        than 20 % and at least 5 unexplained orphans, and `store-empty`, one in a store without ledgers whose
        generator has given out 5 ids or more. Explained (`unexplained_orphans` counts the others) is an
        orphan that was in the metadata within the collectors' last interval, has an index newer than a saved
        scan, or has no owner though owners were read without a gap. The first and third rule do not count
        `recent_orphans`, listed within that interval (gcWaitTime of `--bookie-conf`, else 15 minutes) by an
        earlier run beside this one or by their ids.

        Two rules need fewer ledgers and are never confirmed. Bookies on which more than 20 % of the ledgers,
        and at least 5, are orphans that nothing explains (`large-orphan-share`). Bookies with such an orphan
        where the store lists no ledger at all (`store-empty`), unless its generator has given out fewer than
        5 ids: that is a new cluster. An orphan is explained if it was in the metadata within the collectors'
        last interval, if its index is newer than a saved scan, or if its owner dropped it: owners were read
        without a gap, and none of them names it (`unexplained_orphans`).

        For `orphan-share` and `vanished-ranges` those orphans do not count that were in the metadata within
        the collectors' last interval (gcWaitTime of `--bookie-conf`, else 15 minutes): an earlier run beside
        this one listed them then, or their ids lie above a ledger that was made then and above all that are
        older, where the store's own generator gives the ids out (`recent_orphans`).

    Why it matters:
        The next garbage collection of that bookie deletes every ledger that the store does not list. If the
        listing is wrong, the store was emptied, or the bookie asks the wrong store, good data is lost within
        minutes of the bookie's start.

    How sure:
        Confirmed as a count; that the metadata is wrong is not proved. The orphans are no more than suspect
        while it stands. Suspect where it needs orphans whose part of the ledger tree could not be listed
        (`in_doubt`); where only `large-orphan-share` or `store-empty` holds; and where `store-bare` alone
        holds of a saved store. Suspect on a running store where only `orphan-share` and `vanished-ranges`
        hold: a busy bookie may have many ledgers that were deleted since its last collection. Enough orphans
        of an earlier run confirm these (`lasting_orphans`): the newest run that ended an hour or more before
        this one's first scan (`earlier_run_ended`, ms).

    What to do:
        Stop the bookie, or keep it stopped, until it is clear which side is right. Then compare. If metadata
        was lost, restore the store from its snapshot before any bookie is started again.

    Commands:
        - `bookkeeper shell whatisinstanceid`.
        - `bookkeeper shell cookie_get BOOKIE`
          It names the cluster that the bookie joined.
        - `bookkeeper shell listledgers`
          counts what the store lists. Risk: none; it reads all metadata.

    Limits:
        A partial loss within the collectors' last interval looks like deletions if an earlier run of that
        interval exists. A large retention run, a removed application, a collector that was stuck, or
        (`store-older`) an application that chose its own ids and deleted all its ledgers, look like a loss.
        `store-older` says nothing of the flat layout or of a dump without cversion.
    """
    earlier_run = "null" if tables.cluster.orphans_known is None else tables.cluster.orphans_known
    return finding_rows(
        distrusted_bookies(tables),
        bookie_id="bookie_id",
        confidence=suspect_if(~F.col("sure")),
        message=words(
            "{bookie_id}: {orphans} of {ledgers} ledgers have no metadata; do not let it collect "
            "garbage: {rules:,}{unseen}{second_look}",
            unseen=F.when(
                F.col("in_doubt") > 0,
                words("; {in_doubt} of these may have some: not all metadata could be read"),
            ).otherwise(""),
            second_look=_second_look(tables.cluster),
        ),
        evidence="rules, ledgers, orphans, in_doubt, lasting AS lasting_orphans, recent AS recent_orphans, "
        f"unexplained AS unexplained_orphans, bigint({earlier_run}) AS earlier_run_ended, vanished AS "
        "vanished_ranges, string(vanished_scope) AS "
        "vanished_scope, string(low) AS vanished_low, string(high) AS vanished_high, undrawn, "
        "string(lowest) AS undrawn_lowest, string(highest) AS undrawn_highest",
    )


def _second_look(cluster: ClusterFacts) -> Column:
    """The end of the sentence where a live store is in doubt for nothing but many orphans."""
    if not cluster.live:
        return F.lit("")
    last_run_time = cluster.orphans_known
    if last_run_time is None:
        clause = F.lit("; suspect until a run an hour or more later finds the same ones")
    else:
        clause = words(
            "; {lasting} of them were orphans in the run of {time} already", time=format_time(last_run_time)
        )
    by_count = ("orphan-share", "vanished-ranges", "large-orphan-share")
    other_rules = F.array_except("rules", F.array(*map(F.lit, by_count)))
    return F.when(F.size(other_rules) == 0, clause).otherwise("")
