"""space, misplaced: the ledger of each byte of an entry log, and index entries that point to wrong places.

A row of space is for one log, one ledger and one class of bytes. The bytes of a ledger in a log have several
classes if some entries are surplus or not indexed, else one class. Bytes of no ledger have rows without a
ledger. The rows of a file add up to its length. The bytes come from ledgers maps, so no entry is read. The
locations in the index tell whether a ledger still needs a log (`auditor.sources.bookies.entry_logs`).

A row of misplaced is for one log and one ledger. A ledger that is gone from index or metadata has no row. Its
locations remain until RocksDB has dropped them, although its log may be deleted before.
"""

import pyarrow as pa

from auditor.codecs.bookie.entry_log import HEADER_BYTES
from auditor.model.columns import LEDGER, REPLICA, make_schema
from auditor.model.states import (
    DISK_STATES,
    WRONG_PATH,
    BookieRead,
    EntryLogState,
    IndexState,
    LogFileKind,
    Probe,
    SpaceClass,
    UncheckedReason,
)
from auditor.sources.bookies.entry_logs.reader import SCAN_SOURCE
from auditor.spark import functions as F
from auditor.spark.types import Column, DataFrame
from auditor.tables.scans import add_since_column

SPACE = make_schema(
    ("bookie_id", pa.string(), "the bookie that the directory belongs to; null: not known"),
    ("directory", pa.string(), "the ledger directory"),
    ("path", pa.string(), "the log"),
    ("log_id", pa.int64(), "id of the log"),
    ("kind", pa.string(), "kind of the log file: log, compacting or compacted (see table entry_logs)"),
    ("scope_id", pa.int64(), "BP-35 scope of the ledger; null if ledger_id is null"),
    ("ledger_id", pa.int64(), "the ledger; null: the bytes belong to no ledger"),
    (
        "class",
        pa.string(),
        "live. over-replicated: no ensemble contains the bookie. orphan: the metadata has no such "
        "ledger. surplus: entries that striping does not assign to this bookie. not-indexed: entries "
        "that the bookie needs but its index lacks. owner-named: the metadata has no such ledger, "
        "but an owner refers to it. superseded: the index needs nothing of the ledger in this log. "
        "owner-unknown: none of these is certain. headers-and-maps: bytes of no ledger, including "
        "padding. not-yet-mapped: bytes that are newer than the index, or at an open end",
    ),
    ("bytes", pa.int64(), "number of bytes"),
    (
        "estimated",
        pa.bool_(),
        "whether the division into live and surplus bytes is estimated from the numbers of entries. The "
        "exact bytes are not known",
    ),
    (
        "remains",
        pa.bool_(),
        "whether the bytes remain after the next garbage collection, because the bookie has the ledger and "
        "the collection keeps it",
    ),
    (
        "current",
        pa.bool_(),
        "true: garbage collection skips the log. It has no ledgers map; it is the newest log of its "
        "directory, or each ledger has its own log",
    ),
    (
        "unflushed",
        pa.bool_(),
        "true: the bookie may not have flushed the log since its last write, so garbage collection skips "
        "it. These are the newest logs of a directory. If each ledger has its own log, these are all logs. "
        "If that is unknown, these are all logs without a map",
    ),
)
"""The table ``space``."""

MAX_UNFLUSHED = 3
"""Number of newest logs of a directory whose entries the index may lack. One flush spans at most these."""

MAX_SHARED_OPEN_LOGS = 2
"""Largest number of logs without a map that a bookie has open at once if ledgers share its logs.

They are the log that it writes, and one that compaction writes.
"""

_FILE_KEY = ("bookie_id", "directory", "path", "log_id", "kind", "current", "unflushed")
_DISK_STATES = [index_state.value for index_state in DISK_STATES]
_UNCLEAR_STATES = [index_state.value for index_state in (IndexState.CUT, IndexState.UNREADABLE, *WRONG_PATH)]


def space(
    entry_logs: DataFrame,
    locations: DataFrame,
    ledgers: DataFrame,
    availability: DataFrame,
    orphans: DataFrame,
    over_replicated: DataFrame,
    judgements: DataFrame,
    bookies: DataFrame,
    directories: DataFrame,
    log_entries: DataFrame,
    ownership: DataFrame,
    log_per_ledger: bool | None = None,
) -> DataFrame:
    """Return the rows of `SPACE`. The arguments are the tables of these names.

    If ``log_per_ledger`` (entryLogPerLedgerEnabled) is True, the bookie may be writing to every log without
    a map, and any log may be unflushed. None means that the setting is unknown.
    """
    files = _log_files(entry_logs, directories, locations, log_per_ledger)
    rows = (
        entry_logs.where(F.col("ledger_id").isNotNull())
        .select("bookie_id", "logger", *LEDGER, "path", F.col("entry_bytes").alias("bytes"))
        .join(F.broadcast(files.select(*_FILE_KEY[1:], "young")), "path")
    )
    located_ledgers = locations.where(F.col("log_id").isNotNull())
    log_keys = ["bookie_id", "logger", "log_id", *LEDGER]
    located_entries = located_ledgers.groupBy(log_keys).agg(F.sum("entries").alias("located"))
    held_entries = located_ledgers.groupBy(*REPLICA).agg(F.sum("entries").alias("held"))
    # A row without a log means that the index of this logger could not be read.
    no_index = locations.where(F.col("log_id").isNull()).select("bookie_id", "logger").distinct()
    named_ledgers = ledgers.where(F.col("ledger_id").isNotNull()).select(
        *LEDGER,
        F.coalesce("undecidable", F.lit(False)).alias("undecidable"),
        F.transform("replicas", lambda replica: replica["bookie_id"]).alias("members"),
    )
    # Two metadata records may claim the same ledger.
    named_ledgers = named_ledgers.groupBy(*LEDGER).agg(
        F.max("undecidable").alias("undecidable"), F.flatten(F.collect_list("members")).alias("members")
    )
    orphan_doubts = orphans.select(
        *REPLICA, (F.col("newer_than_scan") | F.col("doubt").isNotNull()).alias("orphan_in_doubt")
    )
    referred_ledgers = ownership.where(
        F.col("ledger_id").isNotNull() & F.col("path").isNotNull() & (F.col("standing") != "offloaded")
    )
    owner_named_ledgers = referred_ledgers.select(*LEDGER, F.lit(True).alias("owner_named")).distinct()
    unindexed_rows = log_entries.select("path", *LEDGER, "needed_bytes", F.lit(True).alias("index_lacks"))
    foreign_replicas = over_replicated.select(*REPLICA).distinct().withColumn("foreign", F.lit(True))
    indexed_replicas = (
        availability.where(F.col("ledger_id").isNotNull())
        .groupBy(*REPLICA)
        .agg(F.min("state").alias("state"), F.max(F.col("state").isin(*_DISK_STATES)).alias("had"))
    )
    read_bookies = bookies.select(
        "bookie_id", ((F.col("read") == BookieRead.READ) & ~F.col("foreign_instance")).alias("read")
    )
    # Columns for `_space_class`: facts about each ledger in a log.
    joined_rows = (
        rows.join(located_entries, log_keys, "left")
        .join(held_entries, [*REPLICA], "left")
        .join(named_ledgers, [*LEDGER], "left")
        .join(orphan_doubts, [*REPLICA], "left")
        .join(owner_named_ledgers, [*LEDGER], "left")
        .join(unindexed_rows, ["path", *LEDGER], "left")
        .join(foreign_replicas, [*REPLICA], "left")
        .join(indexed_replicas, [*REPLICA], "left")
        .join(_count_surplus_entries(judgements), [*REPLICA], "left")
        .join(F.broadcast(read_bookies), "bookie_id", "left")
        .join(F.broadcast(no_index.withColumn("index_unread", F.lit(True))), ["bookie_id", "logger"], "left")
    )
    ledger_rows = _split_classes(joined_rows.withColumn("class", _space_class())).select(*SPACE.names)
    return ledger_rows.unionByName(_rows_of_files(files).select(*SPACE.names))


def drop_repeated_files(entry_logs: DataFrame) -> DataFrame:
    """Return one row per file. If the same log has a second file name, the rows of that name are left out."""
    files = entry_logs.where(F.col("ledger_id").isNull() & F.col("bytes").isNotNull())
    logs = files.where(F.col("kind") == LogFileKind.LOG).select("directory", "log_id").distinct()
    repeated_files = files.where(F.col("kind") == LogFileKind.COMPACTED).join(
        logs, ["directory", "log_id"], "left_semi"
    )
    return files.join(repeated_files.select("path"), "path", "left_anti")


def _log_files(
    entry_logs: DataFrame, directories: DataFrame, locations: DataFrame, log_per_ledger: bool | None
) -> DataFrame:
    """Return one row per file, with the flags below.

    A file that has only a header was created in advance (entryLogFilePreAllocationEnabled). The bookie then
    still writes to the previous log.

    ``young``: the index may lack entries of the log, or the bookie still writes to it.

    ``unflushed``: nothing shows that a flush followed the last write to the log. A log gets its map when it
    is full, or when its ledger is idle. The collector does not touch the log until the next flush has
    closed it (DefaultEntryLogger.getFlushedLogIds).

    ``broken``: a damaged record hides later records. The log was read only up to this record, although the
    index locates entries after it.
    """
    marked_directories = directories.select(F.col("path").alias("directory"), "index_time")
    is_preallocated = F.col("bytes") <= HEADER_BYTES
    newest_log_window = F.Window.partitionBy("directory", is_preallocated).orderBy(F.desc("log_id"))
    log_rank = F.dense_rank().over(newest_log_window)
    is_written_to = is_preallocated | (log_rank == 1) | F.lit(bool(log_per_ledger))
    has_no_map, is_log = F.col("state") == EntryLogState.NO_MAP, F.col("kind") == LogFileKind.LOG
    is_last_log = is_written_to & has_no_map & is_log
    is_new_log = F.coalesce(F.col("mtime") > F.col("index_time"), F.lit(True))
    may_be_open = is_new_log & has_no_map if log_per_ledger is None else F.lit(False)
    # With more than `MAX_SHARED_OPEN_LOGS` open logs, each ledger has its own log.
    is_open = may_be_open & ~is_preallocated & is_log
    open_count = F.count_if(is_open).over(F.Window.partitionBy("directory"))
    has_log_per_ledger = F.lit(bool(log_per_ledger)) | (open_count > MAX_SHARED_OPEN_LOGS)
    is_unflushed = is_new_log & ((log_rank <= MAX_UNFLUSHED) | has_log_per_ledger)
    log_key = ("bookie_id", "logger", "log_id")
    indexed_ends = locations.groupBy(*log_key).agg(F.max("last_offset").alias("indexed_to"))
    read_end = F.col("bytes") - F.coalesce("tail_bytes", F.lit(0))
    ends_before_index = (F.col("counted") == SCAN_SOURCE) & is_log & (F.col("indexed_to") > read_end)
    is_broken = (F.col("state") == EntryLogState.DAMAGED) | F.coalesce(ends_before_index, F.lit(False))
    return (
        drop_repeated_files(entry_logs)
        .join(F.broadcast(marked_directories), "directory", "left")
        .join(indexed_ends, [*log_key], "left")
        .withColumns(
            {
                "current": is_last_log,
                "unflushed": is_unflushed | may_be_open,
                "young": is_last_log | is_unflushed,
                "broken": is_broken,
            }
        )
    )


def _count_surplus_entries(judgements: DataFrame) -> DataFrame:
    """Count, for each replica, the held entries that the striping does not assign to the bookie."""
    excess_entries = F.concat("surplus", "stale")
    entry_rows = judgements.select(*LEDGER, F.explode(excess_entries).alias("held"))
    return entry_rows.groupBy(F.col("held.bookie_id").alias("bookie_id"), *LEDGER).agg(
        F.sum("held.count").alias("besides")
    )


def _space_class() -> Column:
    """Return the first class that fits a ledger's bytes in a log. `_split_classes` then splits the bytes."""
    is_read = F.coalesce("read", F.lit(False)) & F.col("index_unread").isNull() & F.col("logger").isNotNull()
    is_replica_clear = F.coalesce(~F.col("state").isin(_UNCLEAR_STATES), F.lit(True))
    is_listed = F.col("members").isNotNull()
    is_not_located = F.col("located").isNull()
    return (
        # This class is first, because these bytes are needed whatever the index has.
        F.when(~is_listed & F.col("owner_named"), SpaceClass.OWNER_NAMED)
        .when(~is_read | ~is_replica_clear, SpaceClass.OWNER_UNKNOWN)
        .when(is_not_located & F.col("young"), SpaceClass.NOT_YET_MAPPED)
        # Without known ensembles it is unknown which entries the index should have.
        .when(F.col("undecidable"), SpaceClass.OWNER_UNKNOWN)
        .when(is_not_located, SpaceClass.SUPERSEDED)
        .when(F.col("orphan_in_doubt"), SpaceClass.OWNER_UNKNOWN)
        .when(~F.col("orphan_in_doubt"), SpaceClass.ORPHAN)
        .when(F.col("foreign"), SpaceClass.OVER_REPLICATED)
        .when(is_listed & F.array_contains("members", F.col("bookie_id")), SpaceClass.LIVE)
        # The index still locates a ledger that the bookie no longer has: the ledger is being deleted.
        .when(~is_listed & (F.col("state") == IndexState.NOT_INDEXED), SpaceClass.SUPERSEDED)
        .otherwise(SpaceClass.OWNER_UNKNOWN)
    )


_UNINDEXED_CLASSES = (SpaceClass.LIVE, SpaceClass.OVER_REPLICATED, SpaceClass.SUPERSEDED)


def _split_classes(rows: DataFrame) -> DataFrame:
    """Return a row per class of a ledger's bytes. Entry counts divide indexed bytes into live and surplus."""
    unlocated_bytes = F.when(F.col("located").isNull(), F.col("bytes")).otherwise(0)
    unindexed_bytes = F.when(
        F.col("index_lacks") & F.col("class").isin(*_UNINDEXED_CLASSES),
        F.least(F.coalesce("needed_bytes", unlocated_bytes), F.col("bytes")),
    )
    rows = rows.withColumn("not_indexed", F.coalesce(unindexed_bytes, F.lit(0)))
    indexed_bytes = F.col("bytes") - F.col("not_indexed")
    surplus_entries = F.least(F.coalesce("besides", F.lit(0)), F.coalesce("held", F.lit(0)))
    # The product of bytes and entries can exceed a long.
    surplus_share = indexed_bytes.cast("decimal(38,0)") * surplus_entries
    surplus_bytes = F.when(
        F.col("class") == SpaceClass.LIVE,
        F.floor(surplus_share / F.col("held").cast("decimal(20,0)")).cast("long"),
    )
    surplus_bytes = F.coalesce(surplus_bytes, F.lit(0))
    bytes_by_class = F.array(
        F.struct(F.col("class"), (indexed_bytes - surplus_bytes).alias("bytes")),
        F.struct(F.lit(SpaceClass.NOT_INDEXED).alias("class"), F.col("not_indexed").alias("bytes")),
        F.struct(F.lit(SpaceClass.SURPLUS).alias("class"), surplus_bytes.alias("bytes")),
    )
    is_deletable = F.coalesce(~F.col("orphan_in_doubt"), F.lit(False))
    remains_after_gc = F.coalesce("had", F.lit(False)) & ~is_deletable
    is_estimated = (surplus_bytes > 0) & (surplus_bytes < indexed_bytes)
    sized_rows = rows.withColumns({"sizes": bytes_by_class, "estimated": is_estimated})
    flat_rows = sized_rows.select(
        *_FILE_KEY, *LEDGER, "estimated", remains_after_gc.alias("remains"), F.explode("sizes").alias("size")
    )
    return flat_rows.select(*_FILE_KEY, *LEDGER, "estimated", "remains", "size.*").where("bytes > 0")


def _rows_of_files(files: DataFrame) -> DataFrame:
    """Return the rows for those bytes of log files that belong to no ledger."""
    # The remaining bytes get a class too, so that the classes add up to the file length.
    format_bytes = F.coalesce(F.col("header_bytes") + F.col("map_bytes") + F.col("padding_bytes"), F.lit(0))
    # Bytes after a damaged record are not newer than the bytes before it.
    is_recent = F.col("young") & (F.col("state") != EntryLogState.UNREADABLE) & ~F.col("broken")
    is_unmapped = (F.col("kind") == LogFileKind.COMPACTING) | is_recent
    other_class = F.when(is_unmapped, SpaceClass.NOT_YET_MAPPED).otherwise(SpaceClass.OWNER_UNKNOWN)
    entry_bytes = F.coalesce("entry_bytes", F.lit(0))
    ledger_bytes = F.when(F.col("kind") == LogFileKind.LOG, entry_bytes).otherwise(F.lit(0))
    bytes_by_class = F.array(
        F.struct(F.lit(SpaceClass.HEADERS_AND_MAPS).alias("class"), format_bytes.alias("bytes")),
        F.struct(other_class.alias("class"), (F.col("bytes") - format_bytes - ledger_bytes).alias("bytes")),
    )
    flat_rows = files.select(*_FILE_KEY, F.explode(bytes_by_class).alias("size"))
    return flat_rows.select(
        *_FILE_KEY,
        F.lit(None).cast("long").alias("scope_id"),
        F.lit(None).cast("long").alias("ledger_id"),
        "size.*",
        F.lit(False).alias("estimated"),
        F.lit(False).alias("remains"),
    ).where("bytes != 0")


MISPLACED = make_schema(
    ("bookie_id", pa.string(), "the bookie"),
    ("logger", pa.int32(), "number of the entry logger that wrote the log, as in the table entry_logs"),
    ("log_id", pa.int64(), "id of the log that the index refers to"),
    ("scope_id", pa.int64(), "BP-35 scope of the ledger"),
    ("ledger_id", pa.int64(), "the ledger"),
    ("entries", pa.int64(), "number of entries that the index locates in the log"),
    (
        "probe",
        pa.string(),
        "result of the lookup of one entry. missing: no such log. misnamed: the log's file is named "
        "by its id in decimal, so the bookie does not find it. past-end: the log ends before the "
        "entry. other: another entry or no entry is there",
    ),
    ("probe_entry", pa.int64(), "the entry that was looked up"),
    ("probe_offset", pa.int64(), "byte offset at which the index locates probe_entry"),
    (
        "there_ledger_id",
        pa.int64(),
        "for the result other: the ledger of the entry that is there; null: no entry is there",
    ),
    ("there_entry_id", pa.int64(), "for the result other: the id of the entry that is there"),
    (
        "since",
        pa.int64(),
        "scan time (ms since 1970, UTC) of the first run in the unbroken series of runs with the same probe",
    ),
)
"""The table ``misplaced``."""


_LOG_LEDGER_KEY = ("bookie_id", "logger", "log_id", *LEDGER)
_LOCATION_KEY = (*_LOG_LEDGER_KEY, *MISPLACED.names[5:-1])
_INDEXED_STATES = [IndexState.OK, IndexState.CUT, IndexState.LIMBO]


def misplaced_locations(
    locations: DataFrame,
    availability: DataFrame,
    orphans: DataFrame,
    digests: DataFrame | None,
    scan_time: int,
    earlier_rows: DataFrame | None,
) -> DataFrame:
    """Return the rows of `MISPLACED`. The arguments are the tables of these names.

    ``earlier_rows`` is the table ``misplaced`` of an earlier run, or None if there is none.
    """
    wrong_locations = locations.where(F.col("probe") != Probe.OK).select(
        *_LOCATION_KEY, F.lit(False).alias("deep")
    )
    if digests is not None:
        wrong_locations = wrong_locations.unionByName(_other_entries(digests))
    stored_replicas = availability.where(F.col("state").isin(*_INDEXED_STATES)).select(*REPLICA).distinct()
    misplaced_rows = wrong_locations.join(stored_replicas, [*REPLICA], "left_semi").join(
        orphans.select(*REPLICA), [*REPLICA], "left_anti"
    )
    wrong_probe = F.min(F.struct("probe", "probe_entry", "probe_offset", "there_ledger_id", "there_entry_id"))
    # The entry of a full read may be among the entries that were already counted for the log.
    entries = F.greatest(
        F.sum(F.when(F.col("deep"), F.col("entries"))), F.sum(F.when(~F.col("deep"), F.col("entries")))
    )
    rows = misplaced_rows.groupBy(*_LOG_LEDGER_KEY).agg(entries.alias("entries"), wrong_probe.alias("one"))
    equal_columns = [*_LOG_LEDGER_KEY, "probe", "probe_entry", "probe_offset"]
    counted_rows = rows.select(*_LOG_LEDGER_KEY, "entries", "one.*")
    return add_since_column(counted_rows, equal_columns, scan_time, earlier_rows).select(*MISPLACED.names)


def _other_entries(digests: DataFrame) -> DataFrame:
    """Return the indexed locations at which a full read found an entry other than the indexed one."""
    other_entries = digests.where(F.col("reason") == UncheckedReason.OTHER).withColumns(
        {
            "probe": F.lit(Probe.OTHER),
            "probe_entry": F.col("entry_id"),
            "probe_offset": F.col("entry_offset"),
            "deep": F.lit(True),
        }
    )
    return other_entries.select(*_LOCATION_KEY, "deep")
