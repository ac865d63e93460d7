"""One set of entries that comes in pieces, ascending: kept folded, so that memory follows its groups."""

from __future__ import annotations

import numpy as np

from auditor.codecs.fold import fold
from auditor.codecs.groups import GroupBatch, Longs
from auditor.errors import CoverageLimitError

MAX_GROUPS = 8 << 20
"""Groups of one set, 192 MiB of them: an index so irregular is not kept."""

FOLD_EVERY = 1 << 20
"""Groups that are gathered before they are folded."""


class Gathered:
    """The groups of one set so far; a run that goes on from piece to piece is joined by the fold.

    >>> gathered = Gathered()
    >>> for piece in ([(0, 0, 2, 0)], [(2, 2, 3, 0)]):
    ...     gathered.add(GroupBatch.of([piece]))
    >>> gathered.folded().size.tolist()
    [5]
    """

    def __init__(self) -> None:
        self._pieces: list[GroupBatch] = []
        self._unfolded = 0

    def add(self, piece: GroupBatch) -> None:
        """Add groups that come after all that were added before. Raises `CoverageLimitError`."""
        self._pieces.append(piece)
        self._unfolded += len(piece.first)
        if self._unfolded > FOLD_EVERY:
            self._pieces = [self.folded()]
            self._unfolded = 0

    def folded(self) -> GroupBatch:
        """All of it as one set. Raises `CoverageLimitError` past `MAX_GROUPS`."""
        if not self._pieces:
            return GroupBatch.of([[]])
        columns = (np.concatenate(column) for column in zip(*map(_columns, self._pieces), strict=True))
        first, last, size, period = columns
        folded = fold(GroupBatch(first, last, size, period, np.array([0, len(first)], np.int64)))
        if len(folded.first) > MAX_GROUPS:
            raise CoverageLimitError(f"more than {MAX_GROUPS} groups of entries")
        return folded


def _columns(batch: GroupBatch) -> tuple[Longs, ...]:
    return batch.first, batch.last, batch.size, batch.period
