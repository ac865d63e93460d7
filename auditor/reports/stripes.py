"""A ledger's stripes as cells: bookies down, entries across, one state each. Every drawing is made of them.

A column is one entry, or a range of entries where there are more of them than columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from auditor.codecs.availability import coverage
from auditor.codecs.availability.groups import GROUP, Groups
from auditor.model.ledger_metadata import LedgerState
from auditor.model.views import LedgerView, ReplicaView


class Cell(StrEnum):
    """What a bookie has of the entries of one column."""

    HELD = "held"  # all that it should hold
    MISSING = "missing"  # none of what it should hold
    PART = "some missing"
    UNKNOWN = "unknown"  # what is not seen may be there all the same
    SURPLUS = "surplus"  # it should hold none, and holds some
    NONE = "not expected"


def column_width(last: int, columns: int) -> str:
    """How many entries a column stands for, as a text; to a tenth where that matters.

    >>> column_width(99, 54), column_width(99, 50), column_width(10**6, 54)
    ('1.9', '2', '18,518')
    """
    share = (last + 1) / columns
    return f"{int(share):,}" if share >= 10 else f"{share:.1f}".removesuffix(".0")


@dataclass(frozen=True, slots=True)
class Replica:
    """A replica's sets, compared once."""

    view: ReplicaView
    expected: Groups
    lacking: Groups  # expected and not held
    extra: Groups  # held and not expected


@dataclass(frozen=True, slots=True)
class Stripes:
    """``edges`` are the columns' first entries and, last, the entry after the last; ``cells`` are by row.

    No column and no row where nobody should hold an entry or does.
    """

    edges: tuple[int, ...]
    bookies: tuple[str, ...]
    cells: tuple[tuple[Cell, ...], ...]
    bookies_total: int


def replicas_of(ledger: LedgerView) -> list[Replica]:
    """Each replica with what it lacks and what it has too much, in the order of the ledger."""
    return [_replica(view) for view in ledger.replicas]


def stripes_of(ledger: LedgerView, replicas: Sequence[Replica], columns: int, rows: int) -> Stripes:
    """Cells of at most so many columns, equal but for one entry, and of the first so many bookies."""
    last = last_drawn(ledger, replicas)
    count = min(columns, last + 1)
    if count <= 0 or not replicas:
        return Stripes((), (), (), len(replicas))
    # Integers, because entry ids pass what a float can tell apart.
    edges = tuple((last + 1) * number // count for number in range(count + 1))
    shown = replicas[:rows]
    return Stripes(
        edges,
        tuple(replica.view.bookie_id for replica in shown),
        tuple(_cells(replica, edges) for replica in shown),
        len(replicas),
    )


def last_drawn(ledger: LedgerView, replicas: Sequence[Replica]) -> int:
    """The last entry of a closed ledger; of others the last that anyone has or should have; -1 for none."""
    if ledger.state == LedgerState.CLOSED and ledger.last_entry_id is not None and ledger.last_entry_id >= 0:
        return ledger.last_entry_id
    ends = [
        coverage.last_entry(groups) for replica in replicas for groups in (replica.expected, replica.extra)
    ]
    return max(ends, default=-1)


def _replica(view: ReplicaView) -> Replica:
    expected, held = np.frombuffer(view.expected, GROUP), np.frombuffer(view.held, GROUP)
    return Replica(view, expected, coverage.difference(expected, held), coverage.difference(held, expected))


def _cells(replica: Replica, edges: Sequence[int]) -> tuple[Cell, ...]:
    sets = (replica.expected, replica.lacking, replica.extra)
    counts = (coverage.count_between(each, edges) for each in sets)
    return tuple(_cell(replica.view.known, *column) for column in zip(*counts, strict=True))


def _cell(known: bool, expected: int, lacking: int, extra: int) -> Cell:
    if lacking:
        if not known:
            return Cell.UNKNOWN
        return Cell.MISSING if lacking == expected else Cell.PART
    if expected:
        return Cell.HELD
    # What a bookie in no ensemble, or one that was not read, may hold besides nobody can say.
    return Cell.SURPLUS if extra else Cell.NONE
