"""How many entries a replication worker copies, in closed form, for many segments at once.

    class of an entry   e mod E: which window of the ensemble it is on (striping)
    window of class p   places p .. p + Qw - 1 of the ensemble, modulo E
    gone                places whose bookies go

Striping needs a copy of each entry whose window has such a place. A worker of 4.17.2 does more where E > Qw:
it cuts a segment into batches of ten entries from its first one, and copies every entry between the first and
the last of a batch that one of these places has, to each bookie that comes in (`LedgerFragmentReplicator`;
bookkeeper #3067). All arrays have one row a segment; places are columns.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from auditor.simulate.windows import Bools, Longs

BATCH = 10
"""``rereplicationEntryBatchSize`` of the server."""


@dataclass(frozen=True, slots=True)
class GonePlaces:
    """Segments with the places of their ensembles that matter: all of ``gone`` is False past the ensemble.

    A segment with ``last`` below ``first`` has no entry.
    """

    first: Longs
    last: Longs
    ensemble_size: Longs
    write_quorum: Longs
    gone: Bools

    def entries(self) -> Longs:
        """How many entries of each class there are: a row a segment, a column a class.

        >>> def column(*values): return np.array(values, np.int64)
        >>> one = GonePlaces(column(4), column(9), column(3), column(2), np.array([[True, False, False]]))
        >>> one.entries().tolist()
        [[2, 2, 2]]
        """
        size, classes = self.ensemble_size[:, None], self._classes()
        upto, before = (edge[:, None] - classes for edge in (self.last, self.first - 1))
        counts = np.maximum(upto // size - before // size, 0)
        counts[(classes >= size) | (self.last < self.first)[:, None]] = 0
        return counts

    def gone_of_windows(self) -> Longs:
        """How many places of each window are gone: a row a segment, a column a class.

        >>> def column(*values): return np.array(values, np.int64)
        >>> one = GonePlaces(column(0), column(9), column(3), column(2), np.array([[True, False, False]]))
        >>> one.gone_of_windows().tolist()
        [[1, 0, 1]]
        """
        size, classes = self.ensemble_size[:, None], self._classes()
        counts = np.zeros(classes.shape, np.int64)
        for step in range(classes.shape[1]):
            here = np.take_along_axis(self.gone, (classes + step) % size, 1)
            counts += here & (step < self.write_quorum)[:, None]
        counts[classes >= size] = 0
        return counts

    def first_left(self) -> Longs:
        """Of each window the first place that stays, from which a copy is read; -1 where none does."""
        size, classes = self.ensemble_size[:, None], self._classes()
        found = np.full(classes.shape, -1, np.int64)
        for step in range(classes.shape[1]):
            place = (classes + step) % size
            stays = ~np.take_along_axis(self.gone, place, 1) & (step < self.write_quorum)[:, None]
            found = np.where((found < 0) & stays, place, found)
        return found

    def copied(self) -> Longs:
        """How many entries a worker reads of each segment, and writes to every bookie that comes in.

        >>> def column(*values): return np.array(values, np.int64)
        >>> one = GonePlaces(column(0), column(29), column(3), column(2), np.array([[True, False, False]]))
        >>> one.copied().tolist()  # striping needs 20
        [28]
        """
        stored = self.gone_of_windows() > 0
        number = np.maximum(self.last - self.first + 1, 0)
        whole, rest = np.divmod(number, BATCH)
        total = self._spanned(stored, self.first + whole * BATCH, rest)
        for step in range(stored.shape[1]):
            # Batches begin at the same class again after E of them, at the latest.
            times = np.maximum((whole - step + self.ensemble_size - 1) // self.ensemble_size, 0)
            times[step >= self.ensemble_size] = 0
            total += times * self._spanned(stored, self.first + step * BATCH, np.full_like(whole, BATCH))
        return total

    def _spanned(self, stored: Bools, start: Longs, length: Longs) -> Longs:
        """Of batches that begin so, the entries from the first to the last that is stored on a gone place."""
        least, most = np.full_like(start, BATCH), np.full_like(start, -1)
        for step in range(BATCH):
            place = (start + step) % self.ensemble_size
            here = np.take_along_axis(stored, place[:, None], 1)[:, 0] & (step < length)
            least = np.where(here, np.minimum(least, step), least)
            most = np.where(here, step, most)
        found: Longs = np.maximum(most - least + 1, 0)
        return found

    def _classes(self) -> Longs:
        return np.broadcast_to(np.arange(self.gone.shape[1]), self.gone.shape)
