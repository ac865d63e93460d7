"""Entry logs that the next collection deletes."""

from auditor.checks.bookie_findings import logs, logs_per_bookie
from auditor.checks.check import Basis, DataFrame, F, Severity, Tables, check
from auditor.checks.finding_rows import finding_rows, suspect_if, with_attribution, words
from auditor.checks.gc_guards import distrusted_bookies


@check(Severity.NOTE, rests_on=Basis.ENTRY_LOGS, asks="space")
def entry_log_reclaimable(tables: Tables) -> DataFrame:
    """A bookie has entry logs of which no ledger is left: its next collection deletes them.

    What it finds:
        Closed entry logs whose every ledger is gone from the bookie, or an orphan that its collector deletes
        on its next pass. One finding per bookie, with the number of logs, their bytes and the largest. Only
        with `--entry-logs`.

    Why it matters:
        This space comes free by itself. Where it is the same in run after run, the bookie's collection
        stopped, or its listing of the metadata breaks off.

    How sure:
        Confirmed: the bookie's index and its logs agree. Suspect where `metadata-suspect` stands for the
        bookie, and where a directory's cookie and place name two bookies. Suspect too where an earlier run
        saw the deletion coming, a collection came since, and the log is still there: the bookie may still
        write to it (entryLogPerLedgerEnabled; pass `--bookie-conf`), or its collector does not work. Suspect
        where the bookie may not have flushed a log since its last write: a collector leaves such a log alone,
        and the first collection after a flush (flushInterval, 10 seconds unless set) deletes it. Not
        counted are logs with bytes of an unknown owner, or with what may be the last bytes of an entry:
        `not-indexed` (the index lacks it) or `owner-named` (no metadata, but an owner names the ledger).

    What to do:
        Wait for a collection (gcWaitTime, 15 minutes unless set), or start one with a PUT to
        /api/v1/bookie/gc of its HTTP endpoint, where httpServerEnabled is set. Look at `metadata-suspect` and
        `alias-gc-danger` first. Where nothing is freed, look into the bookie's log for the collector's
        thread.

    Commands:
        - `bookkeeper shell listfilesondisc -log`
          on the bookie, lists its entry logs: look again after a collection. Risk: none; it reads.

    Limits:
        Over-replicated ledgers keep their logs here: they go only after a day of the bookie's uptime. Times
        of the collector are not known.
    """
    distrusted = distrusted_bookies(tables).select("bookie_id", F.lit(True).alias("distrusted"))
    overdue = tables.log_foresight.where("overdue").select("bookie_id", "path", F.lit(True).alias("overdue"))
    going = logs(tables).where("remain = 0").join(overdue, ["bookie_id", "path"], "left")
    unflushed = F.col("unflushed") & F.col("overdue").isNull()
    bookie_rows = logs_per_bookie(
        going, F.count("overdue").alias("overdue"), F.count_if(unflushed).alias("unflushed")
    )
    rows = with_attribution(bookie_rows, tables).join(F.broadcast(distrusted), "bookie_id", "left")
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
            "{bookie_id} has {logs:entry log|entry logs} without any needed ledger, {bytes} bytes: its next "
            "collection deletes them{left}{open}",
            left=F.when(
                F.col("overdue") > 0, words("; a collection since an earlier run has left {overdue} of them")
            ).otherwise(""),
            open=F.when(
                F.col("unflushed") > 0, words("; {unflushed} of them may still be open, and wait for a flush")
            ).otherwise(""),
        ),
        evidence="logs, bytes, overdue, unflushed, sample, 'tables/space' AS rows",
    )
