"""The stages of one audit, from sources to report.

    M0       read all metadata, with the version of each ledger
    I        read every bookie's index and, if requested, ask the bookies for their own listings
    join     compare the expected entries with the held ones; only unequal pairs go on
    witness  on a live store, ask the bookies for entries that seem to be missing
    M1       read all metadata again (a saved store: M0 counts as M1)
    check    every check queries the tables
    confirm  a finding about a ledger that changed between M0 and M1 stays suspect; a finding that two
        audits made is confirmed
    compare  mark each finding as new, worse, fixed or no longer looked at since the run before; apply
        suppressions
    report   write full counts, bounded samples, coverage and the verdict

The order matters. A ledger's metadata exists before its first entry is written, and is deleted before its
data. Suppose a disk has a ledger that the metadata lacks. If the metadata was read after the disk, the
ledger can only have been deleted.

The size of an audit must be known before Java starts. An audit of some ten thousand ledgers runs most Java
code only a few times, to plan queries. Java's second compiler and a garbage collector with its own threads
would then take a quarter of the processor time without gain. The size is taken from the saved files, or
found with at most a few hundred reads from the running store.
"""

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from auditor.audit.bookie_settings import read_resolver_flag
from auditor.audit.bookies import find_bookies
from auditor.audit.changes import check_suppressions, compare_with_previous, find_runs_before
from auditor.audit.check_stage import run_checks
from auditor.audit.comparison import compare_sides, query_bookies
from auditor.audit.derived_tables import derive_tables, with_declared
from auditor.audit.earlier_run import check_since, find_earlier_run
from auditor.audit.entry_log_scan import read_entry_logs
from auditor.audit.hold_stage import RunScope, land_holds
from auditor.audit.index_scan import read_indexes
from auditor.audit.landing import Landing, drop_few_rows, resumption_of, run_identity
from auditor.audit.lock import run_lock
from auditor.audit.metadata import (
    ClusterMetadata,
    land_difference,
    land_registry,
    scan_marks,
    scan_second,
    watch_ledgers,
)
from auditor.audit.metadata_scan import MetadataSource, open_metadata, scan_first
from auditor.audit.offload_scan import check_listing, with_offloads
from auditor.audit.owner_scan import (
    check_owners,
    land_owner_stores,
    land_ownership,
    match_owner_stores,
    read_owners,
    resolve_cursors,
)
from auditor.audit.placement_scan import check_placement, read_placement, with_placement
from auditor.audit.source_age import find_old_sources
from auditor.audit.source_scopes import land_sources
from auditor.audit.space_scan import collector_settings, with_foresight, with_space
from auditor.audit.summary import Audited, count_for_report, find_holes, inputs_of, sight_of, summarise
from auditor.checks.configuration import CheckConfiguration, read_check_configuration
from auditor.errors import StoreError
from auditor.model.options import AuditOptions
from auditor.model.progress import Progress, Silent
from auditor.model.report import Report
from auditor.model.source_scope import newest_as_of, oldest_as_of
from auditor.runs.directory import RunDirectory
from auditor.runs.run_inputs import checks_without_sight
from auditor.sources.bookies.places import find_places
from auditor.sources.bookies.rpc.access import read_access
from auditor.sources.bookies.source_kinds import split_sources
from auditor.sources.clock import now_ms
from auditor.sources.file_systems import absolute
from auditor.sources.metadata.credentials import credentials_file
from auditor.sources.metadata.stores import (
    check_reachable,
    choose_layout,
    count_ledgers,
    open_store,
    recognise,
    store_options,
)
from auditor.sources.metadata.uri import SAVED, MetadataUri, parse_metadata_uri
from auditor.spark.execution import Execution
from auditor.spark.query_plans import query_plans
from auditor.spark.session import build_session
from auditor.spark.tasks import background_thread, run_errors
from auditor.spark.types import SparkSession

SMALL_BYTES = 8 << 20
"""Largest saved metadata of a small audit, in bytes.

A dump of some 12,000 ledgers or a snapshot of 30,000 has this size; a packed file has ten times as many
ledgers.
"""

SMALL_LEDGERS = 30_000
"""Largest number of ledgers in a running store for which an audit is small."""


def is_small(uri: MetadataUri, options: AuditOptions) -> bool:
    """Return whether the metadata is small by the limits above. False if its size cannot be seen.

    Raises:
        UsageError, StoreError: a running store does not answer, or has another layout than the URI says.
    """
    return _is_saved_small(Path(uri.path)) if uri.scheme in SAVED else _runs_small(uri, options)


def _is_saved_small(path: Path) -> bool:
    try:
        files = [path] if path.is_file() else list(path.iterdir())
        return sum(file.stat().st_size for file in files) <= SMALL_BYTES
    except OSError:
        return False


def _runs_small(uri: MetadataUri, options: AuditOptions) -> bool:
    bounds = store_options(options)
    with closing(open_store(uri, bounds)) as store:
        layout, _ = choose_layout(store, store.cluster())
    try:
        return count_ledgers(uri, layout, bounds).ledgers <= SMALL_LEDGERS
    except StoreError:
        return False  # it answered before: the scan begins anew where it must


class Audit:
    """An audit of a cluster, which compares the metadata with the bookies' indexes and reports faults.

    ``metadata`` is a metadata URI, ``bookies`` the ``--bookies`` sources, ``out`` the run directory to make.
    Without ``bookies`` the audit reads only the metadata, and everything that needs an index is unknown.

    >>> audit = Audit("dump:///saved/metadata.jsonl", ["/mnt/bookies"], "/runs/today")
    >>> audit.options.samples
    20
    """

    def __init__(
        self,
        metadata: str,
        bookies: Sequence[str] = (),
        out: str = "run",
        options: AuditOptions | None = None,
    ) -> None:
        self.metadata = metadata
        self.bookies = tuple(bookies)
        self.out = out
        self.options = options or AuditOptions()

    def run(self, spark: SparkSession | None = None, progress: Progress | None = None) -> Report:
        """Run the audit and return its report. The complete results are in the run directory.

        Raises:
            UsageError: a source or option is invalid, the run directory is taken, or another run of this
                cluster is already running.
            StoreError: the metadata could not be read.
        """
        started, uri = now_ms(), self._check_request()
        configuration = read_check_configuration(self.options)
        with (
            self._landing(uri, spark, progress or Silent(), "audit") as landing,
            open_metadata(landing, uri, self.options) as source,
        ):
            report = summarise(self._conduct(source, started, configuration))
            landing.finish(report)
        return report

    def _conduct(self, source: MetadataSource, started: int, configuration: CheckConfiguration) -> Audited:
        """Run all stages but the report, in order."""
        landing, options = source.landing, self.options
        earlier = find_earlier_run(options.since, landing, source.cluster)
        watch_ledgers(source)
        first = scan_first(source, earlier)  # M0
        owners = read_owners(source, options)
        placement = read_placement(source.uri, source.store, options)
        bookies = find_bookies(landing, first, self.bookies)
        indexes = read_indexes(landing, first, bookies, earlier, options)  # I
        indexes = replace(indexes, old=find_old_sources(first, indexes))
        owners = resolve_cursors(owners, first, indexes)
        entry_logs = read_entry_logs(landing, indexes.bookies, first.ledgers, options)
        answers = query_bookies(landing, first, indexes, options)
        has_gone = landing.count("gone_entries") > 0
        comparison = compare_sides(landing, first, indexes, answers, options, has_gone)  # join, witness
        metadata = ClusterMetadata(first, scan_second(first))  # M1, after all that bookies were asked
        difference = land_difference(metadata)
        before = find_runs_before(landing, source.cluster, source.live, source.scan_time)
        owners = match_owner_stores(owners, source, before)
        ownership = land_ownership(owners, metadata, difference, before, options)
        owner_stores = land_owner_stores(owners, ownership, source, options)
        tables = derive_tables(
            landing, metadata, difference, indexes, answers, comparison, ownership, before, placement,
            configuration.settings,
        )  # fmt: skip
        if entry_logs is not None:
            tables = with_space(landing, entry_logs, indexes.rows, tables, before, options.bookie_conf)
        tables = with_foresight(metadata, tables, before, options.bookie_conf)
        tables = with_placement(landing, tables)
        tables = with_declared(landing, with_offloads(landing, owners, tables, options))
        sources = land_sources(landing, metadata, indexes, tables, before, owner_stores)
        # check, confirm
        (findings, claims), holes = landing.execution.run_concurrently(
            [
                partial(run_checks, landing, tables, before, options, configuration.not_run),
                partial(find_holes, metadata, difference.doubtful_ids),
            ]
        )
        drop_few_rows(landing)
        landing.progress.stage("report")
        numbers = count_for_report(tables, metadata, indexes, answers, findings, claims, options.samples)
        bookies_asked = source.live and options.witness == "yes"
        sight = sight_of(metadata, indexes, tables, owners, bookies_asked, configuration.not_run)
        not_seen = {*configuration.not_run, *checks_without_sight(sight)}
        changes = compare_with_previous(
            landing, findings, tables, source.cluster, before.previous, any(holes), options, now_ms(),
            not_seen, inputs_of(sight, tables, has_gone),
        )  # fmt: skip
        as_of = oldest_as_of(sources) or source.scan_time
        owners_read = owners.rows is not None
        newest = newest_as_of(sources, source.scan_time)
        scope = RunScope(not any(holes), owners_read, as_of, newest, configuration.unheld)
        holds, actions = land_holds(landing, findings, changes, tables, before, scope)
        return Audited(
            started=started, configuration=configuration, metadata=metadata, earlier=earlier, indexes=indexes,
            answers=answers, witness=comparison.witness, may_ask=options.witness == "yes", owners=owners,
            placement=placement, entry_logs=entry_logs, tables=tables, holes=holes, changes=changes,
            holds=holds, actions=actions, numbers=numbers,
        )  # fmt: skip

    def scan(self, spark: SparkSession | None = None, progress: Progress | None = None) -> dict[str, int]:
        """Read only the metadata and write its tables. Return the number of rows by table.

        Raises: the errors of `run`.
        """
        uri = self._check_request()
        with (
            self._landing(uri, spark, progress or Silent(), "scan") as landing,
            open_metadata(landing, uri, self.options) as source,
        ):
            first = scan_first(source, find_earlier_run(None, landing, source.cluster))
            metadata = ClusterMetadata(first, scan_marks(first))
            tables = {"ledgers": first.ledgers, "marks": metadata.second.marks, **land_registry(metadata)}
            return {name: table.count() for name, table in tables.items()}

    def _check_request(self) -> MetadataUri:
        """Check all options before a session costs five seconds. Return the parsed URI."""
        uri = parse_metadata_uri(self.metadata)
        read_access(credentials_file(self.options.credentials))
        check_suppressions(self.options)
        check_since(self.options.since)
        check_owners(self.options)
        collector_settings(self.options.bookie_conf)
        read_resolver_flag(self.options.bookie_conf)
        check_listing(self.options.offload_listing)
        check_placement(self.options)
        recognise(uri)
        # For its errors: what counts is how the directories lie after M0, so that they are looked at again.
        find_places(split_sources(self.bookies).directories)
        return uri

    @contextmanager
    def _landing(
        self, uri: MetadataUri, spark: SparkSession | None, progress: Progress, kind: str
    ) -> Iterator[Landing]:
        run = RunDirectory(absolute(self.out))
        identity = run_identity(kind, self.metadata, self.bookies, self.options)
        with run_errors(run.path), run_lock(uri, run.path):
            check_reachable(uri)
            with run.claimed(identity):
                resumption = resumption_of(run, uri, self.options)
                progress.stage("spark")
                log = None if "://" in run.path else Path(run.path, "spark.log")
                session = build_session(
                    self.options.master,
                    driver_memory=self.options.driver_memory,
                    log=log,
                    keep_classes=True,
                    small=partial(is_small, uri, self.options),
                    user_session=spark,
                )
                with query_plans(session) as plans, background_thread(session) as second:
                    execution = Execution(session, plans, second)
                    yield Landing(execution, run, progress, resumption.since, resumption.notes)
