"""Possible replacements for leaving bookies, and the number of entries that a worker copies to them.

A policy depends on the locations of bookies, not on their ids. Bookies with equal locations are of one kind.
The policy (`auditor.model.replacements`) is asked once for all ensembles that have the same kinds in the same
places.

    place               position of a bookie in an ensemble of E bookies
    class of an entry   e mod E for entry e, which decides its window of the ensemble (striping)
    window of class p   places p .. p + Qw - 1 of the ensemble, modulo E
    gone place          place of a bookie that leaves

Striping needs a new copy of each entry with a gone place in its window. A worker of 4.17.2 copies more if E >
Qw. It cuts a segment into batches of ten entries, from the segment's first entry on. In each batch it finds
the first and the last entry of a gone place, and copies all entries between them to each new bookie
(`LedgerFragmentReplicator`; bookkeeper #3067). All arrays have one row per segment, and one column per place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from auditor.model.adherence import ServerView
from auditor.model.placement import Locations, PlacementSettings, Policy
from auditor.model.replacements import Vacancy, replacements
from auditor.simulate.windows import NO_BOOKIE, Bools, Longs
from auditor.simulate.writes import Isolation

BATCH = 10
"""Number of entries in a batch of a worker: the server's ``rereplicationEntryBatchSize``."""


@dataclass(frozen=True, slots=True)
class GonePlaces:
    """Segments with their gone places (the places of leaving bookies).

    ``is_gone`` has a row per segment and a column per place; it is False past the end of the ensemble. A
    segment with ``last`` below ``first`` has no entry.
    """

    first: Longs
    last: Longs
    ensemble_size: Longs
    write_quorum: Longs
    is_gone: Bools

    def entries(self) -> Longs:
        """Return the number of entries of each class (e mod E): a row per segment, a column per class.

        >>> def column(*values): return np.array(values, np.int64)
        >>> one = GonePlaces(column(4), column(9), column(3), column(2), np.array([[True, False, False]]))
        >>> one.entries().tolist()
        [[2, 2, 2]]
        """
        size, classes = self.ensemble_size[:, None], self._classes()
        counts_upto, counts_before = (edge[:, None] - classes for edge in (self.last, self.first - 1))
        counts = np.maximum(counts_upto // size - counts_before // size, 0)
        counts[(classes >= size) | (self.last < self.first)[:, None]] = 0
        return counts

    def gone_of_windows(self) -> Longs:
        """Return the number of gone places of each window: a row per segment, a column per class.

        >>> def column(*values): return np.array(values, np.int64)
        >>> one = GonePlaces(column(0), column(9), column(3), column(2), np.array([[True, False, False]]))
        >>> one.gone_of_windows().tolist()
        [[1, 0, 1]]
        """
        size, classes = self.ensemble_size[:, None], self._classes()
        counts = np.zeros(classes.shape, np.int64)
        for step in range(classes.shape[1]):
            is_gone = np.take_along_axis(self.is_gone, (classes + step) % size, 1)
            counts += is_gone & (step < self.write_quorum)[:, None]
        counts[classes >= size] = 0
        return counts

    def first_left(self) -> Longs:
        """Return the first remaining place of each window, from which a worker reads; -1 if none remains."""
        size, classes = self.ensemble_size[:, None], self._classes()
        first_place = np.full(classes.shape, -1, np.int64)
        for step in range(classes.shape[1]):
            position = (classes + step) % size
            is_staying = ~np.take_along_axis(self.is_gone, position, 1) & (step < self.write_quorum)[:, None]
            first_place = np.where((first_place < 0) & is_staying, position, first_place)
        return first_place

    def copied(self) -> Longs:
        """Return for each segment the number of entries that a worker reads, and writes to each new bookie.

        >>> def column(*values): return np.array(values, np.int64)
        >>> one = GonePlaces(column(0), column(29), column(3), column(2), np.array([[True, False, False]]))
        >>> one.copied().tolist()  # striping needs 20
        [28]
        """
        is_stored = self.gone_of_windows() > 0
        number = np.maximum(self.last - self.first + 1, 0)
        whole_batches, remainder = np.divmod(number, BATCH)
        total = self._count_spanned(is_stored, self.first + whole_batches * BATCH, remainder)
        for step in range(is_stored.shape[1]):
            # Batches begin at the same class again after E of them, at the latest.
            batch_counts = np.maximum(
                (whole_batches - step + self.ensemble_size - 1) // self.ensemble_size, 0
            )
            batch_counts[step >= self.ensemble_size] = 0
            total += batch_counts * self._count_spanned(
                is_stored, self.first + step * BATCH, np.full_like(whole_batches, BATCH)
            )
        return total

    def _count_spanned(self, stored: Bools, start: Longs, length: Longs) -> Longs:
        """Return the number of entries that a worker reads of one batch per segment.

        The batch has the entries from ``start`` on, ``length`` of them. The worker reads from the first to
        the last entry of a class in ``stored``.
        """
        lowest, highest = np.full_like(start, BATCH), np.full_like(start, -1)
        for step in range(BATCH):
            position = (start + step) % self.ensemble_size
            is_stored = np.take_along_axis(stored, position[:, None], 1)[:, 0] & (step < length)
            lowest = np.where(is_stored, np.minimum(lowest, step), lowest)
            highest = np.where(is_stored, step, highest)
        entry_counts: Longs = np.maximum(highest - lowest + 1, 0)
        return entry_counts

    def _classes(self) -> Longs:
        return np.broadcast_to(np.arange(self.is_gone.shape[1]), self.is_gone.shape)


class Openings(NamedTuple):
    """Possible replacements, with a row per ensemble.

    ``outside`` is the number of spares that are not in the ensemble. ``candidates`` flags, by number, the
    spares that the policy accepts. ``refused`` is whether the policy finds no bookie for some place.
    """

    outside: Longs
    candidates: Bools
    refused: Bools


class Targets:
    """The possible replacements; ``spares`` flags, by number in ``names``, writable bookies that stay.

    ``isolations`` are the isolation groups of ledgers, by number; more may be added while ledgers are read.
    ``registered`` bookies are at the location of the mapping. A server that starts now does not know the
    location of any other bookie.
    """

    def __init__(
        self,
        names: Sequence[str],
        is_spare: Bools,
        registered: Sequence[str],
        settings: PlacementSettings,
        locations: Locations,
        isolations: Sequence[Isolation],
    ) -> None:
        self._isolations = isolations
        self.spares, self._names, self._settings, self._locations = is_spare, names, settings, locations
        self._writable = [name for name, spare in zip(names, is_spare.tolist(), strict=True) if spare]
        view = ServerView.of(locations, settings.policy, names, self._writable, registered)
        self._paths = [view.paths[name] for name in names]

    def unsure(self, isolation_numbers: Longs) -> tuple[Bools, Bools]:
        """Return two flags per ledger: unknown groups, and groups in the metadata that AutoRecovery ignores.

        ``isolation_numbers`` has the number of each ledger's isolation groups.
        """
        ignores_groups = self._settings.groups is None
        kinds = [
            (not isolation_kind.is_known, isolation_kind.is_known and isolation_kind.own and ignores_groups)
            for isolation_kind in self._isolations
        ]
        is_unknown, is_own = np.array(kinds, bool).T
        return is_unknown[isolation_numbers], is_own[isolation_numbers]

    def of(
        self, members: NDArray[np.int32], seats: GonePlaces, ack_quorum: Longs, isolation: Longs
    ) -> Openings:
        """Return the possible replacements for the gone places of each ensemble."""
        is_free = np.repeat(self.spares[None, :], len(members), 0)
        # NO_BOOKIE, which fills rows up, is the last place: one more than there are bookies.
        is_free = np.append(is_free, np.zeros((len(members), 1), bool), 1)
        np.put_along_axis(is_free, members.astype(np.int64) % is_free.shape[1], False, 1)
        is_free = is_free[:, :-1]
        free_count = is_free.sum(1)
        if self._settings.policy is Policy.NONE and not isolation.any():
            return Openings(free_count, is_free, free_count < seats.is_gone.sum(1))
        is_refused = np.zeros(len(members), bool)
        shapes = np.column_stack([seats.ensemble_size, isolation])
        for size, group_number in np.unique(shapes, axis=0).tolist():
            rows = np.flatnonzero((shapes == [size, group_number]).all(1))
            kinds = self._kinds(size, self._isolations[group_number])
            is_candidate, is_refused[rows] = self._choose_candidates(
                kinds, members[rows], seats, rows, ack_quorum[rows]
            )
            is_free[rows] &= is_candidate
        return Openings(free_count, is_free, is_refused)

    def _choose_candidates(
        self, kinds: _Kinds, members: NDArray[np.int32], seats: GonePlaces, rows: Longs, ack_quorum: Longs
    ) -> tuple[Bools, Bools]:
        """Return for ensembles of one size which bookies the policy accepts, and whether it fails."""
        codes = np.append(kinds.kind_of, NO_BOOKIE)[members]
        places = np.where(members == NO_BOOKIE, NO_BOOKIE, codes * 2 + seats.is_gone[rows])
        if self._settings.policy is Policy.RACK:
            places = np.sort(places, axis=1)[:, ::-1]  # it asks for no order
        shapes = np.column_stack([seats.write_quorum[rows], ack_quorum, places])
        distinct_shapes, shape_numbers = np.unique(shapes, axis=0, return_inverse=True)
        choices = [self._find_choices(kinds, row[0], row[1], row[2:]) for row in distinct_shapes.tolist()]
        is_candidate = np.array([kind_flags for kind_flags, _ in choices])[:, kinds.kind_of]
        return is_candidate[shape_numbers.ravel()], np.array([refuses for _, refuses in choices])[
            shape_numbers.ravel()
        ]

    def _kinds(self, ensemble_size: int, isolation: Isolation) -> _Kinds:
        outside_bookies = isolation.outside(ensemble_size, self._locations, self._writable)
        traits = [
            (path, is_spare, name in outside_bookies)
            for path, is_spare, name in zip(self._paths, self.spares.tolist(), self._names, strict=True)
        ]
        numbers = {kind: number for number, kind in enumerate(sorted(set(traits)))}
        kind_of = np.array([numbers[kind] for kind in traits], np.int64)
        return _Kinds(kind_of, list(numbers), np.bincount(kind_of, minlength=len(numbers)).tolist())

    def _find_choices(
        self, kinds: _Kinds, write_quorum: int, ack_quorum: int, places: list[int]
    ) -> tuple[list[bool], bool]:
        """Return which kinds of bookies the policy accepts for one ensemble.

        The second result is True if the policy finds no bookie for one of the places.
        """
        places = [place for place in places if place != NO_BOOKIE]
        ensemble = [f"{number}" for number in range(len(places))]
        counts_left = [
            count - sum(place // 2 == kind for place in places) for kind, count in enumerate(kinds.numbers)
        ]
        ensemble_traits = {
            name: kinds.traits[place // 2] for name, place in zip(ensemble, places, strict=True)
        }
        # Of each kind one bookie stands for all that are not in the ensemble.
        kind_traits = {f"of {kind}": traits for kind, traits in enumerate(kinds.traits)}
        traits_by_name = ensemble_traits | kind_traits
        paths = {name: path for name, (path, _, _) in traits_by_name.items()}
        view = ServerView(paths, frozenset(name for name, (_, spare, _) in traits_by_name.items() if spare))
        is_candidate = [False] * len(counts_left)
        for position, member_code in enumerate(places):
            if not member_code % 2:
                continue
            excluded = {
                f"of {kind}" for kind, traits in enumerate(kinds.traits) if not counts_left[kind] or traits[2]
            }
            vacancy = Vacancy(ensemble, position, write_quorum, ack_quorum, frozenset(excluded))
            chosen_kinds = [int(name[3:]) for name in replacements(vacancy, view, self._settings)]
            if not chosen_kinds:
                return is_candidate, True
            for kind in chosen_kinds:
                is_candidate[kind] = True
            # One after the other: the next place does without what this one took.
            counts_left[max(chosen_kinds, key=counts_left.__getitem__)] -= 1
        return is_candidate, False


class _Kinds(NamedTuple):
    """Kinds of bookies: bookies with the same location, spare or not, excluded by isolation groups or not.

    ``kind_of`` has the kind of each bookie by number, ``traits`` these three properties of each kind,
    ``numbers`` its number of bookies.
    """

    kind_of: Longs
    traits: list[tuple[str, bool, bool]]
    numbers: list[int]
