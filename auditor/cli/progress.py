"""Progress of a command by stages on standard error: a bar at a terminal, or lines in a log."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

import click

from auditor.cli.streams import error_stream_copy
from auditor.cli.verbosity import Verbosity, verbosity
from auditor.model.amounts import duration
from auditor.model.progress import Progress, SilentProgress

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as Bars

PERIOD_S = 30.0
"""Time between two lines of progress in a log, in seconds. A shorter time would make a log too long."""


@contextmanager
def shown_progress() -> Iterator[Progress]:
    """Show progress while the block runs: a bar at a terminal, lines in a log, or nothing with -q."""
    level = verbosity()
    if level is Verbosity.QUIET:
        yield SilentProgress()
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
            ) as log_progress:
                yield log_progress


@contextmanager
def _standard_error() -> Iterator[TextIO]:
    """Yield a copy of standard error, which has its own descriptor.

    While Spark starts, descriptor 2 itself points to a log file.
    """
    stream_copy = error_stream_copy()
    if stream_copy is None:
        yield sys.stderr
    else:
        with stream_copy:
            yield stream_copy


def _new_bars(stream: TextIO, console: Console | None = None) -> Bars:
    """Return the progress bars for a terminal. Only tests pass a ``console``, to choose its width."""
    import rich.console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    return Progress(
        SpinnerColumn(finished_text=" "),
        BarColumn(bar_width=20),
        TextColumn("{task.description}"),
        TimeElapsedColumn(),
        console=console or rich.console.Console(file=stream),
    )


class ProgressPosition:
    """Current stage and table of a command, and how many tasks of the table are finished.

    ``str`` returns the position as text. If ``shows_tables`` is True, as with ``-v``, the text names the
    table.

    >>> at = ProgressPosition(shows_tables=True)
    >>> at.stage("indexes", 3, 15)
    >>> at.table("availability", 40)
    >>> at.advance(12)
    >>> str(at)
    'stage 3 of 15: indexes (availability), 12 of 40 tasks'
    """

    def __init__(self, shows_tables: bool) -> None:
        self.shows_tables = shows_tables
        self.name = "starting"
        self.stage_number = 0
        self.stage_count = 0
        self.table_name = ""
        self.task_count = 0
        self.done_count = 0

    def stage(self, name: str, number: int = 0, total: int = 0) -> None:
        """Begin stage ``number`` of ``total``. Both numbers are 0 if the stages have no numbers."""
        self.name, self.stage_number, self.stage_count = name, number, total
        self.table_name, self.task_count, self.done_count = "", 0, 0
        self._show()

    def table(self, name: str, total: int | None = None) -> None:
        """Begin to make the table ``name``. ``total`` is the number of tasks, or None if it is unknown."""
        self.table_name = name
        self.task_count, self.done_count = total or 0, 0
        self._show()

    def expect(self, added_steps: int) -> None:
        """Add ``added_steps`` to the total number of tasks."""
        self.task_count += added_steps
        self._show()

    def advance(self, done: int) -> None:
        """Add ``done`` to the number of finished tasks."""
        self.done_count += done
        self._show()

    def _show(self) -> None:
        """Show the new position. This method does nothing, and subclasses override it."""

    @property
    def stage_text(self) -> str:
        """Return the stage, with its number if it has one."""
        return (
            f"stage {self.stage_number} of {self.stage_count}: {self.name}" if self.stage_count else self.name
        )

    @property
    def task_counts_text(self) -> str:
        """Return the number of finished tasks and of all tasks as text. Empty if the total is unknown."""
        return f"{self.done_count:,} of {self.task_count:,} tasks" if self.task_count else ""

    def __str__(self) -> str:
        table = f" ({self.table_name})" if self.shows_tables and self.table_name else ""
        return (
            f"{self.stage_text}{table}, {self.task_counts_text}"
            if self.task_counts_text
            else f"{self.stage_text}{table}"
        )


class TerminalProgress(ProgressPosition):
    """Progress at a terminal: one bar for all stages.

    With ``-v``, the name of the table is on a line below the stage.
    """

    def __init__(self, bars: Bars, shows_tables: bool) -> None:
        super().__init__(shows_tables)
        self._bars = bars
        self._task = bars.add_task("starting", total=None)

    def note(self, text: str) -> None:
        """Print a line above the bar."""
        self._bars.console.print(f"bkaudit: {text}", highlight=False, markup=False, soft_wrap=True)

    def end(self) -> None:
        """Show that the command is done. The bar is full, unless ``--stop-after`` has skipped stages."""
        self._bars.update(
            self._task, total=self.stage_count or 1, completed=self.stage_number or 1, description="done"
        )

    def _show(self) -> None:
        table = ", ".join(filter(None, (self.table_name, self.task_counts_text)))
        description = f"{self.stage_text}\n{table}" if self.shows_tables and self.table_name else str(self)
        self._bars.update(
            self._task,
            total=self.stage_count or None,
            completed=max(0, self.stage_number - 1),
            description=description,
        )


class LogProgress(ProgressPosition):
    """Progress in a log: a line every `PERIOD_S` seconds, and with ``-v`` a line for each stage and table."""

    def __init__(
        self, print_line: Callable[[str], None], shows_tables: bool, period_s: float = PERIOD_S
    ) -> None:
        super().__init__(shows_tables)
        self._print_line = print_line
        self._period_s = period_s
        self._start_time = time.monotonic()
        self._end_event = threading.Event()
        self._thread = threading.Thread(target=self._print_periodically, daemon=True)

    def __enter__(self) -> LogProgress:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end_event.set()
        self._thread.join()

    def stage(self, name: str, number: int = 0, total: int = 0) -> None:
        """Begin a stage. With ``-v``, write a line."""
        super().stage(name, number, total)
        if self.shows_tables:
            self._line()

    def table(self, name: str, total: int | None = None) -> None:
        """Begin to make the table ``name``. With ``-v``, write a line."""
        super().table(name, total)
        if self.shows_tables:
            self._line()

    def note(self, text: str) -> None:
        """Write a line."""
        self._print_line(text)

    def _print_periodically(self) -> None:
        while not self._end_event.wait(self._period_s):
            self._line()

    def _line(self) -> None:
        self._print_line(f"{self}, {duration(time.monotonic() - self._start_time)} in total")
