"""Rows of a bookie's RocksDB that are none of the storage's: counted, the first one kept as an example."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from auditor.model.states import IndexState
from auditor.sources.bookies.index_files.listing import SkippedPath
from auditor.sources.bookies.rocksdb.scan import Rows

MAX_SHOWN = 32
"""Bytes of a key that are shown."""


@dataclass(slots=True)
class UnexpectedRows:
    """What was odd in the database ``path``, as at most one row ``damaged``.

    >>> list(UnexpectedRows("/data/ledgers0/current/locations").rows())
    []
    """

    path: str
    count: int = 0
    first: str = ""

    def add(self, rows: Rows, at: NDArray[np.intp], what: str) -> None:
        """Count the rows ``at``, which are ``what``. Values are never shown: some hold a key of a ledger."""
        if len(at) and not self.count:
            key = rows.keys.item(int(at[0]))
            self.first = f"{what}: {key[:MAX_SHOWN].hex()}{'...' if len(key) > MAX_SHOWN else ''}"
        self.count += len(at)

    def rows(self) -> Iterator[SkippedPath]:
        """A row that says so, if there was anything."""
        if self.count:
            reason = f"{self.count} of its rows are none of DbLedgerStorage's; the first is {self.first}"
            yield SkippedPath(None, self.path, IndexState.DAMAGED, reason)
