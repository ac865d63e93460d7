"""Losses from failures: entries, bytes and ledgers, by the number of copies that remain.

A window consists of the entries on the same set of bookies (`auditor.simulate.windows`). If none of its Qw
copies remains after a failure, the window is lost. If fewer than Qa copies remain, the window is below the
ack quorum. If fewer than Qw copies remain, it is below the write quorum. Copies that were missing before the
failure do not count as losses of the failure. An open end is the last segment of a ledger that is not closed.
Its recovery fails if Qa or more bookies of a window do not answer (``RRQuorumCoverageSet``).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from auditor.model.adherence import flag_first_of_equal_codes
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
    """Outcome of a failure for a window (entries on the same bookies), the worst last.

    OPEN_END is the outcome of the last segment of an unclosed ledger that recovery could not close.
    """

    UNHARMED = 0
    BELOW_WRITE_QUORUM = 1
    BELOW_ACK_QUORUM = 2
    LOST = 3
    OPEN_END = 4


LEDGERS_INDEX, ENTRIES_INDEX, BYTES_INDEX = 0, 1, 2
"""Indexes of the last axis of a tally (an array of sums). A ledger counts once, for its worst outcome.

A ledger with an open end that recovery could not close also counts for the outcome OPEN_END.
"""

TALLY_BOUNDS = ("promise", "promise_possible", "today", "today_possible")
"""Names of the first axis of a tally: a lower and an upper bound for each of `COPY_ASSUMPTIONS`.

The lower bound counts windows that certainly have an outcome. The upper bound also counts windows that may
have it.
"""

COPY_ASSUMPTIONS = ("promise", "today")
"""Copies assumed before a failure. "promise": all copies of the metadata. "today": copies in the indexes."""


@dataclass(frozen=True)
class UnresponsiveBookies:
    """Flags, by bookie number, of bookies that do not answer. The last flag stands for "no bookie"."""

    is_down: Bools  # not registered: it does not answer
    may_be_down: Bools


@dataclass(frozen=True)
class FailureEffect:
    """Copies that a failure takes, as flags of the shape (windows, widest write quorum).

    Copies in ``loses_copy`` are certainly taken. Copies in ``may_lose_copy`` are taken or may be taken.
    """

    loses_copy: Bools
    may_lose_copy: Bools

    def take(self, rows: NDArray[np.intp]) -> FailureEffect:
        """Return the effect of the failure on the windows in ``rows``."""
        return FailureEffect(self.loses_copy[rows], self.may_lose_copy[rows])


@dataclass(frozen=True)
class OutcomeBounds:
    """The best and worst possible `WindowOutcome` of each window (entries on the same bookies).

    ``best_if_copy_lost`` has the best outcomes if the failure takes a copy that existed. A window in the last
    segment of an unclosed ledger has OPEN_END. Elsewhere the outcome differs from ``best_outcomes`` only if
    every copy that the failure takes may have been missing before.
    """

    best_outcomes: NDArray[np.int8]
    best_if_copy_lost: NDArray[np.int8]
    worst_outcomes: NDArray[np.int8]
    ack_quorum: Longs

    def take(self, rows: NDArray[np.intp]) -> OutcomeBounds:
        """Return the bounds of the windows in ``rows``."""
        return OutcomeBounds(
            self.best_outcomes[rows],
            self.best_if_copy_lost[rows],
            self.worst_outcomes[rows],
            self.ack_quorum[rows],
        )

    def may_have_outcome(self, outcome: WindowOutcome) -> Bools:
        """Flag the windows that may have an outcome. All outcomes between the bounds are possible."""
        is_within_bounds: Bools = (self.best_if_copy_lost <= outcome) & (outcome <= self.worst_outcomes)
        # If Qa is 1, an entry with fewer copies is lost.
        return (
            is_within_bounds & (self.ack_quorum > 1)
            if outcome == WindowOutcome.BELOW_ACK_QUORUM
            else is_within_bounds
        )


def tally(
    windows: Windows,
    failure_effect: FailureEffect,
    group_number_by_window: Longs,
    group_count: int,
    unresponsive_bookies: UnresponsiveBookies,
) -> Longs:
    """Sum ledgers, entries, bytes by `TALLY_BOUNDS`, group and outcome, in shape (4, groups, 5, 3).

    ``group_number_by_window`` has the group of each window, such as the domain that fails.
    """
    outcome_sums = np.zeros((len(TALLY_BOUNDS), group_count, len(WindowOutcome), 3), np.int64)
    has_uncertain_copies = _has_uncertain_copies(windows, failure_effect)
    certain_rows = np.flatnonzero(~has_uncertain_copies)
    _add_certain(
        outcome_sums[0],
        windows.take(certain_rows),
        failure_effect.loses_copy[certain_rows],
        group_number_by_window[certain_rows],
    )
    outcome_sums[1:] = outcome_sums[0]
    uncertain_rows = np.flatnonzero(has_uncertain_copies)
    windows, failure_effect, group_number_by_window = (
        windows.take(uncertain_rows),
        failure_effect.take(uncertain_rows),
        group_number_by_window[uncertain_rows],
    )
    for assumption_number, assumption in enumerate(COPY_ASSUMPTIONS):
        bounds_by_window = find_outcome_bounds(windows, failure_effect, unresponsive_bookies, assumption)
        _add_outcomes(
            outcome_sums[2 * assumption_number : 2 * assumption_number + 2],
            windows,
            bounds_by_window,
            group_number_by_window,
        )
    return outcome_sums


def _has_uncertain_copies(windows: Windows, failure_effect: FailureEffect) -> Bools:
    """Flag the windows of ledgers for which the bounds of `tally` may differ.

    Such a ledger is not closed, or has a copy that is missing, unknown or only possibly taken.
    """
    is_uncertain = (
        any_true((windows.copies != PRESENT) | (failure_effect.loses_copy != failure_effect.may_lose_copy))
        | windows.is_open_end
    )
    return windows.any_of_ledger(is_uncertain)[windows.ledger]


def find_outcome_bounds(
    windows: Windows,
    failure_effect: FailureEffect,
    unresponsive_bookies: UnresponsiveBookies,
    assumption: str,
) -> OutcomeBounds:
    """Return each window's best and worst outcome. ``assumption``: copies that exist (`COPY_ASSUMPTIONS`)."""
    uses_indexes = assumption == "today"
    is_member = windows.bookies != NO_BOOKIE
    is_missing = (windows.copies == MISSING) if uses_indexes else np.zeros_like(is_member)
    is_unknown = (windows.copies == UNKNOWN) if uses_indexes else is_missing
    # An unknown copy that the failure takes may have been lost before. The failure then takes nothing.
    does_lose_known_copy = any_true(failure_effect.loses_copy & ~is_missing & ~is_unknown)
    has_certain_loss, has_possible_loss = (
        any_true(failure_effect.loses_copy & ~is_missing),
        any_true(failure_effect.may_lose_copy & ~is_missing),
    )
    max_copies_left = windows.write_quorum - count_true((failure_effect.loses_copy | is_missing) & is_member)
    # If only bookies of unknown domain are taken from a window, at least one of them is taken.
    max_copies_left = max_copies_left - ~has_certain_loss
    min_copies_left = windows.write_quorum - count_true(
        (failure_effect.may_lose_copy | is_missing | is_unknown) & is_member
    )
    best_if_copy_lost, worst_outcomes = (
        _count_outcomes(windows, max_copies_left),
        _count_outcomes(windows, min_copies_left),
    )
    best_outcomes = np.where(does_lose_known_copy, best_if_copy_lost, WindowOutcome.UNHARMED).astype(np.int8)
    worst_outcomes = np.where(has_possible_loss, worst_outcomes, WindowOutcome.UNHARMED).astype(np.int8)
    has_down_member, may_have_down_member = (
        (unresponsive_bookies.is_down[windows.bookies], unresponsive_bookies.may_be_down[windows.bookies])
        if uses_indexes
        else (is_missing,) * 2
    )
    is_open_end = windows.is_open_end
    best_outcomes[is_open_end] = _open_end_outcomes(windows, failure_effect.loses_copy, has_down_member)
    best_if_copy_lost[is_open_end] = WindowOutcome.OPEN_END
    worst_outcomes[is_open_end] = _open_end_outcomes(
        windows, failure_effect.may_lose_copy, may_have_down_member
    )
    return OutcomeBounds(best_outcomes, best_if_copy_lost, worst_outcomes, windows.ack_quorum)


def _count_outcomes(windows: Windows, copies_left: Longs) -> NDArray[np.int8]:
    """Return the outcome of each window, by the number of its remaining copies."""
    return np.select(
        [copies_left <= 0, copies_left < windows.ack_quorum],
        [WindowOutcome.LOST, WindowOutcome.BELOW_ACK_QUORUM],
        WindowOutcome.BELOW_WRITE_QUORUM,
    ).astype(np.int8)


def _open_end_outcomes(windows: Windows, is_lost_copy: Bools, is_not_answering: Bools) -> NDArray[np.int8]:
    """Return, by unclosed last segment, OPEN_END if the failure prevents recovery, else UNHARMED."""
    unresponsive_count = count_true((is_lost_copy | is_not_answering) & (windows.bookies != NO_BOOKIE))
    has_no_ack_quorum = any_true(is_lost_copy) & (unresponsive_count >= windows.ack_quorum)
    return np.where(has_no_ack_quorum, WindowOutcome.OPEN_END, WindowOutcome.UNHARMED).astype(np.int8)[
        windows.is_open_end
    ]


def _add_certain(
    outcome_sums: Longs, windows: Windows, is_lost_copy: Bools, group_number_by_window: Longs
) -> None:
    """Add the windows to ``outcome_sums``. Their ledgers must be closed and have all copies.

    The axes of ``outcome_sums`` are groups, outcomes, units. Most windows of a large cluster are of this
    kind. `_add_outcomes` would give the same sums, but takes four times as long.
    """
    harmed_window_rows = np.flatnonzero(any_true(is_lost_copy))
    windows, group_number_by_window = (
        windows.take(harmed_window_rows),
        group_number_by_window[harmed_window_rows],
    )
    window_outcomes = _count_outcomes(
        windows, windows.write_quorum - count_true(is_lost_copy[harmed_window_rows])
    )
    np.add.at(outcome_sums[:, :, ENTRIES_INDEX], (group_number_by_window, window_outcomes), windows.entries)
    np.add.at(outcome_sums[:, :, BYTES_INDEX], (group_number_by_window, window_outcomes), windows.bytes)
    # After sorting, the last key of each pair of ledger and group has the worst outcome.
    sort_keys = np.sort(
        (windows.ledger * len(outcome_sums) + group_number_by_window) * len(WindowOutcome) + window_outcomes
    )
    sort_keys = sort_keys[
        np.append(sort_keys[1:] // len(WindowOutcome) != sort_keys[:-1] // len(WindowOutcome), True)[
            : len(sort_keys)
        ]
    ]
    ledger_group_pairs, ledger_outcomes = np.divmod(sort_keys, len(WindowOutcome))
    ledgers, group_numbers = np.divmod(ledger_group_pairs, len(outcome_sums))
    np.add.at(
        outcome_sums[:, :, LEDGERS_INDEX],
        (group_numbers, ledger_outcomes),
        windows.equal_ledger_counts[ledgers],
    )


_HARMFUL_OUTCOMES = (
    WindowOutcome.BELOW_WRITE_QUORUM,
    WindowOutcome.BELOW_ACK_QUORUM,
    WindowOutcome.LOST,
    WindowOutcome.OPEN_END,
)


def _add_outcomes(
    outcome_sums: Longs, windows: Windows, bounds_by_window: OutcomeBounds, group_number_by_window: Longs
) -> None:
    """Add windows to ``outcome_sums``. Its axes are bound (certain, possible), group, outcome and unit."""
    harmed_rows = np.flatnonzero(bounds_by_window.worst_outcomes != WindowOutcome.UNHARMED)
    windows, bounds_by_window, group_number_by_window = (
        windows.take(harmed_rows),
        bounds_by_window.take(harmed_rows),
        group_number_by_window[harmed_rows],
    )
    certain_sums, possible_sums = outcome_sums
    for subset_rows in (np.flatnonzero(~windows.is_open_end), np.flatnonzero(windows.is_open_end)):
        subset_windows, subset_bounds, subset_groups = (
            windows.take(subset_rows),
            bounds_by_window.take(subset_rows),
            group_number_by_window[subset_rows],
        )
        sort_keys, pair_indexes = np.unique(
            subset_windows.ledger * len(certain_sums) + subset_groups, return_inverse=True
        )
        ledgers, group_numbers = np.divmod(sort_keys, len(certain_sums))
        best_outcomes, worst_outcomes = (np.zeros(len(sort_keys), np.int8), np.zeros(len(sort_keys), np.int8))
        np.maximum.at(best_outcomes, pair_indexes, subset_bounds.best_outcomes)
        np.maximum.at(worst_outcomes, pair_indexes, subset_bounds.worst_outcomes)
        for outcome in _HARMFUL_OUTCOMES:
            may_have_this_outcome = subset_bounds.may_have_outcome(outcome)
            for bound_sums, is_counted_window, is_counted_ledger in (
                (
                    certain_sums,
                    (subset_bounds.best_outcomes == outcome) & (subset_bounds.worst_outcomes == outcome),
                    (best_outcomes == outcome) & (worst_outcomes == outcome),
                ),
                (
                    possible_sums,
                    may_have_this_outcome,
                    _any_of_group(pair_indexes, may_have_this_outcome, len(sort_keys))
                    & (best_outcomes <= outcome),
                ),
            ):
                for amount_unit, amount_by_window in (
                    (ENTRIES_INDEX, subset_windows.entries),
                    (BYTES_INDEX, subset_windows.bytes),
                ):
                    np.add.at(
                        bound_sums[:, outcome, amount_unit],
                        subset_groups[is_counted_window],
                        amount_by_window[is_counted_window],
                    )
                np.add.at(
                    bound_sums[:, outcome, LEDGERS_INDEX],
                    group_numbers[is_counted_ledger],
                    subset_windows.equal_ledger_counts[ledgers[is_counted_ledger]],
                )


def _any_of_group(group_by_row: NDArray[np.intp], row_has_flag: Bools, group_count: int) -> Bools:
    """Flag the groups that have a flagged row. Groups are numbers below ``group_count``."""
    has_flag = np.zeros(group_count, bool)
    has_flag[group_by_row[row_has_flag]] = True
    return has_flag


def find_effect(windows: Windows, is_lost_bookie: Bools, may_be_lost_bookie: Bools) -> FailureEffect:
    """Return the copies that a failure of bookies takes, or may take.

    Args:
        windows: The windows.
        is_lost_bookie: Flags of the bookies that certainly fail, by bookie number. The last element is
            False, and stands for "no bookie".
        may_be_lost_bookie: Flags of further bookies that may fail, in the same form.
    """
    return FailureEffect(
        is_lost_bookie[windows.bookies], (is_lost_bookie | may_be_lost_bookie)[windows.bookies]
    )


def failures_by_domain(windows: Windows, domain_by_bookie: Longs) -> tuple[Windows, FailureEffect, Longs]:
    """Return the failures of all single domains for `tally`: windows, copies taken, and the failed domain.

    The result has one row for each window and each known domain with a copy of it. ``domain_by_bookie`` has
    the number of each bookie's domain: -1 if the domain is unknown, -2 for "no bookie".
    """
    domain_by_copy = domain_by_bookie[windows.bookies]
    window_rows, failed_domains = [], []
    for copy_column in range(domain_by_copy.shape[1]):
        domains_at_position = domain_by_copy[:, copy_column]
        first_rows = np.flatnonzero(
            (domains_at_position >= 0)
            & ~any_true(domain_by_copy[:, :copy_column] == domains_at_position[:, None])
        )
        window_rows.append(first_rows)
        failed_domains.append(domains_at_position[first_rows])
    window_by_row, domain_by_row = np.concatenate(window_rows), np.concatenate(failed_domains)
    is_lost_copy = domain_by_copy[window_by_row] == domain_by_row[:, None]
    return (
        windows.take(window_by_row),
        FailureEffect(is_lost_copy, is_lost_copy | (domain_by_copy[window_by_row] == -1)),
        domain_by_row,
    )


def domain_sets(
    windows: Windows, domain_by_bookie: Longs, uses_indexes: bool, max_set_size: int
) -> tuple[Longs, Longs]:
    """Return windows with all copies in at most ``max_set_size`` domains: their row numbers, and the domains.

    The domains of a window are in ascending order, padded with -1. If ``uses_indexes``, copies that the
    indexes lack do not count. Otherwise all copies in the metadata count. Unclosed last segments, windows
    without a copy, and windows with a copy in an unknown domain are left out.
    """
    domain_by_copy = domain_by_bookie[windows.bookies].astype(np.int64)
    if uses_indexes:
        domain_by_copy[windows.copies == MISSING] = -2
    has_known_domains = ~any_true(domain_by_copy == -1) & ~windows.is_open_end
    sorted_domains = np.sort(domain_by_copy, axis=1)
    is_first_copy_in_domain = flag_first_of_equal_codes(sorted_domains)
    domain_counts = count_true(is_first_copy_in_domain)
    window_rows = np.flatnonzero(has_known_domains & (domain_counts > 0) & (domain_counts <= max_set_size))
    domain_rows = np.full((len(window_rows), max_set_size), -1, np.int64)
    set_rows, copy_columns = np.nonzero(is_first_copy_in_domain[window_rows])
    columns_in_set = np.cumsum(is_first_copy_in_domain[window_rows], axis=1)[set_rows, copy_columns] - 1
    domain_rows[set_rows, columns_in_set] = sorted_domains[window_rows][set_rows, copy_columns]
    return window_rows, domain_rows
