"""Trial removal of bookies: the ledgers that move, the blocked ledgers, and the work of copying.

The segments of a batch of ledgers are arrays, with their whole ensembles. Example with two ledgers:

    ledger       0              1                   rows of the batch
    segment      0       1      2                   ``ledger`` has the row of each segment
    member       a b c | a b d | c d                ``ensembles`` has one row for each segment

Segments have all members of an ensemble, also those without entries, because the policy considers all of
them. Windows (entries on the same bookies, `auditor.simulate.windows`) only have bookies with entries.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from auditor.decommission.targets import BATCH_ENTRIES, GonePositions, ReplacementOptions, SpareBookies
from auditor.model.decommission import LEDGER_CAUSES, Cause
from auditor.simulate.windows import (
    MISSING,
    NO_BOOKIE,
    UNKNOWN,
    BookieNumbers,
    Bools,
    Longs,
    SegmentColumns,
    Windows,
    any_true,
    column_of,
    segment_columns,
)


@dataclass(frozen=True)
class Segments(SegmentColumns):
    """Segments with one ensemble per row.

    Args:
        entry_bytes: Array by ledger: the mean payload of an entry, in bytes. NaN if the ledger is not closed.
        isolation: Array by ledger: the number that identifies the ledger's isolation groups.
        last_entries: Last entry of each segment. It is below the first entry for an empty segment. The same
            holds for an open end, which is a segment with an unknown last entry.
        is_open_end: Whether the segment is the open end of its ledger.
        ensembles: Numbers of the bookies. `NO_BOOKIE` fills the row past the end of the ensemble.
    """

    entry_bytes: NDArray[np.float64]
    isolation: Longs
    last_entries: Longs
    is_open_end: Bools
    ensembles: NDArray[np.int32]


def segments_of(
    ledger_rows: pa.RecordBatch, bookie_numbers: BookieNumbers, isolation_numbers: Longs
) -> Segments:
    """Return the segments of ledgers with known bookies, from their rows of the table ``ledgers``."""
    ledger_segments = segment_columns(ledger_rows, bookie_numbers)
    last_entries, is_open_end = ledger_segments.ends()
    last_entry, ledger_lengths = (
        column_of(ledger_rows, column_name, -1) for column_name in ("last_entry_id", "length")
    )
    is_closed = np.zeros(ledger_rows.num_rows, bool)
    is_closed[ledger_segments.ledger[ledger_segments.is_closed]] = True
    entry_counts = np.where(is_closed & (last_entry >= 0), last_entry + 1, 1)
    ensemble_sizes = np.diff(np.append(ledger_segments.ensemble_starts, len(ledger_segments.members)))
    ensembles = np.full((len(ensemble_sizes), int(ensemble_sizes.max(initial=0))), NO_BOOKIE, np.int32)
    ensembles[np.arange(ensembles.shape[1]) < ensemble_sizes[:, None]] = ledger_segments.members
    return Segments(
        **vars(ledger_segments),
        entry_bytes=np.where(is_closed, np.maximum(ledger_lengths, 0) / entry_counts, np.nan),
        isolation=isolation_numbers,
        last_entries=np.where(is_open_end, ledger_segments.first_entries - 1, last_entries),
        is_open_end=is_open_end,
        ensembles=ensembles,
    )


def flag_ledgers_naming(
    ledger_rows: pa.RecordBatch, is_bookie_selected: Bools, bookie_numbers: BookieNumbers
) -> Bools:
    """Flag the ledgers that have a selected bookie in an ensemble.

    ``is_bookie_selected`` is indexed by bookie number. Bookies that appear for the first time in these rows
    get new numbers, and count as not selected.
    """
    segments = segment_columns(ledger_rows, bookie_numbers)
    is_selected_by_number = np.zeros(len(bookie_numbers), bool)
    is_selected_by_number[: len(is_bookie_selected)] = is_bookie_selected
    return segments.any_of_members(is_selected_by_number[segments.members])


CAUSE_BY_CODE = (None, *LEDGER_CAUSES, Cause.ABSENT)
"""Cause of each code in `TrialSums.blocked_ids`. Code 0 means that the ledger is not blocked."""

_CODE_BY_CAUSE = {cause: cause_code for cause_code, cause in enumerate(CAUSE_BY_CODE)}
UNREAD_COPIES_DOUBT = "ledgers whose other copies may be missing"
OTHER_ENTRIES_DOUBT = "ledgers whose segments have other entries that may be lost"
UNKNOWN_ISOLATION_GROUPS_DOUBT = "ledgers whose isolation groups are not known"
OWN_ISOLATION_GROUPS_DOUBT = (
    "ledgers with no spare bookie in their own isolation groups (only Pulsar's policy uses such groups)"
)
DOUBT_TEXTS = (
    UNREAD_COPIES_DOUBT,
    OTHER_ENTRIES_DOUBT,
    UNKNOWN_ISOLATION_GROUPS_DOUBT,
    OWN_ISOLATION_GROUPS_DOUBT,
)
_NO_CANDIDATE_COUNT = 1 << 60
_BATCH_ROWS = 1 << 12


@dataclass(frozen=True, slots=True)
class _SegmentInspection:
    """Facts about the segments of a batch if the bookies of a trial are removed."""

    is_gone: Bools
    gone_positions: GonePositions
    entries_by_residue: Longs
    gone_counts: Longs
    must_be_copied: Bools
    replacement_options: ReplacementOptions


class _LedgerCauses(NamedTuple):
    """Arrays by ledger: first blocking cause (a code), flags of unknown facts, flags of too few spares."""

    codes: NDArray[np.int8]
    doubts: dict[str, Bools]
    ledgers_without_spare: Bools


class TrialSums:
    """Sums, such as bytes to copy, of a trial removal of the bookies with numbers ``leaving_bookies``.

    ``absent_bookies`` are bookies that are already gone. The server replaces them at the same time.
    """

    def __init__(
        self, leaving_bookies: Sequence[int], absent_bookies: Sequence[int], replacement_targets: SpareBookies
    ) -> None:
        self.targets = replacement_targets
        array_size = len(replacement_targets.spare_flags) + 1  # the last place is NO_BOOKIE's
        self._is_leaving: Bools = np.zeros(array_size, bool)
        self._is_gone: Bools = np.zeros(array_size, bool)
        self._is_leaving[list(leaving_bookies)] = True
        self._is_gone[[*leaving_bookies, *absent_bookies]] = True
        self._has_absent = bool(absent_bookies)
        self.sums: dict[str, float] = dict.fromkeys(_SUM_NAMES, 0)
        self.ledgers_without_spare = 0
        self.doubts = dict.fromkeys(DOUBT_TEXTS, 0)
        self.blocked_ids: list[tuple[Longs, NDArray[np.int8]]] = []
        self.read_load, self.write_load = np.zeros((2, array_size - 1)), np.zeros((2, array_size - 1))
        self.candidate_hist = np.zeros(array_size, np.int64)

    @property
    def is_removed_bookie(self) -> Bools:
        """Flags, by bookie number, of the bookies that leave or are absent."""
        return self._is_gone[:-1]

    def all_blocked_ledgers(self) -> tuple[Longs, NDArray[np.int8]]:
        """Return BP-35 scope and id of each unmovable ledger, and its cause (index in `CAUSE_BY_CODE`)."""
        ids = np.concatenate([np.zeros((0, 2), np.int64), *(row_ids for row_ids, _ in self.blocked_ids)])
        return ids, np.concatenate(
            [np.zeros(0, np.int8), *(ledger_codes for _, ledger_codes in self.blocked_ids)]
        )

    def blocked_ids_of_store(self) -> Longs:
        """Return ascending ids of ledgers that cannot move and whose ids have only 64 bits (scope 0).

        Ledgers that only the previously absent bookies block are left out.
        """
        ids, cause_codes = self.all_blocked_ledgers()
        is_ledger_cause = cause_codes != _CODE_BY_CAUSE[Cause.ABSENT]
        ledger_ids: Longs = np.sort(ids[is_ledger_cause & (ids[:, 0] == 0), 1])
        return ledger_ids

    def add(self, segments: Segments, entry_windows: Windows) -> None:
        """Add a batch of ledgers. A window in ``entry_windows`` is a set of entries on the same bookies."""
        is_leaving = self._is_leaving[segments.ensembles]
        has_leaving_member = any_true(is_leaving)
        has_leaving_bookie = segments.any_of_ledger(has_leaving_member)
        inspection = self._inspect_segments(segments, is_leaving, self._is_gone)
        must_be_copied = segments.any_of_ledger(inspection.must_be_copied)
        cause_codes, doubts, has_no_spare = self._find_causes(
            segments, entry_windows, inspection, self._is_gone
        )
        if self._has_absent and cause_codes.any():
            inspection_without_absent = self._inspect_segments(segments, is_leaving, self._is_leaving)
            leaving_causes = self._find_causes(
                segments, entry_windows, inspection_without_absent, self._is_leaving
            )
            cause_codes[(cause_codes > 0) & (leaving_causes.codes == 0)] = _CODE_BY_CAUSE[Cause.ABSENT]
            has_no_spare &= leaving_causes.ledgers_without_spare
        self.ledgers_without_spare += int(has_no_spare.sum())
        is_blocked = cause_codes > 0
        self.blocked_ids.append((segments.ids[is_blocked], cause_codes[is_blocked]))
        is_moving = must_be_copied & ~is_blocked
        for doubt_text, is_doubtful_ledger in doubts.items():
            self.doubts[doubt_text] += int((is_doubtful_ledger & is_moving).sum())
        has_too_few_spares: Bools = inspection.replacement_options.has_refused_position | (
            inspection.replacement_options.free_spare_counts < inspection.is_gone.sum(1)
        )
        has_no_replacement = (
            segments.any_of_ledger(has_too_few_spares & has_leaving_member)
            & has_leaving_bookie
            & ~must_be_copied
        )
        has_gone_member = any_true(inspection.is_gone)
        has_absent_but_no_leaving_bookie = segments.any_of_ledger(has_gone_member) & ~has_leaving_bookie
        for sum_name, is_ledger_counted in (
            ("renamed", has_leaving_bookie & ~must_be_copied),
            ("renamed_stuck", has_no_replacement),
            ("along", has_absent_but_no_leaving_bookie),
        ):
            self.sums[sum_name] += int(is_ledger_counted.sum())
        self._add_copy_work(segments, inspection, is_moving)

    def _inspect_segments(
        self, segments: Segments, is_leaving: Bools, is_bookie_removed: Bools
    ) -> _SegmentInspection:
        is_gone = is_bookie_removed[segments.ensembles]
        segment_bounds_and_sizes = (
            segments.first_entries,
            segments.last_entries,
            segments.ensemble_size,
            segments.write_quorum,
        )
        gone_positions = GonePositions(*segment_bounds_and_sizes, is_gone)
        entries = gone_positions.count_entries()
        is_stored = (entries > 0) & (
            GonePositions(*segment_bounds_and_sizes, is_leaving).count_gone_positions() > 0
        )
        must_be_copied: Bools = is_stored.any(1) | (segments.is_open_end & is_leaving.any(1))
        isolation_numbers = segments.isolation[segments.ledger]
        replacement_options = self.targets.find_replacements(
            segments.ensembles, gone_positions, segments.ack_quorum, isolation_numbers
        )
        return _SegmentInspection(
            is_gone,
            gone_positions,
            entries,
            gone_positions.count_gone_positions(),
            must_be_copied,
            replacement_options,
        )

    def _find_causes(
        self,
        segments: Segments,
        entry_windows: Windows,
        inspection: _SegmentInspection,
        is_bookie_removed: Bools,
    ) -> _LedgerCauses:
        segment_rows = _find_segments(segments, entry_windows)
        is_gone = is_bookie_removed[entry_windows.bookies]
        is_missing = is_gone | ((entry_windows.copies == MISSING) & (entry_windows.bookies != NO_BOOKIE))
        is_missing_or_unknown = is_missing | (
            (entry_windows.copies == UNKNOWN) & (entry_windows.bookies != NO_BOOKIE)
        )
        has_no_copy, may_have_no_copy = (
            is_missing.sum(1) >= entry_windows.write_quorum,
            is_missing_or_unknown.sum(1) >= entry_windows.write_quorum,
        )
        needs_copying = inspection.must_be_copied[segment_rows] & ~entry_windows.is_open_end
        is_only_copy = is_gone.sum(1) >= entry_windows.write_quorum
        has_gone_copy = is_gone.any(1)
        has_too_few_candidates = inspection.replacement_options.free_spare_counts < inspection.is_gone.sum(1)
        has_no_ack_quorum = segments.is_open_end & (
            inspection.gone_counts >= np.maximum(segments.ack_quorum, 1)[:, None]
        ).any(1)
        must_be_copied = segments.any_of_ledger(inspection.must_be_copied)
        has_refusal = segments.any_of_ledger(
            inspection.must_be_copied & inspection.replacement_options.has_refused_position
        )
        has_unknown_isolation_groups, has_own_isolation_groups = self.targets.flag_uncertain_isolation_groups(
            segments.isolation
        )
        ledgers_by_cause = {
            Cause.ONLY_COPY: entry_windows.any_of_ledger(needs_copying & is_only_copy),
            Cause.UNREADABLE_ENTRY: entry_windows.any_of_ledger(needs_copying & has_gone_copy & has_no_copy),
            Cause.NO_SPARE_BOOKIE: segments.any_of_ledger(inspection.must_be_copied & has_too_few_candidates),
            Cause.NO_ALLOWED_SPARE: has_refusal & ~has_unknown_isolation_groups & ~has_own_isolation_groups,
            Cause.NO_QUORUM_COVERAGE: segments.any_of_ledger(has_no_ack_quorum) & must_be_copied,
        }
        has_too_few_spares = (
            ledgers_by_cause[Cause.NO_SPARE_BOOKIE] | ledgers_by_cause[Cause.NO_ALLOWED_SPARE]
        )
        cause_codes = np.zeros(len(segments.ids), np.int8)
        for cause in reversed(LEDGER_CAUSES):
            cause_codes[ledgers_by_cause[cause]] = _CODE_BY_CAUSE[cause]
        doubts = {
            UNREAD_COPIES_DOUBT: entry_windows.any_of_ledger(
                needs_copying & has_gone_copy & may_have_no_copy & ~has_no_copy
            ),
            OTHER_ENTRIES_DOUBT: entry_windows.any_of_ledger(
                needs_copying & ~has_gone_copy & may_have_no_copy
            ),
            UNKNOWN_ISOLATION_GROUPS_DOUBT: must_be_copied & has_unknown_isolation_groups,
            OWN_ISOLATION_GROUPS_DOUBT: has_refusal & has_own_isolation_groups,
        }
        return _LedgerCauses(cause_codes, doubts, has_too_few_spares)

    def _add_copy_work(self, segments: Segments, inspection: _SegmentInspection, is_moving: Bools) -> None:
        """Add to the sums the work of copying the ledgers that must move."""
        is_stored = (inspection.entries_by_residue > 0) & (inspection.gone_counts > 0)
        is_moving_segment = is_moving[segments.ledger] & (
            is_stored.any(1) | (segments.is_open_end & inspection.is_gone.any(1))
        )
        gone_count = inspection.is_gone.sum(1)
        entries_read = np.where(is_moving_segment, inspection.gone_positions.count_copied_entries(), 0)
        entries_needed = np.where(
            is_moving_segment, (inspection.entries_by_residue * inspection.gone_counts).sum(1), 0
        )
        mean_bytes = segments.entry_bytes[segments.ledger]
        entry_sizes, has_unknown_size = np.nan_to_num(mean_bytes), np.isnan(mean_bytes)
        entries_copied = entries_read * gone_count
        entry_counts = segments.last_entries - segments.first_entries + 1
        sums = self.sums
        sums["ledgers"] += int(is_moving.sum())
        sums["fragments"] += int((entries_read > 0).sum())
        sums["batches"] += int(np.where(entries_read > 0, -(-entry_counts // BATCH_ENTRIES), 0).sum())
        sums["needed"] += int(entries_needed.sum())
        sums["needed_bytes"] += float((entries_needed * entry_sizes).sum())
        sums["read"] += int(entries_read.sum())
        sums["copied"] += int(entries_copied.sum())
        sums["copied_bytes"] += float((entries_copied * entry_sizes).sum())
        sums["unsized"] += int(entries_copied[has_unknown_size].sum())
        sums["open_ends"] += int(
            segments.any_of_ledger(is_moving_segment & segments.is_open_end & inspection.is_gone.any(1)).sum()
        )
        self._add_loads(segments, inspection, entries_read, entry_sizes, is_moving_segment)

    def _add_loads(
        self,
        segments: Segments,
        inspection: _SegmentInspection,
        entries_read: Longs,
        entry_sizes: NDArray[np.float64],
        is_moving_segment: Bools,
    ) -> None:
        """Add the entries that workers copy to the read loads and write loads of bookies.

        Reads go to the first bookie of a write quorum that stays. Writes are divided among all candidates.
        """
        reading_position = inspection.gone_positions.first_remaining_position()
        share_of_entries_read = entries_read / np.maximum(inspection.entries_by_residue.sum(1), 1)
        entries = np.where(
            reading_position >= 0, inspection.entries_by_residue * share_of_entries_read[:, None], 0.0
        )
        reading_bookies = np.take_along_axis(segments.ensembles, np.maximum(reading_position, 0), 1)
        bookie_count = self.read_load.shape[1]
        for load_sums, entries_or_bytes in zip(
            self.read_load, (entries, entries * entry_sizes[:, None]), strict=True
        ):
            load_sums += np.bincount(
                reading_bookies.ravel() % (bookie_count + 1), entries_or_bytes.ravel(), bookie_count + 1
            )[:bookie_count]
        candidate_counts = inspection.replacement_options.candidates.sum(1)
        entries_per_candidate = entries_read * inspection.is_gone.sum(1) / np.maximum(candidate_counts, 1)
        for first_row in range(0, len(entries_per_candidate), _BATCH_ROWS):
            row_range = slice(first_row, first_row + _BATCH_ROWS)
            candidate_loads = np.stack(
                [entries_per_candidate[row_range], (entries_per_candidate * entry_sizes)[row_range]]
            )
            self.write_load += candidate_loads @ inspection.replacement_options.candidates[row_range]
        fewest_candidates = np.full(len(segments.ids), _NO_CANDIDATE_COUNT, np.int64)
        np.minimum.at(
            fewest_candidates, segments.ledger[is_moving_segment], candidate_counts[is_moving_segment]
        )
        self.candidate_hist += np.bincount(
            fewest_candidates[fewest_candidates < _NO_CANDIDATE_COUNT], minlength=len(self.candidate_hist)
        )


_SUM_NAMES = (
    "ledgers", "fragments", "batches", "needed", "needed_bytes", "read", "copied", "copied_bytes", "unsized",
    "open_ends", "renamed", "renamed_stuck", "along",
)  # fmt: skip


def _find_segments(segments: Segments, entry_windows: Windows) -> Longs:
    """Return the segment of each window (entries on the same bookies), found by ledger and first entry."""
    assert entry_windows.segment_bounds is not None  # nothing was merged
    first_entries = np.concatenate([segments.first_entries, entry_windows.segment_bounds[:, 0]])
    _, first_entry_codes = np.unique(first_entries, return_inverse=True)
    first_entry_code_count = int(first_entry_codes.max(initial=0)) + 1
    segment_keys = segments.ledger * first_entry_code_count + first_entry_codes[: len(segments.first_entries)]
    segment_order = np.argsort(segment_keys, kind="stable")
    key_positions = np.searchsorted(
        segment_keys[segment_order],
        entry_windows.ledger * first_entry_code_count + first_entry_codes[len(segments.first_entries) :],
    )
    segment_rows: Longs = segment_order[key_positions]
    return segment_rows
