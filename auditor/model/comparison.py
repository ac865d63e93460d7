"""What a comparison of two metadata stores found: counts in full, and one difference as a value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from auditor.model.json_shape import Count, DecimalId, about
from auditor.model.report import CLEAN, FOUND, NOT_COVERED


class CopyState(StrEnum):
    """How something of the source stands in the copy. Stable words: tables and reports have them."""

    MISSING = "missing"
    """The source has it, and the copy does not."""
    DIFFERENT = "different"
    """Both have it, with other bytes."""
    EXTRA = "extra"
    """Only the copy has it."""
    UNDECIDED = "undecided"
    """It differs where one of the stores was not read, or changed while it was read."""


class StoreItem(StrEnum):
    """What two stores are compared by."""

    LEDGER = "ledger"
    OWNER = "owner"
    COOKIE = "cookie"
    LAYOUT = "layout"
    INSTANCE_ID = "instance-id"
    ID_GENERATOR = "id-generator"
    """Different only if the copy's is behind an id that is in use."""


@dataclass(frozen=True, slots=True)
class StoreDifference:
    """One thing that the two stores do not both have alike.

    ``path`` is where it is kept: of a ledger in the source, or in the copy where only that has it; of owners
    below the chroot. ``fields`` are what of a ledger's metadata differs, ``name: source / copy``; ``why`` is
    what leaves it undecided.
    """

    item: StoreItem
    change: CopyState
    path: Annotated[str, about("where it is kept; of owners below the chroot")]
    scope_id: DecimalId = None
    ledger_id: DecimalId = None
    fields: Annotated[tuple[str, ...], about("what differs of a ledger, name: source / copy")] = ()
    why: Annotated[str | None, about("what leaves it undecided")] = None


@dataclass(frozen=True, slots=True)
class ItemTally:
    """How many things of one kind each store has, and how they compare; ``changes`` has every `CopyState`."""

    item: StoreItem
    source: Count
    copy: Count
    same: Count
    changes: Mapping[CopyState, int]


@dataclass(frozen=True, slots=True)
class StoreSummary:
    """One of the two: its URI, where it stood, its layout."""

    uri: str
    position: str
    layout: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two stores compared. ``gaps`` are what was not read, ``notes`` what else a reader should know."""

    source: StoreSummary
    copy: StoreSummary
    tallies: tuple[ItemTally, ...]
    gaps: tuple[str, ...]
    notes: tuple[str, ...]

    def count(self, change: CopyState) -> int:
        """How many things of all kinds changed in one way."""
        return sum(tally.changes[change] for tally in self.tallies)

    @property
    def differences(self) -> int:
        """Things that surely differ."""
        return sum(self.count(change) for change in CopyState if change is not CopyState.UNDECIDED)

    @property
    def exit_code(self) -> int:
        """0: the same, all of it looked at; 1: differences; 3: none that is sure, but not all was read."""
        if self.differences:
            return FOUND
        return NOT_COVERED if self.gaps or self.count(CopyState.UNDECIDED) else CLEAN
