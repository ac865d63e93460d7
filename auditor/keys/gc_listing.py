"""What a garbage collector makes of the ranges of ids that its metadata store lists, one after the other.

ScanAndCompareGarbageCollector asks for the store's ledgers in ranges, a range a directory of the ledger tree.
It takes for granted that ranges ascend: of each it looks at the local ids from the last range's end + 1 to
this one's end, and deletes those that are not among the range's own. So

    an id that is listed after a higher one      is deleted when that higher range is looked at
    a range that ends at or below the last one   ends the pass (TreeSet.subSet throws): all above stays
    an end of 2^63 - 1                           makes the next start -2^63: everything is deleted
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from auditor.codecs.availability.groups import Longs
from auditor.keys.ledger_tree import MAX_LEDGER_ID

ALL_BEFORE = -1
"""The end that the collector starts from: the first range begins with id 0."""


class RangeWalk(NamedTuple):
    """What a pass makes of each range, in the order of the listing.

    ``previous`` is the greatest end of the ranges before. ``reached`` says whether the pass compares local
    ids with the range; an id of it is taken for listed if it is above ``previous`` too.
    """

    previous: Longs
    reached: NDArray[np.bool_]


def follow_ranges(ends: Longs, fails: NDArray[np.bool_]) -> RangeWalk:
    """Follow a listing of ranges with these ``ends``; one that ``fails`` cannot be listed, and ends the pass.

    Behind an end of 2^63 - 1 nothing is reached: whatever is local was deleted by then, or is now.

    >>> follow_ranges(np.array([9, 19, 5, 30]), np.zeros(4, bool)).reached.tolist()
    [True, True, False, False]
    >>> follow_ranges(np.array([9, 2**63 - 1, 12]), np.zeros(3, bool)).previous.tolist()[:2]
    [-1, 9]
    """
    before = np.concatenate([np.array([ALL_BEFORE], np.int64), ends[:-1]])[: len(ends)]
    previous = np.maximum.accumulate(before) if len(ends) else before
    broken = fails | (ends <= previous)
    # The range that overflows is compared itself; what follows is not.
    over = np.concatenate([np.zeros(1, bool), ends[:-1] == MAX_LEDGER_ID])[: len(ends)]
    return RangeWalk(previous, ~np.logical_or.accumulate(broken | over))
