"""Copysets, scatter width, and how likely random failures lose an entry (Cidon and others, USENIX ATC 2013).

A copyset is a set of bookies that hold all copies of some entry. With C of them of size R among N bookies, k
random failures hold m = C(k, R) sets of that size, and none of them is a copyset with probability about
(1 - C / C(N, R)) ** m: exactly for k = R, as if copysets were chosen at random else. The mean time until all
of a copyset fail before the first is repaired is about mu ** (R - 1) / (R! lambda ** R), with lambda =
1 / MTTF and mu = 1 / MTTR; of the cluster, the sum of the rates.
"""

from __future__ import annotations

from math import comb, factorial

import numpy as np

from auditor.model.adherence import first_of_each
from auditor.model.simulation import Copysets
from auditor.simulate.domains import grown
from auditor.simulate.windows import (
    NO_BOOKIE,
    BookieNumbers,
    Longs,
    Windows,
    any_true,
    count_true,
    distinct_values,
)

MTTF_DAYS, MTTR_HOURS = 3 * 365.0, 24.0
_FAILED = (2, 3)
_HOURS = 24 * 365.0


class CopysetSums:
    """Different copysets as they are seen, 8 bytes each, and who shares one with whom.

    A copyset's number is exact where its bookies' numbers fit into 64 bits, else a hash of them.
    """

    def __init__(self, bookies: int) -> None:
        self._base = np.uint64(max(bookies + 1, 2) | 1)
        self._of_size: dict[int, list[np.ndarray[tuple[int], np.dtype[np.uint64]]]] = {}
        self._partners = np.zeros((bookies, bookies), np.int64)

    def add(self, windows: Windows, numbers: BookieNumbers) -> None:
        """Add what the metadata promises of these windows, open ends among them."""
        for axis in (0, 1):
            self._partners = grown(self._partners, len(numbers), axis)
        ordered = np.sort(windows.bookies, axis=1)
        new = first_of_each(ordered)
        sizes = count_true(new)
        keys = np.zeros(len(ordered), np.uint64)
        for seat in range(ordered.shape[1]):
            step = keys * self._base + (ordered[:, seat] + 1).astype(np.uint64)
            keys = np.where(new[:, seat], step, keys)
        for size in distinct_values(sizes).tolist():
            seen = self._of_size.setdefault(size, [])
            seen.append(distinct_values(keys[sizes == size]))
            if sum(map(len, seen)) > 4 * len(seen[0]) or len(seen) > 16:
                seen[:] = [distinct_values(np.concatenate(seen))]
        for seat in range(1, ordered.shape[1]):
            for other in range(seat):
                both = (ordered[:, other] != NO_BOOKIE) & (ordered[:, other] != ordered[:, seat])
                self._partners[ordered[both, other], ordered[both, seat]] = 1

    def result(self, mttf_days: float = MTTF_DAYS, mttr_hours: float = MTTR_HOURS) -> Copysets:
        """The figures, once all windows have been added."""
        sizes = {
            size: len(distinct_values(np.concatenate(seen))) for size, seen in sorted(self._of_size.items())
        }
        together = self._partners | self._partners.T
        inside = any_true(together > 0)
        bookies = int(inside.sum()) if len(inside) else 0
        widths: Longs = together.sum(axis=1)[inside]
        least, mean, most = (widths.min(), widths.mean(), widths.max()) if bookies else (0, 0.0, 0)
        chance = {failed: chance_of_loss(sizes, len(inside), failed) for failed in _FAILED}
        return Copysets(
            sizes, len(inside), int(least), float(mean), int(most), chance,
            years_to_loss(sizes, mttf_days, mttr_hours), mttf_days, mttr_hours,
        )  # fmt: skip


def chance_of_loss(sizes: dict[int, int], bookies: int, failed: int) -> float:
    """The probability that so many random bookies hold all copies of an entry.

    >>> chance_of_loss({3: 1}, 3, 3), chance_of_loss({2: 3}, 4, 2), chance_of_loss({3: 100}, 500, 2)
    (1.0, 0.5, 0.0)
    """
    kept = 1.0
    for size, copysets in sizes.items():
        if 0 < size <= failed <= bookies:
            every = comb(bookies, size)
            # Copysets differ: of each set that is none of them there is one less to choose from.
            for number in range(min(comb(failed, size), every)):
                kept *= max(1 - copysets / (every - number), 0.0)
    return 1.0 - kept


def years_to_loss(sizes: dict[int, int], mttf_days: float, mttr_hours: float) -> float | None:
    """The mean time to data loss in years, for ranking; None where there is no copyset.

    >>> round(years_to_loss({1: 1}, 365.0, 24.0), 3)
    1.0
    """
    fails, repairs = 1 / (mttf_days * 24), 1 / mttr_hours
    rate = sum(
        count * factorial(size) * fails**size / repairs ** (size - 1) for size, count in sizes.items() if size
    )
    return 1 / rate / _HOURS if rate else None
