"""Arithmetic on the entries of one ledger: what is missing where, and how many copies are left.

Sets go in and come out as canonical groups (`auditor.codecs.availability.fold`), sorted and disjoint. Every
answer is exact. Cost follows groups, never entries: a trillion striped entries are as quick as ten. What
would take more than the bound of `auditor.codecs.availability.sweep` raises `CoverageLimitError`: sets of
different periods whose common pattern, or whose result, is millions of runs that no group holds together.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from auditor.codecs.availability.groups import GROUP, GroupBatch, Groups
from auditor.codecs.availability.sweep import sweep, unroll

_HIGH_HALF = 32


def difference(a: Groups, b: Groups) -> Groups:
    """The entries of ``a`` that are not in ``b``.

    >>> import numpy as np
    >>> from auditor.codecs.availability.groups import GROUP
    >>> difference(np.array([(0, 9, 2, 3)], GROUP), np.array([(3, 3, 4, 0)], GROUP)).tolist()
    [(0, 0, 2, 0), (7, 7, 1, 0), (9, 9, 2, 0)]
    """
    steps = sweep([GroupBatch.one(a), GroupBatch.one(b)], [1, 2])
    return unroll(steps, steps.value == 1).groups()


def intersection(a: Groups, b: Groups) -> Groups:
    """The entries that are in both.

    >>> import numpy as np
    >>> from auditor.codecs.availability.groups import GROUP
    >>> intersection(np.array([(0, 9, 2, 3)], GROUP), np.array([(3, 3, 4, 0)], GROUP)).tolist()
    [(3, 3, 2, 0), (6, 6, 1, 0)]
    """
    return at_least([a, b], 2)


def union(sets: Sequence[Groups]) -> Groups:
    """The entries that are in any of the sets.

    >>> import numpy as np
    >>> from auditor.codecs.availability.groups import GROUP
    >>> union([np.array([(0, 9, 2, 3)], GROUP), np.array([(2, 8, 1, 3)], GROUP)]).tolist()
    [(0, 0, 11, 0)]
    """
    return at_least(sets, 1)


def at_least(sets: Sequence[Groups], k: int) -> Groups:
    """The entries that are in ``k`` of the sets or more; k is at least 1.

    >>> import numpy as np
    >>> from auditor.codecs.availability.groups import GROUP
    >>> at_least([np.array([(first, first, 3, 0)], GROUP) for first in range(3)], 3).tolist()
    [(2, 2, 1, 0)]
    """
    steps = sweep([GroupBatch.one(one) for one in sets], [1] * len(sets))
    return unroll(steps, steps.value >= k).groups()


def clip(groups: Groups, first: int, last: int) -> Groups:
    """The entries from ``first`` to ``last``, both inclusive.

    >>> import numpy as np
    >>> from auditor.codecs.availability.groups import GROUP
    >>> clip(np.array([(0, 9, 2, 3)], GROUP), 4, 9).tolist()
    [(4, 4, 1, 0), (6, 6, 2, 0), (9, 9, 1, 0)]
    """
    span = [(first, first, last - first + 1, 0)] if first <= last else []
    steps = sweep([GroupBatch.one(groups), GroupBatch.of([span])], [1, 1])
    return unroll(steps, steps.value == 2).groups()


def worst(missing: Sequence[Groups], unknown: Sequence[Groups]) -> tuple[int, int]:
    """Over all entries, the most copies missing of one, and the most missing or unknown of one.

    One set a replica: ``missing`` what a read bookie lacks, ``unknown`` what another may lack. The two maxima
    need not be of the same entry.

    >>> import numpy as np
    >>> from auditor.codecs.availability.groups import GROUP
    >>> a, b, c = (np.array([(first, first + 9, 1, 3)], GROUP) for first in (0, 3, 1))
    >>> worst([a, b], [c])
    (2, 2)
    """
    sets = [GroupBatch.one(one) for one in (*missing, *unknown)]
    # Both sums in one sweep: what is missing counts in both halves, what is unknown in the high one alone.
    weights = [1 + (1 << _HIGH_HALF)] * len(missing) + [1 << _HIGH_HALF] * len(unknown)
    value = sweep(sets, weights).value
    if not len(value):
        return 0, 0
    return int((value & ((1 << _HIGH_HALF) - 1)).max()), int((value >> _HIGH_HALF).max())


def count(groups: Groups) -> int:
    """How many entries there are.

    >>> import numpy as np
    >>> from auditor.codecs.availability.groups import GROUP
    >>> count(np.array([(0, 9, 2, 3)], GROUP))
    8
    """
    return int(GroupBatch.one(groups).entries().sum())


def count_between(groups: Groups, edges: Sequence[int]) -> list[int]:
    """How many entries there are from each edge to before the next: one number less than edges.

    >>> import numpy as np
    >>> from auditor.codecs.availability.groups import GROUP
    >>> count_between(np.array([(0, 9, 2, 3)], GROUP), [0, 4, 10, 2**62])
    [3, 4, 1]
    """
    first, last, size, period = (groups[name].astype(np.int64) for name in GROUP.fields or ())
    step = np.maximum(period, 1)
    runs = (last - first) // step + 1
    before = []
    for edge in edges:
        # Of the runs that begin before the edge all but the last are whole, as no run reaches the next.
        begun = np.clip((edge - 1 - first) // step + 1, 0, runs)
        newest = first + (begun - 1) * step
        before.append(int(np.where(begun > 0, (begun - 1) * size + np.minimum(size, edge - newest), 0).sum()))
    return [end - start for start, end in pairwise(before)]


def last_entry(groups: Groups) -> int:
    """The largest entry, or -1 if there is none.

    >>> import numpy as np
    >>> from auditor.codecs.availability.groups import GROUP
    >>> last_entry(np.array([(0, 9, 2, 3)], GROUP))
    10
    """
    return int(groups["last_start"][-1]) + int(groups["size"][-1]) - 1 if len(groups) else -1


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
