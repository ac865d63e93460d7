"""Entry logs that hold much that nobody needs, and are kept for the rest."""

from auditor.checks.bookie_findings import logs, logs_per_bookie
from auditor.checks.check import Basis, Column, DataFrame, F, Severity, Tables, check
from auditor.checks.finding_rows import finding_rows, suspect_if, with_attribution


@check(Severity.NOTE, rests_on=Basis.ENTRY_LOGS, asks="space")
def entry_log_pinned(tables: Tables) -> DataFrame:
    """A bookie has entry logs that hold bytes of ledgers which are gone, and that other ledgers keep.

    What it finds:
        Closed entry logs with bytes that no ledger needs after the bookie's next collection, beside bytes of
        ledgers that stay. One finding per bookie: the number of logs and bytes, and how many of these minor
        compaction rewrites (less than 20 % needed), major compaction does (less than 80 %), and none does. It
        names the largest logs and the ledgers that keep most of each. Only with `--entry-logs`.

    Why it matters:
        Deletes do not give this space back at once. Without compaction it stays until the last ledger of the
        log goes: one small, long-lived ledger keeps a log of a gigabyte.

    How sure:
        Confirmed: the bookie's index and its logs agree. Suspect where a directory's cookie and place name
        two bookies. Not counted are logs with bytes of an unknown owner, or with what may be the last bytes
        of an entry (`not-indexed`, `owner-named`).

    What to do:
        Where the disk is short, see that compaction runs, and whose the named ledgers are. Higher
        minorCompactionThreshold and majorCompactionThreshold free more and write more. A PUT of
        {"forceMajor": true, "forceMinor": true} to /api/v1/bookie/gc starts one at once, where
        httpServerEnabled is set: it rewrites logs, and needs free space for them first. `bkaudit space RUN`
        has the command.

    Commands:
        - `bookkeeper shell ledgermetadata -l ID`.

    Limits:
        Thresholds are those of `--bookie-conf`, or the server's defaults. An entry that a log has twice
        counts twice, and so does what the bookie counts as needed though its index points elsewhere.
    """
    minor, major = tables.collector.minor_threshold, tables.collector.major_threshold
    freed = F.col("entries") - F.col("remain")
    share = F.col("remain") / F.col("entries")

    def of(condition: Column) -> Column:
        return F.coalesce(F.sum(F.when(condition, freed)), F.lit(0))

    partly_used_logs = logs(tables).where("remain > 0 and remain < entries")
    rows = logs_per_bookie(
        partly_used_logs,
        F.sum(freed).alias("held_bytes"),
        of(share < minor).alias("minor_bytes"),
        of((share >= minor) & (share < major)).alias("major_bytes"),
        of(share >= major).alias("stranded_bytes"),
    )
    return finding_rows(
        with_attribution(rows, tables),
        bookie_id="bookie_id",
        confidence=suspect_if(F.col("attribution_suspect")),
        message="{bookie_id} has {logs:entry log|entry logs} with {held_bytes} bytes of ledgers that are "
        "gone, kept by other ledgers; {minor_bytes} of these bytes are below the threshold of "
        "minor compaction, {major_bytes} below that of major compaction, {stranded_bytes} above "
        "both",
        evidence={
            "logs": "logs",
            "bytes": "bytes",
            "held_bytes": "held_bytes",
            "minor_bytes": "minor_bytes",
            "major_bytes": "major_bytes",
            "stranded_bytes": "stranded_bytes",
            "minor_threshold": F.lit(minor),
            "major_threshold": F.lit(major),
            "sample": "sample",
            "rows": F.lit("tables/space"),
        },
    )
