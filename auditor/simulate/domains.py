"""Failure domains (bookies, racks or regions) with their numbers, sums over domains, and copysets.

A copyset is a set of bookies that together have all copies of some entry (Cidon and others, USENIX ATC 2013).
Let C be the number of copysets of size R, among N bookies. k random failures contain m = C(k, R) sets of that
size. The probability that none of these is a copyset is about (1 - C / C(N, R)) ** m. This is exact for k =
R, and otherwise assumes random copysets. The mean time until all bookies of a copyset fail before the first
is repaired is about mu ** (R - 1) / (R! lambda ** R), with lambda = 1 / MTTF and mu = 1 / MTTR. The rate
of the cluster is the sum of the rates of all copysets.
"""

from collections.abc import Sequence
from itertools import combinations
from math import comb, factorial

import numpy as np

from auditor.errors import UsageError
from auditor.model.adherence import flag_first_of_equal_codes
from auditor.model.amounts import first_names
from auditor.model.arrow import pa
from auditor.model.placement import Level, Locations
from auditor.model.simulation import Copysets
from auditor.simulate.windows import (
    NO_BOOKIE,
    BookieNumbers,
    Bools,
    Longs,
    Windows,
    any_true,
    count_true,
    distinct_values,
)

UNKNOWN_DOMAIN = -1
NO_DOMAIN = -2


class Domains:
    """The domains of one level, numbered. The numbers follow the order of first use."""

    def __init__(self, level: Level, locations: Locations, bookies: Sequence[str] = ()) -> None:
        self.level = level
        self.locations = locations
        names = {locations.domain(bookie, level) for bookie in bookies}
        self._numbers = BookieNumbers(sorted(name for name in names if name is not None))

    @property
    def names(self) -> list[str]:
        """Return the names of the domains. The index of a name is the domain's number."""
        return self._numbers.names

    def of(self, numbers: BookieNumbers) -> Longs:
        """Return the domain number of each bookie: `UNKNOWN_DOMAIN` if unknown.

        A last element, `NO_DOMAIN`, stands for no bookie.
        """
        names = [self.locations.domain(bookie, self.level) for bookie in numbers.names]
        has_domain = np.array([name is not None for name in names], bool)
        domains = np.full(len(names) + 1, UNKNOWN_DOMAIN, np.int64)
        domains[-1] = NO_DOMAIN
        domains[:-1][has_domain] = self._numbers.of(pa.array([name for name in names if name], pa.string()))
        return domains

    def unplaced(self, bookies: Sequence[str]) -> tuple[str, ...]:
        """Return the bookies whose domain is unknown."""
        return tuple(sorted(name for name in bookies if self.locations.domain(name, self.level) is None))

    def named(self, names: Sequence[str]) -> list[str]:
        """Return the full names of the domains in ``names``, in which the slash of a rack may be missing.

        Raises:
            UsageError: there is no such domain. The message lists existing domains.
        """
        if not names:
            raise UsageError(f"--lose {self.level}: give one name, or several separated by commas")
        names_without_slashes = {name.strip("/"): name for name in self.names}
        domains = []
        for name in names:
            if name not in self.names and name.strip("/") not in names_without_slashes:
                unknown_text = f"there is no such {self.level}; known: {first_names(self.names, 5)}"
                reason = (
                    unknown_text if self.names else "the run has no locations of bookies; pass --racks FILE"
                )
                raise UsageError(f"--lose {self.level} {name}: {reason}")
            domains.append(name if name in self.names else names_without_slashes[name.strip("/")])
        return domains


def flag_domain_members(
    names: Sequence[str], domains: Domains, numbers: BookieNumbers
) -> tuple[Bools, Bools]:
    """Return two flags per bookie: whether it is in a domain of ``names``, and whether its domain is unknown.

    A bookie with an unknown domain may be in a domain of ``names``.
    """
    domain_numbers = [domains.names.index(name) for name in names]
    domain_of = domains.of(numbers)
    return np.isin(domain_of, domain_numbers), domain_of == UNKNOWN_DOMAIN


def pad_sums(sums: Longs, size: int, axis: int) -> Longs:
    """Return the sums padded with zeros to ``size`` along one axis.

    >>> pad_sums(np.ones((1, 2), np.int64), 3, axis=1).tolist()
    [[1, 1, 0]]
    """
    missing_count = max(size - sums.shape[axis], 0)
    return np.pad(sums, [(0, missing_count if place == axis else 0) for place in range(sums.ndim)])


class SetSums:
    """Sums of entries and bytes by the set of domains that have their copies, one row for each set.

    ``most`` is the largest size of a set. ``domains`` is the number of domains.

    Raises:
        UsageError: sets of that size do not fit into 64-bit keys.
    """

    def __init__(self, max_set_size: int, domains: int) -> None:
        self.most, self.domains = max_set_size, domains
        self._base = domains + 1
        if self._base**max_set_size >= 1 << 63:
            raise UsageError(f"--any {max_set_size}: too many sets of {domains:,} domains; ask for fewer")
        self._keys = np.zeros(0, np.int64)
        self.sums = np.zeros((0, 2), np.int64)

    def add(self, sets: Longs, entries: Longs, bytes: Longs) -> None:
        """Add rows of domain numbers in ascending order, filled up with -1."""
        keys = np.concatenate([self._keys, self._set_keys(sets)])
        sums = np.concatenate([self.sums, np.stack([entries, bytes], axis=1)])
        self._keys, key_positions = np.unique(keys, return_inverse=True)
        self.sums = np.zeros((len(self._keys), 2), np.int64)
        np.add.at(self.sums, key_positions, sums)

    def sets(self) -> Longs:
        """Return the set of each row of ``sums``, as domain numbers in ascending order, filled up with -1."""
        keys, domain_columns = self._keys, []
        for _ in range(self.most):
            keys, domain_codes = np.divmod(keys, self._base)
            domain_columns.append(domain_codes - 1)
        return np.stack(domain_columns[::-1], axis=1)

    def losses(self, sets: Longs) -> Longs:
        """Return the entries and bytes lost if all domains of a row fail, for each row of ``sets``."""
        losses = np.zeros((len(sets), 2), np.int64)
        for size in range(1, min(self.most, sets.shape[1]) + 1):
            for member_places in combinations(range(sets.shape[1]), size):
                subset_rows = np.full((len(sets), self.most), -1, np.int64)
                subset_rows[:, :size] = sets[:, member_places]
                subset_keys = self._set_keys(subset_rows)
                key_positions = np.minimum(
                    np.searchsorted(self._keys, subset_keys), max(len(self._keys) - 1, 0)
                )
                is_known_set = (
                    self._keys[key_positions] == subset_keys
                    if len(self._keys)
                    else np.zeros(len(subset_keys), bool)
                )
                losses[is_known_set] += self.sums[key_positions[is_known_set]]
        return losses

    def _set_keys(self, sets: Longs) -> Longs:
        keys = np.zeros(len(sets), np.int64)
        for place in range(self.most):
            keys = keys * self._base + sets[:, place] + 1
        return keys


MTTF_DAYS, MTTR_HOURS = 3 * 365.0, 24.0
_FAILED_COUNTS = (2, 3)
_HOURS_A_YEAR = 24 * 365.0


class CopysetSums:
    """The different copysets, 8 bytes each, and the pairs of bookies that have a copyset in common.

    A copyset is stored as a 64-bit number. The number is exact if the numbers of the copyset's bookies fit
    into it; otherwise it is a hash.
    """

    def __init__(self, bookies: int) -> None:
        self._base = np.uint64(max(bookies + 1, 2) | 1)
        self._keys_of_size: dict[int, list[np.ndarray[tuple[int], np.dtype[np.uint64]]]] = {}
        self._partners = np.zeros((bookies, bookies), np.int64)

    def add(self, windows: Windows, numbers: BookieNumbers) -> None:
        """Add the copysets of windows, as the metadata gives them. Windows of open ends count too."""
        for axis in (0, 1):
            self._partners = pad_sums(self._partners, len(numbers), axis)
        sorted_bookies = np.sort(windows.bookies, axis=1)
        is_first_of_value = flag_first_of_equal_codes(sorted_bookies)
        sizes = count_true(is_first_of_value)
        keys = np.zeros(len(sorted_bookies), np.uint64)
        for key_positions in range(sorted_bookies.shape[1]):
            extended_keys = keys * self._base + (sorted_bookies[:, key_positions] + 1).astype(np.uint64)
            keys = np.where(is_first_of_value[:, key_positions], extended_keys, keys)
        for size in distinct_values(sizes).tolist():
            copysets = self._keys_of_size.setdefault(size, [])
            copysets.append(distinct_values(keys[sizes == size]))
            if sum(map(len, copysets)) > 4 * len(copysets[0]) or len(copysets) > 16:
                copysets[:] = [distinct_values(np.concatenate(copysets))]
        for key_positions in range(1, sorted_bookies.shape[1]):
            for earlier_place in range(key_positions):
                is_pair = (sorted_bookies[:, earlier_place] != NO_BOOKIE) & (
                    sorted_bookies[:, earlier_place] != sorted_bookies[:, key_positions]
                )
                self._partners[
                    sorted_bookies[is_pair, earlier_place], sorted_bookies[is_pair, key_positions]
                ] = 1

    def result(self, mttf_days: float = MTTF_DAYS, mttr_hours: float = MTTR_HOURS) -> Copysets:
        """Return the figures about copysets, once all windows have been added."""
        sizes = {
            size: len(distinct_values(np.concatenate(copysets)))
            for size, copysets in sorted(self._keys_of_size.items())
        }
        partners = self._partners | self._partners.T
        has_partner = any_true(partners > 0)
        bookie_count = int(has_partner.sum()) if len(has_partner) else 0
        partner_counts: Longs = partners.sum(axis=1)[has_partner]
        min_width, mean_width, max_width = (
            (partner_counts.min(), partner_counts.mean(), partner_counts.max())
            if bookie_count
            else (0, 0.0, 0)
        )
        chance = {
            failed_count: chance_of_loss(sizes, len(has_partner), failed_count)
            for failed_count in _FAILED_COUNTS
        }
        return Copysets(
            sizes, len(has_partner), int(min_width), float(mean_width), int(max_width), chance,
            years_to_loss(sizes, mttf_days, mttr_hours), mttf_days, mttr_hours,
        )  # fmt: skip


def chance_of_loss(sizes: dict[int, int], bookies: int, failed_count: int) -> float:
    """Return the probability that ``failed_count`` random bookies have all copies of some entry.

    ``sizes`` has the number of copysets by size.

    >>> chance_of_loss({3: 1}, 3, 3), chance_of_loss({2: 3}, 4, 2), chance_of_loss({3: 100}, 500, 2)
    (1.0, 0.5, 0.0)
    """
    survival_chance = 1.0
    for size, copysets in sizes.items():
        if 0 < size <= failed_count <= bookies:
            set_count = comb(bookies, size)
            # Copysets differ: of each set that is none of them there is one less to choose from.
            for number in range(min(comb(failed_count, size), set_count)):
                survival_chance *= max(1 - copysets / (set_count - number), 0.0)
    return 1.0 - survival_chance


def years_to_loss(sizes: dict[int, int], mttf_days: float, mttr_hours: float) -> float | None:
    """Return the mean time to data loss in years, for ranking clusters. None if there is no copyset.

    ``sizes`` has the number of copysets by size.

    >>> round(years_to_loss({1: 1}, 365.0, 24.0), 3)
    1.0
    """
    failure_rate, repair_rate = 1 / (mttf_days * 24), 1 / mttr_hours
    loss_rate = sum(
        count * factorial(size) * failure_rate**size / repair_rate ** (size - 1)
        for size, count in sizes.items()
        if size
    )
    return 1 / loss_rate / _HOURS_A_YEAR if loss_rate else None
