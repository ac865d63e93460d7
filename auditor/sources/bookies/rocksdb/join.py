"""Brings a bookie's two databases together, ledger by ledger: a merge of two streams, both in order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from auditor.codecs.availability.groups import GroupBatch, Longs, offsets_of
from auditor.sources.bookies.rocksdb.ledgers import BROKEN, UNLISTED, IndexedLedgers
from auditor.sources.bookies.rocksdb.locations import LedgerSets


class JoinedLedgers(NamedTuple):
    """Ledgers of either database, ids ascending: their entries, what is said of each, why it is broken."""

    ids: Longs
    groups: GroupBatch
    said: NDArray[np.uint8]
    reasons: dict[int, str]


def join_ledgers(
    locations: Iterator[LedgerSets], ledgers: Iterator[IndexedLedgers]
) -> Iterator[JoinedLedgers]:
    """Every ledger once. No more of either side is held than what the other has not come to yet."""
    left, right = next(locations, None), next(ledgers, None)
    while left is not None or right is not None:
        if left is not None and not len(left.ids):
            left = next(locations, None)
            continue
        if right is not None and not len(right.ids):
            right = next(ledgers, None)
            continue
        # Up to here both are known: neither has anything more that comes before.
        ends = [int(side.ids[-1]) for side in (left, right) if side is not None]
        upto = min(ends)
        held, left = _split(left, upto) if left is not None else (_NO_SETS, None)
        listed, right = _split(right, upto) if right is not None else (_NONE_LISTED, None)
        yield _both(held, listed)


_NO_SETS = LedgerSets(np.zeros(0, np.int64), GroupBatch.of([]), {})
_NONE_LISTED = IndexedLedgers(np.zeros(0, np.int64), np.zeros(0, np.uint8), {})


Side = TypeVar("Side", LedgerSets, IndexedLedgers)


def _split(side: Side, upto: int) -> tuple[Side, Side]:
    at = int(np.searchsorted(side.ids, upto, side="right"))
    return side.part(0, at), side.part(at, len(side.ids))


def _both(held: LedgerSets, listed: IndexedLedgers) -> JoinedLedgers:
    reasons = listed.reasons | held.failed
    if np.array_equal(held.ids, listed.ids):
        ids, groups, said = held.ids, held.groups, listed.said
    else:
        ids = np.union1d(held.ids, listed.ids)
        counts = np.zeros(len(ids), np.int64)
        counts[np.searchsorted(ids, held.ids)] = np.diff(held.groups.offsets)
        columns = held.groups
        groups = GroupBatch(columns.first, columns.last, columns.size, columns.period, offsets_of(counts))
        said = np.full(len(ids), UNLISTED, np.uint8)
        said[np.searchsorted(ids, listed.ids)] = listed.said
    if held.failed:
        said = np.where(np.isin(ids, list(held.failed)), np.uint8(BROKEN), said)
    return JoinedLedgers(ids, groups, said, reasons)
