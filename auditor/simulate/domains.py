"""Failure domains (bookies, racks or regions) with their numbers, sums over domains, and copysets.

A copyset is a set of bookies that together have all copies of some entry (Cidon and others, USENIX ATC 2013).
Let C be the number of copysets of size R, among N bookies. k random failures contain m = C(k, R) sets of that
size. The probability that none of these is a copyset is about (1 - C / C(N, R)) ** m. This is exact for k =
R, and otherwise assumes random copysets. A copyset is lost if all its bookies fail before the first is
repaired. The mean time until then is about mu ** (R - 1) / (R! lambda ** R), with lambda = 1 / MTTF and mu =
1 / MTTR. The rate of the cluster is the sum of the rates of all copysets.
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
    """The failure domains of one level, with a number for each. New domains get the next number."""

    def __init__(self, level: Level, locations: Locations, bookies: Sequence[str] = ()) -> None:
        self.level = level
        self.locations = locations
        domain_names = {locations.domain(bookie, level) for bookie in bookies}
        self._numbers = BookieNumbers(
            sorted(domain_name for domain_name in domain_names if domain_name is not None)
        )

    @property
    def names(self) -> list[str]:
        """Return the names of the domains. The index of a name is the domain's number."""
        return self._numbers.names

    def find_domain_numbers(self, bookie_numbering: BookieNumbers) -> Longs:
        """Return the domain number of each bookie. It is `UNKNOWN_DOMAIN` if the domain is not known.

        The array has one more element at the end, `NO_DOMAIN`. It is for positions in `Windows.bookies` that
        have no bookie.
        """
        domain_names = [self.locations.domain(bookie, self.level) for bookie in bookie_numbering.names]
        has_domain = np.array([domain_name is not None for domain_name in domain_names], bool)
        domain_by_bookie = np.full(len(domain_names) + 1, UNKNOWN_DOMAIN, np.int64)
        domain_by_bookie[-1] = NO_DOMAIN
        domain_by_bookie[:-1][has_domain] = self._numbers.number_names(
            pa.array([domain_name for domain_name in domain_names if domain_name], pa.string())
        )
        return domain_by_bookie

    def find_unplaced_bookies(self, bookies: Sequence[str]) -> tuple[str, ...]:
        """Return the bookies whose domain is unknown."""
        return tuple(
            sorted(bookie for bookie in bookies if self.locations.domain(bookie, self.level) is None)
        )

    def find_full_names(self, names: Sequence[str]) -> list[str]:
        """Return the full names of the domains in ``names``. The slash before a rack's name may be missing.

        Raises:
            UsageError: there is no such domain. The message lists existing domains.
        """
        if not names:
            raise UsageError(f"--lose {self.level}: give one name, or several separated by commas")
        names_without_slashes = {name.strip("/"): name for name in self.names}
        full_names = []
        for requested_name in names:
            if requested_name not in self.names and requested_name.strip("/") not in names_without_slashes:
                unknown_text = f"no such {self.level}; known: {first_names(self.names, 5)}"
                problem_text = (
                    unknown_text if self.names else "the run has no locations of bookies; pass --racks FILE"
                )
                raise UsageError(f"--lose {self.level} {requested_name}: {problem_text}")
            full_names.append(
                requested_name
                if requested_name in self.names
                else names_without_slashes[requested_name.strip("/")]
            )
        return full_names


def flag_domain_members(
    names: Sequence[str], domains: Domains, bookie_numbering: BookieNumbers
) -> tuple[Bools, Bools]:
    """Return two flags for each bookie: it is in a domain in ``names``, and its domain is unknown.

    A bookie with an unknown domain may be in one of the named domains.
    """
    domain_numbers = [domains.names.index(name) for name in names]
    domain_by_bookie = domains.find_domain_numbers(bookie_numbering)
    return np.isin(domain_by_bookie, domain_numbers), domain_by_bookie == UNKNOWN_DOMAIN


def pad_sums(sums: Longs, padded_size: int, padded_axis: int) -> Longs:
    """Return an array of sums, padded with zeros to ``padded_size`` along one axis.

    >>> pad_sums(np.ones((1, 2), np.int64), 3, padded_axis=1).tolist()
    [[1, 1, 0]]
    """
    padding_size = max(padded_size - sums.shape[padded_axis], 0)
    return np.pad(
        sums, [(0, padding_size if axis_number == padded_axis else 0) for axis_number in range(sums.ndim)]
    )


class SetSums:
    """Sums of entries and bytes, by the set of domains that have all copies of these entries.

    Args:
        max_set_size: Largest number of domains in a set.
        domain_count: Number of domains.

    Raises:
        UsageError: sets of that size do not fit into 64-bit keys.
    """

    def __init__(self, max_set_size: int, domain_count: int) -> None:
        self.max_domains, self.all_domains = max_set_size, domain_count
        self._key_base = domain_count + 1
        if self._key_base**max_set_size >= 1 << 63:
            raise UsageError(
                f"--any {max_set_size}: too many sets of {domain_count:,} domains; use a smaller number"
            )
        self._keys = np.zeros(0, np.int64)
        self.amounts_by_set = np.zeros((0, 2), np.int64)

    def add(self, domain_sets: Longs, entries: Longs, bytes: Longs) -> None:
        """Add entries and bytes, one number a row, to the sums of the sets of domains in ``sets``.

        A row has the set's domain numbers in ascending order, filled up with -1.
        """
        set_keys = np.concatenate([self._keys, self._set_keys(domain_sets)])
        amounts = np.concatenate([self.amounts_by_set, np.stack([entries, bytes], axis=1)])
        self._keys, key_numbers = np.unique(set_keys, return_inverse=True)
        self.amounts_by_set = np.zeros((len(self._keys), 2), np.int64)
        np.add.at(self.amounts_by_set, key_numbers, amounts)

    def find_sets(self) -> Longs:
        """Return the set of each row of ``amounts_by_set``: ascending domain numbers, filled up with -1."""
        remaining_keys, domain_columns = self._keys, []
        for _ in range(self.max_domains):
            remaining_keys, domain_digits = np.divmod(remaining_keys, self._key_base)
            domain_columns.append(domain_digits - 1)
        return np.stack(domain_columns[::-1], axis=1)

    def sum_losses(self, domain_sets: Longs) -> Longs:
        """Return the entries and bytes lost for each row of ``sets``, if all domains of the row fail."""
        losses = np.zeros((len(domain_sets), 2), np.int64)
        for subset_size in range(1, min(self.max_domains, domain_sets.shape[1]) + 1):
            for subset_columns in combinations(range(domain_sets.shape[1]), subset_size):
                subset_rows = np.full((len(domain_sets), self.max_domains), -1, np.int64)
                subset_rows[:, :subset_size] = domain_sets[:, subset_columns]
                subset_keys = self._set_keys(subset_rows)
                key_rows = np.minimum(np.searchsorted(self._keys, subset_keys), max(len(self._keys) - 1, 0))
                is_known_set = (
                    self._keys[key_rows] == subset_keys
                    if len(self._keys)
                    else np.zeros(len(subset_keys), bool)
                )
                losses[is_known_set] += self.amounts_by_set[key_rows[is_known_set]]
        return losses

    def _set_keys(self, domain_sets: Longs) -> Longs:
        set_keys = np.zeros(len(domain_sets), np.int64)
        for set_column in range(self.max_domains):
            set_keys = set_keys * self._key_base + domain_sets[:, set_column] + 1
        return set_keys


MTTF_DAYS, MTTR_HOURS = 3 * 365.0, 24.0
_FAILED_BOOKIE_COUNTS = (2, 3)
_HOURS_PER_YEAR = 24 * 365.0


class CopysetSums:
    """All distinct copysets, and the pairs of bookies that have a copyset in common.

    A copyset is a set of bookies that together have all copies of some entry. Each copyset is stored as a
    64-bit number. The number contains all bookies of the copyset if they fit into 64 bits. Otherwise the
    number is a hash.
    """

    def __init__(self, bookie_count: int) -> None:
        self._key_base = np.uint64(max(bookie_count + 1, 2) | 1)
        self._keys_by_size: dict[int, list[np.ndarray[tuple[int], np.dtype[np.uint64]]]] = {}
        self._shared_set_flags = np.zeros((bookie_count, bookie_count), np.int64)

    def add(self, windows: Windows, bookie_numbering: BookieNumbers) -> None:
        """Add the copyset of each window: the set of bookies that have its copies according to the metadata.

        Windows in the last segment of a ledger that is not closed count too.
        """
        for padded_axis in (0, 1):
            self._shared_set_flags = pad_sums(self._shared_set_flags, len(bookie_numbering), padded_axis)
        sorted_bookies = np.sort(windows.bookies, axis=1)
        is_first_of_value = flag_first_of_equal_codes(sorted_bookies)
        copyset_sizes = count_true(is_first_of_value)
        copyset_keys = np.zeros(len(sorted_bookies), np.uint64)
        for key_column in range(sorted_bookies.shape[1]):
            extended_keys = copyset_keys * self._key_base + (sorted_bookies[:, key_column] + 1).astype(
                np.uint64
            )
            copyset_keys = np.where(is_first_of_value[:, key_column], extended_keys, copyset_keys)
        for copyset_size in distinct_values(copyset_sizes).tolist():
            copyset_key_arrays = self._keys_by_size.setdefault(copyset_size, [])
            copyset_key_arrays.append(distinct_values(copyset_keys[copyset_sizes == copyset_size]))
            if (
                sum(map(len, copyset_key_arrays)) > 4 * len(copyset_key_arrays[0])
                or len(copyset_key_arrays) > 16
            ):
                copyset_key_arrays[:] = [distinct_values(np.concatenate(copyset_key_arrays))]
        for key_column in range(1, sorted_bookies.shape[1]):
            for earlier_column in range(key_column):
                is_pair_of_bookies = (sorted_bookies[:, earlier_column] != NO_BOOKIE) & (
                    sorted_bookies[:, earlier_column] != sorted_bookies[:, key_column]
                )
                self._shared_set_flags[
                    sorted_bookies[is_pair_of_bookies, earlier_column],
                    sorted_bookies[is_pair_of_bookies, key_column],
                ] = 1

    def result(self, mttf_days: float = MTTF_DAYS, mttr_hours: float = MTTR_HOURS) -> Copysets:
        """Return figures about copysets (bookies with all copies of an entry), once all windows are added."""
        copyset_counts_by_size = {
            copyset_size: len(distinct_values(np.concatenate(copyset_key_arrays)))
            for copyset_size, copyset_key_arrays in sorted(self._keys_by_size.items())
        }
        shared_set_flags = self._shared_set_flags | self._shared_set_flags.T
        has_copyset = any_true(shared_set_flags > 0)
        bookie_count = int(has_copyset.sum()) if len(has_copyset) else 0
        partner_counts: Longs = shared_set_flags.sum(axis=1)[has_copyset]
        min_partner_count, mean_partner_count, max_partner_count = (
            (partner_counts.min(), partner_counts.mean(), partner_counts.max())
            if bookie_count
            else (0, 0.0, 0)
        )
        loss_chances = {
            failed_count: find_loss_chance(copyset_counts_by_size, len(has_copyset), failed_count)
            for failed_count in _FAILED_BOOKIE_COUNTS
        }
        return Copysets(
            copyset_counts_by_size, len(has_copyset),
            int(min_partner_count), float(mean_partner_count), int(max_partner_count), loss_chances,
            find_years_to_loss(copyset_counts_by_size, mttf_days, mttr_hours), mttf_days, mttr_hours,
        )  # fmt: skip


def find_loss_chance(copyset_counts_by_size: dict[int, int], bookie_count: int, failed_count: int) -> float:
    """Return the probability that ``failed_count`` random bookies have all copies of some entry.

    ``copyset_counts_by_size`` has the number of copysets (sets of bookies that have all copies of an entry)
    by size.

    >>> find_loss_chance({3: 1}, 3, 3), find_loss_chance({2: 3}, 4, 2), find_loss_chance({3: 100}, 500, 2)
    (1.0, 0.5, 0.0)
    """
    survival_chance = 1.0
    for copyset_size, copyset_count in copyset_counts_by_size.items():
        if 0 < copyset_size <= failed_count <= bookie_count:
            set_count = comb(bookie_count, copyset_size)
            # All sets differ: after each set that is no copyset, one set less remains to choose from.
            for excluded_set_count in range(min(comb(failed_count, copyset_size), set_count)):
                survival_chance *= max(1 - copyset_count / (set_count - excluded_set_count), 0.0)
    return 1.0 - survival_chance


def find_years_to_loss(
    copyset_counts_by_size: dict[int, int], mttf_days: float, mttr_hours: float
) -> float | None:
    """Return the mean time to data loss in years. None if there is no copyset.

    A copyset is a set of bookies that together have all copies of some entry. ``copyset_counts_by_size`` has
    the number of copysets by size.

    >>> round(find_years_to_loss({1: 1}, 365.0, 24.0), 3)
    1.0
    """
    failure_rate, repair_rate = 1 / (mttf_days * 24), 1 / mttr_hours
    loss_rate = sum(
        copyset_count
        * factorial(copyset_size)
        * failure_rate**copyset_size
        / repair_rate ** (copyset_size - 1)
        for copyset_size, copyset_count in copyset_counts_by_size.items()
        if copyset_size
    )
    return 1 / loss_rate / _HOURS_PER_YEAR if loss_rate else None
