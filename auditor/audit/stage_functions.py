"""Functions of the stages of an audit. `auditor.audit.audit_stages` defines their order.

A stage that produces several values returns them as a named tuple.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from auditor.actions.action_list import ActionList
from auditor.audit.bookies import find_bookies
from auditor.audit.changes import RunChanges, RunsBefore, compare_with_previous, find_runs_before
from auditor.audit.check_stage import run_checks
from auditor.audit.comparison import (
    BookieAnswers,
    CopyComparison,
)
from auditor.audit.derived_tables import derive_tables, with_declared_tables
from auditor.audit.earlier_run import EarlierRun, find_earlier_run
from auditor.audit.entry_log_scan import EntryLogScan, read_entry_logs
from auditor.audit.hold_stage import RunScope, write_holds
from auditor.audit.index_scan import Indexes, read_indexes
from auditor.audit.metadata import (
    ClusterMetadata,
    ScanDifference,
    scan_second,
    watch_ledgers,
    write_difference,
)
from auditor.audit.metadata_scan import FirstScan, MetadataSource, scan_first
from auditor.audit.offload_scan import with_offloads
from auditor.audit.owner_scan import (
    Owners,
    match_owner_stores,
    read_owners,
    resolve_cursors,
    write_owner_stores,
    write_ownership,
)
from auditor.audit.placement_scan import Placement, read_placement, with_placement
from auditor.audit.source_age import find_old_sources
from auditor.audit.source_scopes import write_sources
from auditor.audit.space_scan import add_gc_forecast, add_space_tables
from auditor.audit.summary import (
    ReportNumbers,
    RunResults,
    UnreadMetadata,
    available_inputs_of_run,
    count_for_report,
    find_unread_metadata,
    run_inputs,
    summarise,
)
from auditor.audit.table_cache import TableCache, drop_scratch_tables
from auditor.checks.configuration import CheckConfiguration
from auditor.findings.causes import Claim
from auditor.model.action_facts import HoldFacts
from auditor.model.options import AuditOptions
from auditor.model.report import Report
from auditor.model.source_scope import SourceScope, newest_as_of, oldest_as_of
from auditor.runs.run_inputs import find_checks_without_input
from auditor.sources.clock import now_ms
from auditor.spark.types import DataFrame
from auditor.tables import Tables


class MetadataRead(NamedTuple):
    """The earlier run that ``--since`` selects, and the first metadata scan."""

    earlier: EarlierRun
    first: FirstScan


def scan_metadata(cache: TableCache, source: MetadataSource, options: AuditOptions) -> MetadataRead:
    """Scan the metadata for the first time (scan M0)."""
    earlier = find_earlier_run(options.since, cache.run_store, source.cluster)
    watch_ledgers(source)
    return MetadataRead(earlier, scan_first(source, earlier))


class OwnersRead(NamedTuple):
    """The owners of ledgers (such as topics), and the placement settings with the racks of bookies."""

    owner_lists: Owners
    placement: Placement


def read_owners_and_racks(source: MetadataSource, options: AuditOptions) -> OwnersRead:
    """Read the owners of ledgers (such as topics) and the racks of bookies."""
    return OwnersRead(read_owners(source, options), read_placement(source.uri, source.store, options))


class IndexesRead(NamedTuple):
    """The indexes of all bookies, and owners (e.g. topics) with the ledgers that only cursor ledgers name."""

    indexes: Indexes
    resolved_owners: Owners


def read_all_bookies(
    cache: TableCache,
    first: FirstScan,
    bookie_sources: Sequence[str],
    earlier: EarlierRun,
    owner_lists: Owners,
    options: AuditOptions,
) -> IndexesRead:
    """Read the lastMark, the index and the journal of every bookie."""
    bookies = find_bookies(cache, first, bookie_sources)
    indexes = read_indexes(cache, first, bookies, earlier, options)
    indexes = replace(indexes, old_sources=find_old_sources(first, indexes))
    return IndexesRead(indexes, resolve_cursors(owner_lists, first, indexes))


class EntryLogsRead(NamedTuple):
    """The scan of entry logs (None without --entry-logs), and whether an index points to a missing log."""

    entry_logs: EntryLogScan | None
    has_gone: bool


def scan_entry_logs(
    cache: TableCache, first: FirstScan, indexes: Indexes, options: AuditOptions
) -> EntryLogsRead:
    """Read the entry logs if ``--entry-logs`` is given."""
    entry_logs = read_entry_logs(cache, indexes.bookies, first.ledgers, options)
    return EntryLogsRead(entry_logs, entry_logs is not None and cache.count("gone_entries") > 0)


class SecondScanRead(NamedTuple):
    """The metadata from both scans (M0 and M1), and the differences between the scans."""

    metadata: ClusterMetadata
    difference: ScanDifference


def scan_again(first: FirstScan) -> SecondScanRead:
    """Scan the metadata again (scan M1), after all requests to bookies are done."""
    metadata = ClusterMetadata(first, scan_second(first))
    return SecondScanRead(metadata, write_difference(metadata))


class DerivedTables(NamedTuple):
    """The tables that checks read, earlier runs, ledgers' owners, and each source's part of the cluster."""

    before: RunsBefore
    owners: Owners
    tables: Tables
    sources: list[SourceScope]


def derive_for_checks(
    cache: TableCache,
    source: MetadataSource,
    metadata: ClusterMetadata,
    difference: ScanDifference,
    indexes: Indexes,
    answers: BookieAnswers | None,
    comparison: CopyComparison,
    resolved_owners: Owners,
    placement: Placement,
    entry_logs: EntryLogScan | None,
    configuration: CheckConfiguration,
    options: AuditOptions,
) -> DerivedTables:
    """Choose the earlier runs, and make all tables that checks read."""
    before = find_runs_before(cache.run_store, source.cluster, source.live, source.scan_time)
    owners = match_owner_stores(resolved_owners, source, before)
    ownership = write_ownership(owners, metadata, difference, before, options)
    owner_stores = write_owner_stores(owners, ownership, source, options)
    tables = derive_tables(
        cache, metadata, difference, indexes, answers, comparison, ownership, before, placement,
        configuration.settings,
    )  # fmt: skip
    if entry_logs is not None:
        tables = add_space_tables(cache, entry_logs, indexes.rows, tables, before, options.bookie_conf)
    tables = add_gc_forecast(metadata, tables, before, options.bookie_conf)
    tables = with_placement(cache, tables)
    tables = with_declared_tables(cache, with_offloads(cache, owners, tables, options))
    sources = write_sources(cache, metadata, indexes, tables, before, owner_stores)
    return DerivedTables(before, owners, tables, sources)


class CheckedTables(NamedTuple):
    """The unconfirmed findings of all checks, events that caused several of them, and unread metadata."""

    unconfirmed: DataFrame
    claims: list[Claim]
    holes: UnreadMetadata


def check_tables(
    cache: TableCache,
    metadata: ClusterMetadata,
    difference: ScanDifference,
    tables: Tables,
    configuration: CheckConfiguration,
) -> CheckedTables:
    """Run every check, and find the metadata that could not be read."""
    unconfirmed, claims = run_checks(cache, tables, configuration.not_run)
    return CheckedTables(unconfirmed, claims, find_unread_metadata(metadata, difference.doubtful_ids))


def compare_runs(
    cache: TableCache,
    source: MetadataSource,
    metadata: ClusterMetadata,
    indexes: Indexes,
    tables: Tables,
    owners: Owners,
    before: RunsBefore,
    findings: DataFrame,
    holes: UnreadMetadata,
    has_gone: bool,
    configuration: CheckConfiguration,
    options: AuditOptions,
) -> RunChanges:
    """Compare the findings with the previous run, and apply suppressions."""
    bookies_asked = source.live and options.witness == "yes"
    seen_inputs = available_inputs_of_run(
        metadata, indexes, tables, owners, bookies_asked, configuration.not_run
    )
    checks_without_input = {*configuration.not_run, *find_checks_without_input(seen_inputs)}
    return compare_with_previous(
        cache, findings, tables, source.cluster, before.previous, any(holes), options, now_ms(),
        checks_without_input, run_inputs(seen_inputs, tables, has_gone),
    )  # fmt: skip


class HoldResults(NamedTuple):
    """Holds (rules that forbid actions), the list of actions, and the numbers for the report."""

    holds: HoldFacts
    actions: ActionList
    numbers: ReportNumbers


def make_holds(
    cache: TableCache,
    source: MetadataSource,
    metadata: ClusterMetadata,
    indexes: Indexes,
    answers: BookieAnswers | None,
    owners: Owners,
    tables: Tables,
    sources: list[SourceScope],
    before: RunsBefore,
    findings: DataFrame,
    claims: list[Claim],
    changes: RunChanges,
    holes: UnreadMetadata,
    configuration: CheckConfiguration,
    options: AuditOptions,
) -> HoldResults:
    """Derive holds (rules that forbid actions) and the list of actions, and compute the report's numbers."""
    oldest_data_time = oldest_as_of(sources) or source.scan_time
    newest_data_time = newest_as_of(sources, source.scan_time)
    run_scope = RunScope(
        not any(holes),
        owners.rows is not None,
        oldest_data_time,
        newest_data_time,
        configuration.checks_without_holds,
    )
    holds, actions = write_holds(cache, findings, changes, tables, before, run_scope)
    numbers = count_for_report(tables, metadata, indexes, answers, findings, claims, options.samples)
    return HoldResults(holds, actions, numbers)


def write_report(
    cache: TableCache,
    started: int,
    configuration: CheckConfiguration,
    options: AuditOptions,
    metadata: ClusterMetadata,
    earlier: EarlierRun,
    indexes: Indexes,
    answers: BookieAnswers | None,
    comparison: CopyComparison,
    owners: Owners,
    placement: Placement,
    entry_logs: EntryLogScan | None,
    tables: Tables,
    holes: UnreadMetadata,
    changes: RunChanges,
    holds: HoldFacts,
    actions: ActionList,
    numbers: ReportNumbers,
) -> Report:
    """Write the report, and delete the tables that are not needed after it."""
    report = summarise(
        RunResults(
            started=started, configuration=configuration, metadata=metadata, earlier_run=earlier,
            indexes=indexes, answers=answers, witness=comparison.witness,
            may_ask_bookies=options.witness == "yes", owners=owners, placement=placement,
            entry_logs=entry_logs, tables=tables, meta_gaps=holes,
            changes=changes, holds=holds, actions=actions, numbers=numbers,
        )
    )  # fmt: skip
    cache.run.remove("tables/checks")
    drop_scratch_tables(cache)
    cache.run_store.finish(report)
    return report
