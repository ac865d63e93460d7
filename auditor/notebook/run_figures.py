"""Figures of a finished run: counts, owners, leaks, data close to loss, and changes since earlier runs."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from auditor.model.finding import StatusLookup
from auditor.runs.reader import RunReader

if TYPE_CHECKING:
    from auditor.model.history import ChangesSince
    from auditor.model.report_source import Figures, OwnerLevel, OwnerTotal
    from auditor.model.simulation import NearLoss
    from auditor.model.space import SpaceGauges
    from auditor.reports.blind_spots import BlindSpot
    from auditor.runs.owners import Leaks, OwnerTotals


class RunFigures(RunReader):
    """A `RunReader` with the figures that reports, frames and plots show."""

    @cached_property
    def figures(self) -> Figures:
        """Return the counts that pictures show. The first call reads all tables (`auditor.runs.figures`)."""
        from auditor.runs.figures import figures_of

        return figures_of(self)

    @property
    def blind_spots(self) -> list[BlindSpot]:
        """Return the checks that had no input or did not run, with reasons."""
        from auditor.checks.needs import AvailableInputs
        from auditor.reports.blind_spots import make_blind_spots

        return make_blind_spots(AvailableInputs.from_report(self.report))

    def statuses(self) -> StatusLookup:
        """Return a function from the fingerprint of a finding in the report to its change status."""
        from auditor.runs.change_status import statuses_of_report

        return statuses_of_report(self.path, self.report)

    def statuses_in_order(self) -> StatusLookup:
        """Return a function that maps a finding's fingerprint to its change since the previous run.

        The caller must call it in the order of the table ``findings``.
        """
        from auditor.runs.change_status import statuses_in_order

        return statuses_in_order(self.path)

    def last_complete(self) -> int | None:
        """Return the end of the newest complete run of this cluster up to this run, in ms since 1970 (UTC).

        Returns None if no such run is complete. Runs outside the parent directory of this run are ignored.
        """
        from auditor.runs.siblings import find_last_complete

        return find_last_complete(self.path, self.report)

    def changes_since_complete(self) -> ChangesSince:
        """Return the changes since the newest complete run of this cluster before this run."""
        from auditor.runs.history import changes_since_complete

        return changes_since_complete(self.path, self.report)

    def space_gauges(self) -> SpaceGauges:
        """Return the metrics of bookies' disks: bytes by class, and forecasts of full disks."""
        from auditor.runs.load_space import space_gauges

        return space_gauges(self)

    def near_losses(self) -> tuple[NearLoss, ...]:
        """Return the amounts of data that would be lost if a single bookie, or a single rack, failed.

        Returns an empty tuple if the run has no table ``ledgers``.
        """
        from auditor.runs.reader import load_placement
        from auditor.simulate.near_loss import find_near_losses

        if "ledgers" not in self.table_names():
            return ()
        _, bookie_locations = load_placement(self)
        return find_near_losses(self.directory, bookie_locations)

    def owners(self, level: OwnerLevel = "namespace") -> list[OwnerTotal]:
        """Return the totals of the ledgers of every tenant, namespace or topic, the worst findings first.

        The totals are ledgers, live and leaked bytes and entries, dangling references, and findings by
        severity (`auditor.model.report_source.OwnerTotal`). ``run.frames.owners()`` returns them as a frame.

        Raises:
            RunUsageError: the run read no owners.
        """
        return self._owner_totals.totals_of(level)

    def namespaces(self) -> list[OwnerTotal] | None:
        """Return the totals of all namespaces. None if the run read no owners."""
        from auditor.runs.owners import has_owners

        return self.owners("namespace") if has_owners(self) else None

    @cached_property
    def _owner_totals(self) -> OwnerTotals:
        from auditor.runs.owners import OwnerTotals

        return OwnerTotals(self)

    @cached_property
    def leaks(self) -> Leaks:
        """Return an iterable of every leaked ledger, the most important ones first.

        A leaked ledger has no owner. Each element (`auditor.model.report_source.Leak`) has the ledger's age,
        bytes, entries and last known owner. It also has the reason why the ledger counts as leaked.
        ``run.leaks.totals()`` returns the sums over all leaks. ``run.frames.leaks()`` returns a frame.

        Raises:
            RunUsageError: the run read no owners.
        """
        from auditor.runs.owners import Leaks

        return Leaks(self)
