"""gc_foresight: the next action of each bookie's garbage collector on a ledger, and whether it is right.

A pass of ScanAndCompareGarbageCollector has two parts. The first part runs once per
gcOverreplicatedLedgerWaitTime. It deletes ledgers that are closed and not locked, and whose ensembles do
not name the bookie's own id. The second part deletes ledgers that the store does not list
(`auditor.tables.gc_listing`). With verifyMetadataOnGC, it first reads the metadata record of such a ledger.

A row is a ledger on a bookie in one of three cases: (1) The store lacks the ledger. (2) No ensemble names
the bookie. (3) The server's listing has the ledger out of order or not at all. A healthy replica has no
row.

The verdict does not depend on the server's rules. A deletion is right if the ledger has no metadata. It is
also right if no ensemble names the bookie and every entry has a copy on a member. A deletion is wrong or in
doubt in three cases: (1) The copy is the last one of an entry that all members lack. (2) The ensembles name
the bookie by another of its ids. (3) The ledger is being copied to this bookie, and the metadata will name
the bookie only when the copy is complete. Ledgers of BP-35 scopes other than 0 have no rows, because no
server keeps them yet.
"""

from typing import Any, NamedTuple

import pyarrow as pa

from auditor.codecs.availability import coverage
from auditor.errors import CoverageLimitError
from auditor.model.collector_settings import CollectorSettings
from auditor.model.columns import LEDGER, REPLICA, make_schema
from auditor.model.finding import Confidence
from auditor.model.ledger_id import MAX_LEDGER_ID, LayoutKind
from auditor.model.ledger_metadata import LedgerState
from auditor.model.states import (
    DISK_STATES,
    LISTED,
    GcAction,
    GcCause,
    GcPass,
    GcReason,
    GcVerdict,
    LedgerClass,
    LedgerStatus,
)
from auditor.spark import functions as F
from auditor.spark.batches import arrow_frame, map_rows
from auditor.spark.types import Column, DataFrame, SparkSession
from auditor.tables.gc_listing import ServerListing
from auditor.tables.judge_replicas import groups_of
from auditor.tables.scans import add_since_column

ALIASES_SCHEMA = pa.schema([("bookie_id", pa.string()), ("other", pa.string())])

_LAST_COPY_SCHEMA = pa.schema(
    [("bookie_id", pa.string()), ("scope_id", pa.int64()), ("ledger_id", pa.int64()), ("last", pa.bool_())]
)


def deletion_verdicts(
    over_replicated: DataFrame,
    ledgers: DataFrame,
    judged: DataFrame,
    verdicts: DataFrame,
    unequal_replicas: DataFrame,
    aliases: frozenset[tuple[str, str]],
) -> DataFrame:
    """Judge the deletion of over-replicated copies. These are copies on bookies that no ensemble names.

    The result has these copies. Each copy has a ``verdict`` that says whether its deletion is right, and a
    ``reason`` for the verdict. ``aliases`` are pairs of ids that belong to the same bookie.
    """
    ledger_classes = verdicts.select(
        *LEDGER,
        (F.col("class") == LedgerClass.ENTRY_LOST).alias("lost"),
        F.col("potential_class").isin(LedgerClass.ENTRY_LOST, LedgerClass.UNDECIDED).alias("endangered"),
        (F.col("confidence") == Confidence.CONFIRMED).alias("sure"),
    )
    foreign_replicas = over_replicated.join(ledger_classes, [*LEDGER], "left")
    rows = foreign_replicas.join(
        _find_last_copies(over_replicated, judged, verdicts, unequal_replicas), [*REPLICA], "left"
    )
    rows = rows.join(_copies_under_another_id(over_replicated, ledgers, aliases), [*REPLICA], "left")
    ledgers_with_unknown_copies = judged.where(F.size("unknown") > 0).select(*LEDGER).distinct()
    rows = rows.join(ledgers_with_unknown_copies.withColumn("has_unknown", F.lit(True)), [*LEDGER], "left")
    is_last_copy = F.coalesce("last", F.lit(False))
    # An unknown copy of a member may not exist, so this copy may be the last one.
    # A ledger without a verdict is in doubt too.
    is_ledger_lost = F.coalesce("lost", F.lit(False))
    has_doubt = F.coalesce("has_unknown", F.lit(False)) | ~is_ledger_lost
    may_be_last_copy = (is_ledger_lost & F.col("last").isNull()) | (
        F.coalesce("endangered", F.lit(True)) & has_doubt
    )
    reason = (
        F.when(F.col("other_id"), GcReason.OTHER_ID)
        .when(is_last_copy & F.col("sure"), GcReason.LAST_COPY)
        .when(is_last_copy | may_be_last_copy, GcReason.MEMBERS_UNKNOWN)
        .when(F.col("behind_end") > 0, GcReason.BEHIND_END)
        .when(F.col("marked") | F.col("exposed"), GcReason.COPY_IN_FLIGHT)
        .otherwise(GcReason.COPIES_ELSEWHERE)
    )
    is_wrong_deletion = F.col("reason").isin(GcReason.OTHER_ID, GcReason.LAST_COPY)
    is_right_deletion = F.col("reason") == GcReason.COPIES_ELSEWHERE
    return rows.withColumn("reason", reason).withColumn(
        "verdict",
        F.when(is_wrong_deletion, GcVerdict.WRONG)
        .when(is_right_deletion, GcVerdict.RIGHT)
        .otherwise(GcVerdict.UNKNOWN),
    )


def _copies_under_another_id(
    over_replicated: DataFrame, ledgers: DataFrame, aliases: frozenset[tuple[str, str]]
) -> DataFrame:
    """Return the copies on bookies that the ledger's ensembles name, but by another id of the same bookie.

    ``aliases`` are pairs of ids that belong to the same bookie.
    """
    other_id_rows = make_alias_rows(over_replicated.sparkSession, aliases)
    members = (
        over_replicated.select(*REPLICA)
        .join(F.broadcast(other_id_rows), "bookie_id")
        .join(ledgers.select(*LEDGER, F.col("replicas.bookie_id").alias("members")), [*LEDGER])
    )
    aliased_copies = members.where(F.array_contains("members", F.col("other")))
    return aliased_copies.select(*REPLICA, F.lit(True).alias("other_id")).distinct()


def make_alias_rows(spark: SparkSession, aliases: frozenset[tuple[str, str]]) -> DataFrame:
    """Return each bookie id with an ``other`` id of the same bookie: rows of `ALIASES_SCHEMA`."""
    alias_rows = [dict(zip(ALIASES_SCHEMA.names, alias_pair, strict=True)) for alias_pair in sorted(aliases)]
    return arrow_frame(spark, pa.Table.from_pylist(alias_rows, ALIASES_SCHEMA))


def _find_last_copies(
    over_replicated: DataFrame, judged: DataFrame, verdicts: DataFrame, unequal_replicas: DataFrame
) -> DataFrame:
    """Return the over-replicated copies of ledgers that lost an entry, with the column ``last``.

    ``last`` says whether the copy holds an entry that all members lack.
    """
    lost_ledgers = verdicts.where(F.col("class") == LedgerClass.ENTRY_LOST).select(*LEDGER)
    foreign_replicas = over_replicated.select(*REPLICA).join(lost_ledgers, [*LEDGER], "left_semi")
    missing_entry_groups = judged.select(*LEDGER, "write_quorum", F.col("missing.groups").alias("missing"))
    rows = foreign_replicas.join(unequal_replicas.select(*REPLICA, "held"), [*REPLICA]).join(
        missing_entry_groups, [*LEDGER]
    )

    def flag_last(rows: list[dict[str, Any]]) -> pa.RecordBatch:
        return pa.RecordBatch.from_pylist(
            [{**row, "last": _is_last_copy(row)} for row in rows], schema=_LAST_COPY_SCHEMA
        )

    return map_rows(rows, flag_last, _LAST_COPY_SCHEMA)


def _is_last_copy(row: dict[str, Any]) -> bool | None:
    """Return whether a copy holds an entry that all members lack, or None if the sets are too irregular."""
    missing_entry_groups = [groups_of(entry_groups) for entry_groups in row["missing"]]
    try:
        lost_entries = coverage.at_least(missing_entry_groups, row["write_quorum"])
        return len(coverage.intersection(groups_of(row["held"]), lost_entries)) > 0
    except CoverageLimitError:
        return None


GC_FORESIGHT = make_schema(
    ("bookie_id", pa.string(), "the bookie whose garbage collection is forecast"),
    ("scope_id", pa.int64(), "BP-35 scope; always 0, because servers collect garbage only in scope 0"),
    ("ledger_id", pa.int64(), "a ledger on the bookie"),
    (
        "pass",
        pa.string(),
        "pass of garbage collection. listing: deletes ledgers that the store does not list. "
        "over-replicated: deletes ledgers without the bookie in any ensemble",
    ),
    ("action", pa.string(), "forecast for the ledger: delete or keep"),
    (
        "cause",
        pa.string(),
        "reason why the server deletes the ledger: not-listed, listed-out-of-order, listing-overflows or "
        "in-no-ensemble. Reason why it keeps the ledger: listing-breaks-off, listed-by-another-name, "
        "metadata-read, not-closed, locked, switched-off or no-locks",
    ),
    ("verdict", pa.string(), "whether the forecast action is right: right, wrong or unknown"),
    (
        "reason",
        pa.string(),
        "reason for the verdict: no-metadata, copies-elsewhere, not-collected, kept, "
        "in-its-ensembles, last-copy, under-another-id, metadata-unreadable, members-unknown, "
        "behind-end, copy-in-flight or moved. If it is unknown whether the ledger is an orphan: the "
        "doubts of the check orphan-ledger",
    ),
    (
        "since",
        pa.int64(),
        "scan time (ms since 1970, UTC) of the first run in the unbroken series of runs with this forecast",
    ),
)
"""The table ``gc_foresight``."""


class CollectorInputs(NamedTuple):
    """The settings of the garbage collectors, and the ledgers that the store lists for them.

    ``aliases`` are pairs of ids that belong to the same bookie.
    """

    settings: CollectorSettings
    layout: LayoutKind
    listing: ServerListing
    aliases: frozenset[tuple[str, str]]


def gc_foresight(
    collector: CollectorInputs,
    orphans: DataFrame,
    over_replicated: DataFrame,
    ledgers: DataFrame,
    availability: DataFrame,
    judged: DataFrame,
    verdicts: DataFrame,
    unequal_replicas: DataFrame,
    scan_diffs: DataFrame | None,
    scan_time: int,
    earlier_forecast: DataFrame | None = None,
) -> DataFrame:
    """Forecast the next pass of every bookie's garbage collector: rows of `GC_FORESIGHT`.

    ``orphans`` is the table ``orphans`` with the column ``doubts``
    (`auditor.checks.gc_guards.orphan_doubts`). ``scan_diffs`` has the differences between two scans of
    the ledgers. It is None if only one scan was made.
    ``earlier_forecast`` is the table ``gc_foresight`` of an earlier run, or None. The other DataFrames are
    the tables of these names. ``scan_time`` is in ms.
    """
    unlisted_copies = _forecast_unlisted_ledgers(orphans.where("scope_id = 0"), collector)
    copies = over_replicated.where("scope_id = 0")
    foreign_copies = deletion_verdicts(copies, ledgers, judged, verdicts, unequal_replicas, collector.aliases)
    forecast_rows = unlisted_copies.unionByName(_forecast_over_replicated(foreign_copies, collector))
    if collector.listing.found_ids is not None:
        forecast_rows = forecast_rows.unionByName(
            _forecast_misplaced_replicas(availability, ledgers, foreign_copies, collector)
        )
    if scan_diffs is not None:
        ledgers_changed_since_scan = (
            scan_diffs.where("listed").select(*LEDGER).distinct().withColumn("changed", F.lit(True))
        )
        no_metadata_reason = GcReason.NO_METADATA
        is_verdict_outdated = F.col("changed") & (F.col("reason") != no_metadata_reason)
        forecast_rows = forecast_rows.join(ledgers_changed_since_scan, [*LEDGER], "left").withColumns(
            {
                "verdict": F.when(is_verdict_outdated, GcVerdict.UNKNOWN).otherwise(F.col("verdict")),
                "reason": F.when(is_verdict_outdated, GcReason.CHANGED).otherwise(F.col("reason")),
            }
        )
    rows = add_since_column(forecast_rows, [*REPLICA, "pass", "action"], scan_time, earlier_forecast)
    return rows.select(*GC_FORESIGHT.names)


def find_gc_bookies(earlier_forecast: DataFrame, availability: DataFrame) -> DataFrame:
    """Return the bookies whose garbage collector ran since an earlier run.

    A collector ran if the earlier run expected it to delete a ledger, and the bookie no longer has the
    ledger.
    """
    is_deleted = (F.col("action") == GcAction.DELETE) & (F.col("pass") == GcPass.LISTING)
    stored_replicas = availability.where(F.col("state").isin(*DISK_STATES)).select(*REPLICA).distinct()
    deleted_replicas = (
        earlier_forecast.where(is_deleted).select(*REPLICA).join(stored_replicas, [*REPLICA], "left_anti")
    )
    return deleted_replicas.select("bookie_id", F.lit(True).alias("passed")).distinct()


def _forecast_unlisted_ledgers(orphans: DataFrame, collector: CollectorInputs) -> DataFrame:
    """Forecast what the collector does with ledgers that the store lacks."""
    server_listing = collector.listing
    rows = orphans.withColumn("spared", F.lit(False))
    if server_listing.found_ids is not None:
        ledgers_in_listing = server_listing.found_ids.withColumn("spared", F.lit(True))
        rows = orphans.join(ledgers_in_listing, "ledger_id", "left")
    keep_causes = {
        # For an absent key, the etcd driver returns an error that the collector does not expect.
        GcCause.METADATA_READ: F.lit(
            collector.settings.verify_metadata and collector.layout is LayoutKind.ETCD
        ),
        GcCause.OTHER_NAME: F.lit(not server_listing.has_overflow) & F.coalesce("spared", F.lit(False)),
        GcCause.LISTING_CUT: F.lit(False)
        if server_listing.last_compared_id is None
        else F.col("ledger_id") > F.lit(server_listing.last_compared_id),
    }
    delete_cause = GcCause.LIST_OVERFLOW if server_listing.has_overflow else GcCause.NOT_LISTED
    cause = _first_cause(keep_causes, delete_cause)
    has_delete_cause = cause == delete_cause
    has_doubts = F.size("doubts") > 0
    certain_reason = F.when(has_delete_cause, GcReason.NO_METADATA).otherwise(GcReason.NOT_COLLECTED)
    verdict = F.when(has_delete_cause, GcVerdict.RIGHT).otherwise(GcVerdict.WRONG)
    verdict = F.when(has_doubts, GcVerdict.UNKNOWN).otherwise(verdict)
    return _forecast(
        rows,
        GcPass.LISTING,
        has_delete_cause,
        cause,
        verdict,
        F.when(has_doubts, F.col("doubts")[0]).otherwise(certain_reason),
    )


def _forecast_over_replicated(rows: DataFrame, collector: CollectorInputs) -> DataFrame:
    """Forecast what the collector does with ledgers whose ensembles do not name the bookie.

    By default, the collector examines these ledgers once a day.
    """
    keep_causes = {
        GcCause.SWITCHED_OFF: F.lit(collector.settings.over_replicated_wait_ms <= 0),
        GcCause.NO_LOCKS: F.lit(collector.layout is LayoutKind.ETCD),
        GcCause.NOT_CLOSED: F.col("state") != LedgerState.CLOSED,
        GcCause.LOCKED: F.col("locked"),
    }
    cause = _first_cause(keep_causes, GcCause.IN_NO_ENSEMBLE)
    has_delete_cause = cause == GcCause.IN_NO_ENSEMBLE
    verdict = F.when(has_delete_cause, F.col("verdict")).otherwise(GcVerdict.RIGHT)
    reason = F.when(has_delete_cause, F.col("reason")).otherwise(GcReason.KEPT)
    return _forecast(rows, GcPass.OVER_REPLICATED, has_delete_cause, cause, verdict, reason)


def _forecast_misplaced_replicas(
    availability: DataFrame, ledgers: DataFrame, foreign_copies: DataFrame, collector: CollectorInputs
) -> DataFrame:
    """Forecast what the collector does with ledgers that the store has, but that its pass does not find.

    The pass looks for the ledgers in the store's listing of ledgers. ``foreign_copies`` are copies on
    bookies that no ensemble names. They have the verdicts of `deletion_verdicts`.
    """
    server_listing, settings = collector.listing, collector.settings
    assert server_listing.found_ids is not None
    rows = ledgers.where(F.col("status").isin(*LISTED) & (F.col("scope_id") == 0))
    if not server_listing.has_overflow:
        rows = rows.join(server_listing.found_ids, "ledger_id", "left_anti")
    if server_listing.last_compared_id is not None:
        rows = rows.where(F.col("ledger_id") <= F.lit(server_listing.last_compared_id))
    is_unreadable_metadata = (F.col("status") == LedgerStatus.UNREADABLE) | F.col("undecidable")
    ledger_members = rows.select(
        *LEDGER, is_unreadable_metadata.alias("unreadable"), F.col("replicas.bookie_id").alias("members")
    )
    # Interleaved and Sorted storages do not list the greatest id among their ledgers.
    is_compared_by_collector = (F.col("ledger_id") < F.lit(MAX_LEDGER_ID)) | (F.col("storage") != "idx")
    stored_replicas = (
        availability.where(F.col("state").isin(*DISK_STATES) & is_compared_by_collector)
        .select(*REPLICA)
        .distinct()
    )
    replicas = stored_replicas.join(ledger_members, [*LEDGER]).join(
        foreign_copies.select(*REPLICA, "verdict", "reason"), [*REPLICA], "left"
    )
    is_member = F.array_contains("members", F.col("bookie_id"))
    # The record exists at its own path, also in etcd, so reading it succeeds.
    keep_causes = {GcCause.METADATA_READ: F.lit(settings.verify_metadata) & (F.col("unreadable") | is_member)}
    delete_cause = GcCause.LIST_OVERFLOW if server_listing.has_overflow else GcCause.OUT_OF_ORDER
    cause = _first_cause(keep_causes, delete_cause)
    has_delete_cause = cause == delete_cause
    verdict = (
        F.when(~has_delete_cause, GcVerdict.RIGHT)
        .when(F.col("unreadable"), GcVerdict.UNKNOWN)
        .when(is_member, GcVerdict.WRONG)
        .otherwise(F.coalesce("verdict", F.lit(GcVerdict.UNKNOWN)))
    )
    reason = (
        F.when(~has_delete_cause, GcReason.KEPT)
        .when(F.col("unreadable"), GcReason.METADATA_UNREADABLE)
        .when(is_member, GcReason.MEMBER)
        .otherwise(F.coalesce("reason", F.lit(GcReason.MEMBERS_UNKNOWN)))
    )
    return _forecast(replicas, GcPass.LISTING, has_delete_cause, cause, verdict, reason)


def _first_cause(keep_causes: dict[GcCause, Column], default_cause: GcCause) -> Column:
    """Return, for each row, the first cause in ``keep_causes`` whose condition is true.

    If no condition is true, return ``default_cause``.
    """
    keep_cause = F.coalesce(
        *(F.when(cause_condition, F.lit(cause)) for cause, cause_condition in keep_causes.items())
    )
    return F.coalesce(keep_cause, F.lit(default_cause))


def _forecast(
    rows: DataFrame, gc_pass: GcPass, has_delete_cause: Column, cause: Column, verdict: Column, reason: Column
) -> DataFrame:
    return rows.select(
        *REPLICA,
        F.lit(gc_pass).alias("pass"),
        F.when(has_delete_cause, GcAction.DELETE).otherwise(GcAction.KEEP).alias("action"),
        cause.alias("cause"),
        verdict.alias("verdict"),
        reason.alias("reason"),
    )
