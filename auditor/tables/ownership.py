"""ownership: every owner's reference together with the ledger it names, and every ledger that no owner names.

Owners and ledgers are joined once, by ledger id. The result has one row per reference, and one per ledger
without a reference. The application's ledgers are in scope 0, like all ledgers of an unmodified BookKeeper.
The owner and the ledger together give the value of the column ``standing``:

    owned       the ledger exists and an owner names it
    offloaded   the ledger is gone, because its owner replaced it by a copy in an object store: no fault
    dangling    an owner names the ledger, and no scan of the ledgers has it
    unowned     the ledger's custom metadata names an owner, which was read and no longer names the ledger
    young       no owner names the ledger, and it is younger than --owner-grace: its owner may still add it
    unknown     an owner of the ledger, or the ledger itself, may exist unseen: ``why`` says what was not read
    foreign     no owner names the ledger. It claims another application, or a namespace that no store has
    unnamed     no owner names the ledger, and its custom metadata names no owner

The audit reads ledgers, then owners, then ledgers again. A saved store is read once. A ledger that only one
scan lists was created or deleted meanwhile, which is no fault.

A ledger is owned if any store of owners names it. The custom metadata of a ledger tells which owner it claims
(`auditor.tables.claims`), but not the store. A claim in a namespace that no store has is foreign: an owner
that was not read may name the ledger.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from auditor.model.columns import OWNER, make_schema
from auditor.model.owner_scope import ROLLOVER_MS
from auditor.spark import functions as F
from auditor.spark.batches import select_columns
from auditor.spark.types import Column, DataFrame
from auditor.tables.claims import application_of, claim_of, namespace_of, path_below_root
from auditor.tables.scans import add_both_doubt_columns, deleted_ids, new_ids

OWNERSHIP = make_schema(
    ("scope_id", pa.int64(), "always 0, because applications use no scopes"),
    ("ledger_id", pa.int64(), "the ledger; null: the owner refers to no ledger, or could not be read"),
    (
        "standing",
        pa.string(),
        "state of ownership: owned, offloaded, dangling, unowned, young, unknown, foreign or unnamed; null: "
        "no ledger",
    ),
    ("fault", pa.string(), "id of the check that reports the fault of the row; null: no fault"),
    ("why", pa.string(), "reason for a standing of unknown or foreign, or for a doubt, such as unread data"),
    (
        "seen_before",
        pa.bool_(),
        "for an unowned ledger: whether an earlier run also found it unowned. That run must be older "
        "by at least --owner-grace, and by at least 4 hours (a rollover)",
    ),
    ("store", pa.string(), "owner store that refers to the ledger, or was the last to do so; null: no store"),
    (
        "namespace_read",
        pa.bool_(),
        "whether an owner store contains the namespace in the ledger's custom metadata; null: no namespace",
    ),
    ("listed_before", pa.bool_(), "whether an earlier run saw an owner that refers to the ledger"),
    (
        "dropped_since",
        pa.int64(),
        "scan time (ms since 1970, UTC) of the first run that saw no owner, after a run that saw one. "
        "null: no such run",
    ),
    (
        "application",
        pa.string(),
        "application named by the owner's reference, or by the custom metadata if no owner refers to "
        "the ledger",
    ),
    ("kind", pa.string(), "data, cursor, schema, compacted, delayed-bucket, log-segment or log-allocation"),
    ("tenant", pa.string(), "tenant"),
    ("namespace", pa.string(), "namespace"),
    ("topic", pa.string(), "local name of the topic, with its partition or segment"),
    ("cursor", pa.string(), "the subscription"),
    ("detail", pa.string(), "version of the schema, or name of the delayed-delivery bucket"),
    ("path", pa.string(), "the owner's znode"),
    ("claim", pa.string(), "owner's znode according to the ledger's custom metadata; without a known chroot"),
    ("place", pa.int64(), "position of the ledger in the topic's list, counted from 0"),
    ("list_size", pa.int64(), "number of ledgers in the topic's list"),
    ("entries", pa.int64(), "number of entries according to the owner's record"),
    ("size", pa.int64(), "number of bytes according to the owner's record"),
    ("offload", pa.string(), "incomplete, complete or deleted (from BookKeeper); null: never offloaded"),
    ("offload_uid", pa.string(), "UUID in the names of the offloaded objects"),
    ("borrowed", pa.bool_(), "true: a shadow topic has the reference, and another topic owns the ledger"),
    ("mark_delete_ledger_id", pa.int64(), "for a cursor: ledger of the acknowledged position"),
    ("mark_delete_entry_id", pa.int64(), "for a cursor: entry of the acknowledged position"),
    ("state", pa.string(), "OPEN, IN_RECOVERY or CLOSED; null: not listed, or unreadable"),
    ("last_entry_id", pa.int64(), "last entry of the closed ledger"),
    ("length", pa.int64(), "length of the closed ledger in bytes"),
    ("ctime", pa.int64(), "time when the ledger was created (ms since 1970, UTC); null: not known"),
    ("damage", pa.string(), "reason why the owner could not be read"),
    ("damage_offset", pa.int64(), "byte offset in the value at which decoding failed"),
)

MAX_UNLISTED_PATHS, MAX_UNREAD_PATHS = 1000, 200_000
"""Largest numbers of unlisted and unread paths in owners' trees. With more, no ledger counts as unowned."""

NO_AGE_REASON = "the ledger's creation time is not known"
"""Reason for the standing unknown of a ledger without an owner if the store keeps no times (etcd)."""

SHORT_GRACE_REASON = (
    "--owner-grace is shorter than 4 hours, the usual ledger rollover time of brokers. A broker may still "
    "add this ledger to its topic"
)
"""Reason why a ledger without an owner is not confirmed as unowned: the grace is short."""

DANGLING_FAULT, UNOWNED_FAULT = "owner-dangling", "ledger-unowned"
LENGTH_FAULT, MISATTRIBUTED_FAULT, UNREADABLE_FAULT = (
    "owner-length-mismatch",
    "ledger-misattributed",
    "owner-unreadable",
)
INCOMPLETE_FAULT, NOT_TRIMMED_FAULT = "offload-incomplete", "offload-not-trimmed"

_REFERENCE = (
    *OWNER, "place", "list_size",
    "entries", "size", "timestamp", "offload", "offload_uid", "offload_time", "borrowed",
    "mark_delete_ledger_id", "mark_delete_entry_id", "mzxid", "mtime",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ReadTimes:
    """The times of the reads, in ms. A ledger younger than ``grace_ms`` at ``scan_time`` is never unowned.

    ``chroots`` has, for each store, the path above the owners' trees. ``first_zxid`` is the zxid at the first
    scan if the same running ZooKeeper has both ledgers and owners, else None. ``first_scan_time`` is the
    start of the first scan if only clocks can show which owners changed later, else None. ``mismatch_reason``
    says why owners and ledgers may not belong together. It is None if they do.
    """

    scan_time: int
    grace_ms: int
    chroots: Mapping[str, str] = field(default_factory=dict)
    first_zxid: int | None = None
    first_scan_time: int | None = None
    mismatch_reason: str | None = None


def ownership(
    ledgers: DataFrame,
    owners: DataFrame,
    moves: DataFrame | None,
    doubtful_rows: DataFrame,
    earlier_ownership: DataFrame | None,
    newest_ownership: DataFrame | None,
    applications: tuple[str, ...],
    times: ReadTimes,
) -> DataFrame:
    """Return the rows of `OWNERSHIP`.

    Args:
        ledgers: The table of that name.
        owners: The table of that name.
        moves: Differences between two scans of a live store (`auditor.tables.scans`), or None.
        doubtful_rows: Ids that a scan may have missed.
        earlier_ownership: The table ``ownership`` of a run that is older by ``grace_ms`` or more, or None.
        newest_ownership: The table ``ownership`` of the newest earlier run, or None if there is none.
        applications: Applications whose owners were read.
        times: Times of the reads (`ReadTimes`).
    """
    owners = owners.withColumn("below_root", path_below_root(times.chroots))
    listed_ledgers = _list_ledgers(ledgers, moves)
    references = owners.where("status = 'ok' and ledger_id is not null").select(
        "ledger_id", *_REFERENCE, "below_root", "store"
    )
    ownership_rows = listed_ledgers.join(references, "ledger_id", "full_outer").withColumn(
        "scope_id", F.lit(0).cast("bigint")
    )
    ownership_rows = _add_namespaces(_add_block_reason(ownership_rows, owners), owners)
    ownership_rows = _add_list_history(ownership_rows, newest_ownership, times.scan_time)
    # Either scan may have missed a ledger. If both may have, the reason is that of the first.
    ownership_rows = add_both_doubt_columns(ownership_rows, doubtful_rows).withColumn(
        "doubt", F.coalesce("first", "second")
    )
    ownership_rows = _add_seen_before(ownership_rows, earlier_ownership).withColumn(
        "standing", _standing_column(applications, times)
    )
    ownership_rows = ownership_rows.withColumns(
        {
            "why": _reason_column(applications, times),
            "fault": _fault_column(times),
            "application": F.coalesce("application", "said"),
        }
    )
    ownership_rows = ownership_rows.withColumn("claim", F.concat(_find_chroot(times.chroots), "claim"))
    unread_fault = F.when(F.col("status") != "ok", UNREADABLE_FAULT)
    unread_rows = owners.where("ledger_id is null").drop("ctime", "mtime").withColumn("fault", unread_fault)
    return select_columns(ownership_rows, OWNERSHIP).unionByName(select_columns(unread_rows, OWNERSHIP))


def _find_chroot(chroots: Mapping[str, str]) -> Column:
    """Return the chroot of all stores if they have the same one, else that of the row's store, or ""."""
    distinct_chroots = {*chroots.values()}
    chroot = F.lit(next(iter(distinct_chroots)) if len(distinct_chroots) == 1 else "")
    if len(distinct_chroots) > 1:
        for store, path in chroots.items():
            chroot = F.when(F.col("store") == store, path).otherwise(chroot)
    return chroot


def _list_ledgers(ledgers: DataFrame, moves: DataFrame | None) -> DataFrame:
    """Return the ledgers with 64-bit ids that any scan lists. ``settled`` says whether both list them."""
    rows = ledgers.where("scope_id = 0 and status in ('ok', 'broken', 'unreadable')").select(
        "ledger_id",
        "state",
        "last_entry_id",
        "length",
        F.coalesce("ctime", "metadata_ctime").alias("ctime"),
        application_of(F.col("custom_metadata")).alias("said"),
        claim_of(F.col("custom_metadata")).alias("claim"),
        F.lit(True).alias("there"),
    )
    if moves is None:
        return rows.withColumn("settled", F.lit(True))
    # A ledger that the second scan lacks was deleted meanwhile, so its owner need not name it.
    deleted_ledgers = deleted_ids(moves).where("scope_id = 0").select("ledger_id", F.lit(True).alias("gone"))
    rows = (
        rows.join(deleted_ledgers, "ledger_id", "left")
        .withColumn("settled", F.col("gone").isNull())
        .drop("gone")
    )
    new_ledger_ids = new_ids(moves).where("scope_id = 0").select("ledger_id")
    new_ledger_ids = new_ledger_ids.withColumns({"there": F.lit(True), "settled": F.lit(False)})
    return rows.unionByName(new_ledger_ids, allowMissingColumns=True)


def _add_block_reason(rows: DataFrame, owners: DataFrame) -> DataFrame:
    """Add ``blocked``: why the owner that a ledger claims was not read. Null if it was read or is absent."""
    unread_reason = F.when(F.col("status").isin("unreadable", "misplaced"), F.col("damage"))
    stale_reason = F.when(
        F.col("stale"), F.lit("a newer reference may be in the last entry of the cursor's ledger")
    )
    # An unreadable value may name the ledger. A stale value may have changed since.
    unread_paths = owners.where((F.col("status") != "ok") & (F.col("status") != "gap") | F.col("stale"))
    path_reason = F.concat("path", F.lit(": "), F.coalesce(unread_reason, stale_reason))
    unread_paths = unread_paths.groupBy(F.col("below_root").alias("claim")).agg(
        F.min(path_reason).alias("unread")
    )
    gap_paths = owners.where("status = 'gap'").select(
        F.col("below_root").alias("gap"), F.concat("path", F.lit(": "), "damage").alias("unlisted")
    )
    # An inner znode that was not listed hides every owner below it.
    is_below_gap = (F.col("claim") == F.col("gap")) | F.col("claim").startswith(F.concat("gap", F.lit("/")))
    unlisted_claims = rows.where("claim is not null and path is null").select("ledger_id", "claim")
    unlisted_claims = unlisted_claims.join(F.broadcast(gap_paths.limit(MAX_UNLISTED_PATHS)), is_below_gap)
    unlisted_claims = unlisted_claims.groupBy("ledger_id").agg(F.min("unlisted").alias("unlisted"))
    # Both lists are broadcast, so their sizes are limited. Beyond the limits no ledger counts as unowned.
    gap_counts = gap_paths.groupBy().count().select((F.col("count") > MAX_UNLISTED_PATHS).alias("many"))
    gap_counts = gap_counts.crossJoin(
        unread_paths.groupBy().count().select((F.col("count") > MAX_UNREAD_PATHS).alias("more"))
    )
    blocked_rows = rows.join(unlisted_claims, "ledger_id", "left").join(
        F.broadcast(unread_paths.limit(MAX_UNREAD_PATHS)), "claim", "left"
    )
    too_many_gaps_reason = F.when(
        F.col("many") | F.col("more"), F.lit("too many paths in the owner stores were not read")
    )
    block_reason = F.coalesce("unlisted", "unread", too_many_gaps_reason)
    return blocked_rows.crossJoin(F.broadcast(gap_counts)).withColumn("blocked", block_reason)


def _add_namespaces(rows: DataFrame, owners: DataFrame) -> DataFrame:
    """Add ``claimed_namespace``, and ``namespace_read``: if a store has it. Both are null without a claim."""
    name = "claimed_namespace"
    namespaces_of_stores = owners.select(namespace_of(F.col("below_root")).alias(name)).where(
        F.col(name).isNotNull()
    )
    namespaces_of_stores = namespaces_of_stores.distinct().withColumn("has_namespace", F.lit(True))
    joined_rows = rows.withColumn(name, namespace_of(F.col("claim"))).join(namespaces_of_stores, name, "left")
    has_namespace = F.coalesce("has_namespace", F.lit(False))
    return joined_rows.withColumn("namespace_read", F.when(F.col("claim").isNotNull(), has_namespace))


def _add_list_history(rows: DataFrame, prior_rows: DataFrame | None, scan_time: int) -> DataFrame:
    """Add ``listed_before`` (had an owner), ``dropped_since`` (lost its owner), and the last ``store``."""
    # A dropped ledger stays dropped. Else the next run would trust a store that lost its lists.
    if prior_rows is None:
        return rows.withColumns({"listed_before": F.lit(False), "dropped_since": F.lit(None).cast("bigint")})
    # Runs of earlier releases have neither column.
    dropped_since, store = (
        F.min(name).alias(f"{name}_then")
        if name in prior_rows.columns
        else F.lit(None).cast(column_type).alias(f"{name}_then")
        for name, column_type in (("dropped_since", "bigint"), ("store", "string"))
    )
    is_dropped = F.col("dropped_since").isNotNull() if "dropped_since" in prior_rows.columns else F.lit(False)
    owned_ledgers = prior_rows.where((F.col("standing") == "owned") | is_dropped).groupBy("ledger_id")
    earlier_owners = owned_ledgers.agg(F.lit(True).alias("had_owner"), dropped_since, store)
    joined_rows = rows.join(earlier_owners, "ledger_id", "left")
    has_lost_owner = F.col("had_owner") & F.col("path").isNull() & F.col("there") & F.col("settled")
    return joined_rows.withColumns(
        {
            "listed_before": F.coalesce("had_owner", F.lit(False)),
            "dropped_since": F.when(has_lost_owner, F.coalesce("dropped_since_then", F.lit(scan_time))),
            "store": F.coalesce("store", "store_then"),
        }
    )


def _add_seen_before(rows: DataFrame, earlier_ownership: DataFrame | None) -> DataFrame:
    """Add ``seen_before``: an earlier run found the ledger unowned, or unknown only because of its age."""
    # The earlier run is older by the grace, so all its ledgers are older than the grace.
    if earlier_ownership is None:
        return rows.withColumn("seen_before", F.lit(False))
    has_no_age = (F.col("standing") == "unknown") & (F.col("why") == NO_AGE_REASON)
    earlier_unowned = (
        earlier_ownership.where((F.col("standing") == "unowned") | has_no_age).select("ledger_id").distinct()
    )
    rows_with_earlier_run = rows.join(earlier_unowned.withColumn("before", F.lit(True)), "ledger_id", "left")
    return rows_with_earlier_run.withColumn("seen_before", F.coalesce("before", F.lit(False)))


def _standing_column(applications: tuple[str, ...], times: ReadTimes) -> Column:
    is_listed, has_owner = F.col("there").isNotNull(), F.col("path").isNotNull()
    # A ledger replaced by its offloaded copy is no fault; a shadow topic lists ledgers of another topic.
    absence_reason = F.when(F.col("offload") == "deleted", "offloaded").when(F.col("borrowed"), "unknown")
    ledger_age_ms = F.lit(times.scan_time) - F.col("ctime")
    is_undecided = (
        F.col("claim").isNull()
        | (F.col("ctime").isNull() & ~F.col("seen_before"))
        | F.col("blocked").isNotNull()
        | ~F.col("settled")
    )
    standing_without_owner = (
        F.when(F.col("said").isNull(), "unnamed")
        .when(~F.col("said").isin(*applications), "foreign")
        .when(ledger_age_ms <= times.grace_ms, "young")
        .when(_is_foreign(), "foreign")
        .when(is_undecided, "unknown")
        .otherwise("unowned")
    )
    return (
        F.when(is_listed & has_owner, "owned")
        .when(has_owner, absence_reason.otherwise("dangling"))
        .otherwise(standing_without_owner)
    )


def _is_foreign() -> Column:
    """Return whether no store has the claim's namespace, and no unread path may have the claimed owner."""
    return ~F.coalesce("namespace_read", F.lit(True)) & F.col("blocked").isNull() & F.col("settled")


def _reason_column(applications: tuple[str, ...], times: ReadTimes) -> Column:
    change_reason = (
        F.when(F.col("mzxid") > times.first_zxid, "the ledger's owner changed while the metadata was read")
        if times.first_zxid is not None
        else F.lit(None)
    )
    if times.first_scan_time is not None:
        may_be_changed = F.coalesce(F.col("mtime") >= times.first_scan_time, F.lit(True))
        change_reason = F.when(
            may_be_changed, "the ledger's owner may have changed while the metadata was read"
        )
    identity_reason, grace_reason = (
        F.lit(times.mismatch_reason),
        F.lit(SHORT_GRACE_REASON if times.grace_ms < ROLLOVER_MS else None),
    )
    unknown_reason = F.coalesce(
        F.when(F.col("borrowed"), "a shadow topic may list ledgers that its source topic no longer has"),
        F.when(~F.col("settled"), "the ledger was created or deleted while the metadata was read"),
        F.when(F.col("claim").isNull(), "the ledger's custom metadata does not name its owner"),
        F.col("blocked"),
        F.when(F.col("ctime").isNull(), NO_AGE_REASON),
    )
    return (
        F.when(F.col("standing") == "unknown", unknown_reason)
        .when(F.col("standing") == "dangling", F.coalesce("doubt", change_reason, identity_reason))
        .when(F.col("standing") == "unowned", F.coalesce(identity_reason, grace_reason))
        .when(
            (F.col("standing") == "foreign") & ~F.col("namespace_read") & F.col("said").isin(*applications),
            F.concat(F.lit("no owner store that was read contains the namespace "), "claimed_namespace"),
        )
    )


def _fault_column(times: ReadTimes) -> Column:
    """Return the name of the check that reports the fault of a row with a ledger; null without a fault."""
    is_owned = F.col("standing") == "owned"
    is_data = is_owned & (F.col("kind") == "data") & ~F.col("borrowed")
    entries_column, size_column = F.col("entries"), F.col("size")
    is_length_wrong = (F.col("state") == "CLOSED") & (
        (entries_column != F.col("last_entry_id") + 1) | (size_column != F.col("length"))
    )
    has_exact_length = F.col("kind").isin("data", "cursor", "schema") & ~F.col("borrowed")
    # The grace of an unfinished offload starts at the last of these events.
    grace_start = F.greatest("ctime", "timestamp", "offload_time")
    is_past_grace = F.lit(times.scan_time) - grace_start > times.grace_ms
    return (
        F.when(F.col("standing") == "dangling", DANGLING_FAULT)
        .when(F.col("standing") == "unowned", UNOWNED_FAULT)
        .when(is_owned & has_exact_length & (F.col("claim") != F.col("below_root")), MISATTRIBUTED_FAULT)
        .when(is_data & is_length_wrong, LENGTH_FAULT)
        .when(is_data & is_past_grace & (F.col("offload") == "incomplete"), INCOMPLETE_FAULT)
        .when(is_data & is_past_grace & F.col("offload").isin("complete", "deleted"), NOT_TRIMMED_FAULT)
    )
