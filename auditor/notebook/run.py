"""A finished run, with all functions for a notebook and for the command line.

run = open_run("runs/20261121T050749Z")
run.ledger(42)  # draws itself
run.plot.bookies()
run.write("html", "report.html")
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from auditor.errors import UsageError
from auditor.model.ledger_id import LedgerId
from auditor.model.views import BookieView, LedgerView
from auditor.notebook.run_figures import RunFigures
from auditor.reports import bookie as bookie_text
from auditor.reports import cells
from auditor.reports import ledger as ledger_text
from auditor.runs.load_ledger import ledger_view
from auditor.runs.whole_file import write_whole
from auditor.spark.types import DataFrame, SparkSession

if TYPE_CHECKING:
    from auditor.notebook.frames import Frames
    from auditor.notebook.plots import Plots


def open_run(path: str | Path) -> Run:
    """Open the run directory that an audit wrote. ``path`` is a path, or a URI such as hdfs:// or s3://.

    Raises:
        RunError: the directory does not exist, has no finished run, or has an unreadable report.
    """
    return Run(str(path))


class Run(RunFigures):
    """A run with figures, frames and plots. A notebook draws its ledgers and bookies."""

    @property
    def frames(self) -> Frames:
        """Return small pandas frames: ``run.frames.stripes(42)``, ``run.frames.by_id()`` ..."""
        from auditor.notebook.frames import Frames

        return Frames(self)

    @property
    def plot(self) -> Plots:
        """Return pictures: ``run.plot.stripes(42)`` ... (`auditor.notebook.plots`)."""
        from auditor.notebook.plots import Plots

        return Plots(self, self.frames)

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
            raise UsageError(f"{form}: no such format. Valid formats: {', '.join(FORMS)}")
        write_whole(str(file), partial(FORMS[form].write, self))

    def tables(self, spark: SparkSession) -> Mapping[str, DataFrame]:
        """Return all tables and the findings as Spark DataFrames by name."""
        frames = {name: spark.read.parquet(f"{self.path}/tables/{name}") for name in self.table_names()}
        return {**frames, "findings": spark.read.parquet(f"{self.path}/findings")}

    def views(self, spark: SparkSession, prefix: str = "") -> Mapping[str, str]:
        """Register all tables and the findings as temporary SQL views. Return what a row of each view means.

        Every name begins with ``prefix``, so that two runs can be open at once
        (`auditor.notebook.sql_views`).
        """
        from auditor.notebook.sql_views import register

        return register(self, spark, prefix)

    def ledger(self, ledger_id: int | LedgerId, scope_id: int = 0) -> LedgerDisplay:
        """Return one ledger as this run saw it.

        ``scope_id`` is the upper half of a 128-bit ledger id. A `LedgerId` already includes this half.

        Raises:
            UsageError: no ledger can have this id.
            RunError: neither the metadata nor a bookie of this run knows the ledger.
        """
        return LedgerDisplay(**_fields(ledger_view(self, ledger_id, scope_id)))

    def bookie(self, bookie_id: str) -> BookieDisplay:
        """Return one bookie as this run saw it, by its id in the cluster.

        Raises:
            RunError: the run names no such bookie. The message lists similar ids.
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
    ledger 42: not in the metadata, but bookies have it
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
