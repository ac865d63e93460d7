"""What a bookie's own collector is about to delete and must not."""

from auditor.checks.check import Basis, DataFrame, F, Severity, Tables, Urgency, check
from auditor.checks.finding_rows import (
    finding_rows,
    in_words,
    suspect_if,
    with_attribution,
    with_ledgers,
    words,
)
from auditor.model.columns import REPLICA
from auditor.model.states import GcAction, GcCause, GcReason, GcVerdict, IndexState, SpaceClass
from auditor.tables.full_disks import suspended


@check(
    Severity.CRITICAL,
    rests_on=Basis.DISKS,
    asks="gc_foresight",
    urgency=Urgency.DESTROYS_DATA,
    do_now="stop garbage collection on {bookies}",
)
def gc_would_delete_live(tables: Tables) -> DataFrame:
    """A bookie's next garbage collection deletes data that a ledger needs.

    What it finds:
        Bookies whose collector, by a model of what it lists and in which order, deletes a ledger that names
        the bookie (`in-its-ensembles`), or a copy that no ensemble asks for and that has an entry of which no
        member has a copy (`last-copy`); in a run with `--entry-logs` also logs that go or are rewritten with
        entries of a ledger that names the bookie and that DbLedgerStorage's ledger index lacks
        (`not-indexed`). One finding a bookie. The first comes of the server's own listing: a
        ledger's record that is not at its path (`listed-out-of-order`), or the ledger id 2^63 - 1, behind
        which the collector's arithmetic overflows, so that everything goes (`listing-overflows`). What each
        collector does with each ledger is in the table gc_foresight; docs/space.md explains it. Renamed
        bookies are `alias-gc-danger`, a store that lost its ledgers is `metadata-suspect`.

    Why it matters:
        A pass comes every gcWaitTime (10 minutes unless set; Pulsar sets 15), by itself and without a
        question. What it deletes is gone: the index at once, the entries when their logs are compacted.

    How sure:
        Confirmed: metadata and indexes say it together, and the model is held to the server's own classes.
        Suspect where a directory's cookie and place name two bookies. A ledger whose record changed between
        the scans, or cannot be read, is not counted.

    What to do:
        Stop the bookie, or keep its collector from running, before anything else. For `in-its-ensembles`: set
        verifyMetadataOnGC=true in the configuration of every bookie and restart them; their collectors read a
        ledger's record then before they delete it. Then put right what the listing stumbles over:
        `metadata-misplaced` names the records. For `last-copy`: set gcOverreplicatedLedgerWaitTime=0, restart
        the bookie, and have the ledger's copies made again from it. For `not-indexed`: its entries are still
        in the logs; see `ledger-not-indexed`.

    Commands:
        - `bookkeeper shell ledgermetadata -l ID`
          It shows whom the ledger's ensembles name.

    Limits:
        Collectors are taken to run with the settings of `--bookie-conf`, or with the server's defaults; the
        listing is that of BookKeeper 4.17. What a compaction in between loses is `entry-log-header-wrong`.
    """
    rows = tables.gc_foresight.where(
        (F.col("action") == GcAction.DELETE.value)
        & (F.col("verdict") == GcVerdict.WRONG.value)
        & (F.col("reason") != GcReason.OTHER_ID.value)
    ).select(*REPLICA, "reason", "cause")
    if {"space", "log_foresight"} <= tables.frames.keys():
        rows = rows.unionByName(_not_indexed(tables.space, tables.log_foresight, tables.availability))
    found = with_ledgers(
        rows,
        "bookie_id",
        F.array_sort(F.collect_set("reason")).alias("reasons"),
        F.array_sort(F.collect_set("cause")).alias("causes"),
    )
    return finding_rows(
        with_attribution(found, tables),
        bookie_id="bookie_id",
        confidence=suspect_if(F.col("attribution_suspect")),
        message=words(
            "{bookie_id}: the next garbage collection deletes {total:needed ledger|needed "
            "ledgers}{bracket}{named:,}), because {causes}",
            bracket=F.when(F.col("total") <= _NAMED, " (").otherwise(" (such as "),
            named=F.slice("sample", 1, _NAMED),
            causes=F.array_join(in_words("causes", _BECAUSE), ", and "),
        ),
        evidence={
            "ledgers": "total",
            "sample": "sample",
            "reasons": "reasons",
            "causes": "causes",
            "settings": F.lit(tables.collector.source),
            "rows": F.lit("tables/gc_foresight"),
        },
    )


_NAMED = 3
"""So many ledgers stand in the sentence."""
_BECAUSE = {
    GcCause.NOT_LISTED: "the server's listing of ledgers leaves them out",
    GcCause.OUT_OF_ORDER: "the server's listing of ledgers is not in order",
    GcCause.OVERFLOWS: "listing ledger ids overflows",
    GcCause.IN_NO_ENSEMBLE: "no ensemble names the bookie, which has the last copy",
    "log-delete": "the bookie's ledger index lacks them where an entry log is deleted",
    "log-minor": "the bookie's ledger index lacks them where minor compaction rewrites a log",
    "log-major": "the bookie's ledger index lacks them where major compaction rewrites a log",
}
"""What a cause is, as a sentence goes on; any other is said as it is."""


def _not_indexed(space: DataFrame, log_foresight: DataFrame, availability: DataFrame) -> DataFrame:
    """Ledgers whose bytes go with a log, or are not rewritten, for the bookie's ledger index lacks them."""
    going = log_foresight.where((F.col("action") != GcAction.KEEP.value) & ~suspended())
    lacking = availability.where(F.col("state") == IndexState.NOT_INDEXED.value).select(*REPLICA).distinct()
    live = space.where((F.col("class") == SpaceClass.LIVE.value) & ~F.col("remains"))
    rows = live.join(going.select("bookie_id", "path", "action"), ["bookie_id", "path"])
    cause = F.concat(F.lit("log-"), "action")
    return (
        rows.join(lacking, [*REPLICA], "left_semi")
        .select(*REPLICA, F.lit(GcReason.NOT_INDEXED.value).alias("reason"), cause.alias("cause"))
        .distinct()
    )
