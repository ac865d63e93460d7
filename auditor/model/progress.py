"""Progress reports of long work."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Receiver of progress reports: the start of each stage, and the work done in it."""

    def stage(self, name: str, total: int | None = None) -> None:
        """Begin the next stage; ``total`` is its amount of work, None if that is not known."""

    def expect(self, count: int) -> None:
        """Add ``count`` to the expected amount of work of the stage."""

    def advance(self, done: int) -> None:
        """Add ``done`` to the finished work of the stage."""


class Silent:
    """Receiver that ignores all reports.

    >>> Silent().stage("checks")
    """

    def stage(self, name: str, total: int | None = None) -> None:
        """Do nothing."""

    def expect(self, count: int) -> None:
        """Do nothing."""

    def advance(self, done: int) -> None:
        """Do nothing."""
