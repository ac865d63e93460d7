"""A finished run with everything that a notebook or the command line does with it.

run = open_run("runs/20261121T050749Z")
run.ledger(42)              # draws itself
run.plot.bookies()
run.write("html", "report.html")
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from auditor.errors import UsageError
from auditor.model.finding import Standings
from auditor.model.ledger_id import LedgerId
from auditor.model.views import BookieView, LedgerView
from auditor.reports import bookie as bookie_text
from auditor.reports import cells
from auditor.reports import ledger as ledger_text
from auditor.runs.load_ledger import ledger_view
from auditor.runs.reader import RunReader
from auditor.runs.whole_file import write_whole
from auditor.spark.types import DataFrame, SparkSession

if TYPE_CHECKING:
    from auditor.model.history import ChangesSince
    from auditor.model.report_source import Figures, Level, OwnerTotal
    from auditor.model.simulation import NearLoss
    from auditor.model.space import SpaceGauges
    from auditor.notebook.frames import Frames
    from auditor.notebook.plots import Plots
    from auditor.reports.blind_spots import BlindSpot
    from auditor.runs.owners import Leaks, OwnerTotals


def open_run(path: str | Path) -> Run:
    """Open the run directory that an audit wrote: a path, or a URI such as hdfs:// or s3://.

    Raises:
        RunError: the directory does not exist, has no finished run, or has an unreadable report.
    """
    return Run(str(path))


class Run(RunReader):
    """A `RunReader` with figures, frames and plots; its ledgers and bookies draw themselves."""

    @cached_property
    def figures(self) -> Figures:
        """Return the counts for pictures; all tables are read once (`auditor.runs.figures`)."""
        from auditor.runs.figures import figures_of

        return figures_of(self)

    @property
    def blind_spots(self) -> list[BlindSpot]:
        """Return the checks that had no input or did not run, with reasons."""
        from auditor.checks.needs import Sight
        from auditor.reports.blind_spots import blind_spots

        return blind_spots(Sight.of(self.report))

    @property
    def frames(self) -> Frames:
        """Return small pandas frames: ``run.frames.stripes(42)``, ``run.frames.by_id()`` ..."""
        from auditor.notebook.frames import Frames

        return Frames(self)

    @property
    def plot(self) -> Plots:
        """Return pictures: ``run.plot.stripes(42)`` ... (`auditor.notebook.plots`)."""
        from auditor.notebook.plots import Plots

        return Plots(self)

    def standings(self) -> Standings:
        """Return the change of each finding in the report since the run before, by fingerprint."""
        from auditor.runs.standings import standings_of_report

        return standings_of_report(self.path, self.report)

    def standings_in_order(self) -> Standings:
        """Return the changes of all findings; callers must ask for them in the order of the findings."""
        from auditor.runs.standings import standings_in_order

        return standings_in_order(self.path)

    def last_complete(self) -> int | None:
        """Return the end of the newest complete run of this cluster beside this one, in ms since 1970, UTC.

        Returns None if there is none.
        """
        from auditor.runs.siblings import last_complete

        return last_complete(self.path, self.report)

    def changes_since_complete(self) -> ChangesSince:
        """Return the changes since the newest earlier complete run of this cluster beside this one."""
        from auditor.runs.history import changes_since_complete

        return changes_since_complete(self.path, self.report)

    def space_gauges(self) -> SpaceGauges:
        """Return the figures of bookies' disks for metrics: bytes by class, and forecasts."""
        from auditor.runs.load_space import space_gauges

        return space_gauges(self)

    def near_losses(self) -> tuple[NearLoss, ...]:
        """Return the data that is one failure from loss, by bookie and rack.

        Returns an empty tuple if the run has no ledgers.
        """
        from auditor.runs.reader import load_placement
        from auditor.simulate.levels import near_loss

        if "ledgers" not in self.table_names():
            return ()
        _, locations = load_placement(self)
        return near_loss(self.directory, locations)

    def owners(self, level: Level = "namespace") -> list[OwnerTotal]:
        """Return the totals of the ledgers of every tenant, namespace or topic, the worst findings first.

        Totals are ledgers, bytes and entries, live and leaked, dangling references, and findings by severity
        (`auditor.model.report_source.OwnerTotal`). ``run.frames.owners()`` returns them as a frame.

        Raises:
            RunUsageError: the run read no owners.
        """
        return self._owner_totals.by(level)

    def namespaces(self) -> list[OwnerTotal] | None:
        """Return the totals of all namespaces; None if the run read no owners."""
        from auditor.runs.owners import has_owners

        return self.owners("namespace") if has_owners(self) else None

    @cached_property
    def _owner_totals(self) -> OwnerTotals:
        from auditor.runs.owners import OwnerTotals

        return OwnerTotals(self)

    @cached_property
    def leaks(self) -> Leaks:
        """Return an iterable of every leaked ledger, in the order in which to look at them.

        A leaked ledger has no owner. Each has its age, bytes, entries, last known owner and the reason
        (`auditor.model.report_source.Leak`). ``run.leaks.totals()`` returns their sums,
        ``run.frames.leaks()`` a frame.

        Raises:
            RunUsageError: the run read no owners.
        """
        from auditor.runs.owners import Leaks

        return Leaks(self)

    def html_page(self) -> Iterator[str]:
        """Return the run as one self-contained HTML page, in parts."""
        from auditor.runs.gather_html import page_of
        from auditor.simulate.simulation import failure_matrix

        return page_of(self, failure_matrix(self))

    def write(self, form: str, file: str | Path) -> None:
        """Write the report to a file in a form of ``--format``: text, json, html, sarif ...

        Raises:
            UsageError: there is no such form.
            OSError: the file cannot be written.
        """
        from auditor.reports.forms import FORMS

        if form not in FORMS:
            raise UsageError(f"{form}: no such form. Forms: {', '.join(FORMS)}")
        write_whole(str(file), partial(FORMS[form].write, self))

    def tables(self, spark: SparkSession) -> Mapping[str, DataFrame]:
        """Return all tables and the findings as Spark DataFrames by name."""
        frames = {name: spark.read.parquet(f"{self.path}/tables/{name}") for name in self.table_names()}
        return {**frames, "findings": spark.read.parquet(f"{self.path}/findings")}

    def views(self, spark: SparkSession, prefix: str = "") -> Mapping[str, str]:
        """Make all tables and the findings temporary SQL views; return the meaning of a row by view.

        ``prefix`` stands before every name, so that two runs can be open at once
        (`auditor.notebook.sql_views`).
        """
        from auditor.notebook.sql_views import register

        return register(self, spark, prefix)

    def ledger(self, ledger_id: int | LedgerId, scope_id: int = 0) -> LedgerDisplay:
        """Return one ledger as this run saw it; a `LedgerId` contains its own scope.

        Raises:
            UsageError: no ledger can have this id.
            RunError: neither the metadata nor a bookie of this run knows the ledger.
        """
        return LedgerDisplay(**_fields(ledger_view(self, ledger_id, scope_id)))

    def bookie(self, bookie_id: str) -> BookieDisplay:
        """Return one bookie as this run saw it, by its id in the cluster.

        Raises:
            RunError: the run names no such bookie; the message lists similar ids.
        """
        from auditor.runs.load_bookie import bookie_view

        return BookieDisplay(**_fields(bookie_view(self, bookie_id)))

    def __repr__(self) -> str:
        from auditor.reports import cells, first_screen

        return cells.terminal_text(first_screen.render(self.report, self.path))

    def _repr_html_(self) -> str:
        from auditor.reports.cells import run_cell

        return run_cell(self.report)


def _fields(view: LedgerView | BookieView) -> dict[str, Any]:
    return {field.name: getattr(view, field.name) for field in fields(view)}


class LedgerDisplay(LedgerView):
    """Ledger that shows its drawing in a notebook.

    >>> print(LedgerDisplay(42))
    ledger 42: not in the metadata; bookies hold it
    <BLANKLINE>
    no bookie should hold an entry, and none does
    """

    def __repr__(self) -> str:
        return cells.terminal_text(ledger_text.render(self))

    def _repr_html_(self) -> str:
        return cells.ledger_cell(self)


class BookieDisplay(BookieView):
    """Bookie that shows its page in a notebook."""

    def __repr__(self) -> str:
        return cells.terminal_text(bookie_text.render(self))

    def _repr_html_(self) -> str:
        return cells.bookie_cell(self)
