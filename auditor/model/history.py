"""One run of a history, as far as its report tells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from auditor.model.finding import Severity
from auditor.model.report import Changes, Report


@dataclass(frozen=True, slots=True)
class RunSummary:
    """A finished run in a few numbers: ``path`` is its directory, times are milliseconds since 1970, UTC.

    ``severities`` has the number of findings of every severity, ``counts`` of every id that was found;
    ``changes`` is None where the run had none before it to compare with.
    """

    path: str
    started: int
    finished: int
    scan_time: int
    instance_id: str | None
    verdict: str
    complete: bool
    severities: dict[str, int]
    counts: Mapping[str, int]
    changes: Changes | None

    @classmethod
    def of(cls, path: str, report: Report) -> RunSummary:
        """The summary of the run at ``path``, from its report."""
        run = report.run
        return cls(
            path=path,
            started=run["started"],
            finished=run["finished"],
            scan_time=run["scan_time"],
            instance_id=report.cluster.instance_id,
            verdict=report.verdict,
            complete=report.complete,
            severities={
                str(severity): sum(tally["count"] for tally in run["tally"] if tally["severity"] == severity)
                for severity in Severity
            },
            counts=report.counts,
            changes=run["changes"],
        )

    @property
    def name(self) -> str:
        """The name of its directory."""
        return self.path.rstrip("/").rpartition("/")[2]
