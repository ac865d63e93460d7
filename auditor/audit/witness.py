"""The witness: before anything is called lost on a live cluster, the bookies themselves are asked.

It stands between judging by the indexes and the second scan of the metadata, so that a ledger that was
deleted meanwhile is seen to have moved. What it asks, and what answers change, is
`auditor.tables.testimony`; the table ``witness`` has every answer. Where no ledger lacks a copy, none is in
limbo or outside its place, and no listing has more than a disk, nobody is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from auditor.audit.bookies import ClusterBookies
from auditor.audit.landing import Landing
from auditor.audit.metadata_scan import FirstScan
from auditor.model.amounts import plural
from auditor.model.options import AuditOptions
from auditor.model.remark import Remark, RemarkKind, remark
from auditor.model.run_layout import WHOLE
from auditor.model.states import WitnessAnswer
from auditor.sources.bookies.rpc import reads
from auditor.sources.bookies.rpc.connection import endpoints
from auditor.sources.metadata.store import StoreOptions
from auditor.spark import functions as F
from auditor.spark.types import DataFrame
from auditor.tables.judge_replicas import BookieState
from auditor.tables.judged import JUDGED
from auditor.tables.registry import registrations
from auditor.tables.rejudgement import candidates, rejudge, requests

NAMED = 5
"""So many bookies that were not heard a report names."""


@dataclass(frozen=True)
class Witness:
    """What bookies said: the table witness, and the options that it was made with; None: nobody was asked."""

    rows: DataFrame | None
    reads: int

    def summary(self) -> tuple[int, list[Remark]]:
        """How many reads were sent, and what a reader of the report should know of them."""
        if self.rows is None:
            return 0, []
        unknown = F.col("answer") == WitnessAnswer.UNKNOWN
        by_bookie = (
            self.rows.groupBy("bookie_id")
            .agg(
                F.count("*").alias("entries"),
                F.sum("requests").alias("requests"),
                F.count_if(unknown).alias("unknown"),
                F.min(F.when(unknown, F.col("reason"))).alias("reason"),
            )
            .orderBy("bookie_id")
            .collect()
        )
        remarks = []
        full = [row["bookie_id"] for row in by_bookie if row["entries"] >= max(1, self.reads // 2)]
        if full or sum(row["entries"] for row in by_bookie) >= self.reads:
            text = "--witness-reads is used up: what was not asked for is suspect"
            remarks.append(remark(RemarkKind.WITNESS_BOUND, text))
        silent = [row for row in by_bookie if row["unknown"]]
        if silent:
            entries = plural(sum(row["unknown"] for row in silent), "entry")
            text = f"no answer from {plural(len(silent), 'bookie')} about {entries}: these stay suspect"
            named = [f"{row['bookie_id']} ({row['unknown']:,}: {row['reason']})" for row in silent[:NAMED]]
            more = [f"and {len(silent) - NAMED:,} more"] if len(silent) > NAMED else []
            remarks.append(remark(RemarkKind.WITNESS_SILENT, text, *named, *more))
        return sum(row["requests"] for row in by_bookie), remarks


def politeness(options: AuditOptions) -> StoreOptions:
    """How hard one bookie may be asked."""
    return StoreOptions(
        rate_limit=options.bookie_rate_limit,
        in_flight=options.bookie_in_flight,
        timeout_s=options.timeout,
    )


def judge_with_witness(
    landing: Landing,
    first: FirstScan,
    bookies: ClusterBookies,
    pairs: DataFrame,
    states: Mapping[str, BookieState],
    by_index: Callable[[], DataFrame],
    options: AuditOptions,
) -> tuple[DataFrame, Witness]:
    """Land the table judged, and the table witness where bookies were asked.

    ``by_index`` makes the table judged from the indexes alone, ``pairs`` is the table unequal.
    """
    askable = _askable(first, bookies) if options.witness == "yes" else []
    if not askable or landing.run.exists(f"tables/judged/{WHOLE}"):
        said = landing.run.exists(f"tables/witness/{WHOLE}")
        rows = landing.spark.read.parquet(landing.where("tables/witness")) if said else None
        return landing.land("judged", by_index), Witness(rows, options.witness_reads)
    ledgers = first.ledgers
    by_indexes = landing.land("judged_by_index", by_index)
    rows = None
    if "judged_by_index" in landing.empty:
        landing.run.remove("tables/judged_by_index")
        return landing.rows("judged", [], JUDGED), Witness(rows, options.witness_reads)
    if not candidates(by_indexes, askable).isEmpty():
        where = endpoints(registrations(first.nodes), askable)
        rows = landing.land(
            "witness",
            lambda: reads.witness(
                requests(ledgers, by_indexes, askable, options.witness_reads), where, politeness(options)
            ),
        )
    grace_ms = round(options.grace * 1000)
    judged = landing.land(
        "judged",
        lambda: (
            by_indexes
            if rows is None
            else rejudge(ledgers, pairs, by_indexes, rows, states, askable, grace_ms)
        ),
    )
    landing.run.remove("tables/judged_by_index")
    return judged, Witness(rows, options.witness_reads)


def _askable(first: FirstScan, bookies: ClusterBookies) -> list[str]:
    """The bookies that can be asked: registered in a live store, named by an ensemble, and this cluster's.

    Nobody, in an audit of metadata alone: without an index nothing seems to be missing.
    """
    if not first.source.live or not bookies.sources:
        return []
    return sorted((bookies.registered.keys() & bookies.members.keys()) - set(bookies.foreign))
