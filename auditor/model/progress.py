"""Progress reports of long work."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Receiver of progress reports: stages of a command, tables of a stage, and the work of a table."""

    def stage(self, name: str, number: int = 0, total: int = 0) -> None:
        """Begin the stage ``number`` of ``total``. Both are 0 if the command does not number its stages."""

    def table(self, name: str, total: int | None = None) -> None:
        """Begin a table of the stage. ``total`` is its amount of work, or None if that is not known."""

    def note(self, text: str) -> None:
        """Show a line that stays visible."""

    def expect(self, count: int) -> None:
        """Add ``count`` to the expected amount of work of the table."""

    def advance(self, done: int) -> None:
        """Add ``done`` to the finished work of the table."""


class Silent:
    """Receiver that ignores all reports.

    >>> Silent().stage("check", 11, 15)
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
