"""Entry logs that the next garbage collection deletes."""

from auditor.checks.bookie_findings import closed_logs, logs_per_bookie
from auditor.checks.check import Basis, DataFrame, F, Severity, Tables, check
from auditor.checks.finding_rows import finding_rows, suspect_if, with_attribution, words
from auditor.checks.gc_guards import distrusted_bookies


@check(Severity.NOTE, rests_on=Basis.ENTRY_LOGS, asks="space")
def entry_log_reclaimable(tables: Tables) -> DataFrame:
    """A bookie has entry logs that no ledger needs. Its next garbage collection deletes them.

    What it finds:
        Needs `--entry-logs`. Reports closed entry logs in which every ledger is deleted, or is an orphan
        (a ledger without metadata) that the next garbage collection deletes.

    Why it matters:
        The logs' space becomes free by itself, unless garbage collection has stopped.

    How sure:
        Confirmed: index and logs agree. Suspect if the bookie also has `metadata-suspect`. Suspect if a log
        survived a garbage collection. The bookie may still write to it (entryLogPerLedgerEnabled), or
        garbage collection has stopped. Suspect if the bookie may not have flushed the log yet
        (flushInterval, 10 seconds). Suspect if the bookie also has `disk-id-mismatch`.

    What to do:
        Check `metadata-suspect` and `alias-gc-danger` first. After these checks, either wait for a garbage
        collection (gcWaitTime, 15 minutes), or start one with a PUT to /api/v1/bookie/gc
        (httpServerEnabled). If the collection frees nothing, see `orphan-stuck`.

    Commands:
        - `bookkeeper shell listfilesondisc -log`
          lists the bookie's entry logs. Run it on the bookie. Risk: none; it reads.

    Limits:
        Over-replicated ledgers keep their logs for a day of the bookie's uptime. Logs with bytes of an
        unknown owner, or of class `not-indexed` or `owner-named` (docs/space.md), do not count.
    """
    distrusted_rows = distrusted_bookies(tables).select("bookie_id", F.lit(True).alias("distrusted"))
    overdue_logs = tables.log_foresight.where("overdue").select(
        "bookie_id", "path", F.lit(True).alias("overdue")
    )
    reclaimable_logs = (
        closed_logs(tables).where("remain = 0").join(overdue_logs, ["bookie_id", "path"], "left")
    )
    is_unflushed = F.col("unflushed") & F.col("overdue").isNull()
    bookie_rows = logs_per_bookie(
        reclaimable_logs, F.count("overdue").alias("overdue"), F.count_if(is_unflushed).alias("unflushed")
    )
    rows = with_attribution(bookie_rows, tables).join(F.broadcast(distrusted_rows), "bookie_id", "left")
    return finding_rows(
        rows,
        bookie_id="bookie_id",
        confidence=suspect_if(
            F.col("distrusted")
            | F.col("attribution_suspect")
            | (F.col("overdue") > 0)
            | (F.col("unflushed") > 0)
        ),
        message=words(
            "{bookie_id} has {logs:entry log|entry logs} without live ledgers, {bytes} bytes; its next "
            "garbage "
            "collection deletes them{left}{open}",
            left=F.when(
                F.col("overdue") > 0,
                words("; a garbage collection since an earlier run did not delete {overdue} of them"),
            ).otherwise(""),
            open=F.when(
                F.col("unflushed") > 0,
                words("; {unflushed} of them may still be open and waiting for a flush"),
            ).otherwise(""),
        ),
        evidence="logs, bytes, overdue, unflushed, sample, 'tables/space' AS rows",
    )
