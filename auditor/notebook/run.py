"""A finished run at hand: everything that a notebook, or the command line, does with one.

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
        RunError: no such directory, no finished run in it, or a report that cannot be read.
    """
    return Run(str(path))


class Run(RunReader):
    """A `RunReader` that shows what it reads: figures, frames, plots; ledgers and bookies draw themselves."""

    @cached_property
    def figures(self) -> Figures:
        """What pictures show: counted from all tables once, bounded (`auditor.runs.figures`)."""
        from auditor.runs.figures import figures_of

        return figures_of(self)

    @property
    def blind_spots(self) -> list[BlindSpot]:
        """What checks could not see, and why: where they found nothing there, that means nothing."""
        from auditor.checks.needs import Sight
        from auditor.reports.blind_spots import blind_spots

        return blind_spots(Sight.of(self.report))

    @property
    def frames(self) -> Frames:
        """Small pandas frames: ``run.frames.stripes(42)``, ``run.frames.by_id()`` ..."""
        from auditor.notebook.frames import Frames

        return Frames(self)

    @property
    def plot(self) -> Plots:
        """Pictures: ``run.plot.stripes(42)``, ``run.plot.bookies()`` ... (`auditor.notebook.plots`)."""
        from auditor.notebook.plots import Plots

        return Plots(self)

    def standings(self) -> Standings:
        """How the findings that the report shows stand against the run before, by fingerprint."""
        from auditor.runs.standings import standings_of_report

        return standings_of_report(self.path, self.report)

    def standings_in_order(self) -> Standings:
        """The same of all findings, to be asked for in their order (`auditor.runs.standings`)."""
        from auditor.runs.standings import standings_in_order

        return standings_in_order(self.path)

    def last_complete(self) -> int | None:
        """When the newest complete run of this cluster beside this one was done, in ms since 1970."""
        from auditor.runs.siblings import last_complete

        return last_complete(self.path, self.report)

    def changes_since_complete(self) -> ChangesSince:
        """What changed since the newest complete run of this cluster before this one, beside it."""
        from auditor.runs.history import changes_since_complete

        return changes_since_complete(self.path, self.report)

    def space_gauges(self) -> SpaceGauges:
        """What metrics say of bookies' disks: by class, what comes free, and when disks are full."""
        from auditor.runs.load_space import space_gauges

        return space_gauges(self)

    def near_losses(self) -> tuple[NearLoss, ...]:
        """What is one failure from loss, by bookie and rack; nothing where the run has no ledgers."""
        from auditor.runs.reader import load_placement
        from auditor.simulate.levels import near_loss

        if "ledgers" not in self.table_names():
            return ()
        _, locations = load_placement(self)
        return near_loss(self.directory, locations)

    def owners(self, level: Level = "namespace") -> list[OwnerTotal]:
        """What the ledgers of every tenant, namespace or topic add up to: the worst findings first.

        Ledgers, bytes and entries, live and leaked, dangling references, and findings by severity
        (`auditor.model.report_source.OwnerTotal`). ``run.frames.owners()`` has it as a frame.

        Raises:
            RunUsageError: the run read nobody's owners.
        """
        return self._owner_totals.by(level)

    def namespaces(self) -> list[OwnerTotal] | None:
        """The same of namespaces; None where the run read nobody's owners."""
        from auditor.runs.owners import has_owners

        return self.owners("namespace") if has_owners(self) else None

    @cached_property
    def _owner_totals(self) -> OwnerTotals:
        from auditor.runs.owners import OwnerTotals

        return OwnerTotals(self)

    @cached_property
    def leaks(self) -> Leaks:
        """Every ledger that belongs to nobody, in the order in which to look at them: iterate over it.

        Each has its age, bytes, entries, last known owner and why (`auditor.model.report_source.Leak`);
        ``run.leaks.totals()`` is what they add up to, ``run.frames.leaks()`` has them as a frame.

        Raises:
            RunUsageError: the run read nobody's owners.
        """
        from auditor.runs.owners import Leaks

        return Leaks(self)

    def html_page(self) -> Iterator[str]:
        """The run as one HTML page that needs no network, in parts."""
        from auditor.runs.gather_html import page_of
        from auditor.simulate.simulation import failure_matrix

        return page_of(self, failure_matrix(self))

    def write(self, form: str, file: str | Path) -> None:
        """Write the report to a file in a form that ``--format`` knows: text, json, html, sarif ...

        Raises:
            UsageError: no such form.
            OSError: the file cannot be written.
        """
        from auditor.reports.forms import FORMS

        if form not in FORMS:
            raise UsageError(f"{form}: there is no such form; there are {', '.join(FORMS)}")
        write_whole(str(file), partial(FORMS[form].write, self))

    def tables(self, spark: SparkSession) -> Mapping[str, DataFrame]:
        """All tables, and the findings, as Spark DataFrames by name."""
        frames = {name: spark.read.parquet(f"{self.path}/tables/{name}") for name in self.table_names()}
        return {**frames, "findings": spark.read.parquet(f"{self.path}/findings")}

    def views(self, spark: SparkSession, prefix: str = "") -> Mapping[str, str]:
        """Make all tables, and the findings, temporary SQL views; returns what a row of each is.

        ``prefix`` stands before every name, so that two runs can be open at once
        (`auditor.notebook.sql_views`).
        """
        from auditor.notebook.sql_views import register

        return register(self, spark, prefix)

    def ledger(self, ledger_id: int | LedgerId, scope_id: int = 0) -> LedgerDisplay:
        """One ledger as this run saw it. A `LedgerId` brings its own scope.

        Raises:
            UsageError: no ledger has such an id.
            RunError: neither the metadata nor any bookie of this run knows the ledger.
        """
        return LedgerDisplay(**_fields(ledger_view(self, ledger_id, scope_id)))

    def bookie(self, bookie_id: str) -> BookieDisplay:
        """One bookie as this run saw it, by its id as the cluster writes it.

        Raises:
            RunError: nothing in the run names such a bookie; the message has the ids that are nearest to it.
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
    """A ledger that draws itself.

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
    """A bookie that tells of itself."""

    def __repr__(self) -> str:
        return cells.terminal_text(bookie_text.render(self))

    def _repr_html_(self) -> str:
        return cells.bookie_cell(self)
