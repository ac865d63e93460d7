"""Losses of windows: entries, bytes and ledgers by remaining copies, and the owners of these ledgers.

Of Qw copies s survive: none is lost, below Qa is below ack quorum, below Qw is below write quorum. A failure
takes copies that are there. Copies that were missing before do not count for it. Recovery of an open end
needs, in every window, fewer than Qa bookies that do not answer (``RRQuorumCoverageSet``). Owners are found
in one pass over the table ``ownership``.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from auditor.model.adherence import first_of_each
from auditor.model.report_source import NOBODY
from auditor.model.simulation import OwnerLoss
from auditor.runs.owners import NAME_COLUMNS, has_owners, owned
from auditor.runs.reader import RunReader
from auditor.simulate.windows import (
    MISSING,
    NO_BOOKIE,
    PRESENT,
    UNKNOWN,
    Bools,
    Longs,
    Windows,
    any_true,
    count_true,
)


class Fate(IntEnum):
    """Outcomes for a window, the worst last. OPEN_END is for ledgers that recovery could not close."""

    WHOLE = 0
    BELOW_WRITE_QUORUM = 1
    BELOW_ACK_QUORUM = 2
    LOST = 3
    OPEN_END = 4


LEDGERS, ENTRIES, BYTES = 0, 1, 2
"""Last axis of a tally. A ledger counts once, at its worst fate, and at OPEN_END additionally."""

VIEWS = ("promise", "promise_possible", "today", "today_possible")
"""First axis of a tally, two views for each of `COPIES`: a lower and an upper bound.

The first counts windows that certainly come to a fate, the second those that may come to it.
"""

COPY_VIEWS = ("promise", "today")
"""Copies assumed before a failure: those that the metadata expects, or those in the indexes."""


@dataclass(frozen=True)
class SilentBookies:
    """Bookies that do not answer, by number. The last element stands for no bookie."""

    down: Bools  # not registered: it does not answer
    down_possible: Bools


@dataclass(frozen=True)
class Blow:
    """Copies of windows that a failure takes, (windows, widest write quorum). ``possible`` includes
    ``sure``.
    """

    sure: Bools
    possible: Bools

    def take(self, rows: NDArray[np.intp]) -> Blow:
        """Return the copies of some windows."""
        return Blow(self.sure[rows], self.possible[rows])


@dataclass(frozen=True)
class FateBounds:
    """The best and worst `Fate` of windows.

    ``mildest`` is the best fate if the failure takes a copy that is there. It differs from ``best`` if every
    copy that the failure takes may have been lost before.
    """

    best: NDArray[np.int8]
    mildest: NDArray[np.int8]
    worst: NDArray[np.int8]
    ack_quorum: Longs

    def take(self, rows: NDArray[np.intp]) -> FateBounds:
        """Return the bounds of some windows."""
        return FateBounds(self.best[rows], self.mildest[rows], self.worst[rows], self.ack_quorum[rows])

    def may_be(self, outcome: Fate) -> Bools:
        """Return which windows may come to a fate, with any number of copies left between the two bounds."""
        is_between: Bools = (self.mildest <= outcome) & (outcome <= self.worst)
        # Where Qa is 1, an entry below it is lost.
        return is_between & (self.ack_quorum > 1) if outcome == Fate.BELOW_ACK_QUORUM else is_between


def tally(
    windows: Windows, loss_of_windows: Blow, group: Longs, groups: int, cluster: SilentBookies
) -> Longs:
    """Return sums by view, group, fate and unit: (4, groups, 5, 3). ``group`` has one element a window."""
    sums = np.zeros((len(VIEWS), groups, len(Fate), 3), np.int64)
    is_special = _is_special(windows, loss_of_windows)
    plain_rows = np.flatnonzero(~is_special)
    _add_certain(sums[0], windows.take(plain_rows), loss_of_windows.sure[plain_rows], group[plain_rows])
    sums[1:] = sums[0]
    rows = np.flatnonzero(is_special)
    windows, loss_of_windows, group = windows.take(rows), loss_of_windows.take(rows), group[rows]
    for number, copies in enumerate(COPY_VIEWS):
        outcome_bounds = fate_bounds(windows, loss_of_windows, cluster, copies)
        _add_outcomes(sums[2 * number : 2 * number + 2], windows, outcome_bounds, group)
    return sums


def _is_special(windows: Windows, loss_of_windows: Blow) -> Bools:
    """Return windows of ledgers with anything open, missing or unknown. All views of the others are equal."""
    is_uncertain = (
        any_true((windows.copies != PRESENT) | (loss_of_windows.sure != loss_of_windows.possible))
        | windows.open_end
    )
    return windows.any_of_ledger(is_uncertain)[windows.ledger]


def fate_bounds(windows: Windows, loss_of_windows: Blow, cluster: SilentBookies, copies: str) -> FateBounds:
    """Return the best and worst fate of each window, by one of `COPIES`."""
    is_today = copies == "today"
    member = windows.bookies != NO_BOOKIE
    missing = (windows.copies == MISSING) if is_today else np.zeros_like(member)
    unknown = (windows.copies == UNKNOWN) if is_today else missing
    # An unknown copy that the failure takes may have been lost before: then it takes nothing.
    harmed = any_true(loss_of_windows.sure & ~missing & ~unknown)
    has_certain_loss, has_possible_loss = (
        any_true(loss_of_windows.sure & ~missing),
        any_true(loss_of_windows.possible & ~missing),
    )
    most_left = windows.write_quorum - count_true((loss_of_windows.sure | missing) & member)
    # Of a window that only a bookie of unknown place is taken from, that bookie is.
    most_left = most_left - ~has_certain_loss
    least_left = windows.write_quorum - count_true((loss_of_windows.possible | missing | unknown) & member)
    best_outcomes, worst_outcomes = _count_outcomes(windows, most_left), _count_outcomes(windows, least_left)
    least_outcomes = np.where(harmed, best_outcomes, Fate.WHOLE).astype(np.int8)
    worst_outcomes = np.where(has_possible_loss, worst_outcomes, Fate.WHOLE).astype(np.int8)
    has_down_member, may_have_down_member = (
        (cluster.down[windows.bookies], cluster.down_possible[windows.bookies])
        if is_today
        else (missing,) * 2
    )
    is_open_end = windows.open_end
    least_outcomes[is_open_end] = _open_end_outcomes(windows, loss_of_windows.sure, has_down_member)
    best_outcomes[is_open_end] = Fate.OPEN_END
    worst_outcomes[is_open_end] = _open_end_outcomes(windows, loss_of_windows.possible, may_have_down_member)
    return FateBounds(least_outcomes, best_outcomes, worst_outcomes, windows.ack_quorum)


def _count_outcomes(windows: Windows, copies_left: Longs) -> NDArray[np.int8]:
    """Return the fate of each window with so many copies left."""
    return np.select(
        [copies_left <= 0, copies_left < windows.ack_quorum],
        [Fate.LOST, Fate.BELOW_ACK_QUORUM],
        Fate.BELOW_WRITE_QUORUM,
    ).astype(np.int8)


def _open_end_outcomes(windows: Windows, is_taken: Bools, is_down: Bools) -> NDArray[np.int8]:
    """Return fates of open ends: lost if the failure takes a bookie of a window that cannot be
    covered then.
    """
    silent_count = count_true((is_taken | is_down) & (windows.bookies != NO_BOOKIE))
    is_uncovered = any_true(is_taken) & (silent_count >= windows.ack_quorum)
    return np.where(is_uncovered, Fate.OPEN_END, Fate.WHOLE).astype(np.int8)[windows.open_end]


def _add_certain(sums: Longs, windows: Windows, is_taken: Bools, group: Longs) -> None:
    """Add windows of closed ledgers with all copies to (groups, fates, units).

    `_add` gives the same result, but takes four times as long. Most windows of a large cluster are such.
    """
    harmed = np.flatnonzero(any_true(is_taken))
    windows, group = windows.take(harmed), group[harmed]
    open_outcomes = _count_outcomes(windows, windows.write_quorum - count_true(is_taken[harmed]))
    np.add.at(sums[:, :, ENTRIES], (group, open_outcomes), windows.entries)
    np.add.at(sums[:, :, BYTES], (group, open_outcomes), windows.bytes)
    # Sorted, the last of each pair of ledger and group has its worst fate.
    key = np.sort((windows.ledger * len(sums) + group) * len(Fate) + open_outcomes)
    key = key[np.append(key[1:] // len(Fate) != key[:-1] // len(Fate), True)[: len(key)]]
    pair, worst_outcome = np.divmod(key, len(Fate))
    ledgers, groups = np.divmod(pair, len(sums))
    np.add.at(sums[:, :, LEDGERS], (groups, worst_outcome), windows.times[ledgers])


_HARMS = (Fate.BELOW_WRITE_QUORUM, Fate.BELOW_ACK_QUORUM, Fate.LOST, Fate.OPEN_END)


def _add_outcomes(sums: Longs, windows: Windows, outcome_bounds: FateBounds, group: Longs) -> None:
    """Add windows to (certain and possible, groups, fates, units)."""
    rows = np.flatnonzero(outcome_bounds.worst != Fate.WHOLE)
    windows, outcome_bounds, group = windows.take(rows), outcome_bounds.take(rows), group[rows]
    certain_sums, possible_sums = sums
    for part in (np.flatnonzero(~windows.open_end), np.flatnonzero(windows.open_end)):
        part_windows, part_bounds, part_groups = windows.take(part), outcome_bounds.take(part), group[part]
        key, pair = np.unique(part_windows.ledger * len(certain_sums) + part_groups, return_inverse=True)
        ledgers, groups = np.divmod(key, len(certain_sums))
        best_outcomes, worst_outcomes = np.zeros(len(key), np.int8), np.zeros(len(key), np.int8)
        np.maximum.at(best_outcomes, pair, part_bounds.best)
        np.maximum.at(worst_outcomes, pair, part_bounds.worst)
        for harm in _HARMS:
            may_have_harm = part_bounds.may_be(harm)
            for view, view_rows, ledger_bounds in (
                (
                    certain_sums,
                    (part_bounds.best == harm) & (part_bounds.worst == harm),
                    (best_outcomes == harm) & (worst_outcomes == harm),
                ),
                (
                    possible_sums,
                    may_have_harm,
                    _any_of_group(pair, may_have_harm, len(key)) & (best_outcomes <= harm),
                ),
            ):
                for unit, amounts in ((ENTRIES, part_windows.entries), (BYTES, part_windows.bytes)):
                    np.add.at(view[:, harm, unit], part_groups[view_rows], amounts[view_rows])
                np.add.at(
                    view[:, harm, LEDGERS], groups[ledger_bounds], part_windows.times[ledgers[ledger_bounds]]
                )


def _any_of_group(number: NDArray[np.intp], flags: Bools, size: int) -> Bools:
    """Return which of ``size`` numbers have a row with this flag."""
    has_flag = np.zeros(size, bool)
    has_flag[number[flags]] = True
    return has_flag


def blow_of(windows: Windows, is_lost_bookie: Bools, is_possible_bookie: Bools) -> Blow:
    """Return the copies on lost bookies, by number. ``is_possible_bookie`` bookies may be lost too.

    The last element of both stands for no bookie, and is False.
    """
    return Blow(is_lost_bookie[windows.bookies], (is_lost_bookie | is_possible_bookie)[windows.bookies])


def each_domain(windows: Windows, domain: Longs) -> tuple[Windows, Blow, Longs]:
    """Return the failure of every single domain for `tally`: windows, copies lost, and the domain.

    ``domain`` is a number by bookie: -1 for an unknown place, -2 for no bookie. A window comes once for each
    known domain that holds a copy. Domains that only may hold one are left out.
    """
    places = domain[windows.bookies]
    rows, groups = [], []
    for place in range(places.shape[1]):
        seat_domains = places[:, place]
        first_rows = np.flatnonzero(
            (seat_domains >= 0) & ~any_true(places[:, :place] == seat_domains[:, None])
        )
        rows.append(first_rows)
        groups.append(seat_domains[first_rows])
    row, group = np.concatenate(rows), np.concatenate(groups)
    is_certain = places[row] == group[:, None]
    return windows.take(row), Blow(is_certain, is_certain | (places[row] == -1)), group


def domain_sets(windows: Windows, domain: Longs, is_today: bool, max_sets: int) -> tuple[Longs, Longs]:
    """Return rows of windows whose entries lie in at most ``max_sets`` domains, and these domains.

    The domains are ascending and filled with -1. They are by metadata or, with ``is_today``, without missing
    copies. Open ends, windows with a copy at an unknown place, and windows without any copy are left out.
    """
    places = domain[windows.bookies].astype(np.int64)
    if is_today:
        places[windows.copies == MISSING] = -2
    is_placed = ~any_true(places == -1) & ~windows.open_end
    sorted_places = np.sort(places, axis=1)
    is_first = first_of_each(sorted_places)
    count = count_true(is_first)
    rows = np.flatnonzero(is_placed & (count > 0) & (count <= max_sets))
    sets = np.full((len(rows), max_sets), -1, np.int64)
    row, place = np.nonzero(is_first[rows])
    rank_in_row = np.cumsum(is_first[rows], axis=1)[row, place] - 1
    sets[row, rank_in_row] = sorted_places[rows][row, place]
    return rows, sets


_OWNERSHIP_COLUMNS = ("ledger_id", "standing", *NAME_COLUMNS, "borrowed", "offload")
_SUM_COLUMNS = ("ledgers", "entries", "bytes", "unrecoverable", "offloaded")
_Totals = defaultdict[str, Longs]


def concerned_ledgers(windows: Windows, loss_of_windows: Blow, cluster: SilentBookies) -> Longs:
    """Return the ledgers that by the indexes certainly lose an entry, or are not recoverable.

    Each row has scope, id, lost (0 or 1), entries, bytes, unrecoverable (0 or 1).
    """
    assert windows.ids is not None
    outcomes = fate_bounds(windows, loss_of_windows, cluster, "today").best
    rows = np.zeros((len(windows.times), 6), np.int64)
    rows[:, :2] = windows.ids
    is_lost, ledger = outcomes == Fate.LOST, windows.ledger
    rows[ledger[is_lost], 2] = 1
    np.add.at(rows[:, 3], ledger[is_lost], windows.entries[is_lost])
    np.add.at(rows[:, 4], ledger[is_lost], windows.bytes[is_lost])
    rows[ledger[outcomes == Fate.OPEN_END], 5] = 1
    return rows[(rows[:, 2] > 0) | (rows[:, 5] > 0)]


def owner_losses(run: RunReader, rows: Longs) -> tuple[list[OwnerLoss], list[OwnerLoss]] | None:
    """Return the losses of namespaces and topics, the worst first. None if the run read no owners.

    A ledger in no list of an application counts as nobody's.
    """
    if not has_owners(run):
        return None
    namespaces: _Totals = defaultdict(lambda: np.zeros(len(_SUM_COLUMNS), np.int64))
    topics: _Totals = defaultdict(lambda: np.zeros(len(_SUM_COLUMNS), np.int64))
    scope_id = rows[:, 0]
    pulsar_rows = rows[scope_id == 0]  # applications know no scopes
    has_owner = np.zeros(len(pulsar_rows), bool)
    for batch in run.batches("tables/ownership", _OWNERSHIP_COLUMNS):
        for row in _topic_rows(batch, pulsar_rows, has_owner):
            names = [row[name] for name in NAME_COLUMNS]
            sums = [row[f"{name}_sum"] for name in _SUM_COLUMNS]
            topics["/".join(name for name in names if name)] += sums
            namespaces["/".join(names[:2]) if all(names[:2]) else NOBODY] += sums
    unowned_sums = np.append(pulsar_rows[~has_owner, 2:].sum(axis=0) + rows[scope_id != 0, 2:].sum(axis=0), 0)
    if unowned_sums.any():
        namespaces[NOBODY] += unowned_sums
        topics[NOBODY] += unowned_sums
    return _worst_first(namespaces), _worst_first(topics)


def _topic_rows(batch: pa.RecordBatch, rows: Longs, has_owner: Bools) -> list[dict[str, Any]]:
    """Return sums by topic of a batch's ledgers that are in ``rows``. Marks these in ``has_owner``."""
    owned_ledgers = batch.filter(pc.and_(owned(batch), batch["ledger_id"].is_valid()))
    ids = owned_ledgers["ledger_id"].to_numpy(zero_copy_only=False)
    if not len(rows) or not len(ids):
        return []
    place = np.minimum(np.searchsorted(rows[:, 1], ids), len(rows) - 1)
    is_found = rows[place, 1] == ids
    has_owner[place[is_found]] = True
    owned_ledgers, place = owned_ledgers.filter(pa.array(is_found)), place[is_found]
    offloaded = pc.equal(owned_ledgers["offload"], "complete").fill_null(False).cast("int64")
    sums = [*(pa.array(column) for column in rows[place, 2:].T), offloaded]
    table = pa.table([*(owned_ledgers[name] for name in NAME_COLUMNS), *sums], [*NAME_COLUMNS, *_SUM_COLUMNS])
    topic_sums: list[dict[str, Any]] = (
        table.group_by([*NAME_COLUMNS]).aggregate([(name, "sum") for name in _SUM_COLUMNS]).to_pylist()
    )
    return topic_sums


def _worst_first(totals: dict[str, Longs]) -> list[OwnerLoss]:
    losses = [OwnerLoss(name, *map(int, sums)) for name, sums in totals.items()]
    return sorted(losses, key=lambda owner: (-owner.bytes, -owner.entries, -owner.unrecoverable, owner.name))
