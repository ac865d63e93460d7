"""One set of entries that comes in pieces, ascending: kept folded, so that memory follows its groups.

Of what was gathered before only the last two groups can change with what comes: the last one, and, where that
is a single run that the next piece makes longer, the one before it, which the longer run may join. A piece is
folded already; it is folded again from its start until both ways come to the same group, most often at once.
"""

from __future__ import annotations

import numpy as np

from auditor.codecs.availability.fold import fold
from auditor.codecs.availability.groups import GroupBatch, Longs
from auditor.errors import CoverageLimitError

MAX_GROUPS = 8 << 20
"""Groups of one set, 192 MiB of them: an index so irregular is not kept."""

SEAM = 16
"""Groups of a piece that are folded again at first; eight times as many whenever that was not enough."""

Columns = tuple[Longs, Longs, Longs, Longs]
"""First start, last start, size and period of some groups."""


class IncrementalFold:
    """The groups of one set so far; a run that goes on from piece to piece is joined.

    >>> gathered = IncrementalFold()
    >>> for piece in ([(0, 0, 2, 0)], [(2, 2, 3, 0)]):
    ...     gathered.add(GroupBatch.of([piece]))
    >>> gathered.result().size.tolist()
    [5]
    """

    def __init__(self) -> None:
        self._settled: list[Columns] = []
        self._open = _columns(GroupBatch.of([[]]))
        self._count = 0

    def add(self, piece: GroupBatch) -> None:
        """Add a folded set that comes after all that was added before. Raises `CoverageLimitError`."""
        groups = _columns(piece)
        if len(self._open[0]) and len(piece.first):
            groups = _join(self._open, groups)
        elif not len(piece.first):
            return
        cut = max(len(groups[0]) - 2, 0)
        if cut:
            self._settled.append(_part(groups, 0, cut))
        self._open = _part(groups, cut, len(groups[0]))
        self._count += cut
        if self._count + len(self._open[0]) > MAX_GROUPS:
            raise CoverageLimitError(f"more than {MAX_GROUPS} groups of entries")

    def result(self) -> GroupBatch:
        """All of it as one set."""
        first, last, size, period = map(np.concatenate, zip(*self._settled, self._open, strict=True))
        return GroupBatch(first, last, size, period, np.array([0, len(first)], np.int64))


def _join(before: Columns, piece: Columns) -> Columns:
    """Fold the groups before a folded piece and the piece into one."""
    count, seam = len(piece[0]), SEAM
    while True:
        seam = min(seam, count)
        first, last, size, period = _both(before, _part(piece, 0, seam))
        head = _columns(fold(GroupBatch(first, last, size, period, np.array([0, len(first)], np.int64))))
        # What joins a group depends on nothing but the group: after the same one all goes on alike.
        if seam == count or all(own[-1] == alone[seam - 1] for own, alone in zip(head, piece, strict=True)):
            return _both(head, _part(piece, seam, count))
        seam *= 8


def _both(one: Columns, other: Columns) -> Columns:
    first, last, size, period = (np.concatenate(pair) for pair in zip(one, other, strict=True))
    return first, last, size, period


def _part(columns: Columns, start: int, stop: int) -> Columns:
    first, last, size, period = columns
    return first[start:stop], last[start:stop], size[start:stop], period[start:stop]


def _columns(batch: GroupBatch) -> Columns:
    return batch.first, batch.last, batch.size, batch.period
