"""Possible replacements for leaving bookies, and the number of entries that a worker copies to them.

A policy depends on the locations of bookies, not on their ids. Bookies with equal locations are of the same
kind. The policy (`auditor.model.replacements`) is evaluated once for all ensembles that have the same kinds
in the same positions.

    position              place of a bookie in an ensemble of E bookies: 0 .. E - 1
    residue of an entry   e mod E for entry e, which decides its window of the ensemble (striping)
    window of residue p   positions p .. p + Qw - 1 of the ensemble, modulo E
    gone position         position of a bookie that leaves

According to striping, only entries with a gone position in their window need a new copy. A worker of
BookKeeper 4.17.2 copies more entries if E is larger than Qw. It divides a segment into batches of ten
entries. In each batch it finds the first and the last entry with a gone position in their windows. It
copies all entries from the first to the last one to each new bookie (`LedgerFragmentReplicator`; bookkeeper
#3067). Arrays have one row per segment, and one column per position or residue.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from auditor.model.adherence import ServerView
from auditor.model.placement import Locations, PlacementSettings, Policy
from auditor.model.replacements import Vacancy, find_spares
from auditor.simulate.windows import NO_BOOKIE, Bools, Longs
from auditor.simulate.writes import Isolation

BATCH_ENTRIES = 10
"""Number of entries in a batch of a worker: the server's ``rereplicationEntryBatchSize``."""


@dataclass(frozen=True, slots=True)
class GonePositions:
    """Segments with their gone positions (the positions of leaving bookies).

    ``is_gone`` has a row per segment and a column per position. It is False past the end of the ensemble. A
    segment has no entry if its last entry is below its first entry.
    """

    first_entries: Longs
    last_entries: Longs
    ensemble_size: Longs
    write_quorum: Longs
    is_gone: Bools

    def count_entries(self) -> Longs:
        """Return the number of entries by segment (row) and residue (column: entry id modulo ensemble size).

        >>> def column(*values): return np.array(values, np.int64)
        >>> one = GonePositions(column(4), column(9), column(3), column(2), np.array([[True, False, False]]))
        >>> one.count_entries().tolist()
        [[2, 2, 2]]
        """
        ensemble_sizes, entry_residues = self.ensemble_size[:, None], self._entry_residues()
        offsets_of_last, offsets_before_first = (
            boundary_entry[:, None] - entry_residues
            for boundary_entry in (self.last_entries, self.first_entries - 1)
        )
        entry_counts = np.maximum(
            offsets_of_last // ensemble_sizes - offsets_before_first // ensemble_sizes, 0
        )
        entry_counts[
            (entry_residues >= ensemble_sizes) | (self.last_entries < self.first_entries)[:, None]
        ] = 0
        return entry_counts

    def count_gone_positions(self) -> Longs:
        """Count gone positions (see ``is_gone``) by segment (row) and window (column p).

        Window p consists of the Qw positions from p on, modulo E.

        >>> def column(*values): return np.array(values, np.int64)
        >>> one = GonePositions(column(0), column(9), column(3), column(2), np.array([[True, False, False]]))
        >>> one.count_gone_positions().tolist()
        [[1, 0, 1]]
        """
        ensemble_sizes, entry_residues = self.ensemble_size[:, None], self._entry_residues()
        gone_counts = np.zeros(entry_residues.shape, np.int64)
        for position_offset in range(entry_residues.shape[1]):
            is_gone = np.take_along_axis(self.is_gone, (entry_residues + position_offset) % ensemble_sizes, 1)
            gone_counts += is_gone & (position_offset < self.write_quorum)[:, None]
        gone_counts[entry_residues >= ensemble_sizes] = 0
        return gone_counts

    def first_remaining_position(self) -> Longs:
        """Return, for each window (the positions that store an entry), the first that is not gone.

        A worker reads from this position. The value is -1 if ``is_gone`` flags all positions of
        the window. The array has a row per segment, and a column per residue (e mod E for entry e).
        """
        ensemble_sizes, entry_residues = self.ensemble_size[:, None], self._entry_residues()
        first_position = np.full(entry_residues.shape, -1, np.int64)
        for position_offset in range(entry_residues.shape[1]):
            shifted_position = (entry_residues + position_offset) % ensemble_sizes
            is_staying = (
                ~np.take_along_axis(self.is_gone, shifted_position, 1)
                & (position_offset < self.write_quorum)[:, None]
            )
            first_position = np.where((first_position < 0) & is_staying, shifted_position, first_position)
        return first_position

    def count_copied_entries(self) -> Longs:
        """Return the number of entries of each segment that a worker reads and writes to each new bookie.

        >>> def column(*values): return np.array(values, np.int64)
        >>> one = GonePositions(column(0), column(29), column(3), column(2), np.array([[True, False, False]]))
        >>> one.count_copied_entries().tolist()  # striping needs 20
        [28]
        """
        is_residue_stored = self.count_gone_positions() > 0
        entry_count = np.maximum(self.last_entries - self.first_entries + 1, 0)
        whole_batches, last_batch_size = np.divmod(entry_count, BATCH_ENTRIES)
        entry_total = self._count_entries_read(
            is_residue_stored, self.first_entries + whole_batches * BATCH_ENTRIES, last_batch_size
        )
        for batch_number in range(is_residue_stored.shape[1]):
            # Batches begin at the same residue again after E of them, at the latest.
            batch_counts = np.maximum(
                (whole_batches - batch_number + self.ensemble_size - 1) // self.ensemble_size, 0
            )
            batch_counts[batch_number >= self.ensemble_size] = 0
            entry_total += batch_counts * self._count_entries_read(
                is_residue_stored,
                self.first_entries + batch_number * BATCH_ENTRIES,
                np.full_like(whole_batches, BATCH_ENTRIES),
            )
        return entry_total

    def _count_entries_read(
        self, is_residue_stored: Bools, first_entries: Longs, batch_length: Longs
    ) -> Longs:
        """Return the number of entries that a worker reads from one batch of each segment.

        The batch begins at ``first_entries`` and has ``batch_length`` entries. A residue is an
        entry id modulo the ensemble size. The worker reads from the first to the last entry whose residue is
        flagged in ``is_residue_stored``.
        """
        lowest_offset, highest_offset = (
            np.full_like(first_entries, BATCH_ENTRIES),
            np.full_like(first_entries, -1),
        )
        for entry_offset in range(BATCH_ENTRIES):
            entry_residue = (first_entries + entry_offset) % self.ensemble_size
            is_entry_stored = np.take_along_axis(is_residue_stored, entry_residue[:, None], 1)[:, 0] & (
                entry_offset < batch_length
            )
            lowest_offset = np.where(is_entry_stored, np.minimum(lowest_offset, entry_offset), lowest_offset)
            highest_offset = np.where(is_entry_stored, entry_offset, highest_offset)
        spanned_entry_counts: Longs = np.maximum(highest_offset - lowest_offset + 1, 0)
        return spanned_entry_counts

    def _entry_residues(self) -> Longs:
        return np.broadcast_to(np.arange(self.is_gone.shape[1]), self.is_gone.shape)


class ReplacementOptions(NamedTuple):
    """Possible replacements for leaving bookies, with a row per ensemble.

    ``free_spare_counts`` is the number of spares (writable bookies that stay) outside the ensemble.
    ``candidates`` flags the spares that the policy accepts, by bookie number. ``has_refused_position`` flags
    ensembles with a position for which the policy finds no bookie.
    """

    free_spare_counts: Longs
    candidates: Bools
    has_refused_position: Bools


class SpareBookies:
    """Bookies that can replace leaving bookies.

    ``is_spare`` flags the writable bookies that stay, by bookie number. ``isolations`` has the isolation
    groups of ledgers, by number. This list grows while ledgers are read. The policy uses the locations of
    registered bookies only, because a server does not know the locations of other bookies.
    """

    def __init__(
        self,
        names: Sequence[str],
        is_spare: Bools,
        registered_bookies: Sequence[str],
        placement_settings: PlacementSettings,
        locations: Locations,
        isolations: Sequence[Isolation],
    ) -> None:
        self._isolations = isolations
        self.spare_flags, self._names, self._settings, self._locations = (
            is_spare,
            names,
            placement_settings,
            locations,
        )
        self._writable_bookies = [
            name for name, is_spare_name in zip(names, is_spare.tolist(), strict=True) if is_spare_name
        ]
        server_view = ServerView.from_locations(
            locations, placement_settings.policy, names, self._writable_bookies, registered_bookies
        )
        self._location_paths = [server_view.paths[name] for name in names]

    def flag_uncertain_isolation_groups(self, isolation_numbers: Longs) -> tuple[Bools, Bools]:
        """Return two flags per ledger about its isolation groups.

        The first flag is True if the ledger's groups are unknown. The second is True if AutoRecovery ignores
        the ledger's own groups. ``isolation_numbers`` has, for each ledger, the index of its groups
        in ``isolations``.
        """
        ignores_isolation_groups = self._settings.groups is None
        isolation_flags = [
            (
                not isolation_groups.is_known,
                isolation_groups.is_known and isolation_groups.is_from_metadata and ignores_isolation_groups,
            )
            for isolation_groups in self._isolations
        ]
        has_unknown_isolation_groups, has_own_isolation_groups = np.array(isolation_flags, bool).T
        return has_unknown_isolation_groups[isolation_numbers], has_own_isolation_groups[isolation_numbers]

    def find_replacements(
        self,
        members: NDArray[np.int32],
        gone_positions: GonePositions,
        ack_quorum: Longs,
        isolation_number_by_ensemble: Longs,
    ) -> ReplacementOptions:
        """Return the possible replacements for the gone positions (leaving bookies) of each ensemble.

        All arguments have a row per ensemble. ``members`` are bookie numbers, padded with `NO_BOOKIE`.
        """
        is_free_spare = np.repeat(self.spare_flags[None, :], len(members), 0)
        # NO_BOOKIE fills up rows. It needs a column of its own, the last one.
        is_free_spare = np.append(is_free_spare, np.zeros((len(members), 1), bool), 1)
        np.put_along_axis(is_free_spare, members.astype(np.int64) % is_free_spare.shape[1], False, 1)
        is_free_spare = is_free_spare[:, :-1]
        free_spare_count = is_free_spare.sum(1)
        if self._settings.policy is Policy.NONE and not isolation_number_by_ensemble.any():
            return ReplacementOptions(
                free_spare_count, is_free_spare, free_spare_count < gone_positions.is_gone.sum(1)
            )
        is_ensemble_refused = np.zeros(len(members), bool)
        ensemble_shapes = np.column_stack([gone_positions.ensemble_size, isolation_number_by_ensemble])
        for ensemble_size, isolation_number in np.unique(ensemble_shapes, axis=0).tolist():
            ensemble_rows = np.flatnonzero((ensemble_shapes == [ensemble_size, isolation_number]).all(1))
            bookie_kinds = self._bookie_kinds(ensemble_size, self._isolations[isolation_number])
            is_candidate, is_ensemble_refused[ensemble_rows] = self._choose_candidates(
                bookie_kinds, members[ensemble_rows], gone_positions, ensemble_rows, ack_quorum[ensemble_rows]
            )
            is_free_spare[ensemble_rows] &= is_candidate
        return ReplacementOptions(free_spare_count, is_free_spare, is_ensemble_refused)

    def _choose_candidates(
        self,
        bookie_kinds: _BookieKinds,
        members: NDArray[np.int32],
        gone_positions: GonePositions,
        ensemble_rows: Longs,
        ack_quorum: Longs,
    ) -> tuple[Bools, Bools]:
        """Return two arrays for ensembles of the same size.

        The first flags, for each ensemble, the bookies that the policy accepts as replacements. The second
        flags the ensembles with a position for which the policy finds no bookie.
        """
        kind_by_position = np.append(bookie_kinds.kind_by_bookie, NO_BOOKIE)[members]
        kind_and_leaving_codes = np.where(
            members == NO_BOOKIE, NO_BOOKIE, kind_by_position * 2 + gone_positions.is_gone[ensemble_rows]
        )
        if self._settings.policy is Policy.RACK:
            kind_and_leaving_codes = np.sort(kind_and_leaving_codes, axis=1)[:, ::-1]  # it asks for no order
        ensemble_shapes = np.column_stack(
            [gone_positions.write_quorum[ensemble_rows], ack_quorum, kind_and_leaving_codes]
        )
        distinct_shapes, shape_numbers = np.unique(ensemble_shapes, axis=0, return_inverse=True)
        choices_by_shape = [
            self._find_accepted_kinds(bookie_kinds, shape_row[0], shape_row[1], shape_row[2:])
            for shape_row in distinct_shapes.tolist()
        ]
        is_candidate = np.array([is_kind_accepted for is_kind_accepted, _ in choices_by_shape])[
            :, bookie_kinds.kind_by_bookie
        ]
        return is_candidate[shape_numbers.ravel()], np.array(
            [has_no_choice for _, has_no_choice in choices_by_shape]
        )[shape_numbers.ravel()]

    def _bookie_kinds(self, ensemble_size: int, isolation_groups: Isolation) -> _BookieKinds:
        bookies_outside_isolation_groups = isolation_groups.bookies_outside_groups(
            ensemble_size, self._locations, self._writable_bookies
        )
        bookie_traits = [
            (location_path, is_spare, name in bookies_outside_isolation_groups)
            for location_path, is_spare, name in zip(
                self._location_paths, self.spare_flags.tolist(), self._names, strict=True
            )
        ]
        number_by_traits = {
            traits: kind_number for kind_number, traits in enumerate(sorted(set(bookie_traits)))
        }
        kind_by_bookie = np.array([number_by_traits[traits] for traits in bookie_traits], np.int64)
        return _BookieKinds(
            kind_by_bookie,
            list(number_by_traits),
            np.bincount(kind_by_bookie, minlength=len(number_by_traits)).tolist(),
        )

    def _find_accepted_kinds(
        self,
        bookie_kinds: _BookieKinds,
        write_quorum: int,
        ack_quorum: int,
        kind_and_leaving_codes: list[int],
    ) -> tuple[list[bool], bool]:
        """Return which kinds of bookies (`_BookieKinds`) the policy accepts as replacements in one ensemble.

        The second result is True if the policy finds no bookie for one of the positions.
        ``kind_and_leaving_codes`` has, for each position, twice the kind of its bookie, plus 1 if this bookie
        leaves.
        """
        kind_and_leaving_codes = [
            position_code for position_code in kind_and_leaving_codes if position_code != NO_BOOKIE
        ]
        ensemble = [f"{position}" for position in range(len(kind_and_leaving_codes))]
        remaining_counts = [
            bookie_count - sum(position_code // 2 == kind for position_code in kind_and_leaving_codes)
            for kind, bookie_count in enumerate(bookie_kinds.count_by_kind)
        ]
        ensemble_traits = {
            name: bookie_kinds.traits_by_kind[position_code // 2]
            for name, position_code in zip(ensemble, kind_and_leaving_codes, strict=True)
        }
        # One bookie of each kind represents all bookies of the kind that are not in the ensemble.
        traits_of_kinds = {f"of {kind}": traits for kind, traits in enumerate(bookie_kinds.traits_by_kind)}
        traits_by_bookie = ensemble_traits | traits_of_kinds
        location_paths = {name: location_path for name, (location_path, _, _) in traits_by_bookie.items()}
        server_view = ServerView(
            location_paths,
            frozenset(name for name, (_, is_spare_name, _) in traits_by_bookie.items() if is_spare_name),
        )
        is_candidate = [False] * len(remaining_counts)
        for member_position, member_code in enumerate(kind_and_leaving_codes):
            if not member_code % 2:
                continue
            excluded_names = {
                f"of {kind}"
                for kind, traits in enumerate(bookie_kinds.traits_by_kind)
                if not remaining_counts[kind] or traits[2]
            }
            vacant_position = Vacancy(
                ensemble, member_position, write_quorum, ack_quorum, frozenset(excluded_names)
            )
            chosen_kinds = [
                int(name[3:]) for name in find_spares(vacant_position, server_view, self._settings)
            ]
            if not chosen_kinds:
                return is_candidate, True
            for kind_number in chosen_kinds:
                is_candidate[kind_number] = True
            # Positions are filled one after the other. The next position cannot use the bookie of this one.
            remaining_counts[max(chosen_kinds, key=remaining_counts.__getitem__)] -= 1
        return is_candidate, False


class _BookieKinds(NamedTuple):
    """Kinds of bookies. Bookies of the same kind have the same traits.

    The three traits are the location, whether the bookie is a spare (writable, and stays), and whether
    isolation groups exclude the bookie. ``kind_by_bookie`` has the kind of each bookie. ``traits_by_kind``
    and ``count_by_kind`` are indexed by kind.
    """

    kind_by_bookie: Longs
    traits_by_kind: list[tuple[str, bool, bool]]
    count_by_kind: list[int]
