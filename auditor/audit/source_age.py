"""Age of the bookies' data relative to the metadata, and data from a different time or cluster.

File times alone prove nothing, because an idle bookie has an old index that is up to date. A bookie's
directories count as older than the metadata if two facts are true. First, the metadata has ledgers whose
entries went to the bookie more than `MAX_SOURCE_AGE_MS` after the bookie's newest file. Second, the
bookie's index has none of these ledgers. A collection itself records its age.
"""

from collections.abc import Mapping

from auditor.audit.bookies import ClusterBookies
from auditor.audit.index_scan import Indexes
from auditor.audit.metadata_scan import FirstScan
from auditor.model.amounts import duration, format_time, plural
from auditor.model.columns import LEDGER, REPLICA
from auditor.model.states import DISK_STATES, LedgerStatus
from auditor.sources.clock import now_ms
from auditor.spark import functions as F
from auditor.tables.registry import store_cookies

MAX_SOURCE_AGE_MS = 3_600_000
"""Largest age of bookie data relative to the metadata at which the data still proves absence, in ms."""


def find_old_sources(first_scan: FirstScan, indexes: Indexes) -> dict[str, str]:
    """Return the reason for each bookie whose data is older than the metadata.

    The result includes bookies whose collection has a time in the future, because the age of their data is
    unknown. If files of a bookie are old, the function runs up to two Spark queries.
    """
    scan_time, audit_time = first_scan.source.scan_time, now_ms()
    reasons = {
        name: f"the collection is dated {format_time(collection_time)}, after this audit; a clock was wrong, "
        "so the age of the collection is unknown"
        for name, collection_time in collection_times(indexes.bookies).items()
        if collection_time > audit_time + MAX_SOURCE_AGE_MS
    }
    reasons |= {
        name: f"the bookie's collection was made {format_time(time)}, {_describe_age(time, scan_time)}"
        for name, time in collection_times(indexes.bookies).items()
        if time + MAX_SOURCE_AGE_MS < scan_time
    }
    last_writes = {
        name: last_write
        for name in indexes.bookies.members
        if name not in reasons and not indexes.bookies.has_no_index(name)
        if (last_write := indexes.newest_file_time(name)) is not None
        and last_write + MAX_SOURCE_AGE_MS < scan_time
    }
    for name, ledgers in _count_later_ledgers(first_scan, indexes, last_writes).items():
        last_write = last_writes[name]
        reasons[name] = (
            f"the bookie's newest file was written {format_time(last_write)}, "
            f"{_describe_age(last_write, scan_time)}; its index lacks {plural(ledgers, 'ledger')} "
            "whose entries the bookie received later"
        )
    return reasons


def _describe_age(data_time: int, scan_time: int) -> str:
    return f"{duration((scan_time - data_time) / 1000)} before the metadata"


def collection_times(bookies: ClusterBookies) -> dict[str, int]:
    """Return, by bookie id, the time in ms of the bookie's oldest collection that contains an index."""
    time_by_collection = {
        manifest.id: manifest.made for _, manifest in bookies.collection_places.readable_collections
    }
    oldest_times: dict[str, int] = {}
    for piece_id, owner in bookies.directory_owners.owner_by_piece_id.items():
        collection_time = time_by_collection.get(piece_id.rpartition(":")[0])
        if collection_time is not None:
            oldest_times[owner.bookie_id] = min(
                collection_time, oldest_times.get(owner.bookie_id, collection_time)
            )
    return oldest_times


def find_foreign_sources(first_scan: FirstScan, bookies: ClusterBookies) -> dict[str, str]:
    """Return a reason for each bookie if the directories of all bookies belong to another cluster.

    Otherwise the result is empty. If the directories of some bookies belong to this cluster, the source is
    right, and the other bookies' disks were swapped. The result is also empty if a bookie's cookie is missing
    from the store, or if its instance id differs from that of the store. In that case the store may have been
    formatted while the bookies ran.
    """
    bookie_ids = [name for name, bookie in bookies.attribution.bookies.items() if bookie.has_directory]
    own_instance_bookies = {
        cookie.bookie_id
        for cookie in store_cookies(first_scan.nodes)
        if cookie.cookie is not None and cookie.cookie.instance_id == first_scan.source.instance_id
    }
    if len(bookie_ids) < 2 or not {*bookie_ids} <= {*bookies.foreign_bookies} & own_instance_bookies:
        return {}
    reason = "all directories of bookies that were found have the instance id of another cluster"
    return dict.fromkeys(bookie_ids, reason)


def _count_later_ledgers(
    first_scan: FirstScan, indexes: Indexes, last_writes: Mapping[str, int]
) -> dict[str, int]:
    """Return, for each bookie, the number of ledgers whose entries went to it after its last write to disk.

    A bookie is left out if its index has one of these ledgers. A ledger is left out if the bookie may not
    have received its entries yet (`auditor.tables.accounts`).
    """
    if not last_writes:
        return {}
    last_allowed_times = {name: last_write + MAX_SOURCE_AGE_MS for name, last_write in last_writes.items()}
    time_limit_map_items = [
        F.lit(id_or_time_limit)
        for time_by_bookie in last_allowed_times.items()
        for id_or_time_limit in time_by_bookie
    ]
    replica, time_limit = F.col("replica"), F.create_map(*time_limit_map_items)[F.col("bookie_id")]
    later_ledgers = (
        first_scan.ledgers.where((F.col("ctime") > min(last_allowed_times.values())) & ~F.col("undecidable"))
        .where(F.col("status") == LedgerStatus.OK)
        .select(*LEDGER, "ctime", F.explode("replicas").alias("replica"))
        .where(F.length(replica["groups"]) > 0)
        .select(*LEDGER, "ctime", replica["bookie_id"].alias("bookie_id"))
        .where(F.col("ctime") > time_limit)
    )
    indexed_replicas = indexes.rows.where(F.col("state").isin(*DISK_STATES)).select(
        *REPLICA, F.lit(True).alias("indexed")
    )
    counts = (
        later_ledgers.join(indexed_replicas.distinct(), [*REPLICA], "left")
        .groupBy("bookie_id")
        .agg(F.count("*").alias("ledgers"), F.count("indexed").alias("indexed"))
        .where("indexed = 0")
    )
    return {row["bookie_id"]: row["ledgers"] for row in counts.collect()}
