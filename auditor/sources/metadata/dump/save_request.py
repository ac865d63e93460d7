"""What a running store is asked for to be saved: everything at and below some roots, as records of a dump."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from auditor.sources.metadata.store import StoreOptions
from auditor.sources.metadata.uri import MetadataUri

Record = dict[str, Any]


@dataclass(frozen=True)
class SaveRequest:
    """What is to be saved of a store: its root, and the trees ``beside`` it that are there.

    ``passwords`` false: ledger metadata loses its passwords on the way.
    """

    uri: MetadataUri
    beside: tuple[str, ...]
    passwords: bool
    options: StoreOptions

    @property
    def trees(self) -> tuple[str, ...]:
        """The absolute paths beside the root."""
        above = self.uri.root.rpartition("/")[0]
        return tuple(f"{above}/{name}" for name in self.beside)


@dataclass(frozen=True)
class StoreRecords:
    """A store that is being read: ``time`` is when that began, in ms, and the records come in batches.

    A record with a reason (`auditor.sources.metadata.dump.records.unread_record`) is what could not be read.
    """

    time: int
    batches: Iterator[list[Record]]


class Reader(Protocol):
    """Begins to read a store."""

    def __call__(self, wanted: SaveRequest) -> StoreRecords:
        """Connect, find the root, and go on as the batches are taken.

        Raises:
            StoreError: the store cannot be reached, or has no such root; from the batches too.
        """
