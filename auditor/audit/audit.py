"""An audit of a cluster: its options, its run directory, and the run of its stages.

`auditor.audit.audit_stages` declares the stages.

Before the program starts Java, it must know whether the audit is small, because the Java options depend on
this. A small audit (some ten thousand ledgers) runs most Java code only a few times, to plan queries. Java's
second compiler and a garbage collector with its own threads would use a quarter of the processor time. This
would bring no gain. For saved metadata, the file sizes show how large the audit is. For a running store, the
program needs at most a few hundred reads to find out.
"""

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from auditor.audit.audit_stages import STAGES
from auditor.audit.bookie_settings import read_resolver_flag
from auditor.audit.changes import check_suppressions
from auditor.audit.earlier_run import check_since, find_earlier_run
from auditor.audit.lock import run_lock
from auditor.audit.metadata import ClusterMetadata, scan_marks, write_registry
from auditor.audit.metadata_scan import MetadataSource, open_metadata, scan_first
from auditor.audit.offload_scan import check_inventory
from auditor.audit.owner_scan import check_owners
from auditor.audit.placement_scan import check_placement
from auditor.audit.run_store import RunStore, resumption_of, run_identity
from auditor.audit.space_scan import read_collector_settings
from auditor.audit.stages import run_stages
from auditor.audit.table_cache import TableCache
from auditor.checks.configuration import CheckConfiguration, read_check_configuration
from auditor.errors import StoreError, UsageError
from auditor.model.audit_stage import AuditStage
from auditor.model.options import AuditOptions
from auditor.model.progress import Progress, SilentProgress
from auditor.model.report import Report
from auditor.runs.directory import RunDirectory
from auditor.sources.bookies.places import find_places
from auditor.sources.bookies.rpc.access import read_access
from auditor.sources.bookies.source_kinds import split_sources
from auditor.sources.clock import now_ms
from auditor.sources.file_systems import absolute_path
from auditor.sources.metadata.credentials import credentials_file
from auditor.sources.metadata.stores import (
    check_reachable,
    choose_layout,
    count_ledgers,
    open_store,
    recognise,
    store_options,
)
from auditor.sources.metadata.uri import SAVED_SCHEMES, MetadataUri, parse_metadata_uri
from auditor.spark.execution import Execution
from auditor.spark.query_plans import query_plans
from auditor.spark.session import build_session
from auditor.spark.tasks import cancel_queries_on_error, translate_run_errors
from auditor.spark.types import SparkSession
from auditor.tables.run_tables import TABLES

MAX_SMALL_BYTES = 8 << 20
"""Largest saved metadata of a small audit, in bytes.

A dump of some 12,000 ledgers, or a snapshot of 30,000 ledgers, has this size. A compressed file of this size
has ten times as many ledgers.
"""

MAX_SMALL_LEDGERS = 30_000
"""Largest number of ledgers in a running store for which an audit is small."""


def is_small_audit(uri: MetadataUri, options: AuditOptions) -> bool:
    """Return whether the audit is small, or False if the size of the metadata is unknown.

    Saved metadata is small up to `MAX_SMALL_BYTES`. A running store is small up to `MAX_SMALL_LEDGERS`.

    Raises:
        UsageError, StoreError: a running store does not answer, or its layout differs from the layout in
            the URI.
    """
    return (
        _is_saved_store_small(Path(uri.path))
        if uri.scheme in SAVED_SCHEMES
        else _is_running_store_small(uri, options)
    )


def _is_saved_store_small(path: Path) -> bool:
    try:
        files = [path] if path.is_file() else list(path.iterdir())
        return sum(file.stat().st_size for file in files) <= MAX_SMALL_BYTES
    except OSError:
        return False


def _is_running_store_small(uri: MetadataUri, options: AuditOptions) -> bool:
    store_limits = store_options(options)
    with closing(open_store(uri, store_limits)) as store:
        layout, _ = choose_layout(store, store.cluster())
    try:
        return count_ledgers(uri, layout, store_limits).ledgers <= MAX_SMALL_LEDGERS
    except StoreError:
        return False  # the store answered before, so the scan may try again


FINISHED_STAGE = "finished_stage"
"""Key in a run's manifest for the last stage that the run has finished."""


def parse_stage(name: str) -> AuditStage:
    """Return the stage with this name.

    Raises:
        UsageError: no stage has this name.
    """
    try:
        return AuditStage(name)
    except ValueError:
        raise UsageError(f"stage {name}: unknown; must be one of {', '.join(AuditStage)}") from None


def _finished_stage(cache: TableCache) -> AuditStage | None:
    name = cache.run.read_manifest().get(FINISHED_STAGE)
    return next((stage for stage in AuditStage if stage == name), None)


@dataclass(frozen=True, slots=True)
class StoppedRun:
    """Result of an audit that ended early, after ``stage`` (``--stop-after``) and before its report.

    ``tables`` are the names of the tables that the run has written.
    """

    stage: AuditStage
    tables: tuple[str, ...]

    @property
    def stage_text(self) -> str:
        """Return the name of the stage, and its position among all stages.

        >>> StoppedRun(AuditStage.JUDGE_LEDGERS, ()).stage_text
        'judge, stage 7 of 15'
        """
        return f"{self.stage}, stage {list(AuditStage).index(self.stage) + 1} of {len(AuditStage)}"


class Audit:
    """An audit of a cluster, which compares the metadata with the bookies' indexes and reports faults.

    ``metadata`` is a metadata URI. ``bookies`` are the ``--bookies`` sources. ``out`` is the path of the
    run directory, which the audit creates. Without ``bookies``, the audit reads only the metadata. It then
    reports everything that needs an index as unknown.

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
            UsageError: a source or option is invalid, the run directory contains a different run, or a run
                of this cluster is in progress.
            StoreError: the metadata could not be read.
        """
        result = self.run_until(AuditStage.WRITE_REPORT, spark, progress)
        assert isinstance(result, Report)
        return result

    def run_until(
        self, stage: str, spark: SparkSession | None = None, progress: Progress | None = None
    ) -> Report | StoppedRun:
        """Run the stages up to and including ``stage``.

        The next run of the same audit continues with the stage after it. If ``stage`` is the last stage,
        the result is the report. Otherwise the result is a `StoppedRun`, because there is no report yet.

        Raises: the errors of `run`, and UsageError if there is no stage ``stage``.
        """
        start_time, last_stage = now_ms(), parse_stage(stage)
        uri = self._check_request()
        configuration = read_check_configuration(self.options)
        with (
            self._table_cache(uri, spark, progress or SilentProgress(), "audit") as cache,
            open_metadata(cache, uri, self.options) as source,
        ):
            stage_values = self._run_stages_until(source, start_time, configuration, last_stage)
            written_tables = [name for name in cache.run.names("tables") if name in TABLES]
        if last_stage is AuditStage.WRITE_REPORT:
            report: Report = stage_values["report"]
            return report
        return StoppedRun(last_stage, tuple(written_tables))

    def _run_stages_until(
        self,
        source: MetadataSource,
        start_time: int,
        configuration: CheckConfiguration,
        last_stage: AuditStage,
    ) -> dict[str, Any]:
        """Run the stages up to and including ``last_stage``. Return their inputs and outputs, by name."""
        cache = source.cache
        stage_values = {
            "cache": cache,
            "source": source,
            "options": self.options,
            "configuration": configuration,
            "bookie_sources": self.bookies,
            "started": start_time,
        }

        def save_finished(stage: AuditStage) -> None:
            cache.run.add_to_manifest({FINISHED_STAGE: stage})

        resumed_stage = _finished_stage(cache) if cache.run_store.oldest_table_ms is not None else None
        return run_stages(STAGES, stage_values, cache.progress, last_stage, resumed_stage, save_finished)

    def scan(self, spark: SparkSession | None = None, progress: Progress | None = None) -> dict[str, int]:
        """Read only the metadata and write its tables. Return the number of rows by table.

        Raises: the errors of `run`.
        """
        uri, progress = self._check_request(), progress or SilentProgress()
        with (
            self._table_cache(uri, spark, progress, "scan") as cache,
            open_metadata(cache, uri, self.options) as source,
        ):
            progress.stage("reading the metadata")
            first_scan = scan_first(source, find_earlier_run(None, cache.run_store, source.cluster))
            metadata = ClusterMetadata(first_scan, scan_marks(first_scan))
            tables = {
                "ledgers": first_scan.ledgers,
                "marks": metadata.second.marks,
                **write_registry(metadata),
            }
            return {name: table.count() for name, table in tables.items()}

    def _check_request(self) -> MetadataUri:
        """Check all options and sources, and return the parsed URI.

        Runs before Spark starts, because the start of Spark takes five seconds.
        """
        uri = parse_metadata_uri(self.metadata)
        read_access(credentials_file(self.options.credentials))
        check_suppressions(self.options)
        check_since(self.options.since)
        check_owners(self.options)
        read_collector_settings(self.options.bookie_conf)
        read_resolver_flag(self.options.bookie_conf)
        check_inventory(self.options.offload_listing)
        check_placement(self.options)
        recognise(uri)
        # Called for its errors alone. The audit lists the directories again after M0, the first metadata
        # scan.
        find_places(split_sources(self.bookies).directories)
        return uri

    @contextmanager
    def _table_cache(
        self, uri: MetadataUri, spark: SparkSession | None, progress: Progress, run_kind: str
    ) -> Iterator[TableCache]:
        run = RunDirectory(absolute_path(self.out))
        run_identity_digest = run_identity(run_kind, self.metadata, self.bookies, self.options)
        with translate_run_errors(run.path), run_lock(uri, run.path):
            check_reachable(uri)
            with run.claim_directory(run_identity_digest):
                run_store = RunStore(run, resumption_of(run, uri, self.options))
                progress.stage("starting Spark")
                log_path = None if "://" in run.path else Path(run.path, "spark.log")
                session = build_session(
                    self.options.master,
                    driver_memory=self.options.driver_memory,
                    log_path=log_path,
                    keep_classes=True,
                    is_small_audit=partial(is_small_audit, uri, self.options),
                    user_session=spark,
                )
                with query_plans(session) as plans, cancel_queries_on_error(session):
                    yield TableCache(Execution(session, plans), run_store, progress)
