"""Entry logs that compaction had the time to rewrite and has not."""

from auditor.checks.check import Basis, DataFrame, F, Severity, Tables, check
from auditor.checks.finding_rows import finding_rows, suspect_if, utc, with_attribution, with_samples, words
from auditor.tables.full_disks import suspended


@check(
    Severity.WARNING,
    rests_on=Basis.ENTRY_LOGS,
    asks="log_foresight",
    do_now="find out why compaction does not work on {bookies}",
    settings=("compaction_intervals",),
)
def compaction_stopped(tables: Tables) -> DataFrame:
    """A running bookie has entry logs that compaction should have rewritten: it does not work there.

    What it finds:
        Closed logs of registered bookies that minor or major compaction should rewrite, and that an earlier
        run with `--entry-logs` beside this one, longer ago than twice that compaction's interval, saw in the
        same state. One finding per bookie: the number of logs, the bytes that they would give back, and since
        when. The table log_foresight says what each log waits for.

    Why it matters:
        Deleted data keeps its disk space until its logs are rewritten. Compaction stops where its thread
        died, where it tries an unreadable log for ever (bookkeeper #4596), where a full disk suspends it
        (isForceGCAllowWhenNoSpace is false), or where it is throttled below what comes in.

    How sure:
        Confirmed: both runs saw the same file below the threshold. Suspect where a directory's cookie and
        place name two bookies.

    What to do:
        Look into the bookie's log for GarbageCollectorThread and the id of the first named log. Where a disk
        is full, make room first, or set isForceGCAllowWhenNoSpace=true and restart the bookie. A PUT of
        {"majorCompaction": true} to /api/v1/bookie/gc starts one at once, where httpServerEnabled is set.

    Commands:
        - `bookkeeper shell listfilesondisc -txn -log -idx`
          The logs that are named should go.

    Limits:
        It takes two runs with `--entry-logs` in one directory. Thresholds and intervals are those of
        `--bookie-conf`, or the server's defaults. Logs with classes `not-indexed` or `owner-named` (table
        space) are not counted. Each start of a bookie begins the interval of major compaction anew.
    """
    scan_time, settings = tables.cluster.scan_time, tables.collector
    intervals = tables.cluster.settings.compaction_intervals
    late = {
        kind: F.coalesce(F.col(f"{kind}_since") < scan_time - intervals * interval * 1000, F.lit(False))
        for kind, interval in (("minor", settings.minor_interval), ("major", settings.major_interval))
    }
    since = F.least(*(F.when(is_late, F.col(f"{kind}_since")) for kind, is_late in late.items()))
    live = tables.bookies.where("registered is not null").select("bookie_id")
    bookie_rows = with_samples(
        tables.log_foresight.where((late["minor"] | late["major"]) & (F.coalesce("needed", F.lit(0)) == 0)),
        "bookie_id",
        "path",
        F.sum(F.col("bytes") - F.col("remain")).alias("frees"),
        F.count_if(suspended()).alias("suspended"),
        F.min(since).alias("since"),
        F.count_if(late["minor"]).alias("minor"),
    ).join(F.broadcast(live), "bookie_id")
    return finding_rows(
        with_attribution(bookie_rows, tables),
        bookie_id="bookie_id",
        confidence=suspect_if(F.col("attribution_suspect")),
        message=words(
            "{bookie_id} has {total:entry log|entry logs} that compaction should have rewritten, "
            "which frees {frees} bytes: below the threshold since {since}{suspends}",
            since=utc(F.col("since")),
            suspends=F.when(F.col("suspended") > 0, "; a full disk suspends compaction there").otherwise(""),
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
