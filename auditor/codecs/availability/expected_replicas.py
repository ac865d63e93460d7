"""Which entries each bookie should hold, for a whole batch of ledgers at once.

One row in is one seat: a bookie's place in the ensemble of one segment. The closed form of the striping
gives each seat's entries; the seats of one bookie in one ledger are folded into one value, so that a bookie
that took part in several segments, or moved inside the ensemble, still compares in one equality.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from auditor.codecs.availability.fold import fold
from auditor.codecs.availability.groups import GroupBatch
from auditor.codecs.availability.striping import stripe

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Seats:
    """Places in ensembles; all arrays have one element a seat, ledgers ascending, segments in order."""

    ledger: Ints  # row of the ledger in its batch
    member: Ints  # number that stands for the bookie
    first: Ints  # first entry of the segment
    last: Ints  # last entry that is judged; below ``first`` where nothing is
    index: Ints  # place in the ensemble
    ensemble_size: Ints
    write_quorum: Ints


@dataclass(frozen=True, slots=True)
class ExpectedReplicas:
    """One set of entries for every (ledger, bookie), ledgers ascending; ``groups`` is canonical."""

    ledger: Ints
    member: Ints
    groups: GroupBatch


def fold_seats(seats: Seats) -> ExpectedReplicas:
    """Fold the seats of each (ledger, bookie) into one canonical set.

    >>> def column(*values): return np.array(values, np.int64)
    >>> one = Seats(column(0, 0, 0), column(7, 8, 9), column(0, 0, 0), column(9, 9, 9), column(0, 1, 2),
    ...             column(3, 3, 3), column(2, 2, 2))
    >>> replicas = fold_seats(one)
    >>> replicas.member.tolist(), replicas.groups.first.tolist()
    ([7, 8, 9], [0, 2, 0, 9, 1])
    """
    sets = stripe(seats.first, seats.last, seats.index, seats.ensemble_size, seats.write_quorum)
    if not len(seats.ledger):
        return ExpectedReplicas(seats.ledger, seats.member, sets)
    span = int(seats.member.max()) + 1
    keys, set_of = np.unique(seats.ledger * span + seats.member, return_inverse=True)
    groups = fold(sets.merge(set_of.astype(np.int64), len(keys)))
    return ExpectedReplicas(keys // span, keys % span, groups)
