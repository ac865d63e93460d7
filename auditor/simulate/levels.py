"""All failures of a level in one pass: each domain alone, the worst sets, and the distance to data loss.

A level is one of bookies, racks and regions. Each bookie, rack or region is a domain. The loss of a set of
domains is the sum over its subsets. For pairs of domains, the worst pairs are exact. A worst pair either has
all copies of some entries, or consists of two of the worst single domains. Larger sets grow from the sets
with most data, by the domain that adds the largest loss. Such sets are the worst found, without proof. The
distance to data loss is the smallest number of domains whose failure loses an entry. One is urgent.
"""

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from itertools import combinations
from math import comb

import numpy as np

from auditor.model.adherence import flag_first_of_equal_codes
from auditor.model.placement import Level, Locations
from auditor.model.simulation import Amount, Bounds, DomainSet, Failure, LevelLoss, NearLoss, Outcome
from auditor.runs.directory import RunDirectory
from auditor.simulate.domains import NO_DOMAIN, UNKNOWN_DOMAIN, Domains, SetSums, pad_sums
from auditor.simulate.loss import (
    BYTES,
    ENTRIES,
    LEDGERS,
    VIEWS,
    SilentBookies,
    WindowOutcome,
    domain_sets,
    failures_by_domain,
    tally,
)
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

SETS_SHOWN = 10
_SEED_SET_COUNT = 200
"""Number of heaviest sets from which larger sets grow."""
_MAX_SETS = 1 << 18
"""Largest number of sets of three or more domains for which all losses are computed, which takes seconds."""


@dataclass(frozen=True, slots=True)
class WeighedSet:
    """A set of domains, and the entries and bytes lost if they all fail."""

    members: tuple[int, ...]
    entries: int
    bytes: int

    @property
    def rank(self) -> tuple[int, int, tuple[int, ...]]:
        """Return a sort key that puts the worst set first."""
        return -self.bytes, -self.entries, self.members


@dataclass(frozen=True, slots=True)
class WorstSets:
    """The worst sets that were found, each with a loss. ``proved`` is whether no worse set can exist.

    ``losing`` is the number of sets that lose an entry, or None if it was not counted.
    """

    sets: tuple[WeighedSet, ...]
    proved: bool
    losing: int | None


def loss(sums: SetSums, members: Iterable[int]) -> WeighedSet:
    """Return the loss of a set of domains: the sum over all its subsets."""
    row = sorted(members)
    entries, bytes = map(int, sums.losses(np.array([row]))[0])
    return WeighedSet(tuple(row), entries, bytes)


def worst_sets(sums: SetSums, size: int, max_sets: int = SETS_SHOWN, max_pairs: int = _MAX_SETS) -> WorstSets:
    """Return the worst sets of ``size`` domains. All sets are compared if there are at most ``max_pairs``.

    >>> sums = SetSums(2, domains=4)
    >>> sums.add(np.array([[0, 1], [2, -1]]), np.array([5, 1]), np.array([50, 20]))
    >>> [(each.members, each.bytes) for each in worst_sets(sums, 2, max_sets=2).sets]
    [((0, 1), 50), ((0, 2), 20)]
    """
    if sums.domains < size:
        return WorstSets((), True, 0)
    if size > 2 and comb(sums.domains, size) <= max_pairs:
        sets = np.array([*combinations(range(sums.domains), size)], np.int64).reshape(-1, size)
        losses = sums.losses(sets)
        worst_rows = np.lexsort((-losses[:, 0], -losses[:, 1]))[:max_sets]
        weighed_sets = [loss(sums, row) for row in sets[worst_rows].tolist()]
        return WorstSets(_select_losing_sets(weighed_sets, max_sets), True, int((losses[:, 0] > 0).sum()))
    rows = sums.sets()
    totals = _add_single_domains(sums, rows)
    heaviest_rows = np.lexsort((np.arange(len(rows)), -totals[:, 0], -totals[:, 1]))[
        : max(_SEED_SET_COUNT, max_sets)
    ]
    worst_singles = [domain_set.members[0] for domain_set in _single_domain_sets(sums)[: max_sets + size]]
    candidates = {
        frozenset(members) for members in combinations(worst_singles, min(size, len(worst_singles)))
    }
    candidates |= {frozenset(domain for domain in row if domain >= 0) for row in rows[heaviest_rows].tolist()}
    grown_sets = {_grow_set(sums, rows, members, size, worst_singles) for members in candidates}
    return WorstSets(
        _select_losing_sets([loss(sums, members) for members in grown_sets], max_sets),
        size <= 2,
        count_losing_sets(sums, size),
    )


def _select_losing_sets(weighed_sets: list[WeighedSet], max_sets: int) -> tuple[WeighedSet, ...]:
    return tuple(
        sorted(
            (domain_set for domain_set in weighed_sets if domain_set.entries),
            key=lambda domain_set: domain_set.rank,
        )[:max_sets]
    )


def count_losing_sets(sums: SetSums, size: int) -> int | None:
    """Return the number of sets of one or two domains that lose an entry. None for a larger ``size``."""
    rows = sums.sets()
    single_domains = rows[(rows >= 0).sum(axis=1) == 1, 0] if size <= 2 else None
    if single_domains is None or size == 1:
        return None if single_domains is None else len(single_domains)
    is_other_pair = ((rows >= 0).sum(axis=1) == 2) & ~np.isin(rows, single_domains).any(axis=1)
    return int(is_other_pair.sum()) + comb(sums.domains, 2) - comb(sums.domains - len(single_domains), 2)


def pair_loss_matrix(sums: SetSums, max_sets: int) -> tuple[list[int], list[list[int]]]:
    """Return the domains with the largest loss, alone or in pairs, and the bytes lost by each pair.

    The bytes are a matrix, with a row and a column for each of these domains.
    """
    domain_bytes = np.zeros(sums.domains + 1, np.int64)
    rows = sums.sets()
    for place in range(rows.shape[1]):
        np.add.at(domain_bytes, rows[:, place], sums.sums[:, 1])
    domains = np.argsort(-domain_bytes[:-1], kind="stable")[:max_sets].tolist()
    return domains, [[loss(sums, frozenset([row, column])).bytes for column in domains] for row in domains]


def _single_domain_sets(sums: SetSums) -> list[WeighedSet]:
    return sorted(
        (loss(sums, frozenset([domain])) for domain in range(sums.domains)), key=lambda ranked: ranked.rank
    )


def _add_single_domains(sums: SetSums, rows: Longs) -> Longs:
    """Return the loss of each row, including the losses of its single domains.

    For pairs that is the whole loss.
    """
    is_single_domain = (rows >= 0).sum(axis=1) == 1
    domain_sums = np.zeros((sums.domains + 1, 2), np.int64)
    domain_sums[rows[is_single_domain, 0]] = sums.sums[is_single_domain]
    totals: Longs = sums.sums + np.where(is_single_domain[:, None], 0, domain_sums[rows].sum(axis=1))
    return totals


def _grow_set(
    sums: SetSums, rows: Longs, members: frozenset[int], size: int, single_domains: list[int]
) -> frozenset[int]:
    """Return a set that was grown to ``size`` domains. Each step adds the domain that adds most loss."""
    while len(members) < min(size, sums.domains):
        set_rows = rows[np.isin(rows, list(members)).any(axis=1)]
        neighbours = {domain for domain in np.unique(set_rows).tolist() if domain >= 0} | {*single_domains}
        candidates = sorted(neighbours - members or set(range(sums.domains)) - members)
        losses = sums.losses(np.array([sorted(members | {domain}) for domain in candidates]))
        members |= {candidates[np.lexsort((-losses[:, 0], -losses[:, 1]))[0]]}
    return members


MAX_NAMED_DOMAINS = 20
"""Largest number of domain names in a `NearLoss`. The failure of each of these domains loses an entry."""


def near_loss(run: RunDirectory, locations: Locations, down: Collection[str] = ()) -> tuple[NearLoss, ...]:
    """Return the data that is one failure from loss, by bookie and, if locations are known, by rack.

    The function makes one pass over the run's ledgers. An unknown copy on a bookie in ``down`` does not count
    as a possible loss, because the table reachability counts the copy. Windows are made only for ledgers with
    a copy that may be missing, or with two adjacent bookies of an ensemble in one domain.

    Raises:
        RunError: a table of the run is missing or broken.
    """
    levels = (Level.BOOKIE, Level.RACK) if locations.has_known_location else (Level.BOOKIE,)
    domains: list[Domains] = []

    def find_near_candidates(segments: SegmentColumns) -> Bools:
        """Flag ledgers with Qw = 1, or with two adjacent bookies that may be in one domain."""
        candidates = segments.any_of_ledger(segments.write_quorum == 1)
        for level_domains in domains:
            domain_of = level_domains.of(windows.numbers)
            has_neighbour = (
                segments.flag_equal_neighbours(domain_of) | (domain_of == UNKNOWN_DOMAIN)[segments.members]
            )
            candidates |= segments.any_of_members(has_neighbour)
        return candidates

    windows = RunWindows(run, merge=False, segment_filter=find_near_candidates)
    domains += [Domains(level, locations, windows.numbers.names) for level in levels]
    sums = [NearLossSums(level_domains, down) for level_domains in domains]
    for window_batch in windows:
        for near_sums in sums:
            near_sums.add(window_batch, windows.numbers)
    return tuple(level_sums.result() for level_sums in sums)


class NearLossSums:
    """Sums of a pass over the windows, for one level.

    ``distance`` counts ledgers by the smallest number of domains whose failure loses an entry.
    """

    def __init__(self, domains: Domains, down: Collection[str] = ()) -> None:
        self._domains = domains
        self._down = frozenset(down)
        self._distance_counts: Counter[int] = Counter()
        self._near_counts = np.zeros(3, np.int64)
        self._bytes_of = np.zeros((0, 2), np.int64)
        self._possibly_near_count = 0

    @property
    def distance(self) -> dict[int, int]:
        """Return the number of ledgers by the number of domains whose failure loses an entry today.

        The number 0 means that an entry is lost already.
        """
        return dict(sorted(self._distance_counts.items()))

    def result(self) -> NearLoss:
        """Return the amounts of data that are one failure from loss."""
        order = np.lexsort((-self._bytes_of[:, 1], -self._bytes_of[:, 0]))
        names = [self._domains.names[column] for column in order.tolist() if self._bytes_of[column, 1]]
        return NearLoss(
            str(self._domains.level),
            Amount(*map(int, self._near_counts)),
            len(names),
            tuple(names[:MAX_NAMED_DOMAINS]),
            self._possibly_near_count,
        )

    def add(self, windows: Windows, numbers: BookieNumbers) -> None:
        """Add windows. All windows of a ledger must be in the same call."""
        domain_of = self._domains.of(numbers)
        self._bytes_of = pad_sums(self._bytes_of, len(self._domains.names), axis=0)
        closed = windows.take(~windows.open_end)
        domains = domain_of[closed.bookies].astype(np.int64)
        domains[closed.copies == MISSING] = NO_DOMAIN
        unknown_counts = count_true(domains == UNKNOWN_DOMAIN)
        # At best each unplaced bookie is a domain of its own, and unknown copies are there.
        min_distances = _count_domains(domains) + unknown_counts
        single_rows = np.flatnonzero(min_distances == 1)
        # The only copies left lie in the one domain that is known of them.
        only_domains = domains[single_rows].max(axis=1, initial=NO_DOMAIN)
        is_placed = only_domains >= 0
        np.add.at(self._bytes_of[:, 0], only_domains[is_placed], closed.bytes[single_rows[is_placed]])
        np.add.at(self._bytes_of[:, 1], only_domains[is_placed], closed.entries[single_rows[is_placed]])
        is_down = np.array([*(name in self._down for name in numbers.names), False])
        domains[(closed.copies == UNKNOWN) & ~is_down[closed.bookies]] = NO_DOMAIN
        has_copy = any_true(domains != NO_DOMAIN)
        max_distances = np.maximum(_count_domains(domains), has_copy)
        least_distances = np.full(len(windows.times), -1, np.int64)
        most_distances = least_distances.copy()
        for min_distance, distances in ((least_distances, min_distances), (most_distances, max_distances)):
            min_distance[closed.ledger] = np.iinfo(np.int64).max
            np.minimum.at(min_distance, closed.ledger, distances)
        is_near = closed.any_of_ledger(min_distances == 1)
        for distance in distinct_values(least_distances[least_distances >= 0]).tolist():
            self._distance_counts[distance] += int(windows.times[least_distances == distance].sum())
        self._near_counts += [
            int(windows.times[is_near].sum()),
            int(closed.entries[min_distances == 1].sum()),
            int(closed.bytes[min_distances == 1].sum()),
        ]
        may_be_near = closed.any_of_ledger((max_distances <= 1) & (min_distances > 1))
        self._possibly_near_count += int(windows.times[may_be_near & ~is_near].sum())


def _count_domains(domains: Longs) -> Longs:
    """Return the number of different known domains in each row."""
    return count_true(flag_first_of_equal_codes(np.sort(domains, axis=1)))


def levels_of(locations: Locations, bookies: list[str]) -> list[Level]:
    """Return the levels to simulate: bookies, and if locations are known, also racks and regions.

    Regions are a level only if there are several regions, and fewer regions than racks.
    """
    levels = [Level.BOOKIE]
    if locations.has_known_location:
        levels.append(Level.RACK)
        regions = {locations.domain(bookie, Level.REGION) for bookie in bookies} - {None}
        racks = {locations.domain(bookie, Level.RACK) for bookie in bookies} - {None}
        if len(regions) < len(racks) and len(regions) > 1:
            levels.append(Level.REGION)
    return levels


class LevelSums:
    """Sums of a pass over the windows, for one level. The result compares sets of ``set_size`` domains."""

    def __init__(self, level: Level, locations: Locations, bookies: list[str], set_size: int = 2) -> None:
        self.domains = Domains(level, locations, bookies)
        self.set_size = set_size
        self._outcome_sums = np.zeros((len(VIEWS), 0, len(WindowOutcome), 3), np.int64)
        self._near_sums = NearLossSums(self.domains)
        self._sets_by_view: dict[bool, SetSums] = {}

    def add(self, windows: Windows, numbers: BookieNumbers, cluster: SilentBookies) -> None:
        """Add windows. All windows of a ledger must be in the same call."""
        domain_of = self.domains.of(numbers)
        domain_count = len(self.domains.names)
        rows, effect, failed_domains = failures_by_domain(windows, domain_of)
        self._outcome_sums = pad_sums(self._outcome_sums, domain_count, axis=1)
        self._outcome_sums += tally(rows, effect, failed_domains, domain_count, cluster)
        self._near_sums.add(windows, numbers)
        is_lacking = any_true(windows.copies == MISSING)
        # What lacks nothing is today as it was promised.
        for is_in_part, today_flags in (
            (~is_lacking, (False, True)),
            (is_lacking, (False,)),
            (is_lacking, (True,)),
        ):
            part = windows.take(is_in_part)
            window_rows, members = domain_sets(part, domain_of, today_flags[0], self.set_size)
            for is_today in today_flags:
                sets = self._sets_by_view.setdefault(is_today, SetSums(self.set_size, max(domain_count, 1)))
                sets.add(members, part.entries[window_rows], part.bytes[window_rows])

    def result(self, bookies: list[str]) -> LevelLoss:
        """Return the losses of the level, once all windows have been added."""
        names = self.domains.names
        sizes = Counter(self.domains.locations.domain(bookie, self.domains.level) for bookie in bookies)
        single_failures = sorted(
            (
                Failure(
                    str(self.domains.level), (name,), sizes[name], *bounds_of(self._outcome_sums[:, number])
                )
                for number, name in enumerate(names)
            ),
            key=lambda failure: (*_severity(failure.today), *_severity(failure.promise), failure.names),
        )
        empty_sets = SetSums(self.set_size, max(len(names), 1))
        guaranteed_sets, sets = (self._sets_by_view.get(is_today, empty_sets) for is_today in (False, True))
        worst = worst_sets(sets, self.set_size)
        return LevelLoss(
            str(self.domains.level),
            len(names),
            self.domains.unplaced(bookies),
            tuple(single_failures),
            self._near_sums.distance,
            self._near_sums.result(),
            self.set_size,
            tuple(self._domain_set(weighed_set, guaranteed_sets) for weighed_set in worst.sets),
            worst.proved,
            worst.losing,
            comb(len(names), self.set_size),
        )

    def _domain_set(self, loss_set: WeighedSet, guaranteed_sets: SetSums) -> DomainSet:
        guaranteed = loss(guaranteed_sets, loss_set.members)
        names = tuple(self.domains.names[member] for member in loss_set.members)
        return DomainSet(names, guaranteed.entries, guaranteed.bytes, loss_set.entries, loss_set.bytes)


def bounds_of(sums: Longs) -> tuple[Bounds, Bounds]:
    """Return the bounds of the loss by metadata and by index. ``sums`` has the axes view, fate and unit."""
    guaranteed, possible_guaranteed, current, possible_current = map(_make_outcome, sums)
    return Bounds(guaranteed, possible_guaranteed), Bounds(current, possible_current)


def _make_outcome(sums: Longs) -> Outcome:
    lost_sums, below_ack_sums, below_write_sums = (
        Amount(*(int(sums[outcome, unit]) for unit in (LEDGERS, ENTRIES, BYTES)))
        for outcome in (WindowOutcome.LOST, WindowOutcome.BELOW_ACK_QUORUM, WindowOutcome.BELOW_WRITE_QUORUM)
    )
    return Outcome(lost_sums, below_ack_sums, below_write_sums, int(sums[WindowOutcome.OPEN_END, LEDGERS]))


def _severity(bounds: Bounds) -> tuple[int, ...]:
    """Return a sort key that puts the worst failures first: by loss, unrecoverable ledgers, and quorums."""
    certain_loss, possible_loss = bounds.sure, bounds.possible
    return (
        -certain_loss.lost.bytes, -certain_loss.lost.entries, -certain_loss.unrecoverable,
        -possible_loss.lost.bytes, -certain_loss.below_ack.bytes, -certain_loss.below_write.bytes,
    )  # fmt: skip
