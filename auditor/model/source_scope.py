"""What a source of an audit claims to cover, and what of that is proved.

The absence of something counts only within the proved scope of the source that lacks it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

DATA_AS_OF = "data_as_of"
"""The fact in a run's manifest.json that `oldest_as_of` gives: what reads no table has it from there."""

MAX_CLOCK_AHEAD_MS = 5 * 60_000
"""Data may be so much newer than this machine's clock says. How old newer data is, nobody can tell."""


class SourceKind(StrEnum):
    """What a source shows. Stable words: tables have them."""

    METADATA = "metadata"
    """Ledgers, cookies and registrations."""
    BOOKIES = "bookies"
    """Which bookies exist: cookies, registrations, or names in ensembles."""
    BOOKIE = "bookie"
    """What one bookie holds."""
    OWNERS = "owners"
    """Which ledgers an application refers to."""


@dataclass(frozen=True, slots=True)
class SourceScope:
    """One source, what it claims to cover, what of that is proved, and by what.

    ``source`` is its URI or name without credentials. ``scope_proved`` is equal to ``scope_claimed`` where
    the whole claim is proved. ``proof`` says what proves the proved scope. ``as_of`` is the time of its data
    in ms since 1970, or None if nothing tells it. ``reason`` says why the claim is not proved, and is None if
    it is.

    >>> SourceScope("zk://h1/ledgers", "metadata", "all", "all", "the instance id matches", 1, None).is_proved
    True
    """

    source: str
    kind: str
    scope_claimed: str
    scope_proved: str
    proof: str
    as_of: int | None
    reason: str | None

    @property
    def is_proved(self) -> bool:
        """Whether all that the source claims to cover is proved."""
        return self.scope_proved == self.scope_claimed


def oldest_as_of(sources: Iterable[SourceScope]) -> int | None:
    """Return the time of the oldest data that a run rests on, in ms since 1970.

    Actions that destroy something are refused if this is too long ago. Returns None if no source has a time.

    >>> row = SourceScope("bk1:3181", "bookie", "all", "all", "its disks were read", 7, None)
    >>> oldest_as_of([row, SourceScope("bk2:3181", "bookie", "all", "nothing", "", None, "not read")])
    7
    """
    return min((source.as_of for source in sources if source.as_of is not None), default=None)


def newest_as_of(sources: Iterable[SourceScope], scan_time: int) -> int:
    """Return the time of the newest data that a run rests on, in ms since 1970.

    It lies after the current time if a clock was wrong: then the age of the data is not known.

    Args:
        sources: those of the run.
        scan_time: when its metadata was scanned or saved, ms.
    """
    return max((scan_time, *(source.as_of for source in sources if source.as_of is not None)))
