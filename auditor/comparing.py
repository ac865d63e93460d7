"""What an audit says of time: its findings beside those of the run before, and the suppressed ones apart."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from auditor.errors import UsageError
from auditor.findings.basis import HOLE
from auditor.findings.changes import Looked, changed
from auditor.findings.suppress import Suppress, read_suppressions, suppressed
from auditor.findings.table import order
from auditor.history import Previous, previous_run
from auditor.model.history import RunSummary
from auditor.model.report import Changes, Cluster, Suppression
from auditor.runs import open_run
from auditor.tables.changes import BETTER, FIXED, NEW, SAME, UNSEEN, WORSE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from auditor.landing import Landing
    from auditor.model.options import AuditOptions
    from auditor.tables import Tables


@dataclass(frozen=True)
class Compared:
    """The landed table changes, and what of it goes into a report as it is."""

    changes: DataFrame
    previous: RunSummary | None
    notes: tuple[str, ...]
    entries: tuple[Suppress, ...]
    finished: int  # ms; when the findings were complete

    def counted(self) -> Changes | None:
        """How many findings changed how; None where there is no run before."""
        if self.previous is None:
            return None
        counts = {row["change"]: row["count"] for row in self.changes.groupBy("change").count().collect()}
        return Changes(
            previous=self.previous.name,
            finished=self.previous.finished,
            new=counts.get(NEW, 0),
            fixed=counts.get(FIXED, 0),
            worse=counts.get(WORSE, 0),
            better=counts.get(BETTER, 0),
            same=counts.get(SAME, 0),
            unseen=counts.get(UNSEEN, 0),
        )

    def suppressions(self) -> list[Suppression]:
        """The entries of the suppressions file, and how many findings each suppresses."""
        rows = self.changes.where("suppression is not null").groupBy("suppression").count().collect()
        counts = {row["suppression"]: row["count"] for row in rows}
        return [
            Suppression(
                reason=entry.reason,
                until=entry.until.isoformat(),
                count=counts.get(place, 0),
                expired=entry.expired(_day(self.finished)),
            )
            for place, entry in enumerate(self.entries, 1)
        ]


def compared(
    landing: Landing,
    findings: DataFrame,
    tables: Tables,
    cluster: Cluster,
    gaps: bool,
    options: AuditOptions,
    now: int,
) -> Compared:
    """Land the table changes. ``gaps``: something of the metadata could not be listed; ``now`` in ms.

    Which run is the one before is remembered: a resumed run is compared with the same.

    Raises:
        UsageError: the suppressions file, or a baseline that it names, is not what it should be.
    """
    finished: int = landing.remember("finished", now)
    previous = _previous(landing, cluster, finished)
    entries = read_suppressions(options.suppressions) if options.suppressions else ()
    baselines = {
        entry.baseline: landing.spark.read.parquet(_baseline(entry.baseline, cluster))
        for entry in entries
        if entry.baseline is not None and not entry.expired(_day(finished))
    }

    def table() -> DataFrame:
        before = None
        if previous.run is not None:
            before = landing.spark.read.parquet(f"{previous.run.path}/tables/changes")
        rows = changed(findings, before, _looked(tables, findings, gaps), cluster.instance_id, finished)
        return suppressed(rows, entries, baselines, _day(finished)).orderBy(*order())

    return Compared(landing.land("changes", table), previous.run, previous.notes, entries, finished)


def check_suppressions(options: AuditOptions) -> None:
    """Raise `UsageError` for what can be said of the suppressions file before an audit begins."""
    if options.suppressions:
        for entry in read_suppressions(options.suppressions):
            if entry.baseline is not None and not entry.expired(datetime.now(UTC).date()):
                open_run(entry.baseline)


def _previous(landing: Landing, cluster: Cluster, finished: int) -> Previous:
    found = previous_run(landing.run.path, cluster, finished)
    chosen = landing.remember("previous", found.run.path if found.run else None)
    if chosen is None:
        return Previous(None, found.notes)
    if found.run is None or found.run.path != chosen:
        return Previous(RunSummary.of(chosen, open_run(chosen).report), found.notes)
    return found


def _baseline(path: str, cluster: Cluster) -> str:
    """The table changes of a run that a suppressions file names, as Spark takes it."""
    report = open_run(path).report
    if report.cluster.instance_id != cluster.instance_id:
        raise UsageError(
            f"--suppressions: baseline {path}: it is of the cluster {report.cluster.instance_id}, "
            f"and this is {cluster.instance_id}"
        )
    return f"{path if '://' in path else Path(path).absolute()}/tables/changes"


def _looked(tables: Tables, findings: DataFrame, gaps: bool) -> Looked:
    from pyspark.sql import functions as F

    misplaced = not findings.where(F.col("id") == HOLE).isEmpty()
    unread = not tables.bookies.where("(named or found) and read <> 'read'").isEmpty()
    return Looked(tables.verdicts, tables.bookies, gaps or misplaced, unread)


def _day(ms: int) -> date:
    return datetime.fromtimestamp(ms / 1000, UTC).date()
