"""How a long piece of work tells where it is."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Told of each stage as it begins, and of what a stage has got through."""

    def stage(self, name: str, total: int | None = None) -> None:
        """The next stage begins; ``total`` is how much there is, where that is known."""

    def expect(self, count: int) -> None:
        """There is so much more of the stage to do than was known before."""

    def advance(self, done: int) -> None:
        """So much more of the stage is done."""


class Silent:
    """Tells nobody.

    >>> Silent().stage("checks")
    """

    def stage(self, name: str, total: int | None = None) -> None:
        """Nothing."""

    def expect(self, count: int) -> None:
        """Nothing."""

    def advance(self, done: int) -> None:
        """Nothing."""
