"""Garbage that a bookie's garbage collector should have deleted already."""

from auditor.checks.check import Basis, DataFrame, F, Severity, Tables, check
from auditor.checks.finding_rows import (
    finding_rows,
    suspect_if,
    utc_text,
    with_attribution,
    with_ledgers,
    words,
)
from auditor.model.amounts import duration
from auditor.model.states import GcPass, GcReason


@check(
    Severity.WARNING,
    rests_on=Basis.DISKS,
    asks="gc_foresight",
    do_now="find out why garbage collection has stopped on {bookies}",
    settings=("stuck_passes",),
)
def orphan_stuck(tables: Tables) -> DataFrame:
    """A running bookie keeps ledgers that it should have deleted: its garbage collection has stopped.

    What it finds:
        Reports registered bookies with ledgers that were already garbage in an earlier run. That run was
        over an hour ago (with `--bookie-conf`: over twice its gcWaitTime). The evidence `causes` has the
        server's reasons to delete or keep these ledgers (table gc_foresight).

    Why it matters:
        The disks fill up. The garbage collector's thread died, cannot list the metadata, or waits for a
        compaction. On etcd the collector stops after a day, unless gcOverreplicatedLedgerWaitTime is 0.

    How sure:
        Confirmed if the bookie's index is newer than the first run that saw the garbage. Suspect if the
        index may be older, or if the bookie also has `metadata-suspect`. Suspect if the bookie also has
        `disk-id-mismatch`.

    What to do:
        First resolve `metadata-suspect`: if the metadata is wrong, the stopped
        collector protects data. Search the bookie's log for GarbageCollectorThread and
        ScanAndCompareGarbageCollector. A restart of the bookie starts garbage collection again.

    Commands:
        - `bkaudit diff OLD NEW`
          shows which findings are new or gone. Risk: none; it reads both.
        - `bookkeeper shell ledgermetadata -l ID`.

    Limits:
        The check needs two runs in one directory. A garbage collector that reads metadata slowly or
        compacts for hours is reported too.
    """

    from auditor.tables.orphans import MAX_GC_INTERVAL_MS

    settings, stuck_passes = tables.collector_settings, tables.cluster.settings.stuck_passes
    wait_ms = MAX_GC_INTERVAL_MS if settings.source is None else stuck_passes * settings.wait_ms
    registered_bookies = tables.bookies.where("registered is not null").select("bookie_id", "index_time")
    is_collectable = F.col("reason").isin(GcReason.NO_METADATA.value, GcReason.NOT_COLLECTED.value)
    rows = tables.gc_foresight.where(
        (F.col("pass") == GcPass.LISTING.value)
        & (is_collectable | (F.col("reason") == "metadata-suspect"))
        & (F.col("since") < tables.cluster.scan_time - wait_ms)
    )
    bookie_rows = with_ledgers(
        rows,
        "bookie_id",
        F.min("since").alias("since"),
        F.max("since").alias("newest"),
        F.bool_or(is_collectable).alias("right"),
        F.array_sort(F.collect_set("cause")).alias("causes"),
    ).join(F.broadcast(registered_bookies), "bookie_id")
    is_certain = F.col("right") & F.coalesce(F.col("index_time") > F.col("newest"), F.lit(False))
    return finding_rows(
        with_attribution(bookie_rows, tables),
        bookie_id="bookie_id",
        confidence=suspect_if(~is_certain | F.col("attribution_suspect")),
        message=words(
            "{bookie_id} still has {total:ledger|ledgers} that its garbage collector should have deleted "
            "within {time} ({passes} passes); the first has been known since {since}",
            since=utc_text(F.col("since")),
            passes=stuck_passes,
            time=duration(wait_ms / 1000),
        ),
        evidence={
            "ledgers": "total",
            "since": "since",
            "causes": "causes",
            "sample": "sample",
            "within_ms": F.lit(wait_ms),
            "settings": F.lit(settings.source),
            "rows": F.lit("tables/gc_foresight"),
        },
    )
