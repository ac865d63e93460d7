"""Entry logs that contain bytes of deleted ledgers, but that live ledgers still need."""

from auditor.checks.bookie_findings import closed_logs, logs_per_bookie
from auditor.checks.check import Basis, Column, DataFrame, F, Severity, Tables, check
from auditor.checks.finding_rows import finding_rows, suspect_if, with_attribution


@check(Severity.NOTE, rests_on=Basis.ENTRY_LOGS, asks="space")
def entry_log_pinned(tables: Tables) -> DataFrame:
    """Entry logs contain bytes of deleted ledgers, but remain because live ledgers still use them.

    What it finds:
        Needs `--entry-logs`. Reports closed logs that will have both needed and unneeded bytes
        after the next garbage collection. Minor compaction rewrites logs with less than 20 % needed bytes,
        and major compaction those with less than 80 %.

    Why it matters:
        One small, long-lived ledger can keep a log of a gigabyte.

    How sure:
        Confirmed: index and logs agree. Suspect if the bookie also has `disk-id-mismatch`.

    What to do:
        If the disk is short of space, check that compaction runs. Find the owners of the ledgers in the
        evidence. With higher values of minorCompactionThreshold and majorCompactionThreshold, compaction
        frees more space but writes more. `bkaudit space RUN` prints the request that starts compaction.
        Compaction itself needs free space.

    Commands:
        - `bookkeeper shell ledgermetadata -l ID`.

    Limits:
        Logs with bytes of an unknown owner, or of class `not-indexed` or `owner-named` (docs/space.md), do
        not count. An entry that is in a log twice counts twice.
    """
    minor_threshold, major_threshold = (
        tables.collector_settings.minor_threshold,
        tables.collector_settings.major_threshold,
    )
    freed_bytes = F.col("entries") - F.col("remain")
    remaining_share = F.col("remain") / F.col("entries")

    def freed_where(condition: Column) -> Column:
        return F.coalesce(F.sum(F.when(condition, freed_bytes)), F.lit(0))

    partly_used_logs = closed_logs(tables).where("remain > 0 and remain < entries")
    rows = logs_per_bookie(
        partly_used_logs,
        F.sum(freed_bytes).alias("held_bytes"),
        freed_where(remaining_share < minor_threshold).alias("minor_bytes"),
        freed_where((remaining_share >= minor_threshold) & (remaining_share < major_threshold)).alias(
            "major_bytes"
        ),
        freed_where(remaining_share >= major_threshold).alias("stranded_bytes"),
    )
    return finding_rows(
        with_attribution(rows, tables),
        bookie_id="bookie_id",
        confidence=suspect_if(F.col("attribution_suspect")),
        message=(
            "{bookie_id} has {logs:entry log|entry logs} with {held_bytes} bytes of deleted ledgers, because "
            "other ledgers need these logs; of these bytes, logs below the minor compaction threshold have "
            "{minor_bytes}; logs below the major one have {major_bytes}; logs above both have "
            "{stranded_bytes}"
        ),
        evidence={
            "logs": "logs",
            "bytes": "bytes",
            "held_bytes": "held_bytes",
            "minor_bytes": "minor_bytes",
            "major_bytes": "major_bytes",
            "stranded_bytes": "stranded_bytes",
            "minor_threshold": F.lit(minor_threshold),
            "major_threshold": F.lit(major_threshold),
            "sample": "sample",
            "rows": F.lit("tables/space"),
        },
    )
