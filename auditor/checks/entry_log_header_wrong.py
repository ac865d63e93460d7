"""Entry logs whose ledgers map disagrees with their entries."""

from auditor.checks.bookie_findings import MAX_SHOWN_LOGS
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
from auditor.checks.finding_rows import finding_rows, suspect_if, with_attribution, words
from auditor.model.collector_settings import CollectorSettings
from auditor.model.columns import LEDGER
from auditor.model.states import CacheState, EntryLogState, SpaceClass


@check(
    Severity.CRITICAL,
    rests_on=Basis.ENTRY_LOGS,
    asks="entry_logs",
    urgency=Urgency.DESTROYS_DATA,
    do_now="stop {bookies}, and back up these entry logs",
    action=ActionKind.STOP,
    holds=(HoldRule(HoldTarget.BOOKIE, (*ERASING_ACTIONS, ActionKind.START, ActionKind.REBUILD_INDEX)),),
)
def entry_log_header_wrong(tables: Tables) -> DataFrame:
    """An entry log's ledgers map, or the garbage collector's cached copy of it, disagrees with the log.

    What it finds:
        Needs `--entry-logs`. The audit then compares every ledgers map with the length of its log. It also
        reads all entries of these logs: one in 64 (`--deep`: all), and each that the next garbage
        collection deletes. Reports these faults:
        - The map lacks a ledger, has an extra ledger, or has a wrong number of bytes for a ledger.
        - The map's offset hides ledgers. It is a little below 0 (`header-astray`), or past the end of a log
          that DirectEntryLogger wrote.
        - The garbage collector's `metadata-cache` differs from the log, or lacks a needed ledger.

    Why it matters:
        The garbage collector deletes a log when every ledger in its map is gone. Ledgers that the map lacks
        then lose their entries (bookkeeper #4607, #4658; pulsar #24482).

    How sure:
        Confirmed: the log itself disagrees. Suspect if the offset is below 0 and `--bookie-conf` was not
        given. Such an offset misleads only servers with readBufferSizeBytes above 1,024 (default 512;
        Pulsar 4,096). Suspect if the bookie also has `disk-id-mismatch`.

    What to do:
        Stop garbage collection on the bookie before it runs next, and save copies of the logs. Then have
        the bookie's ledgers copied, and start the bookie with empty disks. If only the cache is wrong, stop
        the bookie and move the directory metadata-cache away.

    Commands:
        - `bkaudit decode entry-log FILE`
          lists the ledgers that have bytes in the log. Risk: none; it reads.
        - `bookkeeper shell decommissionbookie -bookieid BOOKIE`.

    Limits:
        Ignores maps that the server does not use, and a cache at gcEntryLogMetadataCachePath. A map with
        wrong ledgers but the right sum of bytes is found only by reading the log's entries.
    """
    wrong_logs = _find_wrong_maps(tables.entry_logs, tables.collector_settings).unionByName(
        _find_wrong_caches(tables)
    )
    if "deletion_candidates" in tables.frames:
        fully_read_logs = tables.deletion_candidates.where(F.col("state") == EntryLogState.MAP_WRONG.value)
        wrong_logs = wrong_logs.unionByName(
            fully_read_logs.selectExpr("bookie_id", "path", "0 AS rank", "reason", "bytes", "true AS sure")
        )
    # If a log has several faults, report that of its map.
    first_reason = F.min(F.struct("rank", "reason"))
    wrong_logs = wrong_logs.groupBy("bookie_id", "path").agg(
        first_reason["reason"].alias("reason"), F.max("bytes").alias("bytes"), F.max("sure").alias("sure")
    )
    sorted_logs = F.array_sort(F.collect_list(F.struct("path", "reason", "bytes")))
    rows = wrong_logs.groupBy("bookie_id").agg(
        F.count("*").alias("logs"),
        F.sum("bytes").alias("bytes"),
        F.slice(sorted_logs, 1, MAX_SHOWN_LOGS).alias("sample"),
        F.max("sure").alias("sure"),
    )
    return finding_rows(
        with_attribution(rows, tables),
        bookie_id="bookie_id",
        confidence=suspect_if(F.col("attribution_suspect") | ~F.col("sure")),
        message=(
            "{bookie_id} has {logs:entry log|entry logs} with a wrong header, a wrong ledgers map or a wrong "
            "cached copy of the map; garbage collection may delete live entries; {sample[0].path}: "
            "{sample[0].reason}"
        ),
        evidence="logs, bytes, sample, 'tables/entry_logs' AS rows",
    )


def _find_wrong_maps(entry_logs: DataFrame, settings: CollectorSettings) -> DataFrame:
    """Return entry logs with a wrong ledgers map, or with a header that misleads the garbage collector."""
    is_map_astray = F.col("state") == EntryLogState.ASTRAY.value
    is_collector_misled = settings.source is None or settings.reads_past_header
    wrong_logs = entry_logs.where(
        (F.col("state") == EntryLogState.MAP_WRONG.value) | (is_map_astray & F.lit(is_collector_misled))
    )
    wrong_logs = wrong_logs.where("ledger_id is null and kind = 'log' and bookie_id is not null")
    is_fault_certain = ~is_map_astray | F.lit(settings.source is not None)
    return wrong_logs.select(
        "bookie_id", "path", F.lit(0).alias("rank"), "reason", "bytes", is_fault_certain.alias("sure")
    )


def _find_wrong_caches(tables: Tables) -> DataFrame:
    """Return entry logs whose cached metadata has wrong ledgers or bytes, or lacks a live ledger."""
    logs_of_bookies = tables.entry_logs.where("bookie_id is not null")
    wrong_cache_logs = logs_of_bookies.where(F.col("cache") == CacheState.WRONG.value).selectExpr(
        "bookie_id", "path", "1 AS rank", "cache_reason AS reason", "bytes", "true AS sure"
    )
    empty_cache_logs = logs_of_bookies.where("cached_bytes = 0 and entry_bytes > 0")
    live_ledger_bytes = tables.space.where((F.col("class") == SpaceClass.LIVE.value) & F.col("remains"))
    logs_lacking_ledger = empty_cache_logs.join(
        live_ledger_bytes.select("path", *LEDGER).distinct(), ["path", *LEDGER], "left_semi"
    )
    missing_ledger_text = words(
        "metadata-cache lacks ledger {ledger_id}, but the log has {entry_bytes} bytes of it"
    )
    logs_lacking_ledger = logs_lacking_ledger.withColumn("reason", missing_ledger_text)
    return wrong_cache_logs.unionByName(
        logs_lacking_ledger.selectExpr(
            "bookie_id", "path", "2 AS rank", "reason", "entry_bytes AS bytes", "true AS sure"
        )
    )
