"""Data that one failure would lose, and the distance to data loss.

The distance of a ledger is the smallest number of domains, such as racks, whose joint failure loses an entry.
A distance of one is urgent.
"""

from collections import Counter
from collections.abc import Collection

import numpy as np

from auditor.model.adherence import flag_first_of_equal_codes
from auditor.model.placement import Level, Locations
from auditor.model.simulation import Amount, NearLoss
from auditor.runs.directory import RunDirectory
from auditor.simulate.domains import NO_DOMAIN, UNKNOWN_DOMAIN, Domains, pad_sums
from auditor.simulate.run_windows import RunWindows
from auditor.simulate.windows import (
    MISSING,
    UNKNOWN,
    BookieNumbers,
    Bools,
    Longs,
    SegmentColumns,
    Windows,
    any_true,
    count_true,
    distinct_values,
)

MAX_NAMED_DOMAINS = 20
"""Largest number of domain names in a `NearLoss`. The failure of each of these domains loses an entry."""


def find_near_losses(
    run: RunDirectory, locations: Locations, down_bookies: Collection[str] = ()
) -> tuple[NearLoss, ...]:
    """Return the data that the failure of one bookie, or of one rack, would lose.

    Racks are left out if no location is known. An unknown copy on a bookie of ``down_bookies`` counts as
    existing here. The table ``reachability`` reports the ledgers that are unreadable without that bookie.

    The function makes one pass over the run's ledgers. It makes windows only for certain ledgers: those with
    a copy that may be missing, with a write quorum of 1, or with two adjacent bookies of an ensemble in the
    same domain.

    Raises:
        RunError: a table of the run is missing or broken.
    """
    simulated_levels = (Level.BOOKIE, Level.RACK) if locations.has_known_location else (Level.BOOKIE,)
    domains: list[Domains] = []

    def find_near_candidates(segments: SegmentColumns) -> Bools:
        """Flag ledgers with Qw = 1, or with two adjacent bookies that may be in the same domain."""
        is_candidate = segments.any_of_ledger(segments.write_quorum == 1)
        for level_domains in domains:
            domain_by_bookie = level_domains.find_domain_numbers(windows.numbers)
            has_neighbour = (
                segments.flag_equal_neighbours(domain_by_bookie)
                | (domain_by_bookie == UNKNOWN_DOMAIN)[segments.members]
            )
            is_candidate |= segments.any_of_members(has_neighbour)
        return is_candidate

    windows = RunWindows(run, must_merge=False, segment_filter=find_near_candidates)
    domains += [Domains(level, locations, windows.numbers.names) for level in simulated_levels]
    sums_by_level = [NearLossSums(level_domains, down_bookies) for level_domains in domains]
    for window_batch in windows:
        for level_sums_of_batch in sums_by_level:
            level_sums_of_batch.add(window_batch, windows.numbers)
    return tuple(level_sums.result() for level_sums in sums_by_level)


class NearLossSums:
    """Sums over windows (entries on the same bookies), for one level, such as racks.

    They count ledgers by distance to data loss, and the data that is one failure from loss.
    """

    def __init__(self, domains: Domains, down_bookies: Collection[str] = ()) -> None:
        self._domains = domains
        self._down_bookies = frozenset(down_bookies)
        self._ledgers_by_distance: Counter[int] = Counter()
        self._near_loss_sums = np.zeros(3, np.int64)
        self._loss_by_domain = np.zeros((0, 2), np.int64)
        self._possible_near_loss_count = 0

    @property
    def distance(self) -> dict[int, int]:
        """Return the number of ledgers by distance to data loss.

        The distance is the smallest number of domains, such as racks, whose joint failure loses an entry. A
        distance of 0 means that an entry is already lost.
        """
        return dict(sorted(self._ledgers_by_distance.items()))

    def result(self) -> NearLoss:
        """Return the amounts of data that are one failure from loss."""
        domain_order = np.lexsort((-self._loss_by_domain[:, 1], -self._loss_by_domain[:, 0]))
        lost_domain_names = [
            self._domains.names[domain_number]
            for domain_number in domain_order.tolist()
            if self._loss_by_domain[domain_number, 1]
        ]
        return NearLoss(
            str(self._domains.level),
            Amount(*map(int, self._near_loss_sums)),
            len(lost_domain_names),
            tuple(lost_domain_names[:MAX_NAMED_DOMAINS]),
            self._possible_near_loss_count,
        )

    def add(self, windows: Windows, bookie_numbering: BookieNumbers) -> None:
        """Add windows (entries on the same bookies). All windows of a ledger must be in the same call."""
        domain_by_bookie = self._domains.find_domain_numbers(bookie_numbering)
        self._loss_by_domain = pad_sums(self._loss_by_domain, len(self._domains.names), padded_axis=0)
        closed_windows = windows.take(~windows.is_open_end)
        domain_by_copy = domain_by_bookie[closed_windows.bookies].astype(np.int64)
        domain_by_copy[closed_windows.copies == MISSING] = NO_DOMAIN
        unknown_domain_counts = count_true(domain_by_copy == UNKNOWN_DOMAIN)
        # At best each bookie of unknown domain is in a domain of its own, and unknown copies exist.
        min_distance_by_window = _count_domains(domain_by_copy) + unknown_domain_counts
        single_domain_rows = np.flatnonzero(min_distance_by_window == 1)
        # All copies are in one domain. The largest number in the row is that domain, if it is known.
        single_domains = domain_by_copy[single_domain_rows].max(axis=1, initial=NO_DOMAIN)
        is_known_domain = single_domains >= 0
        np.add.at(
            self._loss_by_domain[:, 0],
            single_domains[is_known_domain],
            closed_windows.bytes[single_domain_rows[is_known_domain]],
        )
        np.add.at(
            self._loss_by_domain[:, 1],
            single_domains[is_known_domain],
            closed_windows.entries[single_domain_rows[is_known_domain]],
        )
        is_down_bookie = np.array(
            [*(bookie in self._down_bookies for bookie in bookie_numbering.names), False]
        )
        domain_by_copy[(closed_windows.copies == UNKNOWN) & ~is_down_bookie[closed_windows.bookies]] = (
            NO_DOMAIN
        )
        has_copy = any_true(domain_by_copy != NO_DOMAIN)
        max_distance_by_window = np.maximum(_count_domains(domain_by_copy), has_copy)
        min_distance_by_ledger = np.full(len(windows.equal_ledger_counts), -1, np.int64)
        max_distance_by_ledger = min_distance_by_ledger.copy()
        for distance_by_ledger, distance_by_window in (
            (min_distance_by_ledger, min_distance_by_window),
            (max_distance_by_ledger, max_distance_by_window),
        ):
            distance_by_ledger[closed_windows.ledger] = np.iinfo(np.int64).max
            np.minimum.at(distance_by_ledger, closed_windows.ledger, distance_by_window)
        is_near_loss = closed_windows.any_of_ledger(min_distance_by_window == 1)
        for distance in distinct_values(min_distance_by_ledger[min_distance_by_ledger >= 0]).tolist():
            self._ledgers_by_distance[distance] += int(
                windows.equal_ledger_counts[min_distance_by_ledger == distance].sum()
            )
        self._near_loss_sums += [
            int(windows.equal_ledger_counts[is_near_loss].sum()),
            int(closed_windows.entries[min_distance_by_window == 1].sum()),
            int(closed_windows.bytes[min_distance_by_window == 1].sum()),
        ]
        may_be_near_loss = closed_windows.any_of_ledger(
            (max_distance_by_window <= 1) & (min_distance_by_window > 1)
        )
        self._possible_near_loss_count += int(
            windows.equal_ledger_counts[may_be_near_loss & ~is_near_loss].sum()
        )


def _count_domains(domains: Longs) -> Longs:
    """Return the number of distinct known domains in each row."""
    return count_true(flag_first_of_equal_codes(np.sort(domains, axis=1)))
