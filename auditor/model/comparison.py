"""Result of comparing a metadata store (the source) with its copy: counts of items, and the differences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from auditor.model.json_shape import Count, DecimalId, about
from auditor.model.report import CLEAN, FOUND, NOT_COVERED


class CopyState(StrEnum):
    """State of an item in the copy, compared with the source. Tables and reports store these words."""

    MISSING = "missing"
    """The source has the item, and the copy does not."""
    DIFFERENT = "different"
    """Both stores have the item, with different bytes."""
    EXTRA = "extra"
    """Only the copy has the item."""
    UNDECIDED = "undecided"
    """The item seems to differ, but could not be read in one store, or changed during the reading."""


class StoreItem(StrEnum):
    """Kind of an item that is compared."""

    LEDGER = "ledger"
    OWNER = "owner"
    COOKIE = "cookie"
    LAYOUT = "layout"
    INSTANCE_ID = "instance-id"
    ID_GENERATOR = "id-generator"
    """Generator of ledger ids; the copy's is different only if it could give out an id that is in use."""


@dataclass(frozen=True, slots=True)
class StoreDifference:
    """One item that differs between the two stores.

    ``path`` is the item's place in the store. The path of a ledger is that in the source, or that in the copy
    if only the copy has the ledger. Paths of owners begin below the chroot. ``fields`` are the differing
    parts of a ledger's metadata, as ``name: source / copy``. ``why`` is the reason if the state is undecided,
    else None.
    """

    item: StoreItem
    change: CopyState
    path: Annotated[str, about("path in the store; for owners, without the chroot")]
    scope_id: DecimalId = None
    ledger_id: DecimalId = None
    fields: Annotated[
        tuple[str, ...], about("differing fields of a ledger's metadata, as name: source / copy")
    ] = ()
    why: Annotated[str | None, about("for undecided: the reason")] = None


@dataclass(frozen=True, slots=True)
class ItemTally:
    """Numbers of items of one kind: in the source, in the copy, equal in both, and by `CopyState`."""

    item: StoreItem
    source: Count
    copy: Count
    same: Count
    changes: Mapping[CopyState, int]


@dataclass(frozen=True, slots=True)
class StoreSummary:
    """One of the two stores: its URI, the position at which it was read, and its layout."""

    uri: str
    position: str
    layout: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """Result of a comparison; ``gaps`` are parts of the stores that were not read, ``notes`` are texts."""

    source: StoreSummary
    copy: StoreSummary
    tallies: tuple[ItemTally, ...]
    gaps: tuple[str, ...]
    notes: tuple[str, ...]

    def count(self, change: CopyState) -> int:
        """Return the number of items, of any kind, that are in this state."""
        return sum(tally.changes[change] for tally in self.tallies)

    @property
    def differences(self) -> int:
        """Number of items that certainly differ."""
        return sum(self.count(change) for change in CopyState if change is not CopyState.UNDECIDED)

    @property
    def exit_code(self) -> int:
        """0 if everything was read and is equal; 1 with differences; 3 if something unread could differ."""
        if self.differences:
            return FOUND
        return NOT_COVERED if self.gaps or self.count(CopyState.UNDECIDED) else CLEAN
