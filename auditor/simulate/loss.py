"""Losses by windows: entries, bytes and ledgers by remaining copies, and the owners of these ledgers.

A window is the entries on one set of bookies (`auditor.simulate.windows`). If none of its Qw copies remains
after a failure, the window is lost. If fewer than Qa copies remain, it is below the ack quorum. If fewer than
Qw remain, it is below the write quorum. A failure takes only copies that exist. Copies that were missing
before are not counted as its loss. Recovery of an open end needs, in every window, fewer than Qa bookies that
do not answer (``RRQuorumCoverageSet``). Owners are found in one pass over the table ``ownership``.
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
    """Outcomes of a failure for a window, the worst last.

    OPEN_END is for open ends that recovery could not close.
    """

    WHOLE = 0
    BELOW_WRITE_QUORUM = 1
    BELOW_ACK_QUORUM = 2
    LOST = 3
    OPEN_END = 4


LEDGERS, ENTRIES, BYTES = 0, 1, 2
"""Indexes of the last axis of a tally, an array of sums. A ledger counts once, at its worst fate.

A ledger with an open end that recovery could not close counts at OPEN_END too.
"""

VIEWS = ("promise", "promise_possible", "today", "today_possible")
"""Names of the first axis of a tally. Each of `COPY_VIEWS` has two names: its lower and its upper bound.

The lower bound counts windows that certainly have an outcome, the upper bound those that may have it.
"""

COPY_VIEWS = ("promise", "today")
"""Copies assumed before a failure: "promise" has those in the metadata, "today" those in indexes."""


@dataclass(frozen=True)
class SilentBookies:
    """Bookies that do not answer, as one flag per bookie number. The last element stands for no bookie."""

    down: Bools  # not registered: it does not answer
    down_possible: Bools


@dataclass(frozen=True)
class Blow:
    """Copies that a failure takes, as flags of the shape (windows, widest write quorum).

    ``sure`` are certainly taken. ``possible`` may be taken, and includes ``sure``.
    """

    sure: Bools
    possible: Bools

    def take(self, rows: NDArray[np.intp]) -> Blow:
        """Return the copies of the windows in ``rows``."""
        return Blow(self.sure[rows], self.possible[rows])


@dataclass(frozen=True)
class FateBounds:
    """The best and worst possible `Fate` of each window.

    ``mildest`` is the best fate if the failure takes a copy that exists. ``mildest`` differs from ``best`` if
    every copy that the failure takes may have been lost before.
    """

    best: NDArray[np.int8]
    mildest: NDArray[np.int8]
    worst: NDArray[np.int8]
    ack_quorum: Longs

    def take(self, rows: NDArray[np.intp]) -> FateBounds:
        """Return the bounds of the windows in ``rows``."""
        return FateBounds(self.best[rows], self.mildest[rows], self.worst[rows], self.ack_quorum[rows])

    def may_be(self, outcome: Fate) -> Bools:
        """Return which windows may have a fate. All numbers of copies between the bounds are possible."""
        is_between: Bools = (self.mildest <= outcome) & (outcome <= self.worst)
        # Where Qa is 1, an entry below it is lost.
        return is_between & (self.ack_quorum > 1) if outcome == Fate.BELOW_ACK_QUORUM else is_between


def tally(
    windows: Windows, loss_of_windows: Blow, group: Longs, groups: int, cluster: SilentBookies
) -> Longs:
    """Return sums by view, group, fate and unit: an array of the shape (4, groups, 5, 3).

    ``group`` has the group of each window, such as the domain that fails.
    """
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
    """Flag windows of ledgers that have an open end, or a missing, unknown or possibly taken copy.

    For all other windows, the views are equal.
    """
    is_uncertain = (
        any_true((windows.copies != PRESENT) | (loss_of_windows.sure != loss_of_windows.possible))
        | windows.open_end
    )
    return windows.any_of_ledger(is_uncertain)[windows.ledger]


def fate_bounds(windows: Windows, loss_of_windows: Blow, cluster: SilentBookies, copies: str) -> FateBounds:
    """Return the best and worst fate of each window. ``copies`` is one of `COPY_VIEWS`."""
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
    """Return the fate of each window from the number of its copies left."""
    return np.select(
        [copies_left <= 0, copies_left < windows.ack_quorum],
        [Fate.LOST, Fate.BELOW_ACK_QUORUM],
        Fate.BELOW_WRITE_QUORUM,
    ).astype(np.int8)


def _open_end_outcomes(windows: Windows, is_taken: Bools, is_down: Bools) -> NDArray[np.int8]:
    """Return fates of open ends: OPEN_END if the failure takes a bookie, and recovery then fails."""
    silent_count = count_true((is_taken | is_down) & (windows.bookies != NO_BOOKIE))
    is_uncovered = any_true(is_taken) & (silent_count >= windows.ack_quorum)
    return np.where(is_uncovered, Fate.OPEN_END, Fate.WHOLE).astype(np.int8)[windows.open_end]


def _add_certain(sums: Longs, windows: Windows, is_taken: Bools, group: Longs) -> None:
    """Add windows of closed ledgers with all copies to (groups, fates, units).

    Most windows of a large cluster are of this kind. `_add_outcomes` gives the same result, but takes four
    times as long.
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
    """Add windows to ``sums``, an array by (certain and possible, groups, fates, units)."""
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
    """Return, for each group number below ``size``, whether any row of the group has a flag."""
    has_flag = np.zeros(size, bool)
    has_flag[number[flags]] = True
    return has_flag


def blow_of(windows: Windows, is_lost_bookie: Bools, is_possible_bookie: Bools) -> Blow:
    """Return the copies on bookies that are lost (``is_lost_bookie``), and on bookies that may be lost too.

    Both arguments have a flag for each bookie number. The last element stands for no bookie, and is False.
    """
    return Blow(is_lost_bookie[windows.bookies], (is_lost_bookie | is_possible_bookie)[windows.bookies])


def each_domain(windows: Windows, domain: Longs) -> tuple[Windows, Blow, Longs]:
    """Return the failure of every single domain for `tally`: windows, copies taken, and the domain.

    ``domain`` has a domain number for each bookie: -1 for an unknown place, -2 for no bookie. Each window has
    a row for each known domain that holds one of its copies. A domain that may or may not have a copy gets no
    row.
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
    """Return rows of windows whose copies are in at most ``max_sets`` domains, and these domains.

    The domains are in ascending order and filled up with -1. With ``is_today``, missing copies are left out;
    otherwise all copies of the metadata count. Open ends, windows with a copy at an unknown place, and
    windows without any copy are left out.
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
    """Return the ledgers that, by the indexes, certainly lose an entry or are not recoverable.

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

    Losses of ledgers without an owner are under the name of nobody (an empty name).
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
    """Return sums by topic over the ledgers that are in the batch and in ``rows``.

    Set ``has_owner`` for these ledgers.
    """
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
