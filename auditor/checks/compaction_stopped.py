"""Entry logs that compaction has not rewritten, although it had enough time."""

from auditor.checks.check import Basis, DataFrame, F, Severity, Tables, check
from auditor.checks.finding_rows import (
    finding_rows,
    suspect_if,
    utc_text,
    with_attribution,
    with_samples,
    words,
)
from auditor.tables.full_disks import suspends_action


@check(
    Severity.WARNING,
    rests_on=Basis.ENTRY_LOGS,
    asks="log_foresight",
    do_now="find out why compaction does not work on {bookies}",
    settings=("compaction_intervals",),
)
def compaction_stopped(tables: Tables) -> DataFrame:
    """A running bookie has entry logs that compaction should have rewritten.

    What it finds:
        Reports closed entry logs of registered bookies. The logs' share of needed bytes is below a
        compaction threshold, and already was more than two compaction intervals ago. Needs an earlier run
        with `--entry-logs` in the same directory.

    Why it matters:
        Deleted data still takes up disk space. The compaction thread died, or it retries an unreadable log
        forever (bookkeeper #4596). Or a full disk suspends compaction (isForceGCAllowWhenNoSpace=false), or
        the compaction throttle is too low.

    How sure:
        Confirmed: two runs saw the logs. Suspect if the bookie also has `disk-id-mismatch`.

    What to do:
        Search the bookie's log for GarbageCollectorThread and the id of the first entry log. If a disk is
        full, make room, or set isForceGCAllowWhenNoSpace=true and restart the bookie. With
        httpServerEnabled, a PUT of {"majorCompaction": true} to /api/v1/bookie/gc starts compaction.

    Commands:
        - `bookkeeper shell listfilesondisc -txn -log -idx`
          After compaction, the finding's logs should be gone.

    Limits:
        Logs with bytes of class `not-indexed` or `owner-named` (docs/space.md) do not count. After a
        restart, the interval of major compaction begins again. The table log_foresight has the reason for
        each log.
    """
    scan_time, settings = tables.cluster.scan_time, tables.collector_settings
    interval_count = tables.cluster.settings.compaction_intervals
    is_late_by_kind = {
        compaction_kind: F.coalesce(
            F.col(f"{compaction_kind}_since") < scan_time - interval_count * interval_s * 1000, F.lit(False)
        )
        for compaction_kind, interval_s in (
            ("minor", settings.minor_interval),
            ("major", settings.major_interval),
        )
    }
    earliest_time = F.least(
        *(
            F.when(is_late, F.col(f"{compaction_kind}_since"))
            for compaction_kind, is_late in is_late_by_kind.items()
        )
    )
    registered_bookies = tables.bookies.where("registered is not null").select("bookie_id")
    bookie_rows = with_samples(
        tables.log_foresight.where(
            (is_late_by_kind["minor"] | is_late_by_kind["major"]) & (F.coalesce("needed", F.lit(0)) == 0)
        ),
        "bookie_id",
        "path",
        F.sum(F.col("bytes") - F.col("remain")).alias("frees"),
        F.count_if(suspends_action()).alias("suspended"),
        F.min(earliest_time).alias("since"),
        F.count_if(is_late_by_kind["minor"]).alias("minor"),
    ).join(F.broadcast(registered_bookies), "bookie_id")
    return finding_rows(
        with_attribution(bookie_rows, tables),
        bookie_id="bookie_id",
        confidence=suspect_if(F.col("attribution_suspect")),
        message=words(
            "{bookie_id} has {total:entry log|entry logs} that compaction should have rewritten "
            "to free {frees} bytes; they have been below the compaction threshold since {since}{suspends}",
            since=utc_text(F.col("since")),
            suspends=F.when(F.col("suspended") > 0, "; compaction is suspended by a full disk").otherwise(""),
        ),
        evidence={
            "logs": "total",
            "minor_logs": "minor",
            "suspended_logs": "suspended",
            "frees": "frees",
            "since": "since",
            "sample": "sample",
            "minor_interval": F.lit(settings.minor_interval),
            "major_interval": F.lit(settings.major_interval),
            "settings": F.lit(settings.source),
            "rows": F.lit("tables/log_foresight"),
        },
    )
