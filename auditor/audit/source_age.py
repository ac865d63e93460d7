"""Age of the bookies' data relative to the metadata, and data of another time or cluster.

File times alone prove nothing: the index of an idle bookie is old. A bookie's directories are older than the
metadata if two facts hold. The metadata has ledgers whose entries went to the bookie more than
`MAX_SOURCE_AGE_MS` after the bookie's newest file. The bookie's index has none of these ledgers. A collection
is as old as the time recorded in it.
"""

from collections.abc import Mapping

from auditor.audit.bookies import ClusterBookies
from auditor.audit.index_scan import Indexes
from auditor.audit.metadata_scan import FirstScan
from auditor.model.amounts import duration, format_time, plural
from auditor.model.columns import LEDGER, REPLICA
from auditor.model.states import ON_DISK, LedgerStatus
from auditor.sources.clock import now_ms
from auditor.spark import functions as F
from auditor.tables.registry import store_cookies

MAX_SOURCE_AGE_MS = 3_600_000
"""Largest age of bookie data relative to the metadata at which the data still proves absence, in ms."""


def find_old_sources(first: FirstScan, indexes: Indexes) -> dict[str, str]:
    """Return bookies whose data is older than the metadata, each with the reason.

    Collections from the future are included, because their age is unknown. Runs up to two queries, and only
    if files of a bookie are old.
    """
    scan_time, audit_time = first.source.scan_time, now_ms()
    reasons = {
        name: f"its collection was made {format_time(made_at)}, after this audit; a clock was wrong, "
        "and the age of the collection is unknown"
        for name, made_at in collection_times(indexes.bookies).items()
        if made_at > audit_time + MAX_SOURCE_AGE_MS
    }
    reasons |= {
        name: f"its collection was made {format_time(made_at)}, {_describe_age(made_at, scan_time)}"
        for name, made_at in collection_times(indexes.bookies).items()
        if made_at + MAX_SOURCE_AGE_MS < scan_time
    }
    last_writes = {
        name: last_write
        for name in indexes.bookies.members
        if name not in reasons and not indexes.bookies.unseen(name)
        if (last_write := indexes.newest(name)) is not None and last_write + MAX_SOURCE_AGE_MS < scan_time
    }
    for name, ledgers in _count_later_ledgers(first, indexes, last_writes).items():
        last_write = last_writes[name]
        reasons[name] = (
            f"its newest file is of {format_time(last_write)}, "
            f"{_describe_age(last_write, scan_time)}; its index lacks {plural(ledgers, 'ledger')} "
            "of which the bookie received entries later"
        )
    return reasons


def _describe_age(time: int, scan_time: int) -> str:
    return f"{duration((scan_time - time) / 1000)} before the metadata"


def collection_times(bookies: ClusterBookies) -> dict[str, int]:
    """Return the time of each bookie's oldest collection with an index, in ms."""
    times_by_id = {manifest.id: manifest.made for _, manifest in bookies.collected.readable_collections}
    times: dict[str, int] = {}
    for collection_piece, owner in bookies.settled.owner_of_piece.items():
        collection = times_by_id.get(collection_piece.rpartition(":")[0])
        if collection is not None:
            times[owner.bookie_id] = min(collection, times.get(owner.bookie_id, collection))
    return times


def find_foreign_sources(first: FirstScan, bookies: ClusterBookies) -> dict[str, str]:
    """Return a reason for each bookie if all directories belong to another cluster, else an empty dict.

    If only some bookies' directories are foreign, their disks were exchanged. That is a fault of the bookies,
    not of the source. The dict is also empty if a bookie has no cookie with the store's own instance id: the
    store may have been formatted while the bookies ran.
    """
    bookie_ids = [name for name, bookie in bookies.attribution.bookies.items() if bookie.has_directory]
    own_instance_bookies = {
        cookie.bookie_id
        for cookie in store_cookies(first.nodes)
        if cookie.cookie is not None and cookie.cookie.instance_id == first.source.instance_id
    }
    if len(bookie_ids) < 2 or not {*bookie_ids} <= {*bookies.foreign} & own_instance_bookies:
        return {}
    reason = "the directories of all bookies that were found carry another cluster's instance id"
    return dict.fromkeys(bookie_ids, reason)


def _count_later_ledgers(
    first: FirstScan, indexes: Indexes, last_writes: Mapping[str, int]
) -> dict[str, int]:
    """Count, for each bookie, the ledgers that sent entries to the bookie after its last write to disk.

    Bookies with any of these ledgers in their index are left out. A ledger does not count while its entries
    may still be in flight (`auditor.tables.accounts`).
    """
    if not last_writes:
        return {}
    latest_allowed_times = {name: last_write + MAX_SOURCE_AGE_MS for name, last_write in last_writes.items()}
    limits = [F.lit(limit_part) for pair in latest_allowed_times.items() for limit_part in pair]
    replica, limit = F.col("replica"), F.create_map(*limits)[F.col("bookie_id")]
    later_ledgers = (
        first.ledgers.where((F.col("ctime") > min(latest_allowed_times.values())) & ~F.col("undecidable"))
        .where(F.col("status") == LedgerStatus.OK)
        .select(*LEDGER, "ctime", F.explode("replicas").alias("replica"))
        .where(F.length(replica["groups"]) > 0)
        .select(*LEDGER, "ctime", replica["bookie_id"].alias("bookie_id"))
        .where(F.col("ctime") > limit)
    )
    indexed = indexes.rows.where(F.col("state").isin(*ON_DISK)).select(*REPLICA, F.lit(True).alias("indexed"))
    counts = (
        later_ledgers.join(indexed.distinct(), [*REPLICA], "left")
        .groupBy("bookie_id")
        .agg(F.count("*").alias("ledgers"), F.count("indexed").alias("indexed"))
        .where("indexed = 0")
    )
    return {row["bookie_id"]: row["ledgers"] for row in counts.collect()}
