"""Single entries of sets that are kept as groups: the worst one, and an even sample of the others.

Nothing here expands a set: cost follows groups, as in `auditor.codecs.availability.coverage`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from auditor.codecs.availability.groups import GROUP, GroupBatch, Groups
from auditor.codecs.availability.sweep import sweep


def most_shared_entry(sets: Sequence[Groups]) -> int | None:
    """The first of the entries that are in the most sets; None where there is none.

    Raises `CoverageLimitError` as `auditor.codecs.availability.sweep.sweep` does.

    >>> every_third = np.array([(0, 9, 1, 3)], GROUP)
    >>> most_shared_entry([every_third, np.array([(3, 3, 4, 0)], GROUP)]), most_shared_entry([])
    (3, None)
    """
    steps = sweep([GroupBatch.one(one) for one in sets], [1] * len(sets))
    if not len(steps.value) or not steps.value.max():
        return None
    return int(steps.start[int(steps.value.argmax())])


def even_sample(groups: Groups, most: int) -> list[int]:
    """Up to ``most`` entries of a set, ascending: the first, the last, and evenly what lies between.

    >>> even_sample(np.array([(0, 9, 2, 3)], GROUP), 3), even_sample(np.array([(7, 7, 2, 0)], GROUP), 9)
    ([0, 4, 10], [7, 8])
    """
    first, last, size, period = (groups[name].astype(np.int64) for name in GROUP.fields or ())
    period = np.maximum(period, 1)
    entries = ((last - first) // period + 1) * size
    total = int(entries.sum())
    ends = np.cumsum(entries)
    count = min(total, most)
    # Python's numbers: a rank times a count may be beyond 64 bits.
    ranks = np.array([at * (total - 1) // max(count - 1, 1) for at in range(count)], np.int64)
    group = np.searchsorted(ends, ranks, side="right")
    within = ranks - (ends - entries)[group]
    found = first[group] + within // size[group] * period[group] + within % size[group]
    return [int(entry) for entry in found]
