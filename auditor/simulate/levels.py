"""All failures of a level in one pass: each domain alone, and the worst sets of domains.

A level is bookies, racks or regions. Each bookie, rack or region is a domain. The loss of a set of domains is
the sum over its subsets. Each subset contributes the entries that have a copy in every domain of the subset
and in no other domain. The worst pairs are exact. A worst pair has all copies of some entries, or consists of
two of the worst single domains. Larger sets grow step by step: each step adds the domain that increases the
loss most. It is not proved that these sets are the worst.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations
from math import comb

import numpy as np

from auditor.model.placement import Level, Locations
from auditor.model.simulation import Amount, Bounds, DomainSet, Failure, LevelLoss, Outcome
from auditor.simulate.domains import Domains, SetSums, pad_sums
from auditor.simulate.loss import (
    BYTES_INDEX,
    ENTRIES_INDEX,
    LEDGERS_INDEX,
    TALLY_BOUNDS,
    UnresponsiveBookies,
    WindowOutcome,
    domain_sets,
    failures_by_domain,
    tally,
)
from auditor.simulate.near_loss import NearLossSums
from auditor.simulate.windows import (
    MISSING,
    BookieNumbers,
    Longs,
    Windows,
    any_true,
)

MAX_SETS_SHOWN = 10
_SEED_SET_COUNT = 200
"""Number of heaviest sets from which larger sets grow."""
_MAX_SETS = 1 << 18
"""Largest number of sets of three or more domains that are all compared. Comparing them takes seconds."""


@dataclass(frozen=True, slots=True)
class DomainSetLoss:
    """A set of domains, and the entries and bytes lost if they all fail."""

    members: tuple[int, ...]
    entries: int
    bytes: int

    @property
    def largest_loss_key(self) -> tuple[int, int, tuple[int, ...]]:
        """Return a sort key that puts the set with the largest loss first."""
        return -self.bytes, -self.entries, self.members


@dataclass(frozen=True, slots=True)
class WorstSets:
    """The sets of domains with the largest losses that were found. Each of them loses an entry if it fails.

    ``is_proved`` is True if no worse set exists. ``losing_set_count`` is the number of all sets that lose an
    entry. It is None if it was not counted.
    """

    sets: tuple[DomainSetLoss, ...]
    is_proved: bool
    losing_set_count: int | None


def make_set_loss(sums: SetSums, members: Iterable[int]) -> DomainSetLoss:
    """Return a set of domains with its loss, which is the sum over all its subsets."""
    sorted_members = sorted(members)
    entries, bytes = map(int, sums.sum_losses(np.array([sorted_members]))[0])
    return DomainSetLoss(tuple(sorted_members), entries, bytes)


def find_worst_sets(
    sums: SetSums, set_size: int, max_sets: int = MAX_SETS_SHOWN, max_pairs: int = _MAX_SETS
) -> WorstSets:
    """Return up to ``max_sets`` worst sets of ``set_size`` domains (such as racks) that lose an entry.

    For three or more domains, all possible sets are compared only if there are at most ``max_pairs`` sets.

    >>> sums = SetSums(2, domain_count=4)
    >>> sums.add(np.array([[0, 1], [2, -1]]), np.array([5, 1]), np.array([50, 20]))
    >>> [(domains.members, domains.bytes) for domains in find_worst_sets(sums, 2, max_sets=2).sets]
    [((0, 1), 50), ((0, 2), 20)]
    """
    if sums.all_domains < set_size:
        return WorstSets((), True, 0)
    if set_size > 2 and comb(sums.all_domains, set_size) <= max_pairs:
        sets = np.array([*combinations(range(sums.all_domains), set_size)], np.int64).reshape(-1, set_size)
        losses_of_sets = sums.sum_losses(sets)
        worst_set_rows = np.lexsort((-losses_of_sets[:, 0], -losses_of_sets[:, 1]))[:max_sets]
        sets_with_loss = [
            make_set_loss(sums, domains_of_set) for domains_of_set in sets[worst_set_rows].tolist()
        ]
        return WorstSets(
            _select_losing_sets(sets_with_loss, max_sets), True, int((losses_of_sets[:, 0] > 0).sum())
        )
    set_rows = sums.find_sets()
    set_losses = _add_single_domains(sums, set_rows)
    rows_with_most_data = np.lexsort((np.arange(len(set_rows)), -set_losses[:, 0], -set_losses[:, 1]))[
        : max(_SEED_SET_COUNT, max_sets)
    ]
    worst_single_domains = [
        domain_set.members[0] for domain_set in _single_domain_sets(sums)[: max_sets + set_size]
    ]
    candidate_sets = {
        frozenset(members)
        for members in combinations(worst_single_domains, min(set_size, len(worst_single_domains)))
    }
    candidate_sets |= {
        frozenset(domain for domain in row if domain >= 0) for row in set_rows[rows_with_most_data].tolist()
    }
    grown_sets = {
        _grow_set(sums, set_rows, members, set_size, worst_single_domains) for members in candidate_sets
    }
    return WorstSets(
        _select_losing_sets([make_set_loss(sums, members) for members in grown_sets], max_sets),
        set_size <= 2,
        count_losing_sets(sums, set_size),
    )


def _select_losing_sets(sets_with_loss: list[DomainSetLoss], max_sets: int) -> tuple[DomainSetLoss, ...]:
    return tuple(
        sorted(
            (domain_set for domain_set in sets_with_loss if domain_set.entries),
            key=lambda domain_set: domain_set.largest_loss_key,
        )[:max_sets]
    )


def count_losing_sets(sums: SetSums, set_size: int) -> int | None:
    """Return the number of sets of one or two domains that lose an entry. None for a larger ``set_size``."""
    set_rows = sums.find_sets()
    single_domains = set_rows[(set_rows >= 0).sum(axis=1) == 1, 0] if set_size <= 2 else None
    if single_domains is None or set_size == 1:
        return None if single_domains is None else len(single_domains)
    is_pair_without_single = ((set_rows >= 0).sum(axis=1) == 2) & ~np.isin(set_rows, single_domains).any(
        axis=1
    )
    return (
        int(is_pair_without_single.sum())
        + comb(sums.all_domains, 2)
        - comb(sums.all_domains - len(single_domains), 2)
    )


def pair_loss_matrix(sums: SetSums, max_sets: int) -> tuple[list[int], list[list[int]]]:
    """Return up to ``max_sets`` domains with the most bytes, and the bytes lost if two of them fail together.

    The bytes are a matrix with one row and one column for each of these domains.
    """
    domain_bytes = np.zeros(sums.all_domains + 1, np.int64)
    set_rows = sums.find_sets()
    for set_column in range(set_rows.shape[1]):
        np.add.at(domain_bytes, set_rows[:, set_column], sums.amounts_by_set[:, 1])
    domains = np.argsort(-domain_bytes[:-1], kind="stable")[:max_sets].tolist()
    return domains, [
        [make_set_loss(sums, frozenset([row_domain, column_domain])).bytes for column_domain in domains]
        for row_domain in domains
    ]


def _single_domain_sets(sums: SetSums) -> list[DomainSetLoss]:
    return sorted(
        (make_set_loss(sums, frozenset([domain])) for domain in range(sums.all_domains)),
        key=lambda domain_set: domain_set.largest_loss_key,
    )


def _add_single_domains(sums: SetSums, set_rows: Longs) -> Longs:
    """Return, for each set of domains, its own sum plus the sums of the sets with only one of its domains.

    For a pair of domains, this is the whole loss.
    """
    is_single_domain = (set_rows >= 0).sum(axis=1) == 1
    domain_sums = np.zeros((sums.all_domains + 1, 2), np.int64)
    domain_sums[set_rows[is_single_domain, 0]] = sums.amounts_by_set[is_single_domain]
    set_losses: Longs = sums.amounts_by_set + np.where(
        is_single_domain[:, None], 0, domain_sums[set_rows].sum(axis=1)
    )
    return set_losses


def _grow_set(
    sums: SetSums, all_set_rows: Longs, members: frozenset[int], set_size: int, single_domains: list[int]
) -> frozenset[int]:
    """Add domains, such as racks, to the set ``members`` until it has ``set_size`` domains. Return the set.

    Each step adds the domain that increases the loss most.
    """
    while len(members) < min(set_size, sums.all_domains):
        set_rows = all_set_rows[np.isin(all_set_rows, list(members)).any(axis=1)]
        neighbour_domains = {domain for domain in np.unique(set_rows).tolist() if domain >= 0} | {
            *single_domains
        }
        candidate_domains = sorted(neighbour_domains - members or set(range(sums.all_domains)) - members)
        grown_set_losses = sums.sum_losses(
            np.array([sorted(members | {domain}) for domain in candidate_domains])
        )
        members |= {candidate_domains[np.lexsort((-grown_set_losses[:, 0], -grown_set_losses[:, 1]))[0]]}
    return members


def find_levels(locations: Locations, bookies: list[str]) -> list[Level]:
    """Return the levels to simulate: bookies, and also racks and regions if locations are known.

    Regions are left out if there is only one, or if there are as many regions as racks.
    """
    simulated_levels = [Level.BOOKIE]
    if locations.has_known_location:
        simulated_levels.append(Level.RACK)
        regions = {locations.domain(bookie, Level.REGION) for bookie in bookies} - {None}
        racks = {locations.domain(bookie, Level.RACK) for bookie in bookies} - {None}
        if len(regions) < len(racks) and len(regions) > 1:
            simulated_levels.append(Level.REGION)
    return simulated_levels


class LevelSums:
    """Sums over windows (entries on the same bookies) for a level, such as racks.

    The result compares sets of ``set_size`` domains.
    """

    def __init__(self, level: Level, locations: Locations, bookies: list[str], set_size: int = 2) -> None:
        self.domains = Domains(level, locations, bookies)
        self.set_size = set_size
        self._outcome_sums = np.zeros((len(TALLY_BOUNDS), 0, len(WindowOutcome), 3), np.int64)
        self._near_loss_sums = NearLossSums(self.domains)
        self._set_sums_by_index_use: dict[bool, SetSums] = {}

    def add(
        self, windows: Windows, bookie_numbering: BookieNumbers, unresponsive_bookies: UnresponsiveBookies
    ) -> None:
        """Add windows (entries on the same bookies). All windows of a ledger must be in the same call."""
        domain_by_bookie = self.domains.find_domain_numbers(bookie_numbering)
        domain_count = len(self.domains.names)
        affected_windows, failure_effect, failed_domains = failures_by_domain(windows, domain_by_bookie)
        self._outcome_sums = pad_sums(self._outcome_sums, domain_count, padded_axis=1)
        self._outcome_sums += tally(
            affected_windows, failure_effect, failed_domains, domain_count, unresponsive_bookies
        )
        self._near_loss_sums.add(windows, bookie_numbering)
        has_missing_copy = any_true(windows.copies == MISSING)
        # For windows without a missing copy, the two views are equal.
        for is_part_window, uses_indexes_flags in (
            (~has_missing_copy, (False, True)),
            (has_missing_copy, (False,)),
            (has_missing_copy, (True,)),
        ):
            part_windows = windows.take(is_part_window)
            window_rows, members = domain_sets(
                part_windows, domain_by_bookie, uses_indexes_flags[0], self.set_size
            )
            for uses_indexes in uses_indexes_flags:
                set_sums = self._set_sums_by_index_use.setdefault(
                    uses_indexes, SetSums(self.set_size, max(domain_count, 1))
                )
                set_sums.add(members, part_windows.entries[window_rows], part_windows.bytes[window_rows])

    def result(self, bookies: list[str]) -> LevelLoss:
        """Return the losses of the level, once all windows have been added."""
        domain_names = self.domains.names
        bookie_counts = Counter(
            self.domains.locations.domain(bookie, self.domains.level) for bookie in bookies
        )
        single_failures = sorted(
            (
                Failure(
                    str(self.domains.level),
                    (domain_name,),
                    bookie_counts[domain_name],
                    *make_bounds(self._outcome_sums[:, domain_number]),
                )
                for domain_number, domain_name in enumerate(domain_names)
            ),
            key=lambda failure: (
                *_severity_sort_key(failure.today),
                *_severity_sort_key(failure.promise),
                failure.names,
            ),
        )
        empty_sets = SetSums(self.set_size, max(len(domain_names), 1))
        promised_set_sums, set_sums_today = (
            self._set_sums_by_index_use.get(uses_indexes, empty_sets) for uses_indexes in (False, True)
        )
        found_worst_sets = find_worst_sets(set_sums_today, self.set_size)
        return LevelLoss(
            str(self.domains.level),
            len(domain_names),
            self.domains.find_unplaced_bookies(bookies),
            tuple(single_failures),
            self._near_loss_sums.distance,
            self._near_loss_sums.result(),
            self.set_size,
            tuple(self._domain_set(domain_set, promised_set_sums) for domain_set in found_worst_sets.sets),
            found_worst_sets.is_proved,
            found_worst_sets.losing_set_count,
            comb(len(domain_names), self.set_size),
        )

    def _domain_set(self, set_loss: DomainSetLoss, promised_set_sums: SetSums) -> DomainSet:
        promised_loss = make_set_loss(promised_set_sums, set_loss.members)
        domain_names = tuple(self.domains.names[member] for member in set_loss.members)
        return DomainSet(
            domain_names, promised_loss.entries, promised_loss.bytes, set_loss.entries, set_loss.bytes
        )


def make_bounds(sums_by_bound: Longs) -> tuple[Bounds, Bounds]:
    """Return the bounds of the loss (certain, possible) by the metadata, and by the indexes.

    The axes of ``sums_by_bound`` are these four bounds, outcomes, and units (ledgers, entries, bytes).
    """
    promised_loss, possible_promised_loss, loss_today, possible_loss_today = map(_make_outcome, sums_by_bound)
    return Bounds(promised_loss, possible_promised_loss), Bounds(loss_today, possible_loss_today)


def _make_outcome(outcome_sums: Longs) -> Outcome:
    lost_amount, below_ack_amount, below_write_amount = (
        Amount(
            *(
                int(outcome_sums[outcome, amount_unit])
                for amount_unit in (LEDGERS_INDEX, ENTRIES_INDEX, BYTES_INDEX)
            )
        )
        for outcome in (WindowOutcome.LOST, WindowOutcome.BELOW_ACK_QUORUM, WindowOutcome.BELOW_WRITE_QUORUM)
    )
    return Outcome(
        lost_amount,
        below_ack_amount,
        below_write_amount,
        int(outcome_sums[WindowOutcome.OPEN_END, LEDGERS_INDEX]),
    )


def _severity_sort_key(bounds: Bounds) -> tuple[int, ...]:
    """Return a sort key that puts the worst failures first: by loss, unrecoverable ledgers, then quorums."""
    certain_loss, possible_loss = bounds.sure, bounds.possible
    return (
        -certain_loss.lost.bytes, -certain_loss.lost.entries, -certain_loss.unrecoverable,
        -possible_loss.lost.bytes, -certain_loss.below_ack.bytes, -certain_loss.below_write.bytes,
    )  # fmt: skip
