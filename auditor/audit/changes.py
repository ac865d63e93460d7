"""What an audit says of time: its findings beside those of the run before, and the suppressed ones apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path

from auditor.audit.landing import Landing
from auditor.checks import Basis, place_of_check
from auditor.errors import RunError, UsageError
from auditor.findings.changes import RunCoverage, findings_with_changes
from auditor.findings.steps import FindingCount
from auditor.findings.suppress import Suppress, apply_suppressions, read_suppressions
from auditor.findings.table import order
from auditor.model.columns import LEDGER
from auditor.model.history import RunSummary
from auditor.model.options import AuditOptions
from auditor.model.report import Cluster
from auditor.model.run_facts import Changes, Suppression, Tally
from auditor.model.states import FOUND, Change
from auditor.runs.history import Previous, comparable_run
from auditor.runs.reader import RunReader
from auditor.runs.siblings import same_cluster
from auditor.spark import functions as F
from auditor.spark.types import DataFrame
from auditor.tables import Tables
from auditor.tables.changes import CHANGED

_COUNTED = ("change", "urgency", "severity", "id", "confidence", "suppression", "bookie_id")


@dataclass(frozen=True)
class RunChanges:
    """The table changes, which has landed, counted: what of it goes into a report."""

    counts: tuple[FindingCount, ...]
    previous: RunSummary | None
    notes: tuple[str, ...]
    entries: tuple[Suppress, ...]
    finished: int  # ms; when the findings were complete
    changes: DataFrame

    def change_counts(self) -> Changes | None:
        """How many findings changed how; None where there is no run before."""
        if self.previous is None:
            return None
        counts: Counter[str] = Counter()
        for each in self.counts:
            counts[each.change] += each.findings
        return Changes(
            previous=self.previous.name,
            finished=self.previous.finished,
            new=counts[Change.NEW],
            fixed=counts[Change.FIXED],
            worse=counts[Change.WORSE],
            better=counts[Change.BETTER],
            same=counts[Change.SAME],
            unseen=counts[Change.UNSEEN],
        )

    def tally(self) -> list[Tally]:
        """How many findings of each urgency, severity, id and confidence, in the order of reports; new and
        worse are those beside an earlier run that nothing suppresses."""
        tallies: dict[tuple[str, str, str, str], Tally] = {}
        for each in self.found():
            tally = tallies.setdefault(
                (each.urgency, each.severity, each.id, each.confidence),
                Tally(
                    id=each.id,
                    urgency=each.urgency,
                    severity=each.severity,
                    confidence=each.confidence,
                    count=0,
                    new=0,
                    worse=0,
                    suppressed=0,
                ),
            )
            tally["count"] += each.findings
            if each.suppression is not None:
                tally["suppressed"] += each.findings
            elif self.previous is not None and each.change == Change.NEW:
                tally["new"] += each.findings
            elif self.previous is not None and each.change == Change.WORSE:
                tally["worse"] += each.findings
        ordered = sorted(tallies, key=lambda key: (place_of_check(*key[:3]), key[3]))
        return [tallies[key] for key in ordered]

    def found(self) -> list[FindingCount]:
        """The counts of what this run found."""
        return [each for each in self.counts if each.change in FOUND]

    def suppressions(self) -> list[Suppression]:
        """The entries of the suppressions file, and how many findings each suppresses."""
        counts: Counter[int | None] = Counter()
        for each in self.counts:
            counts[each.suppression] += each.findings
        return [
            Suppression(
                reason=entry.reason,
                until=entry.until.isoformat(),
                count=counts[place],
                expired=entry.expired(_day(self.finished)),
            )
            for place, entry in enumerate(self.entries, 1)
        ]


def compare_with_previous(
    landing: Landing,
    findings: DataFrame,
    tables: Tables,
    cluster: Cluster,
    previous: Previous,
    holes: bool,
    options: AuditOptions,
    now: int,
) -> RunChanges:
    """Land the table changes. ``holes``: something of the metadata could not be read, or leaves ids in
    doubt; ``now`` in ms.

    Raises:
        UsageError: the suppressions file, or a baseline that it names, is not what it should be.
    """
    finished: int = landing.remember("finished", now)
    entries = read_suppressions(options.suppressions) if options.suppressions else ()
    baselines = {
        path: landing.spark.read.parquet(f"{_open_baseline(path, options, cluster).path}/{CHANGED}")
        for path in _baselines(entries, _day(finished))
    }

    def table() -> DataFrame:
        before = None
        if previous.run is not None:
            before = landing.spark.read.parquet(f"{previous.run.path}/{CHANGED}")
        rows = findings_with_changes(
            findings, before, _coverage_of(tables, holes), cluster.instance_id, finished
        )
        return apply_suppressions(rows, entries, baselines, _day(finished)).orderBy(*order())

    rows = landing.land("changes", table)
    first = F.min(F.when(F.col("ledger_id").isNotNull(), F.struct(*LEDGER))).alias("first")
    grouped = rows.groupBy(*_COUNTED).agg(F.count("*").alias("count"), first)
    landed = grouped.select(*_COUNTED, "count", "first.*").collect()
    counts = tuple(FindingCount(*row) for row in landed)
    return RunChanges(counts, previous.run, previous.notes, entries, finished, rows)


def check_suppressions(options: AuditOptions) -> None:
    """Raise `UsageError` for what can be said of the suppressions file before an audit begins."""
    if options.suppressions:
        for path in _baselines(read_suppressions(options.suppressions), datetime.now(UTC).date()):
            _open_baseline(path, options, None)


def _baselines(entries: Sequence[Suppress], today: date) -> list[str]:
    """The runs that entries which have not expired name."""
    return [entry.baseline for entry in entries if entry.baseline is not None and not entry.expired(today)]


def _open_baseline(path: str, options: AuditOptions, cluster: Cluster | None) -> RunReader:
    """A baseline's run; where ``cluster`` is known, of that."""
    where = f"{options.suppressions}: baseline: run"
    try:
        run = comparable_run(path if "://" in path else str(Path(path).absolute()))
    except RunError as error:
        raise UsageError(f"{where}: {error}") from error
    theirs = run.report.cluster
    if cluster is not None and not same_cluster(theirs, cluster):
        raise UsageError(f"{where}: {path} is of the cluster {theirs.name}, and this is {cluster.name}")
    return run


def _coverage_of(tables: Tables, holes: bool) -> RunCoverage:
    owners_read = "ownership" not in tables.known_empty
    return RunCoverage(
        tables.verdicts,
        tables.bookies,
        holes,
        bool(tables.roster.unread),
        owners=owners_read and tables.ownership.where("fault = 'owner-unreadable'").isEmpty(),
        asked={each.table for each in Basis if each.table and getattr(tables, each.table) is not None},
    )


def _day(ms: int) -> date:
    return datetime.fromtimestamp(ms / 1000, UTC).date()
