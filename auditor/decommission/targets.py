"""Possible replacements for leaving bookies, and the number of entries that a worker copies to them.

A policy depends on the locations of bookies, not on their ids. Bookies with equal locations are of one kind.
The policy (`auditor.model.replacements`) is asked once for all ensembles that have the same kinds in the same
places.

    place               position of a bookie in an ensemble of E bookies
    class of an entry   e mod E for entry e, which decides its window of the ensemble (striping)
    window of class p   places p .. p + Qw - 1 of the ensemble, modulo E
    gone place          place of a bookie that leaves

Striping needs a new copy of each entry with a gone place in its window. A worker of 4.17.2 copies more if E >
Qw. It cuts a segment into batches of ten entries, from the segment's first entry on. In each batch it copies
every entry from the first to the last that a gone place has, to each new bookie (`LedgerFragmentReplicator`;
bookkeeper #3067). All arrays have one row per segment, and one column per place.
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
    """Segments with their gone places, those of leaving bookies.

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
        upto, before = (edge[:, None] - classes for edge in (self.last, self.first - 1))
        counts = np.maximum(upto // size - before // size, 0)
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
            place = (classes + step) % size
            stays = ~np.take_along_axis(self.is_gone, place, 1) & (step < self.write_quorum)[:, None]
            first_place = np.where((first_place < 0) & stays, place, first_place)
        return first_place

    def copied(self) -> Longs:
        """Return the number of entries that a worker reads of each segment, and writes to each new bookie.

        >>> def column(*values): return np.array(values, np.int64)
        >>> one = GonePlaces(column(0), column(29), column(3), column(2), np.array([[True, False, False]]))
        >>> one.copied().tolist()  # striping needs 20
        [28]
        """
        stored = self.gone_of_windows() > 0
        number = np.maximum(self.last - self.first + 1, 0)
        whole, remainder = np.divmod(number, BATCH)
        total = self._spanned(stored, self.first + whole * BATCH, remainder)
        for step in range(stored.shape[1]):
            # Batches begin at the same class again after E of them, at the latest.
            times = np.maximum((whole - step + self.ensemble_size - 1) // self.ensemble_size, 0)
            times[step >= self.ensemble_size] = 0
            total += times * self._spanned(stored, self.first + step * BATCH, np.full_like(whole, BATCH))
        return total

    def _spanned(self, stored: Bools, start: Longs, length: Longs) -> Longs:
        """Return the number of entries that a worker reads of one batch per segment.

        The batch has the entries from ``start`` on, ``length`` of them. The worker reads from the first to
        the last entry of a class in ``stored``.
        """
        least, most = np.full_like(start, BATCH), np.full_like(start, -1)
        for step in range(BATCH):
            place = (start + step) % self.ensemble_size
            is_stored = np.take_along_axis(stored, place[:, None], 1)[:, 0] & (step < length)
            least = np.where(is_stored, np.minimum(least, step), least)
            most = np.where(is_stored, step, most)
        entry_counts: Longs = np.maximum(most - least + 1, 0)
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
        spares: Bools,
        registered: Sequence[str],
        settings: PlacementSettings,
        locations: Locations,
        isolations: Sequence[Isolation],
    ) -> None:
        self._isolations = isolations
        self.spares, self._names, self._settings, self._locations = spares, names, settings, locations
        self._writable = [name for name, spare in zip(names, spares.tolist(), strict=True) if spare]
        view = ServerView.of(locations, settings.policy, names, self._writable, registered)
        self._paths = [view.paths[name] for name in names]

    def unsure(self, isolation: Longs) -> tuple[Bools, Bools]:
        """Return two flags per ledger: unknown groups; groups in its metadata that AutoRecovery ignores.

        ``isolation`` has the number of each ledger's isolation groups.
        """
        unheeded = self._settings.groups is None
        kinds = [
            (not isolation_kind.is_known, isolation_kind.is_known and isolation_kind.own and unheeded)
            for isolation_kind in self._isolations
        ]
        unknown, own = np.array(kinds, bool).T
        return unknown[isolation], own[isolation]

    def of(
        self, members: NDArray[np.int32], seats: GonePlaces, ack_quorum: Longs, isolation: Longs
    ) -> Openings:
        """Return the possible replacements for the gone places of each ensemble."""
        free = np.repeat(self.spares[None, :], len(members), 0)
        # NO_BOOKIE, which fills rows up, is the last place: one more than there are bookies.
        free = np.append(free, np.zeros((len(members), 1), bool), 1)
        np.put_along_axis(free, members.astype(np.int64) % free.shape[1], False, 1)
        free = free[:, :-1]
        number = free.sum(1)
        if self._settings.policy is Policy.NONE and not isolation.any():
            return Openings(number, free, number < seats.is_gone.sum(1))
        refused = np.zeros(len(members), bool)
        shapes = np.column_stack([seats.ensemble_size, isolation])
        for size, number_of_groups in np.unique(shapes, axis=0).tolist():
            rows = np.flatnonzero((shapes == [size, number_of_groups]).all(1))
            kinds = self._kinds(size, self._isolations[number_of_groups])
            may_come, refused[rows] = self._taken(kinds, members[rows], seats, rows, ack_quorum[rows])
            free[rows] &= may_come
        return Openings(number, free, refused)

    def _taken(
        self, kinds: _Kinds, members: NDArray[np.int32], seats: GonePlaces, rows: Longs, ack_quorum: Longs
    ) -> tuple[Bools, Bools]:
        """Return for ensembles of one size which bookies the policy accepts, and whether it fails."""
        codes = np.append(kinds.kind_of, NO_BOOKIE)[members]
        places = np.where(members == NO_BOOKIE, NO_BOOKIE, codes * 2 + seats.is_gone[rows])
        if self._settings.policy is Policy.RACK:
            places = np.sort(places, axis=1)[:, ::-1]  # it asks for no order
        shapes = np.column_stack([seats.write_quorum[rows], ack_quorum, places])
        distinct, which = np.unique(shapes, axis=0, return_inverse=True)
        choices = [self._choices(kinds, row[0], row[1], row[2:]) for row in distinct.tolist()]
        may_come = np.array([kind_flags for kind_flags, _ in choices])[:, kinds.kind_of]
        return may_come[which.ravel()], np.array([refuses for _, refuses in choices])[which.ravel()]

    def _kinds(self, ensemble_size: int, isolation: Isolation) -> _Kinds:
        out = isolation.outside(ensemble_size, self._locations, self._writable)
        traits = [
            (path, spare, name in out)
            for path, spare, name in zip(self._paths, self.spares.tolist(), self._names, strict=True)
        ]
        numbers = {kind: number for number, kind in enumerate(sorted(set(traits)))}
        kind_of = np.array([numbers[kind] for kind in traits], np.int64)
        return _Kinds(kind_of, list(numbers), np.bincount(kind_of, minlength=len(numbers)).tolist())

    def _choices(
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
        standing = {name: kinds.traits[place // 2] for name, place in zip(ensemble, places, strict=True)}
        # Of each kind one bookie stands for all that are not in the ensemble.
        deputies = {f"of {kind}": traits for kind, traits in enumerate(kinds.traits)}
        all_of_them = standing | deputies
        paths = {name: path for name, (path, _, _) in all_of_them.items()}
        view = ServerView(paths, frozenset(name for name, (_, spare, _) in all_of_them.items() if spare))
        may_come = [False] * len(counts_left)
        for position, place in enumerate(places):
            if not place % 2:
                continue
            out = {
                f"of {kind}" for kind, traits in enumerate(kinds.traits) if not counts_left[kind] or traits[2]
            }
            vacancy = Vacancy(ensemble, position, write_quorum, ack_quorum, frozenset(out))
            chosen_kinds = [int(name[3:]) for name in replacements(vacancy, view, self._settings)]
            if not chosen_kinds:
                return may_come, True
            for kind in chosen_kinds:
                may_come[kind] = True
            # One after the other: the next place does without what this one took.
            counts_left[max(chosen_kinds, key=counts_left.__getitem__)] -= 1
        return may_come, False


class _Kinds(NamedTuple):
    """Kinds of bookies: bookies with the same location, spare or not, excluded by isolation groups or not.

    ``kind_of`` has the kind of each bookie by number, ``traits`` these three properties of each kind,
    ``numbers`` its number of bookies.
    """

    kind_of: Longs
    traits: list[tuple[str, bool, bool]]
    numbers: list[int]
