"""Result of comparing a metadata store (the source) with its copy: counts of items, and the differences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from auditor.model.json_shape import Count, DecimalId, about
from auditor.model.report import EXIT_CLEAN, EXIT_FOUND, EXIT_NOT_COVERED


class CopyState(StrEnum):
    """State of an item in the copy, compared with the source. Tables and reports contain these words."""

    MISSING = "missing"
    """The source has the item, and the copy does not."""
    DIFFERENT = "different"
    """Both stores have the item, with different bytes."""
    EXTRA = "extra"
    """Only the copy has the item."""
    UNDECIDED = "undecided"
    """The item seems to differ, but could not be read in one store, or changed during the reading."""


class StoreItem(StrEnum):
    """Kind of item that is compared between the two stores."""

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

    ``path`` is the path of the item in the store. For a ledger, it is the path in the source. If only the
    copy has the ledger, it is the path in the copy. Paths of owners (such as topics) are relative to the
    chroot of their application. ``fields`` are the fields that differ in a ledger's metadata, in the form
    ``name: source / copy``. ``why`` is the reason why the difference is undecided. It is None for other
    differences.
    """

    item: StoreItem
    change: CopyState
    path: Annotated[str, about("path in the store; for owners, without the chroot")]
    scope_id: DecimalId = None
    ledger_id: DecimalId = None
    fields: Annotated[
        tuple[str, ...], about("differing fields of a ledger's metadata, as name: source / copy")
    ] = ()
    why: Annotated[str | None, about("reason why the change is undecided; null: it is decided")] = None


@dataclass(frozen=True, slots=True)
class ItemTally:
    """Numbers of items of one kind: in the source, in the copy, equal in both, and in each `CopyState`."""

    item: StoreItem
    source: Count
    copy: Count
    same: Count
    changes: Mapping[CopyState, int]


@dataclass(frozen=True, slots=True)
class StoreSummary:
    """Summary of a store: its URI, its layout, and its position (such as a zxid) when it was read."""

    uri: str
    position: str
    layout: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """Result of a comparison.

    ``gaps`` describe the parts of the stores that were not read. ``notes`` are other remarks, as texts.
    """

    source: StoreSummary
    copy: StoreSummary
    tallies: tuple[ItemTally, ...]
    gaps: tuple[str, ...]
    notes: tuple[str, ...]

    def count(self, change: CopyState) -> int:
        """Return the number of items, of all kinds, that are in the state ``change``."""
        return sum(tally.changes[change] for tally in self.tallies)

    @property
    def differences(self) -> int:
        """Number of items that certainly differ."""
        return sum(self.count(change) for change in CopyState if change is not CopyState.UNDECIDED)

    @property
    def exit_code(self) -> int:
        """0: everything was read and is equal. 1: items differ. 3: only an unread part could differ."""
        if self.differences:
            return EXIT_FOUND
        return EXIT_NOT_COVERED if self.gaps or self.count(CopyState.UNDECIDED) else EXIT_CLEAN
