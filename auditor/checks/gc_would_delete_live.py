"""Needed data that a bookie's own garbage collector is about to delete."""

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
    Urgency,
    check,
)
from auditor.checks.finding_rows import (
    finding_rows,
    meanings_of_codes,
    suspect_if,
    with_attribution,
    with_ledgers,
    words,
)
from auditor.model.columns import LEDGER, REPLICA
from auditor.model.states import GcAction, GcCause, GcReason, GcVerdict, IndexState, SpaceClass
from auditor.tables.full_disks import suspends_action


@check(
    Severity.CRITICAL,
    rests_on=Basis.DISKS,
    asks=("gc_foresight", "log_foresight", "space", "unseen_entries"),
    urgency=Urgency.DESTROYS_DATA,
    do_now="stop {bookies}: the next garbage collection deletes data that is still needed",
    action=ActionKind.STOP,
    holds=(HoldRule(HoldTarget.BOOKIE, (*ERASING_ACTIONS, ActionKind.START)),),
)
def gc_would_delete_live(tables: Tables) -> DataFrame:
    """A bookie's next garbage collection deletes data that a ledger needs.

    What it finds:
        Reports these kinds of data (table gc_foresight, docs/space.md). The last two need `--entry-logs`:
        - `in-its-ensembles`: a ledger's ensembles name the bookie, but the server's listing leaves the
          ledger out. The ledger's record is not at its path (`listed-out-of-order`), or its id is 2^63 - 1
          (`listing-overflows`).
        - `last-copy`: no ensemble names the bookie, but its copy has an entry that no bookie of the
          ensembles has.
        - `not-indexed`: an entry log that will be deleted or rewritten has entries that the bookie's index
          lacks.
        - `unseen`: a wrong record size in an entry log hides needed entries from the garbage collector
          (bookkeeper #2264, #2373).

    Why it matters:
        The bookie's garbage collector runs every gcWaitTime (default 10 minutes; Pulsar 15). The collector
        deletes indexes at once, and entries when compaction rewrites their logs.

    How sure:
        Confirmed: metadata and indexes agree. Suspect if an entry log that will be deleted was not read for
        unindexed entries. Suspect for `unseen` if another ledger keeps the log, or the bookie's scan of it
        may run out of memory. Suspect if the bookie also has `disk-id-mismatch`.

    What to do:
        First stop the bookie or its garbage collection. Then:
        - `in-its-ensembles`: set verifyMetadataOnGC=true on every bookie and restart all bookies. Correct
          the records that `metadata-misplaced` reports.
        - `last-copy`: set gcOverreplicatedLedgerWaitTime=0, restart the bookie, and have the ledger copied
          from it.
        - `not-indexed`: rebuild the index from the logs while the bookie is stopped (see
          `ledger-not-indexed` for RocksDB, `index-unreadable` for index files).
        - `unseen`: save a copy of the log. With garbage collection off, have the ledgers copied while the
          bookie serves them.

    Commands:
        - `bookkeeper shell ledgermetadata -l ID`.

    Limits:
        Ledgers do not count if their metadata changed during the audit or is unreadable.
    """
    rows = tables.gc_foresight.where(
        (F.col("action") == GcAction.DELETE.value)
        & (F.col("verdict") == GcVerdict.WRONG.value)
        & (F.col("reason") != GcReason.OTHER_ID.value)
    ).select(*REPLICA, "reason", "cause", F.lit(True).alias("certain"))
    if {"space", "log_foresight", "log_entries"} <= tables.frames.keys():
        rows = rows.unionByName(_findings_without_index(tables))
    if "unseen_entries" in tables.frames:
        rows = rows.unionByName(_replicas_unseen_by_gc(tables))
    bookie_rows = with_ledgers(
        rows,
        "bookie_id",
        F.array_sort(F.collect_set("reason")).alias("reasons"),
        F.array_sort(F.collect_set("cause")).alias("causes"),
        F.min("certain").alias("certain"),
    )
    return finding_rows(
        with_attribution(bookie_rows, tables),
        bookie_id="bookie_id",
        confidence=suspect_if(F.col("attribution_suspect") | ~F.col("certain")),
        message=words(
            "{bookie_id}: the next garbage collection deletes {total:live ledger|live "
            "ledgers}{bracket}{named:,}), because {causes}",
            bracket=F.when(F.col("total") <= _MAX_NAMED_LEDGERS, " (").otherwise(" (such as "),
            named=F.slice("sample", 1, _MAX_NAMED_LEDGERS),
            causes=F.array_join(meanings_of_codes("causes", _CAUSE_TEXTS), ", and "),
        ),
        evidence={
            "ledgers": "total",
            "sample": "sample",
            "reasons": "reasons",
            "causes": "causes",
            "settings": F.lit(tables.collector_settings.source),
            "rows": F.lit("tables/gc_foresight"),
        },
    )


_MAX_NAMED_LEDGERS = 3
"""Largest number of ledgers that the message names."""
_CAUSE_TEXTS = {
    GcCause.NOT_LISTED: "the server's ledger listing omits them",
    GcCause.OUT_OF_ORDER: "the server's ledger listing is not in order",
    GcCause.LIST_OVERFLOW: "the server's listing of ledger ids overflows",
    GcCause.IN_NO_ENSEMBLE: "the bookie has the last copy, but is in no ensemble",
    "log-delete": (
        "garbage collection deletes an entry log with entries that are missing from the bookie's index"
    ),
    "log-minor": (
        "minor compaction rewrites their entry log and drops entries missing from the bookie's index"
    ),
    "log-major": (
        "major compaction rewrites their entry log and drops entries missing from the bookie's index"
    ),
    "unseen-delete": "a damaged record hides their entries, so their entry log is deleted",
    "unseen-minor": "a damaged record hides their entries, so minor compaction drops them "
    "when it rewrites the log",
    "unseen-major": "a damaged record hides their entries, so major compaction drops them "
    "when it rewrites the log",
    "unseen-keep": "a damaged record hides their entries, so their entry log is deleted "
    "once its other ledgers are deleted",
}
"""End of the message, by cause. Other causes are shown as they are."""


def _findings_without_index(tables: Tables) -> DataFrame:
    """Return copies with entries that the index lacks, in logs that are about to be deleted or compacted."""
    is_kept_log = (F.col("action") == GcAction.KEEP.value) | suspends_action()
    deleted_or_rewritten_logs = tables.log_foresight.where(~is_kept_log).select("bookie_id", "path", "action")
    rows = tables.space.where(~F.col("remains")).join(deleted_or_rewritten_logs, ["bookie_id", "path"])
    cause = F.concat(F.lit("log-"), "action").alias("cause")
    # RocksDB: locations exist, but the collector reads the index of ledgers, which lacks the ledger.
    unindexed_replicas = tables.availability.where(F.col("state") == IndexState.NOT_INDEXED.value)
    replicas_with_locations = (
        rows.where(F.col("class") == SpaceClass.LIVE.value)
        .join(unindexed_replicas.select(*REPLICA).distinct(), [*REPLICA], "left_semi")
        .select(*REPLICA, cause, F.lit(True).alias("certain"))
    )
    replicas_in_logs = tables.log_entries.select(
        "path", *LEDGER, F.col("groups").isNotNull().alias("certain")
    )
    replicas_without_locations = (
        rows.where(F.col("class") == SpaceClass.NOT_INDEXED.value)
        .join(replicas_in_logs, ["path", *LEDGER])
        .select(*REPLICA, cause, "certain")
    )
    if tables.moved_ledgers is not None:
        replicas_without_locations = replicas_without_locations.join(
            tables.moved_ledgers.select(*LEDGER), [*LEDGER], "left_anti"
        )
    replicas = (
        replicas_with_locations.unionByName(replicas_without_locations)
        .groupBy(*REPLICA, "cause")
        .agg(F.min("certain").alias("certain"))
    )
    return replicas.select(*REPLICA, F.lit(GcReason.NOT_INDEXED.value).alias("reason"), "cause", "certain")


def _replicas_unseen_by_gc(tables: Tables) -> DataFrame:
    """Return ledgers with entries in a bookie's logs that the bookie's garbage collector does not see.

    The metadata of these ledgers names the bookie.
    """
    log_gc_plans = tables.log_foresight.select(
        "bookie_id", "path", "action", suspends_action().alias("suspended")
    )
    planned_action = F.when(F.col("suspended"), GcAction.KEEP.value).otherwise(
        F.coalesce("action", F.lit(GcAction.KEEP.value))
    )
    ensemble_members = tables.ledgers.select(*LEDGER, F.explode("replicas").alias("part"))
    ensemble_copies = ensemble_members.select(*LEDGER, "part.bookie_id").distinct()
    rows = tables.unseen_entries.join(ensemble_copies, [*REPLICA], "left_semi").join(
        log_gc_plans, ["bookie_id", "path"], "left"
    )
    if tables.moved_ledgers is not None:
        rows = rows.join(tables.moved_ledgers.select(*LEDGER), [*LEDGER], "left_anti")
    is_scan_certain = F.col("unseen").isNotNull() & ~F.coalesce("may_fail", F.lit(True))
    return rows.select(
        *REPLICA,
        F.lit(GcReason.UNSCANNED.value).alias("reason"),
        F.concat(F.lit("unseen-"), planned_action).alias("cause"),
        (is_scan_certain & (planned_action != GcAction.KEEP.value)).alias("certain"),
    )
