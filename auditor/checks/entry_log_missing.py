"""Entries that are not at the entry log location that an index gives."""

from auditor.checks.check import Basis, DataFrame, F, Severity, Tables, check
from auditor.checks.finding_rows import (
    LEDGER_NAME,
    empty_if_null,
    finding_rows,
    suspect_if,
    with_attribution,
    with_ledgers,
    words,
)
from auditor.model.columns import REPLICA
from auditor.model.holds import ActionKind, HoldRule, HoldTarget
from auditor.model.states import GoneState, Probe


@check(
    Severity.ERROR,
    rests_on=Basis.ENTRY_LOGS,
    asks="misplaced",
    do_now="search for the missing entry logs of {bookies}",
    # A rebuilt index would lack the entries of a missing log that somebody finds later.
    holds=(HoldRule(HoldTarget.BOOKIE, (ActionKind.REBUILD_INDEX,)),),
)
def entry_log_missing(tables: Tables) -> DataFrame:
    """A bookie's index points into an entry log that is gone or too short, or that has other data there.

    What it finds:
        Needs `--entry-logs`. The audit then checks for every ledger that its entry logs exist and are long
        enough. In each batch of 65,536 index entries, it also looks up one entry per ledger and log, at
        most 256. With `--deep` it looks up every sampled entry.

    Why it matters:
        The bookie's index lists entries that the bookie cannot read. The audit counts them as
        missing.

    How sure:
        Confirmed if the bookie was stopped, or the directory is a saved copy. Also confirmed if a second
        reading or run finds the same fault (table gone_entries). Suspect if a running bookie may have moved
        the entries, or has no entry log at all. Suspect if the bookie also has `disk-id-mismatch`.

    What to do:
        First look for the log on unmounted disks and among moved files. After a failed transactional
        compaction, a log's name may have its id in decimal instead of hexadecimal digits (bookkeeper
        #4804). Stop the bookie and rename such a log, for example 12.log to c.log. If the log is gone,
        check that the ledgers are fully replicated elsewhere, then replace the bookie.

    Commands:
        - `bookkeeper shell readledger -l ID -fe FIRST -le NEXT -b BOOKIE`.
        - `bookkeeper shell decommissionbookie -bookieid BOOKIE`.

    Limits:
        Ledgers without metadata do not count.
    """
    rows = _faults_per_bookie(tables)
    may_have_moved = F.lit(tables.cluster.live) & F.coalesce("runs", F.lit(False))
    was_seen_before = F.coalesce(F.col("since") < F.lit(tables.cluster.scan_time), F.lit(False))
    found_entry_text = F.when(
        F.col("point.there_ledger").isNotNull(),
        words("where entry {point.there_entry} of ledger {point.there_ledger} is"),
    ).otherwise("where there is no entry")
    return finding_rows(
        with_attribution(rows, tables),
        bookie_id="bookie_id",
        confidence=suspect_if(
            (may_have_moved & ~was_seen_before & ~F.col("agreed"))
            | F.col("no_log_at_all")
            | F.col("attribution_suspect")
        ),
        message=words(
            "{bookie_id}: its index has entries of {total:ledger|ledgers} that its entry logs lack. "
            "Ledgers: {missing} in logs that are gone, {past_end} past the end of a log, {other} where "
            "the log has other data; for example ledger {sample:,}{renamed}{located}",
            renamed=F.when(
                F.col("misnamed") > 0,
                words(
                    "; {misnamed} are in logs whose file name is the log id in decimal, "
                    "such as {misnamed_log}.log"
                ),
            ).otherwise(""),
            located=empty_if_null(
                words(
                    "; the index locates entry {point.entry} of ledger {point.ledger} {there}",
                    there=found_entry_text,
                )
            ),
        ),
        evidence="total AS ledgers, entries, missing, misnamed, past_end, other, log_ids, no_log_at_all, "
        "point AS points_to, since AS seen_since, sample, 'tables/misplaced' AS rows",
    )


def _faults_per_bookie(tables: Tables) -> DataFrame:
    """Return one row per bookie, with the number of ledgers for each kind of fault.

    ``runs`` is true if the bookie is registered, else null. ``point`` is an example of an indexed entry
    whose offset in the entry log has other data.
    """
    count_by_fault = {
        fault_kind: F.count_if(F.col("probe") == fault_kind)
        for fault_kind in ("missing", "misnamed", "past-end", "other")
    }
    column_by_fault = {fault_kind: fault_kind.replace("-", "_") for fault_kind in count_by_fault}
    wrong_location = F.struct(
        F.expr(LEDGER_NAME).alias("ledger"),
        F.col("probe_entry").alias("entry"),
        "log_id",
        F.col("probe_offset").alias("offset"),
        F.col("there_ledger_id").cast("string").alias("there_ledger"),
        F.col("there_entry_id").alias("there_entry"),
    )
    twice_read_replicas = tables.gone_entries.where(F.col("state") == GoneState.TWO_READS.value)
    confirmed_replicas = twice_read_replicas.select(*REPLICA, F.lit(True).alias("twice"))
    # A location with another entry was read once only, so no second reading agrees.
    is_confirmed_twice = F.coalesce("twice", F.lit(False)) & (F.col("probe") != Probe.OTHER.value)
    rows = with_ledgers(
        tables.misplaced.join(confirmed_replicas, [*REPLICA], "left"),
        "bookie_id",
        F.min(is_confirmed_twice).alias("agreed"),
        *(
            fault_count.alias(column_by_fault[fault_kind])
            for fault_kind, fault_count in count_by_fault.items()
        ),
        F.sum("entries").alias("entries"),
        F.min(F.when(F.col("probe") == Probe.MISNAMED.value, F.col("log_id"))).alias("misnamed_log"),
        F.slice(F.array_sort(F.collect_set("log_id")), 1, 10).alias("log_ids"),
        F.min("since").alias("since"),
        F.min(F.when(F.col("probe") == Probe.OTHER.value, wrong_location)).alias("point"),
    )
    bookies_with_logs = tables.entry_logs.select("bookie_id", F.lit(True).alias("has_logs")).distinct()
    rows = rows.join(F.broadcast(bookies_with_logs), "bookie_id", "left").withColumn(
        "no_log_at_all", F.col("has_logs").isNull()
    )
    running_bookies = tables.bookies.where("registered is not null").select(
        "bookie_id", F.lit(True).alias("runs")
    )
    return rows.join(F.broadcast(running_bookies.distinct()), "bookie_id", "left")
