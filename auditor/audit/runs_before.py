"""What a run takes of the finished runs beside it: what it is compared with, and what two runs confirm.

    previous   the newest one: changes are beside it, and it confirms what both have seen
    hour_ago   the newest one that ended an hour or more before the first scan: orphans that it had already
               outlasted a collection. Only a live store has them deleted meanwhile

Both are chosen once: a resumed run keeps to them.
"""

from __future__ import annotations

from dataclasses import dataclass

from auditor.audit.landing import Landing
from auditor.findings.confirm import EarlierFindings, confirm_by_two_runs, healing_suspects
from auditor.model.history import RunSummary
from auditor.model.report import Cluster
from auditor.model.run_layout import WHOLE
from auditor.runs.directory import RunDirectory
from auditor.runs.history import Previous, RunsBeside, runs_beside
from auditor.runs.reader import RunReader
from auditor.sources.clock import now_ms
from auditor.spark.types import DataFrame
from auditor.tables import Tables
from auditor.tables.moved import scan_ids
from auditor.tables.orphans import COLLECTED_WITHIN_MS

OWNERSHIP = "tables/ownership"


@dataclass(frozen=True)
class RunsBefore:
    """The earlier runs of a cluster that the run which is made rests on; see above."""

    previous: Previous
    hour_ago: RunSummary | None
    beside: RunsBeside

    def orphans(self, landing: Landing) -> DataFrame | None:
        """The orphans of the run an hour ago; None where there is no such run."""
        if self.hour_ago is None:
            return None
        return landing.spark.read.parquet(f"{self.hour_ago.path}/tables/orphans")

    def ledgers_listed(self, landing: Landing, since: int, scan_time: int) -> DataFrame | None:
        """The ids that the newest run listed from ``since`` to ``scan_time``, ms; None: no run did."""
        newest = self._newest_with("tables/ledgers", scan_time)
        chosen = newest if newest is not None and newest.scan_time >= since else None
        run = _first_choice(landing, "ledgers_before", chosen)
        return None if run is None else scan_ids(landing.spark.read.parquet(f"{run.path}/tables/ledgers"))

    def table(self, landing: Landing, name: str, scan_time: int) -> DataFrame | None:
        """A table of the newest run that looked at the store by ``scan_time``, ms; chosen once."""
        newest = self._newest_with(f"tables/{name}", scan_time)
        run = _first_choice(landing, f"{name}_before", newest)
        return None if run is None else landing.spark.read.parquet(f"{run.path}/tables/{name}")

    def with_owners(self, landing: Landing, scan_time: int) -> RunSummary | None:
        """The newest run that looked at the store by ``scan_time``, ms, and read owners; chosen once."""
        return _first_choice(landing, "owners_before", self._newest_with(OWNERSHIP, scan_time))

    def _newest_with(self, table: str, scan_time: int) -> RunSummary | None:
        found = [run for run in self.beside.runs if run.scan_time <= scan_time and _has(run, table)]
        return max(found, key=lambda run: (run.scan_time, run.path), default=None)

    def confirm(self, landing: Landing, findings: DataFrame, tables: Tables, grace: float) -> DataFrame:
        """Findings that have landed, with those confirmed that the previous run has seen too."""
        run = self.previous.run
        if (
            run is None
            or tables.moved is None
            or not _has(run, "findings")
            or healing_suspects(findings).isEmpty()
        ):
            return findings
        rows = landing.spark.read.parquet(f"{run.path}/findings")
        earlier = EarlierFindings(rows, run.name, run.finished)
        return confirm_by_two_runs(findings, earlier, tables.moved, tables.bookies, round(grace * 1000))


def find_runs_before(landing: Landing, cluster: Cluster, live: bool, scan_time: int) -> RunsBefore:
    """Choose the earlier runs beside the run that is made; ``scan_time`` is that of its first scan, ms."""
    beside = runs_beside(landing.run.path, cluster)
    found = beside.newest(now_ms())
    chosen = _first_choice(landing, "previous", found.run)
    old = beside.newest(scan_time - COLLECTED_WITHIN_MS).run if live else None
    return RunsBefore(Previous(chosen, found.notes), _first_choice(landing, "hour_ago", old), beside)


def _first_choice(landing: Landing, key: str, run: RunSummary | None) -> RunSummary | None:
    """The run that was chosen first: ``run``, or what the same run chose before it was interrupted."""
    path = landing.remember(key, run.path if run else None)
    if path is None:
        return None
    if run is not None and run.path == path:
        return run
    return RunSummary.of(path, RunReader(path).report)


def _has(run: RunSummary, name: str) -> bool:
    return RunDirectory(run.path).exists(f"{name}/{WHOLE}")
