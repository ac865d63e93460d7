"""Comparison of an audit with earlier runs, and with the suppressions file.

    previous   the newest earlier run. Changes are relative to it. A finding that both runs have is confirmed.
    hour_ago   the newest run that ended an hour or more before the first scan. Bookies have collected garbage
               since that run.

A resumed run keeps the two runs that its first attempt chose. A replica with unknown entries is undecided. It
does not cause exit code 3 if suppressed findings explain the entries, but the report shows it as undecided.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from pathlib import Path

from auditor.actions.run_inputs import RunInputs
from auditor.audit.run_store import RunStore
from auditor.audit.table_cache import TableCache
from auditor.audit.unread_parts import bookies_with_unread_logs, holders_of_unread_records
from auditor.checks import GROUP_BY_ID, Basis, check_order
from auditor.errors import RunError, UsageError
from auditor.findings.changes import RunCoverage, findings_with_changes
from auditor.findings.confirm import EarlierFindings, confirm_by_two_runs, suspects_without_lasting_doubt
from auditor.findings.suppress import (
    SuppressionEntry,
    apply_suppressions,
    digests_by_fingerprint,
    find_refusals,
    read_suppressions,
    refusal_sentences,
)
from auditor.findings.table import FindingCount, report_order
from auditor.model.amounts import plural
from auditor.model.columns import LEDGER
from auditor.model.history import RunSummary
from auditor.model.options import AuditOptions
from auditor.model.report import Cluster, is_unaccepted_loss
from auditor.model.run_facts import (
    DONE_FILE,
    AcceptedGaps,
    Changes,
    Remark,
    RemarkKind,
    Suppression,
    Tally,
    empty_tally,
    remark,
    remark_with_reason,
)
from auditor.model.states import FOUND_NOW, Change, LedgerClass
from auditor.runs.directory import RunDirectory
from auditor.runs.history import PreviousRun, SiblingRuns, find_sibling_runs, open_comparable
from auditor.runs.reader import RunReader
from auditor.runs.run_inputs import find_lost_inputs
from auditor.runs.siblings import are_same_cluster
from auditor.sources.clock import now_ms
from auditor.spark import functions as F
from auditor.spark.table_queries import aggregate_tables
from auditor.spark.types import DataFrame
from auditor.tables import Tables
from auditor.tables.changes import CHANGED
from auditor.tables.orphans import MAX_GC_INTERVAL_MS
from auditor.tables.scans import ids_in_scan

REFUSALS_SHOWN = 20
"""Largest number of refused suppression entries that a report names."""

_COUNTED_COLUMNS = ("change", "urgency", "severity", "id", "confidence", "suppression", "bookie_id")


@dataclass(frozen=True)
class RunChanges:
    """The table ``changes`` of a run, and counts of its rows for the report."""

    counts: tuple[FindingCount, ...]
    previous: RunSummary | None
    notes: tuple[str, ...]
    entries: tuple[SuppressionEntry, ...]
    finish_ms: int  # ms; when the findings were complete
    changes: DataFrame
    refused_count: int = 0  # findings of data loss that the suppressions name but cannot accept
    refusals: tuple[str, ...] = ()  # why: a sentence for each entry of the suppressions
    lost_inputs: frozenset[str] = frozenset()  # checks and hold reasons with less input than the previous run
    lost_carried: frozenset[str] = frozenset()  # those with less input than the earlier runs had together

    def change_counts(self) -> Changes | None:
        """Return the number of findings by kind of change. Returns None if there is no earlier run."""
        if self.previous is None:
            return None
        counts: Counter[str] = Counter()
        for count in self.counts:
            counts[count.change] += count.findings
        return Changes(
            previous=self.previous.name,
            finished=self.previous.finished,
            new=counts[Change.NEW],
            fixed=counts[Change.FIXED],
            worse=counts[Change.WORSE],
            better=counts[Change.BETTER],
            same=counts[Change.SAME],
            unseen=counts[Change.UNCHECKED],
        )

    def tally(self) -> list[Tally]:
        """Return the number of findings by urgency, severity, check id and confidence, in report order."""
        tallies: dict[tuple[str, str, str, str], Tally] = {}
        for count in self.counts_of_this_run():
            key = count.urgency, count.severity, count.id, count.confidence
            tally = tallies.setdefault(key, empty_tally(count.id, *key[:2], count.confidence))
            tally["count"] += count.findings
            if count.suppression is not None:
                tally["suppressed"] += count.findings
            elif self.previous is not None and count.change == Change.NEW:
                tally["new"] += count.findings
            elif self.previous is not None and count.change == Change.WORSE:
                tally["worse"] += count.findings
        return [tallies[key] for key in sorted(tallies, key=lambda key: (check_order(*key[:3]), key[3]))]

    def counts_of_this_run(self) -> list[FindingCount]:
        """Return the counts of this run's findings. Findings that only the earlier run has are left out."""
        return [count for count in self.counts if count.change in FOUND_NOW]

    def remarks(self) -> list[Remark]:
        """Return remarks about runs that were not compared, and about suppressions that were refused."""
        remarks = [remark_with_reason(RemarkKind.NOT_COMPARED, note) for note in self.notes]
        if self.refused_count:
            text = f"{plural(self.refused_count, 'finding')} of data loss cannot be suppressed"
            remarks.append(remark(RemarkKind.NOT_ACCEPTED, text, *self.refusals))
        return remarks

    def suppressions(self) -> list[Suppression]:
        """Return the entries of the suppressions file, each with its number of suppressed findings."""
        hit_counts: Counter[int | None] = Counter()
        for count in self.counts:
            hit_counts[count.suppression] += count.findings
        return [
            Suppression(
                reason=entry.reason,
                until=entry.until.isoformat(),
                count=hit_counts[entry_number],
                expired=entry.is_expired(_to_day(self.finish_ms)),
            )
            for entry_number, entry in enumerate(self.entries, 1)
        ]


def compare_with_previous(
    cache: TableCache,
    findings: DataFrame,
    tables: Tables,
    cluster: Cluster,
    previous: PreviousRun,
    has_unread_metadata: bool,
    options: AuditOptions,
    finish_time: int,
    checks_not_run: Collection[str] = (),
    run_inputs: RunInputs | None = None,
) -> RunChanges:
    """Write the table ``changes``.

    Args:
        has_unread_metadata: Whether metadata could not be read, or the scan may have missed ledgers.
        finish_time: The time when the findings were complete, in ms.
        checks_not_run: Ids of the checks that did not run or had no input.
        run_inputs: The inputs of this run. None means that this run has all inputs of the earlier runs.

    Raises:
        UsageError: the suppressions file, or a baseline that it names, is invalid.
    """
    finish_ms: int = cache.run_store.pin_fact("finished", finish_time)
    lost_inputs, lost_carried = find_lost_inputs(cache.run, previous.run, run_inputs)
    run_coverage = _make_coverage(tables, has_unread_metadata, {*checks_not_run, *lost_inputs}, lost_carried)
    end_day = _to_day(finish_ms)
    entries = read_suppressions(options.suppressions) if options.suppressions else ()
    digest_frame = digests_by_fingerprint(findings, entries)
    digest_rows = [] if digest_frame is None else digest_frame.collect()
    digests = {row["fingerprint"]: row["digest"] for row in digest_rows}
    baselines = {
        path: cache.spark.read.parquet(f"{_open_baseline(path, options, cluster).path}/{CHANGED}")
        for path in _baselines(entries, end_day)
    }

    def make_rows() -> DataFrame:
        earlier_findings = None
        if previous.run is not None:
            earlier_findings = cache.spark.read.parquet(f"{previous.run.path}/{CHANGED}")
        rows = findings_with_changes(findings, earlier_findings, run_coverage, cluster.instance_id, finish_ms)
        return apply_suppressions(rows, entries, baselines, digests, end_day).orderBy(*report_order())

    rows = cache.write_table("changes", make_rows)
    first_ledger = F.min(F.when(F.col("ledger_id").isNotNull(), F.struct(*LEDGER))).alias("first")
    counts_by_kind = rows.groupBy(*_COUNTED_COLUMNS).agg(F.count("*").alias("count"), first_ledger)
    counted_rows = counts_by_kind.select(*_COUNTED_COLUMNS, "count", "first.*").collect()
    changes = RunChanges(
        tuple(FindingCount(*row) for row in counted_rows), previous.run, previous.notes, entries, finish_ms,
        rows, lost_inputs=lost_inputs, lost_carried=lost_carried,
    )  # fmt: skip
    if not any(is_unaccepted_loss(tally) for tally in changes.tally()):
        return changes
    refused_counts: dict[int, int] = {}
    if entries:
        refusal_rows = find_refusals(rows, entries, baselines, digests, end_day)
        refused_counts = {row["place"]: row["count"] for row in refusal_rows.collect()}
    refusal_lines = tuple(refusal_sentences(entries, refused_counts, digests, end_day))[:REFUSALS_SHOWN]
    return replace(changes, refused_count=sum(refused_counts.values()), refusals=refusal_lines)


def check_suppressions(options: AuditOptions) -> None:
    """Raise `UsageError` if the suppressions file or a baseline (an earlier run that it names) is invalid."""
    if options.suppressions:
        for path in _baselines(read_suppressions(options.suppressions), datetime.now(UTC).date()):
            _open_baseline(path, options, None)


def _baselines(entries: Sequence[SuppressionEntry], today: date) -> list[str]:
    """Return the paths of the earlier runs that unexpired suppressions name as their baselines."""
    return [entry.baseline for entry in entries if entry.baseline is not None and not entry.is_expired(today)]


def _open_baseline(path: str, options: AuditOptions, cluster: Cluster | None) -> RunReader:
    """Open a baseline run of the suppressions file. Raise `UsageError` if its cluster is not ``cluster``."""
    error_head = f"{options.suppressions}: baseline: run"
    try:
        run = open_comparable(path if "://" in path else str(Path(path).absolute()))
    except RunError as error:
        raise UsageError(f"{error_head}: {error}") from error
    baseline = run.report.cluster
    if cluster is not None and not are_same_cluster(baseline, cluster):
        raise UsageError(
            f"{error_head}: {path} is a run of cluster {baseline.name}; this cluster is {cluster.name}"
        )
    return run


def _make_coverage(
    tables: Tables, has_unread_metadata: bool, checks_not_run: Collection[str], lost_carried: Collection[str]
) -> RunCoverage:
    counts = {"owners": (tables.ownership, ["count(*)", "count_if(fault = 'owner-unreadable')"])}
    owner_rows, unreadable_owners = aggregate_tables(counts)["owners"]
    return RunCoverage(
        tables.verdicts,
        tables.bookies,
        has_unread_metadata,
        bool(tables.roster.unread_bookies),
        has_all_owners=owner_rows > 0 and not unreadable_owners,
        requested_tables={basis.table for basis in Basis if basis.table and basis.table in tables.frames},
        skipped_checks=frozenset(checks_not_run),
        lost_carried=frozenset(lost_carried),
        unread_logs=bookies_with_unread_logs(tables),
        unread_records=holders_of_unread_records(tables) or frozenset(),
    )


def _to_day(ms: int) -> date:
    return datetime.fromtimestamp(ms / 1000, UTC).date()


@dataclass(frozen=True)
class RunsBefore:
    """The earlier runs that an audit uses. A resumed run uses the runs that its first attempt chose."""

    previous: PreviousRun
    run_hour_ago: RunSummary | None
    siblings: SiblingRuns

    def orphans(self, cache: TableCache) -> DataFrame | None:
        """Return the orphans (ledgers without metadata) of ``run_hour_ago``, or None without that run."""
        run = self.run_hour_ago
        return None if run is None else cache.spark.read.parquet(f"{run.path}/tables/orphans")

    def recent_ledgers(self, cache: TableCache, min_scan_time: int, scan_time: int) -> DataFrame | None:
        """Return the ledgers of the newest run in this range of scan times (ms), or None without one."""
        newest_run = self._newest_run_with("tables/ledgers", scan_time)
        is_recent = newest_run is not None and newest_run.scan_time >= min_scan_time
        run = _pin_run(cache.run_store, "ledgers_before", newest_run if is_recent else None)
        return None if run is None else ids_in_scan(cache.spark.read.parquet(f"{run.path}/tables/ledgers"))

    def newest_run_with_ledgers(self, run_store: RunStore, scan_time: int) -> RunSummary | None:
        """Return the newest run with table ``ledgers``, scanned at or before ``scan_time`` (ms), or None."""
        return _pin_run(run_store, "ledgers_of", self._newest_run_with("tables/ledgers", scan_time))

    def newest_run_with(self, run_store: RunStore, name: str, scan_time: int) -> RunSummary | None:
        """Return the newest run with a table ``name``, scanned at or before ``scan_time`` (ms), or None."""
        return _pin_run(run_store, f"{name}_before", self._newest_run_with(f"tables/{name}", scan_time))

    def run_table(self, cache: TableCache, name: str, scan_time: int) -> DataFrame | None:
        """Return the table ``name`` of the newest run that has it (`newest_run_with`), or None."""
        run = self.newest_run_with(cache.run_store, name, scan_time)
        return None if run is None else cache.spark.read.parquet(f"{run.path}/tables/{name}")

    def newest_run_with_owners(self, run_store: RunStore, scan_time: int) -> RunSummary | None:
        """Return the newest run that read ledgers' owners, at or before ``scan_time`` (ms), or None."""
        return _pin_run(run_store, "owners_before", self._newest_run_with("tables/ownership", scan_time))

    def has_later_run(self, current_time: int) -> bool:
        """Return whether a run ended after ``current_time`` (ms). This audit lacks its holds (bans)."""
        return bool(self.siblings.notes_on_later_runs(current_time))

    def _newest_run_with(self, table: str, scan_time: int) -> RunSummary | None:
        runs = [run for run in self.siblings.runs if run.scan_time <= scan_time and _has_table(run, table)]
        return max(runs, key=lambda run: (run.scan_time, run.path), default=None)

    def confirm(self, cache: TableCache, findings: DataFrame, tables: Tables, grace_s: float) -> DataFrame:
        """Return all ``findings``, but mark a finding as confirmed if the previous run has it too."""
        run = self.previous.run
        if run is None or tables.moved_ledgers is None or not _has_table(run, "findings"):
            return findings
        if suspects_without_lasting_doubt(findings).isEmpty():
            return findings
        earlier_rows = cache.spark.read.parquet(f"{run.path}/findings")
        earlier_findings = EarlierFindings(earlier_rows, run.name, run.finished)
        grace_ms = round(grace_s * 1000)
        return confirm_by_two_runs(findings, earlier_findings, tables.moved_ledgers, tables.bookies, grace_ms)


def find_runs_before(run_store: RunStore, cluster: Cluster, is_live: bool, scan_time: int) -> RunsBefore:
    """Choose the earlier runs for a new run. ``scan_time`` is the time of the new run's first scan, in ms."""
    sibling_runs = find_sibling_runs(run_store.directory.path, cluster, renew_index=True)
    newest_run = sibling_runs.newest(current_time := now_ms())
    notes = (*newest_run.notes, *sibling_runs.notes_on_later_runs(current_time))
    previous = PreviousRun(_pin_run(run_store, "previous", newest_run.run), notes)
    older_run = sibling_runs.newest(scan_time - MAX_GC_INTERVAL_MS).run if is_live else None
    return RunsBefore(previous, _pin_run(run_store, "hour_ago", older_run), sibling_runs)


def _pin_run(run_store: RunStore, key: str, run: RunSummary | None) -> RunSummary | None:
    """Save ``run`` under ``key`` and return it. A resumed run gets the one that its first attempt saved."""
    path = run_store.pin_fact(key, run.path if run else None)
    if path is None:
        return None
    return (
        run if run is not None and run.path == path else RunSummary.from_report(path, RunReader(path).report)
    )


def _has_table(run: RunSummary, name: str) -> bool:
    return RunDirectory(run.path).exists(f"{name}/{DONE_FILE}")


UNREAD_CHECK = "bookie-unread"

EXPLAINING_CHECKS = frozenset(
    {
        UNREAD_CHECK,
        "replication-undecided",
        "index-unreadable",
        "ledger-not-indexed",
        "ledgers-in-limbo",
        "ledgers-in-wrong-directory",
    }
    | {id for id, group in GROUP_BY_ID.items() if group == "metadata"}
)
"""Checks that explain why replicas are undecided. A suppressed finding of such a check accepts the gap."""

NO_ACCEPTED_GAPS: AcceptedGaps = {"bookies": [], "ledgers": 0, "replicas": 0}


def find_accepted_gaps(changes: RunChanges, tables: Tables) -> AcceptedGaps:
    """Count undecided ledgers and replicas, and list unread bookies, that suppressed findings explain.

    A finding about a ledger explains all replicas of the ledger. A finding about a ledger and a bookie
    explains the ledger's replica on that bookie. A finding about a bookie alone explains all replicas on the
    bookie. A ledger is counted if all its unknown replicas are explained.
    """
    if not any(count.id in EXPLAINING_CHECKS and count.suppression is not None for count in changes.counts):
        return NO_ACCEPTED_GAPS
    findings = changes.changes.where(F.col("suppression").isNotNull() & F.col("id").isin(*EXPLAINING_CHECKS))
    rows = findings.where("ledger_id is null and bookie_id is not null").select("id", "bookie_id").collect()
    bookies = sorted({row["bookie_id"] for row in rows})
    ledger_findings = findings.where("ledger_id is not null")
    explained_ledgers = ledger_findings.select(*LEDGER, F.col("bookie_id").alias("on")).distinct()
    unknown_copies = _unknown_copies(tables.judged, bookies, explained_ledgers)
    undecided_ledgers = tables.verdicts.where(
        f"class <> potential_class or class = '{LedgerClass.UNDECIDED}'"
    ).select(*LEDGER, (F.col("class") == LedgerClass.UNDECIDED).alias("unjudged"))
    accepted_ledgers = unknown_copies.groupBy(*LEDGER).agg(F.min("accepted").alias("accepted"))
    named_ledgers = explained_ledgers.select(*LEDGER).distinct().withColumn("named", F.lit(True))
    [ledgers] = (
        undecided_ledgers.join(accepted_ledgers, [*LEDGER], "left")
        .join(named_ledgers, [*LEDGER], "left")
        .agg(F.count_if(F.when(F.col("unjudged"), F.col("named")).otherwise(F.col("accepted"))))
        .collect()
    )
    [replicas] = unknown_copies.agg(F.count_if("accepted")).collect()
    unread_bookies = sorted({row["bookie_id"] for row in rows if row["id"] == UNREAD_CHECK})
    return {"bookies": unread_bookies, "ledgers": ledgers[0], "replicas": replicas[0]}


def _unknown_copies(judged_ledgers: DataFrame, bookies: list[str], explained_ledgers: DataFrame) -> DataFrame:
    """Return each replica with unknown entries, and whether a suppressed finding explains them."""
    unknown_copies = judged_ledgers.select(*LEDGER, F.explode("unknown").alias("copy"))
    replicas = unknown_copies.select(*LEDGER, F.col("copy.bookie_id").alias("bookie_id"))
    explanations = explained_ledgers.groupBy(*LEDGER).agg(
        F.max(F.col("on").isNull()).alias("anywhere"), F.collect_set("on").alias("places")
    )
    copy_rows = replicas.join(explanations, [*LEDGER], "left")
    is_accepted = F.col("bookie_id").isin(*bookies) if bookies else F.lit(False)
    is_explained = F.col("anywhere") | F.array_contains("places", F.col("bookie_id"))
    return copy_rows.select(*LEDGER, (is_accepted | F.coalesce(is_explained, F.lit(False))).alias("accepted"))
