"""Progress reports of long-running work."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Receiver of progress reports.

    A command has stages, a stage has tables, and a table has an amount of work.
    """

    def stage(self, name: str, number: int = 0, total: int = 0) -> None:
        """Begin stage ``number`` of ``total`` stages. Both are 0 if the stages are not numbered."""

    def table(self, name: str, total: int | None = None) -> None:
        """Begin a table of the stage. ``total`` is its amount of work, or None if it is not known."""

    def note(self, text: str) -> None:
        """Show a line that stays visible."""

    def expect(self, count: int) -> None:
        """Increase the expected amount of work for the current table by ``count``."""

    def advance(self, done: int) -> None:
        """Report that another ``done`` units of the current table's work are finished."""


class SilentProgress:
    """Receiver that ignores all progress reports.

    >>> SilentProgress().stage("check", 11, 15)
    """

    def stage(self, name: str, number: int = 0, total: int = 0) -> None:
        """Do nothing."""

    def table(self, name: str, total: int | None = None) -> None:
        """Do nothing."""

    def note(self, text: str) -> None:
        """Do nothing."""

    def expect(self, count: int) -> None:
        """Do nothing."""

    def advance(self, done: int) -> None:
        """Do nothing."""
