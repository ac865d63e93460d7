"""Scope of an audit's source: what it claims to cover, and how much of that is proved.

The absence of an object counts only within the proved scope of the source that lacks it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

DATA_AS_OF = "data_as_of"
"""Fact in a run's manifest.json with the result of `oldest_as_of`, for readers that open no table."""

MAX_CLOCK_AHEAD_MS = 5 * 60_000
"""Largest lead of the data's time over this machine's clock, in ms; beyond it the data's age is not known."""


class SourceKind(StrEnum):
    """Kind of data in a source. Stable words: tables have them."""

    METADATA = "metadata"
    """Ledgers, cookies and registrations."""
    BOOKIES = "bookies"
    """Existing bookies: cookies, registrations, or names in ensembles."""
    BOOKIE = "bookie"
    """Data on one bookie."""
    OWNERS = "owners"
    """Ledgers to which an application refers."""


@dataclass(frozen=True, slots=True)
class SourceScope:
    """One source: the scope that it claims to cover, the proved part of it, and the proof.

    ``source`` is its URI or name without credentials. ``scope_proved`` equals ``scope_claimed`` if the whole
    claim is proved. ``proof`` describes the proof of the proved scope. ``as_of`` is the time of its data in
    ms since 1970, or None if it is not known. ``reason`` is why the claim is not proved, or None if it is
    proved.

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
        """Whether the whole claimed scope is proved."""
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
