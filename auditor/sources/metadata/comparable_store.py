"""Stores of which an audit can take what has not changed since an earlier run.

Apart from `auditor.sources.metadata.store`, because what an earlier run read is told in its types.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from auditor.sources.metadata.store import History, Part
from auditor.sources.reuse.earlier_ledgers import EarlierLedgers

if TYPE_CHECKING:
    import pyarrow as pa


@runtime_checkable
class ComparableStore(Protocol):
    """A store that can be asked what has changed since a ledger was read, and gives rows of that ledger."""

    def history(self) -> History:
        """Which history it shows; after `MetadataStore.cluster`."""

    def parts_since(self, earlier: EarlierLedgers, wanted: int) -> list[Part]:
        """Cut the ledgers as `MetadataStore.parts` does, along what an earlier run read of them."""

    def rows_since(self, part: Part, columns: pa.Schema) -> Iterator[pa.RecordBatch]:
        """The rows of such a part as they are now; those of the earlier run where nothing has changed."""
