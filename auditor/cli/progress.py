"""Progress of a command by stages on standard error: a bar at a terminal, or lines in a log."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

import click

from auditor.checks import GROUPS
from auditor.cli.streams import error_stream_copy
from auditor.cli.verbosity import Verbosity, verbosity
from auditor.model.amounts import duration
from auditor.model.progress import Progress, Silent

if TYPE_CHECKING:
    from rich.progress import Progress as Bars

_TABLES: dict[str, tuple[str, ...]] = {
    "starting Spark": ("sample cluster", "spark"),
    "reading the metadata": ("cluster", "ledgers", "marks", "cookies", "registrations"),
    "reading the indexes": ("directories", "availability", "journal_tails", "tails", "entry_logs"),
    "asking bookies": ("answers",),
    "comparing": ("unequal", "judged_by_index", "witness", "judged", "verdicts", "bookies"),
    "reading the metadata again": ("ledgers_again", "marks_again", "moved"),
    "checking": (
        "orphans",
        "contents",
        "identities",
        "holdings",
        "undrawn",
        "id_generators",
        "stale_marks",
        "gc_foresight",
        "checks",
        *GROUPS,
    ),
    "reporting": ("findings", "changes", "report"),
}

STAGES = tuple(_TABLES)
"""Names of the stages in the order of an audit. Commands with less work leave some stages out."""

_STAGE = {table: number for number, tables in enumerate(_TABLES.values(), 1) for table in tables}


def stage_number(table: str) -> int | None:
    """Return the number of the stage that makes a table, counted from 1. None if several stages may make it.

    >>> stage_number("availability"), stage_number("doubtful_ids")
    (3, None)
    """
    return _STAGE.get(table)


PERIOD_S = 30.0
"""Time between two lines of progress in a log, in seconds. It is long enough to keep a night's log short."""


@contextmanager
def shown_progress() -> Iterator[Progress]:
    """Show progress while the block runs: a bar at a terminal, lines in a log, or nothing with -q."""
    level = verbosity()
    if level is Verbosity.QUIET:
        yield Silent()
        return
    with _standard_error() as stream:
        if stream.isatty():
            with _new_bars(stream) as bars:
                progress = TerminalProgress(bars, level is Verbosity.VERBOSE)
                yield progress
                progress.end()
        else:
            with LogProgress(
                lambda line: click.echo(f"bkaudit: {line}", stream), level is Verbosity.VERBOSE
            ) as log:
                yield log


@contextmanager
def _standard_error() -> Iterator[TextIO]:
    """Yield a copy of standard error, because a log file takes over descriptor 2 while Spark starts."""
    stream_copy = error_stream_copy()
    if stream_copy is None:
        yield sys.stderr
    else:
        with stream_copy:
            yield stream_copy


def _new_bars(stream: TextIO) -> Bars:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    return Progress(
        SpinnerColumn(finished_text=" "),
        BarColumn(bar_width=20),
        TextColumn("{task.description}"),
        TimeElapsedColumn(),
        console=Console(file=stream),
    )


class ProgressPosition:
    """Current stage, and the number of its tasks that are done.

    ``internal`` adds the names of tables to the text, as ``-v`` requests.

    >>> at = ProgressPosition(internal=False)
    >>> at.stage("availability")
    >>> at.total, at.done = 40, 12
    >>> str(at)
    'stage 3 of 8, reading the indexes, 12 of 40 tasks'
    """

    def __init__(self, internal: bool) -> None:
        self.internal = internal
        self.number = 0
        self.table = ""
        self.total = 0
        self.done = 0

    def stage(self, name: str, total: int | None = None) -> None:
        """Begin to make the table ``name``. The number of the stage never decreases.

        ``total`` is the number of tasks. None: it is unknown.
        """
        self.table = name
        self.total, self.done = total or 0, 0
        self.number = max(self.number, stage_number(name) or self.number)
        self._show()

    def expect(self, added_steps: int) -> None:
        """Add tasks to the total."""
        self.total += added_steps
        self._show()

    def advance(self, done: int) -> None:
        """Add ``done`` tasks to those that are done."""
        self.done += done
        self._show()

    def _show(self) -> None:
        """Show the new position. Subclasses override this method, which does nothing."""

    def __str__(self) -> str:
        name = STAGES[max(self.number, 1) - 1]
        table = f" ({self.table})" if self.internal and self.table else ""
        tasks = f", {self.done:,} of {self.total:,} tasks" if self.total else ""
        return f"stage {max(self.number, 1)} of {len(STAGES)}, {name}{table}{tasks}"


class TerminalProgress(ProgressPosition):
    """Progress at a terminal: one bar for all stages."""

    def __init__(self, bars: Bars, internal: bool) -> None:
        super().__init__(internal)
        self._bars = bars
        self._task = bars.add_task("starting", total=len(STAGES))

    def end(self) -> None:
        """Show that all stages are done."""
        self._bars.update(self._task, completed=len(STAGES), description="done")

    def _show(self) -> None:
        self._bars.update(self._task, completed=max(0, self.number - 1), description=str(self))


class LogProgress(ProgressPosition):
    """Progress in a log: a line every `PERIOD_S` seconds, and with ``-v`` a line for each table too."""

    def __init__(self, say: Callable[[str], None], internal: bool, period_s: float = PERIOD_S) -> None:
        super().__init__(internal)
        self._say = say
        self._period_s = period_s
        self._began = time.monotonic()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._print_periodically, daemon=True)

    def __enter__(self) -> LogProgress:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def stage(self, name: str, total: int | None = None) -> None:
        """Begin to make the table ``name``. With ``-v``, write a line."""
        super().stage(name, total)
        if self.internal:
            self._line()

    def _print_periodically(self) -> None:
        while not self._ended.wait(self._period_s):
            self._line()

    def _line(self) -> None:
        self._say(f"{self}, {duration(time.monotonic() - self._began)} in all")
