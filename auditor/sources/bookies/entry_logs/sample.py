"""Which entries are looked at whole: the same on every bookie, whatever else it holds.

    of every ledger     the first `EntrySample.first` entries
    of all others       `EntrySample.percent` of a hundred, by a hash of scope, ledger and entry

So the copies of a sampled entry can be compared, and two runs of one sample look at the same entries.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from auditor.codecs.bookie.length_prefixed import Longs


@dataclass(frozen=True, slots=True)
class EntrySample:
    """How many entries are looked at, and how many ``bytes`` of them one part of an index may read."""

    first: int
    percent: float
    bytes: int

    def chosen(self, scope_ids: Longs, ledger_ids: Longs, entry_ids: Longs) -> NDArray[np.bool_]:
        """Which of these entries are in the sample, but for its budget; arrays of one length.

        >>> one = np.zeros(4, np.int64)
        >>> EntrySample(2, 0, 0).chosen(one, one, np.arange(4)).tolist()
        [True, True, False, False]
        """
        firsts: NDArray[np.bool_] = entry_ids < self.first
        if self.percent >= 100:
            return np.ones(len(entry_ids), np.bool_)
        limit = np.uint64(self.percent / 100 * 2**64)
        mixed = _mix(
            _mix(_mix(scope_ids.view(np.uint64)) ^ ledger_ids.view(np.uint64)) ^ entry_ids.view(np.uint64)
        )
        return firsts | (mixed < limit)


def _mix(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """splitmix64: every bit of the result hangs on every bit of the value."""
    mixed = values + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))
