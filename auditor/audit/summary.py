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
from auditor.audit.entry_log_scan import EntryLogScan, entries_whole
from auditor.audit.index_scan import REUSED_AND_READ, Indexes
from auditor.audit.metadata import ClusterMetadata
from auditor.audit.metadata_scan import FirstScan, count_ids_in_doubt
from auditor.audit.offload_scan import offload_remarks
from auditor.audit.owner_scan import Owners, owner_remarks
from auditor.audit.placement_scan import Placement, placement_facts, placement_remarks
from auditor.audit.space_scan import foresight_remarks, space_remarks
from auditor.checks import ALL, TABLE_CHECKS
from auditor.checks.check import Need
from auditor.checks.configuration import CheckConfiguration
from auditor.checks.needs import Sight
from auditor.codecs.pulsar.placement_config import KEY
from auditor.findings.causes import Claim
from auditor.findings.table import next_steps, order
from auditor.model.action_facts import HoldFacts
from auditor.model.amounts import plural
from auditor.model.columns import LEDGER
from auditor.model.finding import Confidence, Finding, Severity
from auditor.model.placement import Locations
from auditor.model.repair import RepairFacts, RepairState, repair_facts, single_copy_words
from auditor.model.report import BookiesRead, Coverage, DecidedCount, Replicas, Report
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
from auditor.model.states import BookieRead, LedgerStatus, MarkRow
from auditor.reports.blind_spots import checks_without_input
from auditor.reports.simulation import near_loss_sentences, possible_loss_words
from auditor.runs.directory import RunDirectory
from auditor.runs.reader import RunReader, finding_of
from auditor.runs.run_inputs import owner_identities
from auditor.simulate.near_loss import near_loss
from auditor.sources.bookies.rpc.listings import ASKABLE_ROWS
from auditor.spark import functions as F
from auditor.spark.table_queries import aggregate_many
from auditor.spark.types import DataFrame
from auditor.tables import Tables
from auditor.tables.placement import locations_of
from auditor.tables.verdicts import IS_WITHOUT_ENTRIES

ON_ABSENCE = frozenset(
    {check.id for check in ALL if check.needs & {Need.ALL_BOOKIES, Need.ALL_MARKS, Need.ALL_LEDGERS}}
    | {check.id for check in TABLE_CHECKS if check.asks in ("orphans", "ownership", "offload_objects")}
)
"""Checks whose findings say that the metadata lacks an object."""

GAPS_SHOWN = 20
"""Largest number of metadata gaps that a report names. A single gap makes the report incomplete."""


OWN_GROUPS = "own groups"
"""Key of the count of ledgers that have a placement policy of their own."""


@dataclass(frozen=True)
class Audited:
    """All results of an audit that its report needs. Times are in ms.

    ``answers`` and ``entry_logs`` are None if they were not requested. ``may_ask`` is whether ``--witness``
    allows reads from bookies.
    """

    started: int
    configuration: CheckConfiguration
    metadata: ClusterMetadata
    earlier: EarlierRun
    indexes: Indexes
    answers: BookieAnswers | None
    witness: Witness
    may_ask: bool
    owners: Owners
    placement: Placement
    entry_logs: EntryLogScan | None
    tables: Tables
    holes: Holes
    changes: RunChanges
    holds: HoldFacts
    actions: ActionList
    numbers: ReportNumbers


class ReportNumbers(NamedTuple):
    """The numbers and the bounded sample of findings that a report takes from large tables.

    ``counts`` has the results of queries by query name (`count_for_report`).
    """

    counts: Mapping[str, tuple[int, ...]]
    coverage: Coverage
    impact: list[Impact]
    samples: tuple[Finding, ...]
    causes: list[FindingCause]


def summarise(audited: Audited) -> Report:
    """Return the report of an audit after its findings were written."""
    metadata, indexes, earlier = audited.metadata, audited.indexes, audited.earlier
    source, tables, changes, counts = metadata.source, audited.tables, audited.changes, audited.numbers.counts
    witness_reads, witness_remarks = audited.witness.summary()
    reused, read = counts["ledgers"]
    scan_notes = (*metadata.first.notes, *indexes.earlier_notes)
    locations = locations_of(tables.roster.bookie_locations, audited.placement.origin)
    bookies = [row["bookie_id"] for row in tables.roster.bookies]
    placement_report = placement_facts(audited.placement, locations, bookies, sum(counts.get(OWN_GROUPS, ())))
    run = RunFacts(
        version=program_version(),
        started=audited.started,
        finished=changes.finished,
        scan_time=source.scan_time,
        live=source.live,
        positions=metadata.positions(),
        bookie_sources=list(indexes.bookies.sources),
        entry_logs=audited.entry_logs is not None,
        owners=audited.owners.rows is not None,
        offload_listing="offload_objects" in tables.frames,
        operations=_operations(metadata, indexes, counts, witness_reads) | entries_whole(tables),
        gaps=audited.holes.gaps,
        in_doubt=audited.holes.in_doubt,
        remarks=[
            *metadata.remarks(),
            *indexes.remarks(),
            *witness_remarks,
            *owner_remarks(audited.owners, tables.ownership),
            *offload_remarks(tables),
            *placement_remarks(audited.placement, placement_report),
            *(space_remarks(audited.entry_logs, tables) if audited.entry_logs else []),
            *foresight_remarks(tables),
            *changes.remarks(),
            *_end_unknown(metadata.first, changes.tally()),
            *_near_loss(source.cache.run, locations, tables.cluster.repair, bool(indexes.bookies.sources)),
            *(remark_with_reason(RemarkKind.REUSE, note) for note in earlier.notes if not earlier.path),
        ],
        resumed=source.cache.run_store.resumed,
        tally=changes.tally(),
        impact=audited.numbers.impact,
        changes=changes.change_counts(),
        suppressions=changes.suppressions(),
        accepted=find_accepted_gaps(changes, tables),
        reused=earlier.reused(indexes.reused, ReuseCount(reused=reused, read=read), scan_notes),
        keeps_marks=source.store.keeps_marks,
        keeps_times=source.store.keeps_times,
        marks_listed=metadata.second.marks_listed,
        bookies_listed=metadata.bookies_seen(),
        directories_read=len(indexes.bookies.attribution.directories),
        witness_asked=source.live and audited.may_ask,
        placement=placement_report,
        steps=next_steps(changes.found(), audited.actions.texts),
        causes=audited.numbers.causes,
        holds=audited.holds,
        actions=list(audited.actions.actions),
        forbidden=list(audited.actions.forbidden_actions),
        repair=repair_facts(tables.cluster.repair, source.scan_time, _previous_repair(changes)),
        checks=audited.configuration.facts(),
    )
    report = Report.make(run, source.cluster, audited.numbers.coverage, audited.numbers.samples)
    return replace(report, run=replace(run, blind=list(checks_without_input(report))))


def _near_loss(
    run: RunDirectory, locations: Locations, repair: RepairState, has_sources: bool
) -> list[Remark]:
    """Return remarks about ledgers one failure from data loss and ledgers with one reachable copy.

    ``has_sources`` is whether bookie sources were given. Without sources, every copy is unknown, and every
    ledger would be a possible loss. Possible losses are then left out.
    """
    levels = near_loss(run, locations, repair.down)
    words = [*near_loss_sentences(levels), *(possible_loss_words(levels) if has_sources else [])]
    remarks = [remark(RemarkKind.NEAR_LOSS, "one failure from data loss", *words)] if words else []
    if repair.single_copy:
        remarks.append(remark(RemarkKind.ONE_REACHABLE, single_copy_words(repair)))
    return remarks


def _previous_repair(changes: RunChanges) -> tuple[RepairFacts, int] | None:
    """Return the repair facts of the previous run and its scan time in ms. None if there are none."""
    if changes.previous is None:
        return None
    facts = RunReader(changes.previous.path).report.run
    return None if facts.repair is None else (facts.repair, facts.scan_time)


def count_for_report(
    tables: Tables,
    metadata: ClusterMetadata,
    indexes: Indexes,
    answers: BookieAnswers | None,
    findings: DataFrame,
    claims: Sequence[Claim],
    samples: int,
) -> ReportNumbers:
    """Query the tables for the numbers of a report, with at most ``samples`` findings of each check."""
    counts = _counts(tables, metadata, indexes, answers)
    return ReportNumbers(
        counts,
        _coverage(tables, counts),
        impact(findings, tables.ledgers),
        _samples(findings, samples),
        count_causes(findings, claims),
    )


def _end_unknown(first: FirstScan, tally: list[Tally]) -> list[Remark]:
    """Return a remark if confirmed findings depend on missing records of a dump that may be truncated."""
    if first.nodes.proves_absence or first.cut:
        return []  # what may be missing of a dump that is known to be cut is said otherwise
    resting_count = sum(
        row["count"] for row in tally if row["id"] in ON_ABSENCE and row["confidence"] == Confidence.CONFIRMED
    )
    if not resting_count:
        return []
    resting_findings = plural(resting_count, "finding depends", "findings depend")
    text = f"the dump may be cut: {resting_findings} on records that are missing"
    return [remark(RemarkKind.END_UNKNOWN, text, "make the dump with bkaudit dump, which writes an end mark")]


def _counts(
    tables: Tables, metadata: ClusterMetadata, indexes: Indexes, answers: BookieAnswers | None
) -> dict[str, tuple[int, ...]]:
    """Return the counts of large tables that a report contains, by query name."""
    decided_sql = "count_if(class = potential_class and class != 'undecided')"
    queries: dict[str, tuple[DataFrame, Sequence[str]]] = {
        "verdicts": (tables.verdicts, ("count(*)", decided_sql)),
        "judged": (tables.judged, ("sum(size(unknown))",)),
        "ledgers": (tables.ledgers.where("status != 'gap'"), REUSED_AND_READ),
        "open": (tables.ledgers, (f"count_if({IS_WITHOUT_ENTRIES})",)),
        "marks": (metadata.second.marks.where("kind in ('mark', 'lock')"), ("count(*)",)),
    }
    if not indexes.whole:
        queries["availability"] = (tables.availability, ("count_if(path is not null)",))
    if (second_ledgers := metadata.second.ledgers) is not None:
        queries["ledgers_again"] = (second_ledgers.where("status != 'gap'"), REUSED_AND_READ)
    if tables.cluster.placement is not None:
        queries[OWN_GROUPS] = (tables.ledgers, (f"count_if(map_contains_key(custom_metadata, '{KEY}'))",))
    if answers:
        queries["answers"] = (answers.rows.where(ASKABLE_ROWS), ("count(*)",))
    known_counts = {"availability": (sum(count.number for count in indexes.counts if count.placed),)}
    return (known_counts if indexes.whole else {}) | aggregate_many(queries)


def _coverage(tables: Tables, counts: Mapping[str, tuple[int, ...]]) -> Coverage:
    rows = tables.bookies.where("named or found").orderBy("bookie_id").collect()
    unread_bookies = tuple(row["bookie_id"] for row in rows if row["read"] != BookieRead.READ)
    expected = sum(row["replicas"] for row in rows)
    [unknown] = counts["judged"]
    total, decided_count = counts["verdicts"]
    [unjudged] = counts["open"]
    # No copy of what is not judged is missing or unknown: each of these ledgers counts as decided so far.
    return Coverage(
        DecidedCount(total, decided_count - unjudged, unjudged),
        BookiesRead(len(rows), len(rows) - len(unread_bookies), unread_bookies),
        Replicas(expected, expected - unknown),
    )


def _operations(
    metadata: ClusterMetadata, indexes: Indexes, counts: Mapping[str, tuple[int, ...]], witness_reads: int
) -> dict[str, int]:
    """Return the number of read operations on the sources, by kind."""
    scans = [counts[name] for name in ("ledgers", "ledgers_again") if name in counts]
    reused, _ = counts.get("ledgers_again", (0, 0))
    operations = {
        **metadata.source.store.operations(),
        "ledger records read by tasks": sum(read for _, read in scans),
        "ledgers unchanged, not read again": reused,
        "marks and locks read by tasks": sum(counts["marks"]),
        "indexes read": sum(counts["availability"]) - indexes.reused["reused"],
        "listings asked of bookies": sum(counts.get("answers", ())),
        "entries read from bookies": witness_reads,
    }
    return {name: count for name, count in operations.items() if count}


class Holes(NamedTuple):
    """A bounded sample of unreadable metadata, and the ledger ids that it leaves in doubt."""

    gaps: list[str]
    in_doubt: InDoubt | None


def find_holes(metadata: ClusterMetadata, doubtful_ids: DataFrame) -> Holes:
    """Return the metadata that could not be read. Objects in this metadata may exist unseen."""
    in_doubt = count_ids_in_doubt(doubtful_ids) if metadata.source.cache.count("doubtful_ids") else None
    return Holes(_gaps(metadata), in_doubt)


def _gaps(metadata: ClusterMetadata) -> list[str]:
    """Return a bounded sample of the metadata paths that could not be read, each with its reason."""
    tables = [
        ("ledgers", "status", LedgerStatus.GAP, metadata.first.ledgers),
        ("marks", "kind", MarkRow.GAP, metadata.second.marks),
        ("ledgers_again", "status", LedgerStatus.GAP, metadata.second.ledgers),
    ]
    rows = []
    for name, column, gap, table in tables:
        if table is None:
            continue
        if gap in metadata.source.cache.values(name, column):
            gaps = table.where(F.col(column) == gap).select("path", "damage")
            rows += gaps.limit(GAPS_SHOWN).collect()
    gaps_with_reasons = {*metadata.gaps(), *((row["path"], row["damage"]) for row in rows)}
    return [f"{path}: {reason}" for path, reason in sorted(gaps_with_reasons)][:GAPS_SHOWN]


def impact(findings: DataFrame, ledgers: DataFrame) -> list[Impact]:
    """Return the number of ledgers and their bytes by severity.

    A ledger with several findings of one severity counts once.
    """
    finding_ledgers = findings.where("ledger_id is not null").select("severity", *LEDGER)
    concerned_ledgers = finding_ledgers.distinct()
    # Two znodes may say that they are one ledger; a damaged record may say any length.
    with_length = ledgers.where("length > 0").join(finding_ledgers.select(*LEDGER), [*LEDGER], "left_semi")
    lengths = with_length.groupBy(*LEDGER).agg(F.max("length").alias("length"))
    bytes = F.coalesce(F.sum(F.col("length").cast("decimal(20,0)")), F.lit(0))
    rows = (
        concerned_ledgers.join(lengths, [*LEDGER], "left")
        .groupBy("severity")
        .agg(F.count("*").alias("ledgers"), bytes.alias("bytes"))
        .collect()
    )
    impacts = [Impact(severity=r["severity"], ledgers=r["ledgers"], bytes=int(r["bytes"])) for r in rows]
    return sorted(impacts, key=lambda impact: Severity(impact["severity"]).rank)


def _samples(findings: DataFrame, samples: int) -> tuple[Finding, ...]:
    """Return the first ``samples`` findings of each check id."""
    row_rank = F.row_number().over(F.Window.partitionBy("id").orderBy(*order()))
    rows = findings.withColumn("place", row_rank).where(F.col("place") <= samples).orderBy(*order())
    return tuple(finding_of(row.asDict(recursive=True)) for row in rows.collect())


def sight_of(
    metadata: ClusterMetadata,
    indexes: Indexes,
    tables: Tables,
    owners: Owners,
    bookies_asked: bool,
    not_run: tuple[str, ...],
) -> Sight:
    """Return the inputs that a run had (`Sight.of`), before its report exists.

    An input that was partly read counts as read.
    """
    source, listed = metadata.source, metadata.bookies_seen()
    return Sight(
        live=source.live,
        two_scans=len(metadata.positions()) > 1,
        keeps_marks=source.store.keeps_marks,
        keeps_times=source.store.keeps_times,
        marks_listed=metadata.second.marks_listed,
        hidden=listed["hidden"],
        instance_id=source.cluster.instance_id is not None,
        sources=bool(indexes.bookies.sources),
        directories=len(indexes.bookies.attribution.directories),
        read=sum(row["read"] == BookieRead.READ for row in tables.roster.bookies),
        witness=bookies_asked,
        entry_logs="entry_logs" in tables.frames,
        deep="digests" in tables.frames,
        owners=owners.rows is not None,
        offload_listing="offload_objects" in tables.frames,
        placement=tables.cluster.placement is not None,
        registrations=tables.cluster.repair.knows_registrations,
        not_run=not_run,
    )


def inputs_of(sight: Sight, tables: Tables, has_gone_entries: bool) -> RunInputs:
    """Return the inputs of a run, for comparison with earlier runs.

    ``has_gone_entries`` is whether an index locates entries in entry logs that do not exist.
    """
    stores = owner_identities(tables.roster.owner_stores)
    return RunInputs(int(sight.entry_logs), int(sight.witness is True), stores, int(has_gone_entries))
