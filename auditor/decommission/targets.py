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

BATCH_ENTRIES = 10
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
        ensemble_sizes, entry_classes = self.ensemble_size[:, None], self._entry_classes()
        offsets_of_last, offsets_before_first = (
            boundary[:, None] - entry_classes for boundary in (self.last, self.first - 1)
        )
        entry_counts = np.maximum(
            offsets_of_last // ensemble_sizes - offsets_before_first // ensemble_sizes, 0
        )
        entry_counts[(entry_classes >= ensemble_sizes) | (self.last < self.first)[:, None]] = 0
        return entry_counts

    def count_gone_places(self) -> Longs:
        """Return the number of gone places of each window: a row per segment, a column per class.

        >>> def column(*values): return np.array(values, np.int64)
        >>> one = GonePlaces(column(0), column(9), column(3), column(2), np.array([[True, False, False]]))
        >>> one.count_gone_places().tolist()
        [[1, 0, 1]]
        """
        ensemble_sizes, entry_classes = self.ensemble_size[:, None], self._entry_classes()
        gone_counts = np.zeros(entry_classes.shape, np.int64)
        for step in range(entry_classes.shape[1]):
            is_gone = np.take_along_axis(self.is_gone, (entry_classes + step) % ensemble_sizes, 1)
            gone_counts += is_gone & (step < self.write_quorum)[:, None]
        gone_counts[entry_classes >= ensemble_sizes] = 0
        return gone_counts

    def first_remaining_place(self) -> Longs:
        """Return the first remaining place of each window, from which a worker reads; -1 if none remains."""
        ensemble_sizes, entry_classes = self.ensemble_size[:, None], self._entry_classes()
        first_place = np.full(entry_classes.shape, -1, np.int64)
        for step in range(entry_classes.shape[1]):
            place = (entry_classes + step) % ensemble_sizes
            is_staying = ~np.take_along_axis(self.is_gone, place, 1) & (step < self.write_quorum)[:, None]
            first_place = np.where((first_place < 0) & is_staying, place, first_place)
        return first_place

    def copied(self) -> Longs:
        """Return for each segment the number of entries that a worker reads, and writes to each new bookie.

        >>> def column(*values): return np.array(values, np.int64)
        >>> one = GonePlaces(column(0), column(29), column(3), column(2), np.array([[True, False, False]]))
        >>> one.copied().tolist()  # striping needs 20
        [28]
        """
        is_class_stored = self.count_gone_places() > 0
        entry_count = np.maximum(self.last - self.first + 1, 0)
        whole_batches, last_batch_size = np.divmod(entry_count, BATCH_ENTRIES)
        entry_total = self._count_entries_read(
            is_class_stored, self.first + whole_batches * BATCH_ENTRIES, last_batch_size
        )
        for batch_number in range(is_class_stored.shape[1]):
            # Batches begin at the same class again after E of them, at the latest.
            batch_counts = np.maximum(
                (whole_batches - batch_number + self.ensemble_size - 1) // self.ensemble_size, 0
            )
            batch_counts[batch_number >= self.ensemble_size] = 0
            entry_total += batch_counts * self._count_entries_read(
                is_class_stored,
                self.first + batch_number * BATCH_ENTRIES,
                np.full_like(whole_batches, BATCH_ENTRIES),
            )
        return entry_total

    def _count_entries_read(self, is_class_stored: Bools, first_entries: Longs, length: Longs) -> Longs:
        """Return the number of entries that a worker reads of one batch per segment.

        The batch has the entries from ``first_entries`` on, ``length`` of them. The worker reads from the
        first to the last entry of a class in ``is_class_stored``.
        """
        lowest_offset, highest_offset = (
            np.full_like(first_entries, BATCH_ENTRIES),
            np.full_like(first_entries, -1),
        )
        for step in range(BATCH_ENTRIES):
            entry_class = (first_entries + step) % self.ensemble_size
            is_entry_stored = np.take_along_axis(is_class_stored, entry_class[:, None], 1)[:, 0] & (
                step < length
            )
            lowest_offset = np.where(is_entry_stored, np.minimum(lowest_offset, step), lowest_offset)
            highest_offset = np.where(is_entry_stored, step, highest_offset)
        spanned_counts: Longs = np.maximum(highest_offset - lowest_offset + 1, 0)
        return spanned_counts

    def _entry_classes(self) -> Longs:
        return np.broadcast_to(np.arange(self.is_gone.shape[1]), self.is_gone.shape)


class ReplacementOptions(NamedTuple):
    """Possible replacements, with a row per ensemble.

    ``free_spare_counts`` is the number of spares that are not in the ensemble. ``candidates`` flags, by
    number, the spares that the policy accepts. ``is_refused`` is whether the policy finds no bookie for some
    place.
    """

    free_spare_counts: Longs
    candidates: Bools
    is_refused: Bools


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
        self._writable = [
            name for name, is_spare_name in zip(names, is_spare.tolist(), strict=True) if is_spare_name
        ]
        server_view = ServerView.from_locations(locations, settings.policy, names, self._writable, registered)
        self._paths = [server_view.paths[name] for name in names]

    def flag_uncertain_groups(self, isolation_numbers: Longs) -> tuple[Bools, Bools]:
        """Return two flags per ledger: unknown groups, and groups in the metadata that AutoRecovery ignores.

        ``isolation_numbers`` has the number of each ledger's isolation groups.
        """
        ignores_groups = self._settings.groups is None
        kinds = [
            (not isolation_kind.is_known, isolation_kind.is_known and isolation_kind.own and ignores_groups)
            for isolation_kind in self._isolations
        ]
        has_unknown_groups, has_own_groups = np.array(kinds, bool).T
        return has_unknown_groups[isolation_numbers], has_own_groups[isolation_numbers]

    def of(
        self, members: NDArray[np.int32], gone_places: GonePlaces, ack_quorum: Longs, isolation: Longs
    ) -> ReplacementOptions:
        """Return the possible replacements for the gone places of each ensemble."""
        is_free_spare = np.repeat(self.spares[None, :], len(members), 0)
        # NO_BOOKIE, which fills rows up, is the last place: one more than there are bookies.
        is_free_spare = np.append(is_free_spare, np.zeros((len(members), 1), bool), 1)
        np.put_along_axis(is_free_spare, members.astype(np.int64) % is_free_spare.shape[1], False, 1)
        is_free_spare = is_free_spare[:, :-1]
        free_spare_count = is_free_spare.sum(1)
        if self._settings.policy is Policy.NONE and not isolation.any():
            return ReplacementOptions(
                free_spare_count, is_free_spare, free_spare_count < gone_places.is_gone.sum(1)
            )
        is_ensemble_refused = np.zeros(len(members), bool)
        ensemble_shapes = np.column_stack([gone_places.ensemble_size, isolation])
        for ensemble_size, group_number in np.unique(ensemble_shapes, axis=0).tolist():
            ensemble_rows = np.flatnonzero((ensemble_shapes == [ensemble_size, group_number]).all(1))
            kinds = self._bookie_kinds(ensemble_size, self._isolations[group_number])
            is_candidate, is_ensemble_refused[ensemble_rows] = self._choose_candidates(
                kinds, members[ensemble_rows], gone_places, ensemble_rows, ack_quorum[ensemble_rows]
            )
            is_free_spare[ensemble_rows] &= is_candidate
        return ReplacementOptions(free_spare_count, is_free_spare, is_ensemble_refused)

    def _choose_candidates(
        self,
        kinds: _BookieKinds,
        members: NDArray[np.int32],
        gone_places: GonePlaces,
        ensemble_rows: Longs,
        ack_quorum: Longs,
    ) -> tuple[Bools, Bools]:
        """Return for ensembles of one size which bookies the policy accepts, and whether it fails."""
        kind_codes = np.append(kinds.kind_of, NO_BOOKIE)[members]
        place_codes = np.where(
            members == NO_BOOKIE, NO_BOOKIE, kind_codes * 2 + gone_places.is_gone[ensemble_rows]
        )
        if self._settings.policy is Policy.RACK:
            place_codes = np.sort(place_codes, axis=1)[:, ::-1]  # it asks for no order
        ensemble_shapes = np.column_stack([gone_places.write_quorum[ensemble_rows], ack_quorum, place_codes])
        distinct_shapes, shape_numbers = np.unique(ensemble_shapes, axis=0, return_inverse=True)
        choices = [self._find_choices(kinds, row[0], row[1], row[2:]) for row in distinct_shapes.tolist()]
        is_candidate = np.array([kind_flags for kind_flags, _ in choices])[:, kinds.kind_of]
        return is_candidate[shape_numbers.ravel()], np.array([has_no_choice for _, has_no_choice in choices])[
            shape_numbers.ravel()
        ]

    def _bookie_kinds(self, ensemble_size: int, isolation: Isolation) -> _BookieKinds:
        outside_bookies = isolation.bookies_outside_groups(ensemble_size, self._locations, self._writable)
        bookie_traits = [
            (path, is_spare, name in outside_bookies)
            for path, is_spare, name in zip(self._paths, self.spares.tolist(), self._names, strict=True)
        ]
        numbers = {kind: number for number, kind in enumerate(sorted(set(bookie_traits)))}
        kind_of = np.array([numbers[kind] for kind in bookie_traits], np.int64)
        return _BookieKinds(kind_of, list(numbers), np.bincount(kind_of, minlength=len(numbers)).tolist())

    def _find_choices(
        self, kinds: _BookieKinds, write_quorum: int, ack_quorum: int, place_codes: list[int]
    ) -> tuple[list[bool], bool]:
        """Return which kinds of bookies the policy accepts for one ensemble.

        The second result is True if the policy finds no bookie for one of the places.
        """
        place_codes = [place_code for place_code in place_codes if place_code != NO_BOOKIE]
        ensemble = [f"{number}" for number in range(len(place_codes))]
        remaining_counts = [
            count - sum(place_code // 2 == kind for place_code in place_codes)
            for kind, count in enumerate(kinds.numbers)
        ]
        ensemble_traits = {
            name: kinds.traits[place_code // 2]
            for name, place_code in zip(ensemble, place_codes, strict=True)
        }
        # Of each kind one bookie stands for all that are not in the ensemble.
        kind_traits = {f"of {kind}": traits for kind, traits in enumerate(kinds.traits)}
        traits_by_name = ensemble_traits | kind_traits
        paths = {name: path for name, (path, _, _) in traits_by_name.items()}
        server_view = ServerView(
            paths, frozenset(name for name, (_, is_spare_name, _) in traits_by_name.items() if is_spare_name)
        )
        is_candidate = [False] * len(remaining_counts)
        for position, member_code in enumerate(place_codes):
            if not member_code % 2:
                continue
            excluded_names = {
                f"of {kind}"
                for kind, traits in enumerate(kinds.traits)
                if not remaining_counts[kind] or traits[2]
            }
            vacancy = Vacancy(ensemble, position, write_quorum, ack_quorum, frozenset(excluded_names))
            chosen_kinds = [int(name[3:]) for name in replacements(vacancy, server_view, self._settings)]
            if not chosen_kinds:
                return is_candidate, True
            for kind in chosen_kinds:
                is_candidate[kind] = True
            # One after the other: the next place does without what this one took.
            remaining_counts[max(chosen_kinds, key=remaining_counts.__getitem__)] -= 1
        return is_candidate, False


class _BookieKinds(NamedTuple):
    """Kinds of bookies: bookies with the same location, spare or not, excluded by isolation groups or not.

    ``kind_of`` has the kind of each bookie by number, ``traits`` these three properties of each kind,
    ``numbers`` its number of bookies.
    """

    kind_of: Longs
    traits: list[tuple[str, bool, bool]]
    numbers: list[int]
