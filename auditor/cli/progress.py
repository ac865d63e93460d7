"""Progress at a terminal: the stage, how long it takes, rate and what is left; on standard error."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from auditor.model.progress import Progress, Silent

if TYPE_CHECKING:
    from rich.progress import Progress as Bars
    from rich.progress import TaskID


@contextmanager
def shown_progress() -> Iterator[Progress]:
    """Progress for a person where standard error is a terminal; else nothing."""
    if not sys.stderr.isatty():
        yield Silent()
        return
    from rich.console import Console
    from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    bars = Bars(
        SpinnerColumn(finished_text=" "),
        TextColumn("{task.description:<16}"),
        BarColumn(bar_width=20),
        TextColumn("{task.fields[rate]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
    )
    with bars:
        terminal = TerminalProgress(bars)
        yield terminal
        terminal.end()


class TerminalProgress:
    """One line a stage."""

    def __init__(self, bars: Bars) -> None:
        self._bars = bars
        self._task: TaskID | None = None

    def stage(self, name: str, total: int | None = None) -> None:
        """End the stage before, and begin another."""
        self.end()
        self._task = self._bars.add_task(name, total=total, rate="")

    def expect(self, more: int) -> None:
        """There is so much more to do."""
        if self._task is not None:
            task = self._bars.tasks[self._bars.task_ids.index(self._task)]
            self._bars.update(self._task, total=(task.total or 0) + more)

    def advance(self, done: int) -> None:
        """So much more is done."""
        if self._task is None:
            return
        self._bars.advance(self._task, done)
        task = self._bars.tasks[self._bars.task_ids.index(self._task)]
        self._bars.update(self._task, rate=f"{task.speed:,.1f} tasks/s" if task.speed else "")

    def end(self) -> None:
        """The last stage is done."""
        if self._task is None:
            return
        task = self._bars.tasks[self._bars.task_ids.index(self._task)]
        total = task.total if task.total is not None else 1
        self._bars.update(self._task, total=total, completed=total)
        self._task = None
