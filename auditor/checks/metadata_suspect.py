"""Bookies whose data suggests that the metadata is wrong."""

from auditor.checks.check import (
    ERASING_ACTIONS,
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
    do_now="stop {bookies} until it is clear whether the metadata or the data is correct",
    action=ActionKind.STOP,
    holds=(
        HoldRule(HoldTarget.BOOKIE, (*ERASING_ACTIONS, ActionKind.START, ActionKind.MAKE_COOKIE)),
        HoldRule(HoldTarget.METADATA_STORE, (ActionKind.DELETE_LEDGER,)),
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
        Reports bookies with many orphans (ledgers that the metadata does not list now). `recent_orphans`
        counts orphans that disappeared from the metadata less than one garbage collection interval before
        the scan. The interval is gcWaitTime of `--bookie-conf`, else 15 minutes. `unexplained_orphans`
        counts orphans that no owner dropped, except recent ones and those with an index newer than the
        scan. A bookie is reported if a rule below applies (evidence `rules`). The counts are minimums:
        - `orphan-share`: 100 orphans that are not recent, more than 5 % of the bookie's ledgers.
        - `every-ledger`: 100 orphans, and no other ledger on the bookie.
        - `vanished-ranges`: 100 ledgers in a block of 10,000 ids, all of them orphans that are not recent.
        - `foreign-instance`: all directories have another cluster's instance id.
        - `store-older`: the id generator gave out all listed ids, but not an orphan's id. The store may
          be a restored backup, or another cluster's.
        - `store-bare`: one orphan, in a store with neither LAYOUT nor id generator, unless Pulsar has
          ledgers there.
        - `large-orphan-share`: 5 unexplained orphans, more than 20 % of the bookie's ledgers.
        - `store-empty`: one unexplained orphan, in a store without ledgers whose id generator gave out 5
          ids.

    Why it matters:
        If the metadata is wrong, good data is lost within minutes of the bookie's start.

    How sure:
        Confirmed means that the numbers are right, not that the metadata is wrong. Suspect if only
        `large-orphan-share` or `store-empty` applies, or only `store-bare` in a saved store. Also suspect
        if a rule needs orphans that unread parts of the store may list (`in_doubt`). In a running store,
        `orphan-share` and `vanished-ranges` alone are suspect at first. A run an hour or more later confirms
        them if it finds enough of the same orphans (`lasting_orphans`).

    What to do:
        Stop the bookie until you know whether its metadata or its data is right. If metadata was lost,
        restore the store from its snapshot before you start any bookie.

    Commands:
        - `bookkeeper shell whatisinstanceid`.
        - `bookkeeper shell cookie_get BOOKIE`.
        - `bookkeeper shell listledgers`
          counts the ledgers that the store lists. Risk: none; it reads all metadata.

    Limits:
        If an earlier run is within the last garbage collection interval, a partial loss of metadata looks
        like normal deletions. Mass deletions by retention, removed applications and stopped garbage
        collectors look like lost metadata. So do deleted ledgers whose ids an application chose.
        `store-older` ignores flat layouts and dumps without cversion.
    """
    earlier_run = (
        "null" if tables.cluster.earlier_orphans_time is None else tables.cluster.earlier_orphans_time
    )
    return finding_rows(
        distrusted_bookies(tables),
        bookie_id="bookie_id",
        confidence=suspect_if(~F.col("sure")),
        message=words(
            "{bookie_id}: {orphans} of {ledgers} ledgers have no metadata; do not let the bookie collect "
            "garbage (reasons: {rules:,}){unseen}{second_look}",
            unseen=F.when(
                F.col("in_doubt") > 0,
                words("; {in_doubt} of these may have metadata, because not all metadata could be read"),
            ).otherwise(""),
            second_look=_recheck_text(tables.cluster),
        ),
        evidence="rules, ledgers, orphans, in_doubt, lasting AS lasting_orphans, recent AS recent_orphans, "
        f"unexplained AS unexplained_orphans, bigint({earlier_run}) AS earlier_run_ended, vanished AS "
        "vanished_ranges, string(vanished_scope) AS "
        "vanished_scope, string(low) AS vanished_low, string(high) AS vanished_high, undrawn, "
        "string(lowest) AS undrawn_lowest, string(highest) AS undrawn_highest",
    )


def _recheck_text(cluster: ClusterFacts) -> Column:
    """Return the end of the message, which says whether an earlier run found the same orphans.

    Orphans are ledgers without metadata. The text has the number of orphans that an earlier run also found.
    Without an earlier run, the text says that the finding stays suspect until a later run finds the same
    orphans. The text is empty for saved metadata, and if a rule other than orphan-share, vanished-ranges and
    large-orphan-share applies.
    """
    if not cluster.live:
        return F.lit("")
    last_run_time = cluster.earlier_orphans_time
    if last_run_time is None:
        lasting_orphans_clause = F.lit(
            "; unconfirmed until a run at least an hour later finds the same orphans"
        )
    else:
        lasting_orphans_clause = words(
            "; {lasting} of them were already orphans in the run of {time}", time=format_time(last_run_time)
        )
    orphan_count_rules = ("orphan-share", "vanished-ranges", "large-orphan-share")
    other_rules = F.array_except("rules", F.array(*map(F.lit, orphan_count_rules)))
    return F.when(F.size(other_rules) == 0, lasting_orphans_clause).otherwise("")
