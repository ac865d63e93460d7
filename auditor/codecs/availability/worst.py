"""The worst entry of segments whose replicas are missing as a whole, for many segments at once.

When a member of an ensemble has lost all that it should hold of a segment, entry e has lost one copy for each
such member among its write set (e + w) mod E, w = 0 .. Qw - 1. That depends on e mod E only, so the worst
entry is found among the residues that the segment's entries have: all of them once it is E entries long.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from auditor.codecs.availability.groups import Longs


def worst_of_whole(
    first: NDArray[np.int64],
    last: NDArray[np.int64],
    ensemble_size: NDArray[np.int64],
    write_quorum: NDArray[np.int64],
    gone: NDArray[np.bool_],
    doubtful: NDArray[np.bool_],
) -> tuple[Longs, Longs]:
    """The most copies of one entry that are gone, and that are gone or in doubt, in each segment.

    One row per segment: entries ``first`` to ``last``, inclusive (0 for an empty segment); ``gone`` and
    ``doubtful`` are (n, widest ensemble), by ensemble index, columns beyond a row's ensemble unused.

    >>> gone = np.array([[True, True, False]])
    >>> one = np.array([1])
    >>> [worst.tolist() for worst in worst_of_whole(0 * one, 9 * one, 3 * one, 2 * one, gone, ~gone)]
    [[2], [2]]
    """
    first, last, ensemble, quorum = (
        np.asarray(column, np.int64)[:, None] for column in (first, last, ensemble_size, write_quorum)
    )
    residue = np.arange(gone.shape[1])
    present = (residue < ensemble) & ((residue - first) % ensemble <= last - first)
    return (
        _worst(gone, ensemble, quorum, present),
        _worst(gone | doubtful, ensemble, quorum, present),
    )


def _worst(lost: NDArray[np.bool_], ensemble: Longs, quorum: Longs, present: NDArray[np.bool_]) -> Longs:
    """Sums over each write set as differences of running sums, along the ensemble written out twice."""
    rows, width = lost.shape
    around = np.take_along_axis(lost, np.arange(2 * width) % ensemble, axis=1)
    sums = np.zeros((rows, 2 * width + 1), np.int64)
    np.cumsum(around, axis=1, out=sums[:, 1:])
    copies = np.take_along_axis(sums, np.arange(width) + quorum, axis=1) - sums[:, :width]
    worst: Longs = np.where(present, copies, 0).max(axis=1, initial=0)
    return worst
