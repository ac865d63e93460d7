"""Which entries of a segment each member of its ensemble should hold, in closed form.

    entry e lies on ensemble indexes (e + w) mod E for w = 0 .. Qw - 1

so index b holds e when (e - o) mod E < Qw, with o = (b - Qw + 1) mod E. The modulus is of the absolute entry
id, in every segment (``RoundRobinDistributionSchedule.getEntriesStripedToTheBookie``). Of the entries of one
segment this makes at most three groups: the rest of a run at its start, full runs, a part of one at its end.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from auditor.codecs.availability.groups import GroupBatch, Longs, offsets_of


def stripe(
    first_entry: NDArray[np.int64],
    last_entry: NDArray[np.int64],
    index: NDArray[np.int64],
    ensemble_size: NDArray[np.int64],
    write_quorum: NDArray[np.int64],
) -> GroupBatch:
    """The entries of many (segment, ensemble index) pairs, one set a pair, not yet folded.

    Arrays that broadcast against each other; both entries inclusive, below 2^63 - 1; a segment with
    ``last_entry < first_entry`` is empty. The caller sees to 1 <= write quorum <= ensemble size and
    0 <= index < ensemble size.

    >>> batch = stripe(np.array([0]), np.array([9]), np.array([1]), np.array([3]), np.array([2]))
    >>> list(zip(batch.first.tolist(), batch.last.tolist(), batch.size.tolist(), batch.period.tolist()))
    [(0, 6, 2, 3), (9, 9, 1, 0)]
    """
    start, end, member, ensemble, quorum = np.broadcast_arrays(
        *(
            np.atleast_1d(np.asarray(a, np.int64))
            for a in (first_entry, last_entry, index, ensemble_size, write_quorum)
        )
    )
    # Everything is counted from the segment's first entry, so that ids near 2^63 do not overflow.
    span = end - start
    whole = quorum == ensemble
    phase = (member - quorum + 1 - start) % ensemble
    left = quorum - ensemble + phase  # of the run under way at the segment's first entry; none at 0 or below
    room = span - phase - (quorum - 1)
    full = np.where(room >= 0, room // ensemble, -1)
    tail_at = phase + full * ensemble
    has_tail = span - tail_at >= ensemble
    tail_at = np.where(has_tail, tail_at + ensemble, 0)
    head_size = np.where(whole, span + 1, np.minimum(left, span + 1))

    some, part = span >= 0, (span >= 0) & ~whole
    head, body, tail = some & (whole | (left > 0)), part & (full >= 0), part & has_tail
    at = np.flatnonzero(np.stack((head, body, tail), axis=1))
    nothing = np.zeros_like(start)
    body_end = phase + np.maximum(full, 0) * ensemble
    return GroupBatch(
        _runs_taken(at, start, start + phase, start + tail_at),
        _runs_taken(at, start, start + body_end, start + tail_at),
        _runs_taken(at, head_size, quorum, span - tail_at + 1),
        _runs_taken(at, nothing, np.where(full > 0, ensemble, 0), nothing),
        offsets_of(head.astype(np.int64) + body + tail),
    )


def _runs_taken(at: Longs, head: Longs, body: Longs, tail: Longs) -> Longs:
    """Head, body and tail of each row, in that order: those of them that are ``at`` some places."""
    return np.stack((head, body, tail), axis=1).ravel()[at]
