"""What time says of a finding: whether it is new, since when it has been there, and who knows of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Standing:
    """How a finding stands against the run before.

    ``change`` is new, same, worse or better; ``first_seen`` the time of the first run of an unbroken row of
    runs that has it, in milliseconds since 1970, UTC; ``suppressed`` the reason of the suppression that names
    it, None where none does.
    """

    change: str
    first_seen: int
    suppressed: str | None = None


Standings = Callable[[str], Standing | None]
"""From a fingerprint to its standing; None where the run kept none."""


def no_standing(fingerprint: str) -> None:
    """The standing of every finding where none was kept."""
