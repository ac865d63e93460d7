"""The report of an audit: counts, bounded samples of findings, and coverage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from auditor.actions.action_list import ActionList
from auditor.actions.run_inputs import RunInputs
from auditor.audit.changes import RunChanges, find_accepted_gaps
from auditor.audit.check_stage import count_causes
from auditor.audit.comparison import BookieAnswers, Witness
from auditor.audit.earlier_run import EarlierRun
from auditor.audit.entry_log_scan import EntryLogScan, count_whole_entries
from auditor.audit.index_scan import REUSE_COUNT_SQL, Indexes
from auditor.audit.metadata import ClusterMetadata
from auditor.audit.metadata_scan import FirstScan, count_doubtful_ids
from auditor.audit.offload_scan import offload_remarks
from auditor.audit.owner_scan import Owners, owner_remarks
from auditor.audit.placement_scan import Placement, placement_facts, placement_remarks
from auditor.audit.space_scan import forecast_remarks, space_remarks
from auditor.checks import ALL_CHECKS, TABLE_CHECKS
from auditor.checks.check import Need
from auditor.checks.configuration import CheckConfiguration
from auditor.checks.needs import AvailableInputs
from auditor.codecs.pulsar.placement_config import KEY
from auditor.findings.causes import Claim
from auditor.findings.table import next_steps, report_order
from auditor.model.action_facts import HoldFacts
from auditor.model.amounts import plural
from auditor.model.columns import LEDGER
from auditor.model.finding import Confidence, Finding, Severity
from auditor.model.placement import Locations
from auditor.model.repair import RepairFacts, RepairState, repair_facts, single_copy_text
from auditor.model.report import BookiesRead, Coverage, DecidedCount, ReplicaCount, Report
from auditor.model.run_facts import (
    FindingCause,
    Impact,
    InDoubt,
    Remark,
    RemarkKind,
    ReuseCount,
    RunFacts,
    Tally,
    program_version,
    remark,
    remark_with_reason,
)
from auditor.model.states import BookieRead, LedgerStatus, MarkRowKind
from auditor.reports.blind_spots import checks_without_input
from auditor.reports.simulation import near_loss_sentences, possible_loss_sentences
from auditor.runs.directory import RunDirectory
from auditor.runs.reader import RunReader, finding_of
from auditor.runs.run_inputs import owner_identities
from auditor.simulate.near_loss import find_near_losses
from auditor.sources.bookies.rpc.listings import ASKABLE_CONDITION
from auditor.spark import functions as F
from auditor.spark.table_queries import aggregate_tables
from auditor.spark.types import DataFrame
from auditor.tables import Tables
from auditor.tables.placement import locations_of
from auditor.tables.verdicts import IS_WITHOUT_ENTRIES

ABSENT_OBJECT_CHECKS = frozenset(
    {check.id for check in ALL_CHECKS if check.needs & {Need.ALL_BOOKIES, Need.ALL_MARKS, Need.ALL_LEDGERS}}
    | {check.id for check in TABLE_CHECKS if check.asks in ("orphans", "ownership", "offload_objects")}
)
"""Checks with findings about objects that the metadata lacks."""

MAX_GAPS_SHOWN = 20
"""Largest number of metadata gaps in a report."""

OWN_POLICY_KEY = "own groups"
"""Key of the count of ledgers that have a placement policy of their own."""


@dataclass(frozen=True)
class RunResults:
    """All results of an audit that its report needs. Times are in ms.

    ``answers`` is None if no bookie was asked for a list of entries. ``entry_logs`` is None without
    ``--entry-logs``. ``may_ask_bookies`` is True if ``--witness`` allows reads of entries from bookies.
    """

    started: int
    configuration: CheckConfiguration
    metadata: ClusterMetadata
    earlier_run: EarlierRun
    indexes: Indexes
    answers: BookieAnswers | None
    witness: Witness
    may_ask_bookies: bool
    owners: Owners
    placement: Placement
    entry_logs: EntryLogScan | None
    tables: Tables
    meta_gaps: UnreadMetadata
    changes: RunChanges
    holds: HoldFacts
    actions: ActionList
    numbers: ReportNumbers


class ReportNumbers(NamedTuple):
    """The numbers and the size-limited sample of findings that a report takes from large tables.

    ``counts`` has the results of queries by query name (`count_for_report`).
    """

    counts: Mapping[str, tuple[int, ...]]
    coverage: Coverage
    impact: list[Impact]
    samples: tuple[Finding, ...]
    causes: list[FindingCause]


def summarise(results: RunResults) -> Report:
    """Return the report of an audit. The findings must already be written."""
    metadata, indexes, old_run = results.metadata, results.indexes, results.earlier_run
    source, tables, changes, counts = metadata.source, results.tables, results.changes, results.numbers.counts
    witness_reads, witness_remarks = results.witness.summary()
    reused_count, reads = counts["ledgers"]
    notes = (*metadata.first.notes, *indexes.reuse_notes)
    locations = locations_of(tables.roster.bookie_locations, results.placement.origin)
    bookies = [row["bookie_id"] for row in tables.roster.bookies]
    placement = placement_facts(results.placement, locations, bookies, sum(counts.get(OWN_POLICY_KEY, ())))
    run_facts = RunFacts(
        version=program_version(),
        started=results.started,
        finished=changes.finish_ms,
        scan_time=source.scan_time,
        live=source.live,
        positions=metadata.positions(),
        bookie_sources=list(indexes.bookies.sources),
        entry_logs=results.entry_logs is not None,
        owners=results.owners.rows is not None,
        offload_listing="offload_objects" in tables.frames,
        operations=_count_operations(metadata, indexes, counts, witness_reads) | count_whole_entries(tables),
        gaps=results.meta_gaps.gaps,
        in_doubt=results.meta_gaps.missed_ids,
        remarks=[
            *metadata.remarks(),
            *indexes.remarks(),
            *witness_remarks,
            *owner_remarks(results.owners, tables.ownership),
            *offload_remarks(tables),
            *placement_remarks(results.placement, placement),
            *(space_remarks(results.entry_logs, tables) if results.entry_logs else []),
            *forecast_remarks(tables),
            *changes.remarks(),
            *_remarks_on_possible_dump_cut(metadata.first, changes.tally()),
            *_loss_remarks(source.cache.run, locations, tables.cluster.repair, bool(indexes.bookies.sources)),
            *(remark_with_reason(RemarkKind.REUSE, note) for note in old_run.notes if not old_run.path),
        ],
        resumed=source.cache.run_store.oldest_table_ms,
        tally=changes.tally(),
        impact=results.numbers.impact,
        changes=changes.change_counts(),
        suppressions=changes.suppressions(),
        accepted=find_accepted_gaps(changes, tables),
        reused=old_run.report_reuse(indexes.reuse_count, ReuseCount(reused=reused_count, read=reads), notes),
        keeps_marks=source.store.keeps_marks,
        keeps_times=source.store.keeps_times,
        marks_listed=metadata.second.marks_listed,
        bookies_listed=metadata.bookie_list_gaps(),
        directories_read=len(indexes.bookies.attribution.directories),
        witness_asked=source.live and results.may_ask_bookies,
        placement=placement,
        steps=next_steps(changes.counts_of_this_run(), results.actions.texts),
        causes=results.numbers.causes,
        holds=results.holds,
        actions=list(results.actions.actions),
        forbidden=list(results.actions.forbidden_actions),
        repair=repair_facts(tables.cluster.repair, source.scan_time, _previous_repair(changes)),
        checks=results.configuration.facts(),
    )
    report = Report.make(run_facts, source.cluster, results.numbers.coverage, results.numbers.samples)
    return replace(report, run=replace(run_facts, blind=list(checks_without_input(report))))


def _loss_remarks(
    run: RunDirectory, locations: Locations, repair: RepairState, has_sources: bool
) -> list[Remark]:
    """Return remarks about ledgers that lose data after one more failure, or have one reachable copy.

    ``has_sources`` is whether bookie sources were given. Without them every copy is unknown, and every
    ledger would be a possible loss. In that case, remarks about possible losses are left out.
    """
    losses = find_near_losses(run, locations, repair.down)
    texts = [*near_loss_sentences(losses), *(possible_loss_sentences(losses) if has_sources else [])]
    remarks = [remark(RemarkKind.NEAR_LOSS, "one failure from data loss", *texts)] if texts else []
    if repair.single_copy:
        remarks.append(remark(RemarkKind.ONE_REACHABLE_COPY, single_copy_text(repair)))
    return remarks


def _previous_repair(changes: RunChanges) -> tuple[RepairFacts, int] | None:
    """Return the repair facts of the previous run and its scan time in ms, or None if there are none."""
    if changes.previous is None:
        return None
    previous_facts = RunReader(changes.previous.path).report.run
    return None if previous_facts.repair is None else (previous_facts.repair, previous_facts.scan_time)


def count_for_report(
    tables: Tables,
    metadata: ClusterMetadata,
    indexes: Indexes,
    bookie_answers: BookieAnswers | None,
    findings: DataFrame,
    claims: Sequence[Claim],
    max_samples: int,
) -> ReportNumbers:
    """Query the tables for the numbers of a report.

    The result includes up to ``max_samples`` findings of each check.
    """
    counts = _count_large_tables(tables, metadata, indexes, bookie_answers)
    return ReportNumbers(
        counts,
        _count_coverage(tables, counts),
        count_impact(findings, tables.ledgers),
        _sample_findings(findings, max_samples),
        count_causes(findings, claims),
    )


def _remarks_on_possible_dump_cut(first_scan: FirstScan, finding_tally: list[Tally]) -> list[Remark]:
    """Return a remark if confirmed findings depend on missing records of a dump that may be truncated."""
    if first_scan.nodes.proves_absence or first_scan.gap_reason:
        return []  # other remarks report a dump that is known to be cut
    absence_rows = (row for row in finding_tally if row["id"] in ABSENT_OBJECT_CHECKS)
    dependent_count = sum(row["count"] for row in absence_rows if row["confidence"] == Confidence.CONFIRMED)
    if not dependent_count:
        return []
    finding_text = plural(dependent_count, "finding depends", "findings depend")
    text = f"the dump may be cut off: {finding_text} on missing records"
    return [remark(RemarkKind.END_UNKNOWN, text, "make the dump with bkaudit dump, which writes an end mark")]


def _count_large_tables(
    tables: Tables, metadata: ClusterMetadata, indexes: Indexes, bookie_answers: BookieAnswers | None
) -> dict[str, tuple[int, ...]]:
    """Return the counts that a report takes from large tables, by query name."""
    decided_ledger_sql = "count_if(class = potential_class and class != 'undecided')"
    queries: dict[str, tuple[DataFrame, Sequence[str]]] = {
        "verdicts": (tables.verdicts, ("count(*)", decided_ledger_sql)),
        "judged": (tables.judged, ("sum(size(unknown))",)),
        "ledgers": (tables.ledgers.where("status != 'gap'"), REUSE_COUNT_SQL),
        "open": (tables.ledgers, (f"count_if({IS_WITHOUT_ENTRIES})",)),
        "marks": (metadata.second.marks.where("kind in ('mark', 'lock')"), ("count(*)",)),
    }
    if not indexes.has_complete_rows:
        queries["availability"] = (tables.availability, ("count_if(path is not null)",))
    if (reread_ledgers := metadata.second.ledgers) is not None:
        queries["ledgers_again"] = (reread_ledgers.where("status != 'gap'"), REUSE_COUNT_SQL)
    if tables.cluster.placement is not None:
        own_policy_sql = f"count_if(map_contains_key(custom_metadata, '{KEY}'))"
        queries[OWN_POLICY_KEY] = (tables.ledgers, (own_policy_sql,))
    if bookie_answers:
        queries["answers"] = (bookie_answers.rows.where(ASKABLE_CONDITION), ("count(*)",))
    index_counts = {"availability": (sum(count.number for count in indexes.counts if count.placed),)}
    return (index_counts if indexes.has_complete_rows else {}) | aggregate_tables(queries)


def _count_coverage(tables: Tables, counts: Mapping[str, tuple[int, ...]]) -> Coverage:
    rows = tables.bookies.where("named or found").orderBy("bookie_id").collect()
    unread_bookies = tuple(row["bookie_id"] for row in rows if row["read"] != BookieRead.READ)
    replica_count = sum(row["replicas"] for row in rows)
    [unknown_count], [unjudged_count] = counts["judged"], counts["open"]
    ledger_count, decided_ledger_count = counts["verdicts"]
    # Ledgers without entries are not judged. decided_count has them, because none of their copies is unknown.
    return Coverage(
        DecidedCount(ledger_count, decided_ledger_count - unjudged_count, unjudged_count),
        BookiesRead(len(rows), len(rows) - len(unread_bookies), unread_bookies),
        ReplicaCount(replica_count, replica_count - unknown_count),
    )


def _count_operations(
    metadata: ClusterMetadata, indexes: Indexes, counts: Mapping[str, tuple[int, ...]], witness_reads: int
) -> dict[str, int]:
    """Return the number of read operations on the sources, by kind."""
    ledger_scan_counts = [counts[name] for name in ("ledgers", "ledgers_again") if name in counts]
    reused_count, _ = counts.get("ledgers_again", (0, 0))
    read_operations = {
        **metadata.source.store.operations(),
        "ledger records read by tasks": sum(read_count for _, read_count in ledger_scan_counts),
        "ledgers unchanged, not read again": reused_count,
        "marks and locks read by tasks": sum(counts["marks"]),
        "indexes read": sum(counts["availability"]) - indexes.reuse_count["reused"],
        "listings asked of bookies": sum(counts.get("answers", ())),
        "entries read from bookies": witness_reads,
    }
    return {name: count for name, count in read_operations.items() if count}


class UnreadMetadata(NamedTuple):
    """A size-limited sample of unreadable metadata, and the ledger ids that the scan may have missed."""

    gaps: list[str]
    missed_ids: InDoubt | None


def find_unread_metadata(metadata: ClusterMetadata, doubtful_ids: DataFrame) -> UnreadMetadata:
    """Return the metadata that could not be read. It may contain objects that the audit does not know."""
    ids_in_doubt = count_doubtful_ids(doubtful_ids) if metadata.source.cache.count("doubtful_ids") else None
    return UnreadMetadata(_sample_gaps(metadata), ids_in_doubt)


def _sample_gaps(metadata: ClusterMetadata) -> list[str]:
    """Return a size-limited sample of the metadata paths that could not be read, each with its reason."""
    gap_sources = [
        ("ledgers", "status", LedgerStatus.GAP, metadata.first.ledgers),
        ("marks", "kind", MarkRowKind.GAP, metadata.second.marks),
        ("ledgers_again", "status", LedgerStatus.GAP, metadata.second.ledgers),
    ]
    rows = []
    for name, column, gap_state, table in gap_sources:
        if table is not None and gap_state in metadata.source.cache.distinct_values(name, column):
            gap_rows = table.where(F.col(column) == gap_state).select("path", "damage")
            rows += gap_rows.limit(MAX_GAPS_SHOWN).collect()
    gaps_with_reasons = {*metadata.gaps(), *((row["path"], row["damage"]) for row in rows)}
    return [f"{path}: {reason}" for path, reason in sorted(gaps_with_reasons)][:MAX_GAPS_SHOWN]


def count_impact(findings: DataFrame, ledgers: DataFrame) -> list[Impact]:
    """Return, for each severity, the number of ledgers with findings, and their total length in bytes.

    A ledger with several findings of the same severity counts once.
    """
    finding_ledgers = findings.where("ledger_id is not null").select("severity", *LEDGER)
    # Two znodes may name the same ledger id, and a damaged record may have any length.
    length_rows = ledgers.where("length > 0").join(finding_ledgers.select(*LEDGER), [*LEDGER], "left_semi")
    lengths = length_rows.groupBy(*LEDGER).agg(F.max("length").alias("length"))
    ledger_lengths = finding_ledgers.distinct().join(lengths, [*LEDGER], "left")
    total_bytes = F.coalesce(F.sum(F.col("length").cast("decimal(20,0)")), F.lit(0)).alias("bytes")
    rows = ledger_lengths.groupBy("severity").agg(F.count("*").alias("ledgers"), total_bytes).collect()
    impacts = [
        Impact(severity=row["severity"], ledgers=row["ledgers"], bytes=int(row["bytes"])) for row in rows
    ]
    return sorted(impacts, key=lambda row: Severity(row["severity"]).rank)


def _sample_findings(findings: DataFrame, max_samples: int) -> tuple[Finding, ...]:
    """Return the first ``max_samples`` findings of each check id."""
    sample_rank = F.row_number().over(F.Window.partitionBy("id").orderBy(*report_order()))
    samples = findings.withColumn("place", sample_rank).where(F.col("place") <= max_samples)
    rows = samples.orderBy(*report_order())
    return tuple(finding_of(row.asDict(recursive=True)) for row in rows.collect())


def available_inputs_of_run(
    metadata: ClusterMetadata,
    indexes: Indexes,
    tables: Tables,
    owners: Owners,
    bookies_asked: bool,
    skipped_ids: tuple[str, ...],
) -> AvailableInputs:
    """Return the inputs that a run had (`AvailableInputs.from_report`), before its report exists.

    An input that was partly read counts as read.
    """
    source, bookie_list_gaps = metadata.source, metadata.bookie_list_gaps()
    return AvailableInputs(
        is_live=source.live,
        has_two_scans=len(metadata.positions()) > 1,
        keeps_replication_marks=source.store.keeps_marks,
        keeps_times=source.store.keeps_times,
        lists_all_marks=metadata.second.marks_listed,
        unread_place_reason=bookie_list_gaps["hidden"],
        has_instance_id=source.cluster.instance_id is not None,
        has_bookie_sources=bool(indexes.bookies.sources),
        directory_count=len(indexes.bookies.attribution.directories),
        read_bookie_count=sum(row["read"] == BookieRead.READ for row in tables.roster.bookies),
        asks_bookies=bookies_asked,
        reads_entry_logs="entry_logs" in tables.frames,
        reads_whole_entries="digests" in tables.frames,
        reads_owners=owners.rows is not None,
        has_offload_listing="offload_objects" in tables.frames,
        checks_placement=tables.cluster.placement is not None,
        has_registrations=tables.cluster.repair.knows_registrations,
        skipped_checks=skipped_ids,
    )


def run_inputs(inputs: AvailableInputs, tables: Tables, has_missing_logs: bool) -> RunInputs:
    """Return the inputs of a run, for comparison with earlier runs.

    ``has_missing_logs`` is whether an index locates entries in entry logs that do not exist.
    """
    stores = owner_identities(tables.roster.owner_stores)
    return RunInputs(
        int(inputs.reads_entry_logs), int(inputs.asks_bookies is True), stores, int(has_missing_logs)
    )
