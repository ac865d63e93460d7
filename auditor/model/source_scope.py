"""Scope of a source: which objects it claims to cover, and which part of this claim is proved.

An object counts as absent only if a source is proved to cover such objects and does not contain it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

DATA_AS_OF = "data_as_of"
"""Key of the time of the oldest data in a run's manifest.json; with it, no table is read for this time."""

MAX_CLOCK_AHEAD_MS = 5 * 60_000
"""Longest time by which data may be ahead of this machine's clock, in ms; newer data has no known age."""


class SourceKind(StrEnum):
    """Kind of data in a source. Tables store these words."""

    METADATA = "metadata"
    """Ledgers, cookies and registrations."""
    BOOKIES = "bookies"
    """Existence of bookies: cookies, registrations, and names in ensembles."""
    BOOKIE = "bookie"
    """Data on one bookie."""
    OWNERS = "owners"
    """Ledgers to which an application refers."""


@dataclass(frozen=True, slots=True)
class SourceScope:
    """A source of an audit, the objects that it claims to cover (its scope), and the proof of this claim.

    ``source`` is the URI or the name of the source, without credentials. ``scope_proved`` is the part of
    ``scope_claimed`` that is proved, in words. Both are equal if the whole claim is proved. ``proof``
    describes the proof. ``as_of`` is the time of the source's data in ms since 1970, or None if it is not
    known. ``reason`` says why the claim is not proved. It is None if the claim is proved.

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
        """Whether the source is proved to cover all objects that it claims to cover."""
        return self.scope_proved == self.scope_claimed


def oldest_as_of(sources: Iterable[SourceScope]) -> int | None:
    """Return the time of the oldest data that a run depends on, in ms since 1970.

    Returns None if no source has a time. If the oldest data is too old, actions that destroy something are
    refused.

    >>> row = SourceScope("bk1:3181", "bookie", "all", "all", "its disks were read", 7, None)
    >>> oldest_as_of([row, SourceScope("bk2:3181", "bookie", "all", "nothing", "", None, "not read")])
    7
    """
    return min((source.as_of for source in sources if source.as_of is not None), default=None)


def newest_as_of(sources: Iterable[SourceScope], scan_time: int) -> int:
    """Return the time of the newest data that a run depends on, in ms since 1970.

    If this time is in the future, a clock was wrong, and the age of the data is not known.

    Args:
        sources: the sources of the run.
        scan_time: time when the run's metadata was scanned or saved, in ms.
    """
    return max((scan_time, *(source.as_of for source in sources if source.as_of is not None)))
