"""Entry logs whose ledgers map says something else than their entries."""

from auditor.checks.bookie_findings import SHOWN
from auditor.checks.check import (
    ERASES,
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
    do_now="stop {bookies}, and copy these entry logs away",
    action=ActionKind.STOP,
    holds=(HoldRule(HoldTarget.BOOKIE, (*ERASES, ActionKind.START, ActionKind.REBUILD_INDEX)),),
)
def entry_log_header_wrong(tables: Tables) -> DataFrame:
    """An entry log's ledgers map, or the collector's copy of it, disagrees with what the log holds.

    What it finds:
        Closed entry logs whose ledgers map lacks a ledger, has one too many, or other bytes of it; and logs
        whose damaged header makes the collector miss ledgers: an offset of the map a little below 0 (state
        `header-astray`), or behind the end of a log of the direct logger. Every map is compared with the
        length of its log; one log in 64 (all with `--deep`), and every log that collection deletes next, is
        read entry by entry. With gcEntryLogMetadataCacheEnabled the collector's `metadata-cache` is compared
        too: other bytes, a ledger that the log lacks, or one that the cache lacks though the bookie has and
        needs it. One finding per bookie, with the logs and what is wrong with the first. Only with
        `--entry-logs`.

    Why it matters:
        The collector believes the map: it deletes a log when no ledger of the map is left, and with it
        entries of ledgers that the map lacks (bookkeeper #4607, #4658; pulsar #24482). With a cache it does
        not look at the log.

    How sure:
        Confirmed: map and entries are in one file, and a cache never has what its log lacks. Suspect where a
        directory's cookie and place name two bookies. An offset below 0 misleads only servers that read more
        than 1,024 bytes at once (readBufferSizeBytes, 512 by default; Pulsar sets 4,096): confirmed where
        `--bookie-conf` says so, not reported where it says less, suspect without it. A bookie that read the
        log before the damage goes on with what it knows until its next start.

    What to do:
        Stop collection on that bookie before its next pass, and copy the logs away. Then take the bookie out:
        its ledgers are copied from the other bookies, and it can be started empty. Where only the cache is
        wrong: stop the bookie and move the directory metadata-cache away; it makes the cache anew from the
        logs.

    Commands:
        - `bkaudit decode entry-log FILE`
          says whose the bytes of a log are. Risk: none; it reads.
        - `bookkeeper shell decommissionbookie -bookieid BOOKIE`.

    Limits:
        A map of the right sum with wrong ledgers, and a missing ledger in a log of the direct logger
        (dbStorage_directIOEntryLogger), which fills up blocks, show only where the log is read entry by
        entry. Where the map cannot be read, or its offset or count of ledgers is wrong, the server reads the
        entries: not reported. A cache outside of the ledger directories (gcEntryLogMetadataCachePath) is not
        seen.
    """
    wrong = _wrong_maps(tables.entry_logs, tables.collector).unionByName(_wrong_caches(tables))
    if "deletion_candidates" in tables.frames:
        read_whole = tables.deletion_candidates.where(F.col("state") == EntryLogState.MAP_WRONG.value)
        wrong = wrong.unionByName(
            read_whole.selectExpr("bookie_id", "path", "0 AS rank", "reason", "bytes", "true AS sure")
        )
    # Of a log with several faults the map's is reported.
    first = F.min(F.struct("rank", "reason"))
    wrong = wrong.groupBy("bookie_id", "path").agg(
        first["reason"].alias("reason"), F.max("bytes").alias("bytes"), F.max("sure").alias("sure")
    )
    shown = F.array_sort(F.collect_list(F.struct("path", "reason", "bytes")))
    rows = wrong.groupBy("bookie_id").agg(
        F.count("*").alias("logs"),
        F.sum("bytes").alias("bytes"),
        F.slice(shown, 1, SHOWN).alias("sample"),
        F.max("sure").alias("sure"),
    )
    return finding_rows(
        with_attribution(rows, tables),
        bookie_id="bookie_id",
        confidence=suspect_if(F.col("attribution_suspect") | ~F.col("sure")),
        message="{bookie_id} has {logs:entry log|entry logs} with a wrong header, ledgers map or collector's "
        "copy of the map; collection may delete needed entries; {sample[0].path}: {sample[0].reason}",
        evidence="logs, bytes, sample, 'tables/entry_logs' AS rows",
    )


def _wrong_maps(entry_logs: DataFrame, settings: CollectorSettings) -> DataFrame:
    """Logs whose own map is wrong, or whose header leads the collector astray, as far as it is so set."""
    astray = F.col("state") == EntryLogState.ASTRAY.value
    misled = settings.source is None or settings.reads_past_header
    wrong = entry_logs.where((F.col("state") == EntryLogState.MAP_WRONG.value) | (astray & F.lit(misled)))
    wrong = wrong.where("ledger_id is null and kind = 'log' and bookie_id is not null")
    sure = ~astray | F.lit(settings.source is not None)
    return wrong.select("bookie_id", "path", F.lit(0).alias("rank"), "reason", "bytes", sure.alias("sure"))


def _wrong_caches(tables: Tables) -> DataFrame:
    """Logs of which the collector remembers what is not so, or forgot a ledger that lives there."""
    owned_logs = tables.entry_logs.where("bookie_id is not null")
    contradicted = owned_logs.where(F.col("cache") == CacheState.WRONG.value).selectExpr(
        "bookie_id", "path", "1 AS rank", "cache_reason AS reason", "bytes", "true AS sure"
    )
    forgotten = owned_logs.where("cached_bytes = 0 and entry_bytes > 0")
    lives = tables.space.where((F.col("class") == SpaceClass.LIVE.value) & F.col("remains"))
    lacking = forgotten.join(lives.select("path", *LEDGER).distinct(), ["path", *LEDGER], "left_semi")
    reason = words("metadata-cache lacks ledger {ledger_id}, of which the log has {entry_bytes} bytes")
    lacking = lacking.withColumn("reason", reason)
    return contradicted.unionByName(
        lacking.selectExpr("bookie_id", "path", "2 AS rank", "reason", "entry_bytes AS bytes", "true AS sure")
    )
