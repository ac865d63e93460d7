"""Losses of failures: entries, bytes and ledgers by their remaining copies, and the owners of the ledgers.

A window is the entries on one set of bookies (`auditor.simulate.windows`). If none of its Qw copies remains
after a failure, the window is lost. If fewer than Qa copies remain, it is below the ack quorum. If fewer than
Qw remain, it is below the write quorum. A failure takes only copies that exist. Copies that were missing
before the failure do not count as its loss. Recovery of an open end needs, in every window, fewer than Qa
bookies that do not answer (``RRQuorumCoverageSet``). Owners come from the table ownership.
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

from auditor.model.adherence import flag_first_of_equal_codes
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


class WindowOutcome(IntEnum):
    """Outcomes of a failure for a window, the worst last.

    OPEN_END is for open ends that recovery could not close.
    """

    WHOLE = 0
    BELOW_WRITE_QUORUM = 1
    BELOW_ACK_QUORUM = 2
    LOST = 3
    OPEN_END = 4


LEDGERS, ENTRIES, BYTES = 0, 1, 2
"""Indexes of the last axis of a tally, which is an array of sums. A ledger counts once, at its worst fate.

A ledger with an open end that recovery could not close also counts at the fate OPEN_END.
"""

VIEWS = ("promise", "promise_possible", "today", "today_possible")
"""Names of the first axis of a tally: a lower and an upper bound for each of `COPY_VIEWS`.

The lower bound counts windows that certainly have an outcome. The upper bound counts possible ones too.
"""

COPY_VIEWS = ("promise", "today")
"""Copies assumed before a failure. "promise": all copies of the metadata. "today": copies in the indexes."""


@dataclass(frozen=True)
class SilentBookies:
    """Bookies that do not answer, as one flag per bookie number. The last element stands for no bookie."""

    down: Bools  # not registered: it does not answer
    down_possible: Bools


@dataclass(frozen=True)
class FailureEffect:
    """Copies that a failure takes, as flags of the shape (windows, widest write quorum).

    Copies in ``sure`` are certainly taken. Copies in ``possible`` may be taken, and include ``sure``.
    """

    sure: Bools
    possible: Bools

    def take(self, rows: NDArray[np.intp]) -> FailureEffect:
        """Return the copies of the windows in ``rows``."""
        return FailureEffect(self.sure[rows], self.possible[rows])


@dataclass(frozen=True)
class FateBounds:
    """The best and worst possible `WindowOutcome` of each window.

    ``mildest`` is the best fate if the failure takes at least one existing copy. ``mildest`` differs from
    ``best`` only if every copy that the failure takes may have been missing before.
    """

    best: NDArray[np.int8]
    mildest: NDArray[np.int8]
    worst: NDArray[np.int8]
    ack_quorum: Longs

    def take(self, rows: NDArray[np.intp]) -> FateBounds:
        """Return the bounds of the windows in ``rows``."""
        return FateBounds(self.best[rows], self.mildest[rows], self.worst[rows], self.ack_quorum[rows])

    def may_be(self, outcome: WindowOutcome) -> Bools:
        """Return which windows may have a fate. All numbers of copies between the bounds are possible."""
        is_between: Bools = (self.mildest <= outcome) & (outcome <= self.worst)
        # Where Qa is 1, an entry below it is lost.
        return is_between & (self.ack_quorum > 1) if outcome == WindowOutcome.BELOW_ACK_QUORUM else is_between


def tally(
    windows: Windows, effect: FailureEffect, group: Longs, group_count: int, silent: SilentBookies
) -> Longs:
    """Return sums by view, group, fate and unit: an array of the shape (4, groups, 5, 3).

    ``group`` has the group of each window, such as the domain that fails.
    """
    sums = np.zeros((len(VIEWS), group_count, len(WindowOutcome), 3), np.int64)
    has_uncertain_copies = _has_uncertain_copies(windows, effect)
    plain_rows = np.flatnonzero(~has_uncertain_copies)
    _add_certain(sums[0], windows.take(plain_rows), effect.sure[plain_rows], group[plain_rows])
    sums[1:] = sums[0]
    rows = np.flatnonzero(has_uncertain_copies)
    windows, effect, group = (windows.take(rows), effect.take(rows), group[rows])
    for view_number, copies in enumerate(COPY_VIEWS):
        outcome_bounds = fate_bounds(windows, effect, silent, copies)
        _add_outcomes(sums[2 * view_number : 2 * view_number + 2], windows, outcome_bounds, group)
    return sums


def _has_uncertain_copies(windows: Windows, effect: FailureEffect) -> Bools:
    """Flag windows of ledgers that have an open end, or a missing, unknown or possibly taken copy.

    For all other windows, the views are equal.
    """
    is_uncertain = any_true((windows.copies != PRESENT) | (effect.sure != effect.possible)) | windows.open_end
    return windows.any_of_ledger(is_uncertain)[windows.ledger]


def fate_bounds(windows: Windows, effect: FailureEffect, silent: SilentBookies, copies: str) -> FateBounds:
    """Return the best and worst fate of each window. ``copies`` is one of `COPY_VIEWS`."""
    is_today = copies == "today"
    is_member = windows.bookies != NO_BOOKIE
    is_missing = (windows.copies == MISSING) if is_today else np.zeros_like(is_member)
    is_unknown = (windows.copies == UNKNOWN) if is_today else is_missing
    # An unknown copy that the failure takes may have been lost before: then it takes nothing.
    takes_known_copy = any_true(effect.sure & ~is_missing & ~is_unknown)
    has_certain_loss, has_possible_loss = (
        any_true(effect.sure & ~is_missing),
        any_true(effect.possible & ~is_missing),
    )
    max_copies_left = windows.write_quorum - count_true((effect.sure | is_missing) & is_member)
    # Of a window that only a bookie of unknown place is taken from, that bookie is.
    max_copies_left = max_copies_left - ~has_certain_loss
    min_copies_left = windows.write_quorum - count_true(
        (effect.possible | is_missing | is_unknown) & is_member
    )
    mildest, worst_outcomes = (
        _count_outcomes(windows, max_copies_left),
        _count_outcomes(windows, min_copies_left),
    )
    best_outcomes = np.where(takes_known_copy, mildest, WindowOutcome.WHOLE).astype(np.int8)
    worst_outcomes = np.where(has_possible_loss, worst_outcomes, WindowOutcome.WHOLE).astype(np.int8)
    has_down_member, may_have_down_member = (
        (silent.down[windows.bookies], silent.down_possible[windows.bookies])
        if is_today
        else (is_missing,) * 2
    )
    is_open_end = windows.open_end
    best_outcomes[is_open_end] = _open_end_outcomes(windows, effect.sure, has_down_member)
    mildest[is_open_end] = WindowOutcome.OPEN_END
    worst_outcomes[is_open_end] = _open_end_outcomes(windows, effect.possible, may_have_down_member)
    return FateBounds(best_outcomes, mildest, worst_outcomes, windows.ack_quorum)


def _count_outcomes(windows: Windows, copies_left: Longs) -> NDArray[np.int8]:
    """Return the fate of each window, as the number of its remaining copies decides."""
    return np.select(
        [copies_left <= 0, copies_left < windows.ack_quorum],
        [WindowOutcome.LOST, WindowOutcome.BELOW_ACK_QUORUM],
        WindowOutcome.BELOW_WRITE_QUORUM,
    ).astype(np.int8)


def _open_end_outcomes(windows: Windows, is_taken: Bools, is_down: Bools) -> NDArray[np.int8]:
    """Return fates of open ends: OPEN_END if the failure takes a bookie, and recovery then fails."""
    silent_count = count_true((is_taken | is_down) & (windows.bookies != NO_BOOKIE))
    has_no_ack_quorum = any_true(is_taken) & (silent_count >= windows.ack_quorum)
    return np.where(has_no_ack_quorum, WindowOutcome.OPEN_END, WindowOutcome.WHOLE).astype(np.int8)[
        windows.open_end
    ]


def _add_certain(sums: Longs, windows: Windows, is_taken: Bools, group: Longs) -> None:
    """Add windows of closed ledgers with all copies to (groups, fates, units).

    Most windows of a large cluster are of this kind. `_add_outcomes` gives the same result, but takes four
    times as long.
    """
    harmed_rows = np.flatnonzero(any_true(is_taken))
    windows, group = windows.take(harmed_rows), group[harmed_rows]
    window_outcomes = _count_outcomes(windows, windows.write_quorum - count_true(is_taken[harmed_rows]))
    np.add.at(sums[:, :, ENTRIES], (group, window_outcomes), windows.entries)
    np.add.at(sums[:, :, BYTES], (group, window_outcomes), windows.bytes)
    # Sorted, the last of each pair of ledger and group has its worst fate.
    keys = np.sort((windows.ledger * len(sums) + group) * len(WindowOutcome) + window_outcomes)
    keys = keys[
        np.append(keys[1:] // len(WindowOutcome) != keys[:-1] // len(WindowOutcome), True)[: len(keys)]
    ]
    pairs, ledger_outcomes = np.divmod(keys, len(WindowOutcome))
    ledgers, groups = np.divmod(pairs, len(sums))
    np.add.at(sums[:, :, LEDGERS], (groups, ledger_outcomes), windows.times[ledgers])


_HARMFUL_OUTCOMES = (
    WindowOutcome.BELOW_WRITE_QUORUM,
    WindowOutcome.BELOW_ACK_QUORUM,
    WindowOutcome.LOST,
    WindowOutcome.OPEN_END,
)


def _add_outcomes(sums: Longs, windows: Windows, outcome_bounds: FateBounds, group: Longs) -> None:
    """Add windows to ``sums``, an array by (certain and possible, groups, fates, units)."""
    rows = np.flatnonzero(outcome_bounds.worst != WindowOutcome.WHOLE)
    windows, outcome_bounds, group = (windows.take(rows), outcome_bounds.take(rows), group[rows])
    certain_sums, possible_sums = sums
    for part_rows in (np.flatnonzero(~windows.open_end), np.flatnonzero(windows.open_end)):
        part_windows, part_bounds, part_groups = (
            windows.take(part_rows),
            outcome_bounds.take(part_rows),
            group[part_rows],
        )
        keys, pairs = np.unique(part_windows.ledger * len(certain_sums) + part_groups, return_inverse=True)
        ledgers, groups = np.divmod(keys, len(certain_sums))
        best_outcomes, worst_outcomes = (np.zeros(len(keys), np.int8), np.zeros(len(keys), np.int8))
        np.maximum.at(best_outcomes, pairs, part_bounds.best)
        np.maximum.at(worst_outcomes, pairs, part_bounds.worst)
        for outcome in _HARMFUL_OUTCOMES:
            may_have_harm = part_bounds.may_be(outcome)
            for view_sums, has_window, has_ledger in (
                (
                    certain_sums,
                    (part_bounds.best == outcome) & (part_bounds.worst == outcome),
                    (best_outcomes == outcome) & (worst_outcomes == outcome),
                ),
                (
                    possible_sums,
                    may_have_harm,
                    _any_of_group(pairs, may_have_harm, len(keys)) & (best_outcomes <= outcome),
                ),
            ):
                for unit, amounts in ((ENTRIES, part_windows.entries), (BYTES, part_windows.bytes)):
                    np.add.at(view_sums[:, outcome, unit], part_groups[has_window], amounts[has_window])
                np.add.at(
                    view_sums[:, outcome, LEDGERS],
                    groups[has_ledger],
                    part_windows.times[ledgers[has_ledger]],
                )


def _any_of_group(numbers: NDArray[np.intp], flags: Bools, size: int) -> Bools:
    """Return, for each group number below ``size``, whether any row of the group has a flag."""
    has_flag = np.zeros(size, bool)
    has_flag[numbers[flags]] = True
    return has_flag


def failure_effect(windows: Windows, is_lost_bookie: Bools, is_possible_bookie: Bools) -> FailureEffect:
    """Return the copies on bookies that are lost (``is_lost_bookie``), and on bookies that may be lost too.

    Both arguments have a flag for each bookie number. The last element stands for no bookie, and is False.
    """
    return FailureEffect(
        is_lost_bookie[windows.bookies], (is_lost_bookie | is_possible_bookie)[windows.bookies]
    )


def failures_by_domain(windows: Windows, domain_of_bookie: Longs) -> tuple[Windows, FailureEffect, Longs]:
    """Return the failure of every single domain for `tally`: windows, copies taken, and the domain.

    ``domain_of_bookie`` has a domain number for each bookie: -1 for an unknown place, -2 for no bookie. Each
    window has a row for each known domain that holds one of its copies. A domain that only may have a copy
    gets no row.
    """
    places = domain_of_bookie[windows.bookies]
    rows, groups = [], []
    for position in range(places.shape[1]):
        domains_at_position = places[:, position]
        first_rows = np.flatnonzero(
            (domains_at_position >= 0) & ~any_true(places[:, :position] == domains_at_position[:, None])
        )
        rows.append(first_rows)
        groups.append(domains_at_position[first_rows])
    row, group = np.concatenate(rows), np.concatenate(groups)
    is_taken = places[row] == group[:, None]
    return (windows.take(row), FailureEffect(is_taken, is_taken | (places[row] == -1)), group)


def domain_sets(
    windows: Windows, domain_of_bookie: Longs, is_today: bool, max_set_size: int
) -> tuple[Longs, Longs]:
    """Return the indexes of windows whose copies are in at most ``max_set_size`` domains, and the domains.

    The domains are in ascending order and filled up with -1. With ``is_today``, missing copies are left out;
    otherwise all copies of the metadata count. Open ends, windows with a copy at an unknown place, and
    windows without any copy are left out.
    """
    places = domain_of_bookie[windows.bookies].astype(np.int64)
    if is_today:
        places[windows.copies == MISSING] = -2
    has_known_domains = ~any_true(places == -1) & ~windows.open_end
    sorted_places = np.sort(places, axis=1)
    is_first_of_domain = flag_first_of_equal_codes(sorted_places)
    domain_counts = count_true(is_first_of_domain)
    rows = np.flatnonzero(has_known_domains & (domain_counts > 0) & (domain_counts <= max_set_size))
    sets = np.full((len(rows), max_set_size), -1, np.int64)
    row, position = np.nonzero(is_first_of_domain[rows])
    ranks_in_row = np.cumsum(is_first_of_domain[rows], axis=1)[row, position] - 1
    sets[row, ranks_in_row] = sorted_places[rows][row, position]
    return rows, sets


_OWNERSHIP_COLUMNS = ("ledger_id", "standing", *NAME_COLUMNS, "borrowed", "offload")
_SUM_COLUMNS = ("ledgers", "entries", "bytes", "unrecoverable", "offloaded")
_Totals = defaultdict[str, Longs]


def affected_ledgers(windows: Windows, effect: FailureEffect, silent: SilentBookies) -> Longs:
    """Return the ledgers that, by the indexes, certainly lose an entry or are not recoverable.

    Each row has scope, id, lost (0 or 1), entries, bytes, unrecoverable (0 or 1).
    """
    assert windows.ids is not None
    outcomes = fate_bounds(windows, effect, silent, "today").best
    rows = np.zeros((len(windows.times), 6), np.int64)
    rows[:, :2] = windows.ids
    is_lost, ledger = outcomes == WindowOutcome.LOST, windows.ledger
    rows[ledger[is_lost], 2] = 1
    np.add.at(rows[:, 3], ledger[is_lost], windows.entries[is_lost])
    np.add.at(rows[:, 4], ledger[is_lost], windows.bytes[is_lost])
    rows[ledger[outcomes == WindowOutcome.OPEN_END], 5] = 1
    return rows[(rows[:, 2] > 0) | (rows[:, 5] > 0)]


def owner_losses(run: RunReader, rows: Longs) -> tuple[list[OwnerLoss], list[OwnerLoss]] | None:
    """Return the losses of namespaces and topics, the worst first. None if the run read no owners.

    An empty name has the losses of ledgers without an owner.
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
    positions = np.minimum(np.searchsorted(rows[:, 1], ids), len(rows) - 1)
    is_affected = rows[positions, 1] == ids
    has_owner[positions[is_affected]] = True
    owned_ledgers, positions = owned_ledgers.filter(pa.array(is_affected)), positions[is_affected]
    is_offloaded = pc.equal(owned_ledgers["offload"], "complete").fill_null(False).cast("int64")
    sums = [*(pa.array(column) for column in rows[positions, 2:].T), is_offloaded]
    table = pa.table([*(owned_ledgers[name] for name in NAME_COLUMNS), *sums], [*NAME_COLUMNS, *_SUM_COLUMNS])
    topic_sums: list[dict[str, Any]] = (
        table.group_by([*NAME_COLUMNS]).aggregate([(name, "sum") for name in _SUM_COLUMNS]).to_pylist()
    )
    return topic_sums


def _worst_first(totals: dict[str, Longs]) -> list[OwnerLoss]:
    losses = [OwnerLoss(name, *map(int, sums)) for name, sums in totals.items()]
    return sorted(losses, key=lambda owner: (-owner.bytes, -owner.entries, -owner.unrecoverable, owner.name))
