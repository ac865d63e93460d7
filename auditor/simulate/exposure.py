"""Data that depends on a single bookie: last known copies, last served copies, and open ledgers.

A copy is known if the bookie's index shows it. It is served if the bookie is also registered. If other
copies are unknown, it is possible but not certain that a copy is the last one. A possible last copy is
enough to place a hold on the bookie. The hold forbids actions.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from auditor.model.exposure import BookieExposure
from auditor.runs.directory import RunDirectory
from auditor.simulate.run_windows import RunWindows
from auditor.simulate.windows import (
    NO_BOOKIE,
    PRESENT,
    UNKNOWN,
    BookieNumbers,
    Bools,
    SegmentColumns,
    Windows,
    count_true,
)

_COUNT_NAMES = (
    *("last_known", "last_known_possible", "last_known_degraded"),
    *("last_served", "last_served_possible", "last_served_degraded"),
    "open_ledgers",
)


class ExposureSums:
    """Sums of `BookieExposure` (data that depends on a single bookie) over batches of windows.

    A window consists of the entries on the same set of bookies (`auditor.simulate.windows`).
    ``registered_bookies_or_none`` has the registered bookies. It is None if registrations were not read.
    All bookies then count as registered.
    """

    def __init__(self, registered_bookies_or_none: frozenset[str] | None) -> None:
        self._registered = registered_bookies_or_none
        self._sums: dict[str, np.ndarray[tuple[int], np.dtype[np.int64]]] = {}

    def may_have_exposure(self, segments: SegmentColumns, bookie_numbering: BookieNumbers) -> Bools:
        """Flag ledgers that may depend on a single bookie.

        Such a ledger is not closed, has a write quorum of 1, or has a member that is not registered.
        """
        may_depend_on_bookie = segments.any_of_ledger(~segments.is_closed | (segments.write_quorum == 1))
        if self._registered is not None:
            is_bookie_down = np.array(
                [bookie not in self._registered for bookie in bookie_numbering.names], bool
            )
            may_depend_on_bookie |= segments.any_of_members(is_bookie_down[segments.members])
        return may_depend_on_bookie

    def add(self, windows: Windows, bookie_numbering: BookieNumbers) -> None:
        """Add windows (entries on the same bookies). All windows of a ledger must be in the same call."""
        bookie_names = bookie_numbering.names
        for count_name in _COUNT_NAMES:
            sums = self._sums.setdefault(count_name, np.zeros(0, np.int64))
            self._sums[count_name] = np.concatenate([sums, np.zeros(len(bookie_names) - len(sums), np.int64)])
        is_member = windows.bookies != NO_BOOKIE
        self._count_flags("open_ledgers", windows, is_member & windows.is_open_end[:, None])
        is_copy_present, is_copy_unknown, is_copy_served = self.flag_copies(windows, bookie_numbering)
        self._add_last_copies(windows, is_copy_present, is_copy_unknown, "last_known")
        # A window of an open end counts if only one registered bookie may have its entries.
        is_in_open_end = _flag_open_end_members(windows) & is_copy_served
        is_single_copy = is_in_open_end & (count_true(is_in_open_end) == 1)[:, None]
        self._add_last_copies(
            windows,
            is_copy_present & is_copy_served,
            is_copy_unknown & is_copy_served | is_single_copy,
            "last_served",
        )

    def flag_copies(self, windows: Windows, bookie_numbering: BookieNumbers) -> tuple[Bools, Bools, Bools]:
        """Return three arrays of flags: copy is known, copy is unknown, bookie of the copy is registered.

        Each array has the shape of ``windows.bookie_names``. Copies in the last segment of a ledger that is
        not closed are flagged neither as known nor as unknown.
        """
        bookie_names = bookie_numbering.names
        is_registered = np.array(
            [self._registered is None or bookie in self._registered for bookie in bookie_names] + [False]
        )
        is_closed_member = (windows.bookies != NO_BOOKIE) & ~windows.is_open_end[:, None]
        is_copy_present, is_copy_unknown = (
            is_closed_member & (windows.copies == PRESENT),
            is_closed_member & (windows.copies == UNKNOWN),
        )
        return is_copy_present, is_copy_unknown, is_registered[windows.bookies]

    def _add_last_copies(
        self, windows: Windows, is_copy_present: Bools, is_copy_unknown: Bools, count_name: str
    ) -> None:
        is_single_copy = (count_true(is_copy_present) == 1) & (count_true(is_copy_unknown) == 0)
        self._count_flags(count_name, windows, is_copy_present & is_single_copy[:, None])
        is_possibly_last = flag_possible_last_copies(is_copy_present, is_copy_unknown)
        self._count_flags(f"{count_name}_possible", windows, is_possibly_last)
        is_replicated_window = count_true(windows.bookies != NO_BOOKIE) > 1
        self._count_flags(f"{count_name}_degraded", windows, is_possibly_last & is_replicated_window[:, None])

    def _count_flags(self, count_name: str, windows: Windows, copy_is_flagged: Bools) -> None:
        """Count, for each bookie, the ledgers with a flagged copy on it. Add the counts to ``_sums``."""
        window_rows, copy_columns = np.nonzero(copy_is_flagged)
        if not len(window_rows):
            return
        sums = self._sums[count_name]
        ledger_bookie_pairs = np.unique(
            windows.ledger[window_rows] * len(sums) + windows.bookies[window_rows, copy_columns]
        )
        ledger_numbers, bookie_numbers = np.divmod(ledger_bookie_pairs, len(sums))
        np.add.at(sums, bookie_numbers, windows.equal_ledger_counts[ledger_numbers])

    def result(self, bookie_numbering: BookieNumbers) -> tuple[BookieExposure, ...]:
        """Return the bookies that have, or may have, data that no other bookie has, sorted by bookie id."""
        counts_of_bookies = zip(
            bookie_numbering.names,
            *(self._sums.get(name, np.zeros(0)).tolist() for name in _COUNT_NAMES),
            strict=False,
        )
        bookie_exposures = (
            BookieExposure(name, *map(int, counts_of_bookie)) for name, *counts_of_bookie in counts_of_bookies
        )
        return tuple(
            sorted(
                (exposure for exposure in bookie_exposures if exposure.is_exposed),
                key=lambda row: row.bookie_id,
            )
        )


def _flag_open_end_members(windows: Windows) -> Bools:
    """Flag the bookies of unclosed last segments. They may have entries that the metadata does not count."""
    members: Bools = (windows.bookies != NO_BOOKIE) & windows.is_open_end[:, None]
    return members


def flag_possible_last_copies(is_copy_present: Bools, is_copy_unknown: Bools) -> Bools:
    """Flag the copies that may be the last ones of their windows.

    If exactly one copy is known, it is flagged. If no copy is known, every unknown copy is flagged.
    """
    known_count = count_true(is_copy_present)
    is_last_copy: Bools = np.where(
        (known_count == 1)[:, None], is_copy_present, is_copy_unknown & (known_count == 0)[:, None]
    )
    return is_last_copy


@dataclass(frozen=True, slots=True)
class DependentLedger:
    """A ledger with a 64-bit id (scope 0) that has, or may have, an entry's last copy on ``bookie_id``.

    ``bookie_to_replace`` is a different bookie that should have the entry, but is down or may lack the
    entry. It equals ``bookie_id`` if there is no such bookie.
    """

    ledger_id: int
    bookie_id: str
    bookie_to_replace: str


def find_dependent_ledgers(
    run: RunDirectory, are_registrations_complete: bool, bookies: Collection[str], max_ledgers: int
) -> list[DependentLedger]:
    """Return ledgers whose last copy may be on one of ``bookies``.

    The function makes one pass over the run's ledgers.

    Args:
        run: A finished run.
        are_registrations_complete: Whether all registrations were seen.
        bookies: The bookies.
        max_ledgers: Largest number of ledgers returned.

    Raises:
        RunError: a table of the run is missing or broken.
    """
    sums = ExposureSums(find_registered_bookies(run, are_registrations_complete))
    windows = RunWindows(
        run,
        must_merge=False,
        segment_filter=lambda segments: sums.may_have_exposure(segments, windows.numbers),
    )
    dependent_ledgers: dict[int, DependentLedger] = {}
    for batch in windows:
        bookie_names = windows.numbers.names
        is_requested_bookie = np.array([name in bookies for name in bookie_names] + [False])
        is_copy_present, is_copy_unknown, is_copy_served = sums.flag_copies(batch, windows.numbers)
        is_last_copy = flag_possible_last_copies(
            is_copy_present, is_copy_unknown
        ) | flag_possible_last_copies(is_copy_present & is_copy_served, is_copy_unknown & is_copy_served)
        assert batch.ids is not None  # nothing was merged
        for window_row, copy_column in np.argwhere(
            is_last_copy & is_requested_bookie[batch.bookies]
        ).tolist():
            scope_id, ledger = batch.ids[batch.ledger[window_row]].tolist()
            if scope_id == 0 and ledger not in dependent_ledgers:
                if len(dependent_ledgers) == max_ledgers:
                    return list(dependent_ledgers.values())
                member_numbers = [
                    number for number in batch.bookies[window_row].tolist() if number != NO_BOOKIE
                ]
                bookie = bookie_names[batch.bookies[window_row, copy_column]]
                other_holders = [
                    bookie_names[number] for number in member_numbers if bookie_names[number] != bookie
                ]
                dependent_ledgers[ledger] = DependentLedger(
                    ledger, bookie, min(other_holders, default=bookie)
                )
    return list(dependent_ledgers.values())


MAX_JOINT_HOLDERS = 100_000
"""Largest number of bookie sets that `find_joint_holders` returns. A set takes some 300 bytes."""


def find_joint_holders(
    run: RunDirectory, are_registrations_complete: bool, bookies: Collection[str]
) -> list[frozenset[str]] | None:
    """Return each set of two or more of ``bookies`` that are together the only servers of some entry.

    Bookies with an unknown copy count as servers if no bookie certainly serves the entry. In the last segment
    of a ledger that is not closed, every member of the ensemble may have entries. Single bookies are not
    included (`find_exposures` returns them). Returns None if there are more than `MAX_JOINT_HOLDERS` sets.
    The function makes one pass over the run's ledgers.

    Args:
        run: A run whose tables ``ledgers``, ``judged`` and ``bookies`` are finished.
        are_registrations_complete: Whether all registrations were seen.
        bookies: The bookies that would stop.

    Raises:
        RunError: a table of the run is missing or broken.
    """
    if len({*bookies}) < 2:
        return []
    sums = ExposureSums(find_registered_bookies(run, are_registrations_complete))
    windows = RunWindows(
        run, segment_filter=lambda segments: segments.any_of_members(is_requested_bookie[segments.members])
    )
    is_requested_bookie = np.array([name in bookies for name in windows.numbers.names] + [False])
    holder_sets: set[frozenset[str]] = set()
    for batch in windows:
        is_copy_present, is_copy_unknown, is_copy_served = sums.flag_copies(batch, windows.numbers)
        is_copy_unknown |= _flag_open_end_members(batch)
        has_known_copy = count_true(is_copy_present & is_copy_served) > 0
        is_holder_of_window = np.where(
            has_known_copy[:, None], is_copy_present & is_copy_served, is_copy_unknown & is_copy_served
        )
        has_only_requested_holders = (count_true(is_holder_of_window) > 1) & (
            count_true(is_holder_of_window & ~is_requested_bookie[batch.bookies]) == 0
        )
        holder_numbers = np.sort(
            np.where(is_holder_of_window, batch.bookies, NO_BOOKIE)[has_only_requested_holders], axis=1
        )
        for holder_row in np.unique(holder_numbers, axis=0).tolist():
            holder_sets.add(
                frozenset(
                    windows.numbers.names[bookie_number]
                    for bookie_number in holder_row
                    if bookie_number != NO_BOOKIE
                )
            )
        if len(holder_sets) > MAX_JOINT_HOLDERS:
            return None
    return sorted(holder_sets, key=sorted)


def find_registered_bookies(run: RunDirectory, are_registrations_complete: bool) -> frozenset[str] | None:
    """Return the registered bookies of a run.

    Returns None if no bookie is registered, or if not all registrations were listed.
    """
    bookie_rows = run.read("tables/bookies", ["bookie_id", "registered"])
    bookies: Sequence[str] = bookie_rows.filter(bookie_rows["registered"].is_valid())["bookie_id"].to_pylist()
    return frozenset(bookies) if are_registrations_complete and bookies else None


def find_exposures(run: RunDirectory, are_registrations_complete: bool) -> tuple[BookieExposure, ...]:
    """Return the bookies that have, or may have, data that no other bookie has.

    The function makes one pass over the run's ledgers.

    Args:
        run: A run whose tables ``ledgers``, ``judged`` and ``bookies`` are finished.
        are_registrations_complete: Whether all registrations were seen.

    Raises:
        RunError: a table of the run is missing or broken.
    """
    sums = ExposureSums(find_registered_bookies(run, are_registrations_complete))
    windows = RunWindows(
        run,
        must_merge=False,
        segment_filter=lambda segments: sums.may_have_exposure(segments, windows.numbers),
    )
    for batch in windows:
        sums.add(batch, windows.numbers)
    return sums.result(windows.numbers)
