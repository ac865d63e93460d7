"""Data that depends on a single bookie: last known copies, last served copies, and open ledgers.

A copy is known if the bookie's index shows it. It is served if the bookie is also registered. If other copies
are unknown, a copy is only possibly the last one. A possible last copy is enough for a hold, which forbids
actions on the bookie.
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
    """Sums of `BookieExposure` over batches of windows (`auditor.simulate.windows`).

    ``registered`` are the bookies that answer. If it is None because registrations were not read, every
    bookie with a known copy counts as serving the copy.
    """

    def __init__(self, registered: frozenset[str] | None) -> None:
        self._registered = registered
        self._sums: dict[str, np.ndarray[tuple[int], np.dtype[np.int64]]] = {}

    def may_have_exposure(self, segments: SegmentColumns, numbers: BookieNumbers) -> Bools:
        """Flag ledgers that may depend on one bookie: open, with Qw = 1, or with a member that is down."""
        has_exposure = segments.any_of_ledger(~segments.closed | (segments.write_quorum == 1))
        if self._registered is not None:
            is_down = np.array([name not in self._registered for name in numbers.names], bool)
            has_exposure |= segments.any_of_members(is_down[segments.members])
        return has_exposure

    def add(self, windows: Windows, numbers: BookieNumbers) -> None:
        """Add windows. All windows of a ledger must be in the same call."""
        names = numbers.names
        for name in _COUNT_NAMES:
            sums = self._sums.setdefault(name, np.zeros(0, np.int64))
            self._sums[name] = np.concatenate([sums, np.zeros(len(names) - len(sums), np.int64)])
        is_member = windows.bookies != NO_BOOKIE
        self._count_flags("open_ledgers", windows, is_member & windows.open_end[:, None])
        is_present, is_unknown, is_served = self.copy_flags(windows, numbers)
        self._add_last_copies(windows, is_present, is_unknown, "last_known")
        # A window of an open end counts where one registered bookie alone may have its entries.
        is_in_open_end = _members_of_open_ends(windows) & is_served
        is_single = is_in_open_end & (count_true(is_in_open_end) == 1)[:, None]
        self._add_last_copies(
            windows, is_present & is_served, is_unknown & is_served | is_single, "last_served"
        )

    def copy_flags(self, windows: Windows, numbers: BookieNumbers) -> tuple[Bools, Bools, Bools]:
        """Return which copies are known, which are unknown, and which are on a bookie that answers.

        Each array has the shape of ``windows.bookies``. Copies at open ends count as neither known nor
        unknown.
        """
        names = numbers.names
        is_answering = np.array(
            [self._registered is None or name in self._registered for name in names] + [False]
        )
        is_closed_member = (windows.bookies != NO_BOOKIE) & ~windows.open_end[:, None]
        is_present, is_unknown = (
            is_closed_member & (windows.copies == PRESENT),
            is_closed_member & (windows.copies == UNKNOWN),
        )
        return is_present, is_unknown, is_answering[windows.bookies]

    def _add_last_copies(self, windows: Windows, is_present: Bools, is_unknown: Bools, name: str) -> None:
        is_single = (count_true(is_present) == 1) & (count_true(is_unknown) == 0)
        self._count_flags(name, windows, is_present & is_single[:, None])
        is_possibly_last = possible_last_copies(is_present, is_unknown)
        self._count_flags(f"{name}_possible", windows, is_possibly_last)
        is_replicated = count_true(windows.bookies != NO_BOOKIE) > 1
        self._count_flags(f"{name}_degraded", windows, is_possibly_last & is_replicated[:, None])

    def _count_flags(self, name: str, windows: Windows, flags: Bools) -> None:
        """For each bookie, count the ledgers with at least one flagged copy on it. A ledger counts once."""
        row, place = np.nonzero(flags)
        if not len(row):
            return
        sums = self._sums[name]
        ledger_bookie_pairs = np.unique(windows.ledger[row] * len(sums) + windows.bookies[row, place])
        ledger, bookie = np.divmod(ledger_bookie_pairs, len(sums))
        np.add.at(sums, bookie, windows.times[ledger])

    def result(self, numbers: BookieNumbers) -> tuple[BookieExposure, ...]:
        """Return each bookie that alone has, or may have, some data, ascending by id."""
        count_rows = zip(
            numbers.names,
            *(self._sums.get(name, np.zeros(0)).tolist() for name in _COUNT_NAMES),
            strict=False,
        )
        bookie_exposures = (BookieExposure(name, *map(int, counts)) for name, *counts in count_rows)
        return tuple(
            sorted((row for row in bookie_exposures if row.is_exposed), key=lambda row: row.bookie_id)
        )


def _members_of_open_ends(windows: Windows) -> Bools:
    """Flag the bookies that belong to windows of open ends.

    Such a bookie may have entries that the metadata does not count.
    """
    members: Bools = (windows.bookies != NO_BOOKIE) & windows.open_end[:, None]
    return members


def possible_last_copies(is_present: Bools, is_unknown: Bools) -> Bools:
    """Return which copies are, or may be, the last of their windows.

    If exactly one copy is known, it may be the last. If none is known, each unknown copy may be the last.
    """
    known_count = count_true(is_present)
    is_last_copy: Bools = np.where(
        (known_count == 1)[:, None], is_present, is_unknown & (known_count == 0)[:, None]
    )
    return is_last_copy


@dataclass(frozen=True, slots=True)
class DependentLedger:
    """A ledger of scope 0 with an entry whose last copy is, or may be, on the bookie ``bookie_id``.

    ``bookie_to_replace`` is another bookie that should have the entry, but is down or may lack the entry. It
    equals ``bookie_id`` if there is no such bookie.
    """

    ledger_id: int
    bookie_id: str
    bookie_to_replace: str


def find_dependent_ledgers(
    run: RunDirectory, are_all_listed: bool, bookies: Collection[str], max_ledgers: int
) -> list[DependentLedger]:
    """Return the first ledgers that depend on one of ``bookies`` alone. One pass over the run's ledgers.

    Args:
        run: A finished run.
        are_all_listed: Whether all registrations were seen.
        bookies: The bookies on which the ledgers depend.
        max_ledgers: Largest number of ledgers returned.

    Raises:
        RunError: a table of the run is missing or broken.
    """
    sums = ExposureSums(registered_bookies(run, are_all_listed))
    windows = RunWindows(
        run, merge=False, segment_filter=lambda segments: sums.may_have_exposure(segments, windows.numbers)
    )
    dependents: dict[int, DependentLedger] = {}
    for batch in windows:
        names = windows.numbers.names
        is_requested = np.array([name in bookies for name in names] + [False])
        is_present, is_unknown, is_served = sums.copy_flags(batch, windows.numbers)
        is_last_copy = possible_last_copies(is_present, is_unknown) | possible_last_copies(
            is_present & is_served, is_unknown & is_served
        )
        assert batch.ids is not None  # nothing was merged
        for row, place in np.argwhere(is_last_copy & is_requested[batch.bookies]).tolist():
            scope, ledger = batch.ids[batch.ledger[row]].tolist()
            if scope == 0 and ledger not in dependents:
                if len(dependents) == max_ledgers:
                    return list(dependents.values())
                member_numbers = [number for number in batch.bookies[row].tolist() if number != NO_BOOKIE]
                bookie = names[batch.bookies[row, place]]
                other_holders = [names[number] for number in member_numbers if names[number] != bookie]
                dependents[ledger] = DependentLedger(ledger, bookie, min(other_holders, default=bookie))
    return list(dependents.values())


MAX_JOINT_HOLDERS = 100_000
"""Largest number of bookie sets that `find_joint_holders` returns. A set takes some 300 bytes."""


def find_joint_holders(
    run: RunDirectory, are_all_listed: bool, bookies: Collection[str]
) -> list[frozenset[str]] | None:
    """Return the sets of two or more of ``bookies`` without which some entry has no bookie that serves it.

    A bookie that only may serve an entry counts if no other bookie certainly serves it. At the open end of a
    ledger, every member may have entries. Entries that one bookie alone serves are not included
    (`find_exposures`). One pass over the run's ledgers. Returns None if there are more than
    `MAX_JOINT_HOLDERS` sets.

    Args:
        run: A run whose tables ``ledgers``, ``judged`` and ``bookies`` are finished.
        are_all_listed: Whether all registrations were seen.
        bookies: The bookies that would stop.

    Raises:
        RunError: a table of the run is missing or broken.
    """
    if len({*bookies}) < 2:
        return []
    sums = ExposureSums(registered_bookies(run, are_all_listed))
    windows = RunWindows(
        run, segment_filter=lambda segments: segments.any_of_members(is_requested[segments.members])
    )
    is_requested = np.array([name in bookies for name in windows.numbers.names] + [False])
    holder_sets: set[frozenset[str]] = set()
    for batch in windows:
        is_present, is_unknown, is_served = sums.copy_flags(batch, windows.numbers)
        is_unknown |= _members_of_open_ends(batch)
        has_known_copy = count_true(is_present & is_served) > 0
        is_holder = np.where(has_known_copy[:, None], is_present & is_served, is_unknown & is_served)
        is_joint = (count_true(is_holder) > 1) & (count_true(is_holder & ~is_requested[batch.bookies]) == 0)
        holder_numbers = np.sort(np.where(is_holder, batch.bookies, NO_BOOKIE)[is_joint], axis=1)
        for row in np.unique(holder_numbers, axis=0).tolist():
            holder_sets.add(frozenset(windows.numbers.names[number] for number in row if number != NO_BOOKIE))
        if len(holder_sets) > MAX_JOINT_HOLDERS:
            return None
    return sorted(holder_sets, key=sorted)


def registered_bookies(run: RunDirectory, are_all_listed: bool) -> frozenset[str] | None:
    """Return the registered bookies of a run. None if there are none, or if ``are_all_listed`` is False."""
    rows = run.read("tables/bookies", ["bookie_id", "registered"])
    names: Sequence[str] = rows.filter(rows["registered"].is_valid())["bookie_id"].to_pylist()
    return frozenset(names) if are_all_listed and names else None


def find_exposures(run: RunDirectory, are_all_listed: bool) -> tuple[BookieExposure, ...]:
    """Return each bookie of a run that alone has, or may have, some data. One pass over the run's ledgers.

    Args:
        run: A run whose tables ``ledgers``, ``judged`` and ``bookies`` are finished.
        are_all_listed: Whether all registrations were seen.

    Raises:
        RunError: a table of the run is missing or broken.
    """
    sums = ExposureSums(registered_bookies(run, are_all_listed))
    windows = RunWindows(
        run, merge=False, segment_filter=lambda segments: sums.may_have_exposure(segments, windows.numbers)
    )
    for batch in windows:
        sums.add(batch, windows.numbers)
    return sums.result(windows.numbers)
