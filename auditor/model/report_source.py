"""What a report form, or a selection of findings, may ask of a finished run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from auditor.model.finding import Finding, Standings
from auditor.model.history import ChangesSince
from auditor.model.owners import OwnerTotal
from auditor.model.report import Report
from auditor.model.simulation import NearLoss
from auditor.model.space import SpaceGauges


class ReportSource(Protocol):
    """A finished run; `auditor.runs.reader.RunReader` and `auditor.notebook.run.Run` are such."""

    path: str
    report: Report

    @property
    def findings(self) -> Iterable[Finding]:
        """Every finding, in the order of reports, read as it goes and never held."""

    def standings(self) -> Standings:
        """How the findings that the report shows stand against the run before."""

    def standings_in_order(self) -> Standings:
        """The same of all findings, to be asked for in their order."""

    def last_complete(self) -> int | None:
        """When the newest complete run of this cluster was done, in ms; None where none is known."""

    def changes_since_complete(self) -> ChangesSince:
        """What changed since the newest complete run before this one."""

    def space_gauges(self) -> SpaceGauges:
        """The figures of bookies' disks; none where entry logs were not read."""

    def namespaces(self) -> Sequence[OwnerTotal] | None:
        """What the ledgers of every namespace add up to, the worst findings first; None without owners."""

    def near_losses(self) -> Sequence[NearLoss]:
        """What is one failure from loss, by level; nothing of more ledgers than can be asked each time."""

    def html_page(self) -> Iterable[str]:
        """The run as one HTML page, in parts."""
