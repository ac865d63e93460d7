"""Trial removal of bookies: the ledgers that move, the blocked ledgers, and the work of copying.

The segments of a batch of ledgers are arrays, with their whole ensembles. Example with two ledgers:

    ledger       0              1                   rows of the batch
    segment      0       1      2                   ``ledger`` has the row of each segment
    member       a b c | a b d | c d                ``ensembles`` has one row for each segment

Segments have all members of an ensemble, also those without entries: the replacement of a bookie depends on
the other members too. Windows (`auditor.simulate.windows`) only have bookies with entries.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from auditor.decommission.targets import BATCH_ENTRIES, GonePlaces, ReplacementOptions, Targets
from auditor.model.decommission import LEDGER_CAUSES, Cause
from auditor.runs.ledger_topics import topics_of
from auditor.runs.reader import RunReader
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
    """Segments with their ensembles in rows.

    Args:
        entry_bytes: Array by ledger: the mean payload of an entry. NaN if the ledger is not closed.
        isolation: Array by ledger: the number of its isolation groups.
        last_entries: Last entry of each segment. It is below the first entry if the segment has no entry or
            is an open end, whose last entry is unknown.
        is_open_end: Whether the segment is the open end of its ledger.
        ensembles: Numbers of the bookies, `NO_BOOKIE` past the end of the ensemble.
    """

    entry_bytes: NDArray[np.float64]
    isolation: Longs
    last_entries: Longs
    is_open_end: Bools
    ensembles: NDArray[np.int32]


def segments_of(ledger_rows: pa.RecordBatch, numbers: BookieNumbers, isolation_numbers: Longs) -> Segments:
    """Return the segments of decided ledgers, from rows of the table ``ledgers``."""
    columns = segment_columns(ledger_rows, numbers)
    last_entries, is_open_end = columns.ends()
    last_entry, ledger_lengths = (
        column_of(ledger_rows, column, -1) for column in ("last_entry_id", "length")
    )
    is_closed = np.zeros(ledger_rows.num_rows, bool)
    is_closed[columns.ledger[columns.is_closed]] = True
    entry_counts = np.where(is_closed & (last_entry >= 0), last_entry + 1, 1)
    ensemble_sizes = np.diff(np.append(columns.ensemble_starts, len(columns.members)))
    ensembles = np.full((len(ensemble_sizes), int(ensemble_sizes.max(initial=0))), NO_BOOKIE, np.int32)
    ensembles[np.arange(ensembles.shape[1]) < ensemble_sizes[:, None]] = columns.members
    return Segments(
        **vars(columns),
        entry_bytes=np.where(is_closed, np.maximum(ledger_lengths, 0) / entry_counts, np.nan),
        isolation=isolation_numbers,
        last_entries=np.where(is_open_end, columns.first_entries - 1, last_entries),
        is_open_end=is_open_end,
        ensembles=ensembles,
    )


def flag_ledgers_naming(ledger_rows: pa.RecordBatch, is_selected: Bools, numbers: BookieNumbers) -> Bools:
    """Flag the ledgers with a bookie in an ensemble that is flagged in ``is_selected``, by bookie number.

    Bookies that appear first in these rows get new numbers, and count as not flagged.
    """
    segments = segment_columns(ledger_rows, numbers)
    is_selected_number = np.zeros(len(numbers), bool)
    is_selected_number[: len(is_selected)] = is_selected
    return segments.any_of_members(is_selected_number[segments.members])


CAUSE_BY_CODE = (None, *LEDGER_CAUSES, Cause.ABSENT)
"""Cause of each code in `TrialSums.blocked`. Code 0 means that the ledger is not blocked."""

_CODE_BY_CAUSE = {cause: cause_code for cause_code, cause in enumerate(CAUSE_BY_CODE)}
UNREAD_COPIES_DOUBT = "ledgers whose other copies may be missing"
OTHER_ENTRIES_DOUBT = "ledgers whose segments have other entries that may be lost"
UNKNOWN_GROUPS_DOUBT = "ledgers whose isolation groups are not known"
OWN_GROUPS_DOUBT = (
    "ledgers with no spare in their own isolation groups (only Pulsar's policy uses such groups)"
)
DOUBT_TEXTS = (UNREAD_COPIES_DOUBT, OTHER_ENTRIES_DOUBT, UNKNOWN_GROUPS_DOUBT, OWN_GROUPS_DOUBT)
_NO_CANDIDATE_COUNT = 1 << 60
_BATCH_ROWS = 1 << 12


@dataclass(frozen=True, slots=True)
class _SegmentInspection:
    """Facts about the segments of a batch if the bookies of a trial are removed."""

    is_gone: Bools
    gone_places: GonePlaces
    entries_by_class: Longs
    gone_counts: Longs
    must_be_copied: Bools
    replacement_options: ReplacementOptions


class _LedgerCauses(NamedTuple):
    """Arrays by ledger: the code of the first cause, a flag per doubt, and whether spares are too few."""

    codes: NDArray[np.int8]
    doubts: dict[str, Bools]
    ledgers_without_spare: Bools


class TrialSums:
    """Sums over batches of ledgers in a trial that removes ``leaving_bookies``, given as numbers.

    ``absent_bookies`` are already gone, and the server replaces them at the same time.
    """

    def __init__(
        self, leaving_bookies: Sequence[int], absent_bookies: Sequence[int], replacement_targets: Targets
    ) -> None:
        self.targets = replacement_targets
        bookie_slots = len(replacement_targets.spares) + 1  # the last place is NO_BOOKIE's
        self._is_leaving: Bools = np.zeros(bookie_slots, bool)
        self._is_gone: Bools = np.zeros(bookie_slots, bool)
        self._is_leaving[list(leaving_bookies)] = True
        self._is_gone[[*leaving_bookies, *absent_bookies]] = True
        self._absent = bool(absent_bookies)
        self.sums: dict[str, float] = dict.fromkeys(_SUM_NAMES, 0)
        self.ledgers_without_spare = 0
        self.doubts = dict.fromkeys(DOUBT_TEXTS, 0)
        self.blocked: list[tuple[Longs, NDArray[np.int8]]] = []
        self.read, self.written = np.zeros((2, bookie_slots - 1)), np.zeros((2, bookie_slots - 1))
        self.candidates = np.zeros(bookie_slots, np.int64)

    @property
    def is_removed_bookie(self) -> Bools:
        """Flags, by bookie number, of the bookies that leave or are absent."""
        return self._is_gone[:-1]

    def all_blocked_ledgers(self) -> tuple[Longs, NDArray[np.int8]]:
        """Return every blocked ledger: scope and id, and the code of its cause (see `CAUSE_BY_CODE`)."""
        ids = np.concatenate([np.zeros((0, 2), np.int64), *(ledger_ids for ledger_ids, _ in self.blocked)])
        return ids, np.concatenate(
            [np.zeros(0, np.int8), *(ledger_codes for _, ledger_codes in self.blocked)]
        )

    def blocked_ids_of_store(self) -> Longs:
        """Return the blocked ledgers of id scope 0, ascending, without those that absent bookies block."""
        ids, cause_codes = self.all_blocked_ledgers()
        is_ledger_cause = cause_codes != _CODE_BY_CAUSE[Cause.ABSENT]
        ledger_ids: Longs = np.sort(ids[is_ledger_cause & (ids[:, 0] == 0), 1])
        return ledger_ids

    def add(self, segments: Segments, windows: Windows) -> None:
        """Add the ledgers of a batch to the sums. ``windows`` must be of the same ledgers as ``segments``."""
        is_leaving = self._is_leaving[segments.ensembles]
        has_leaving_member = any_true(is_leaving)
        has_leaving_bookie = segments.any_of_ledger(has_leaving_member)
        inspection = self._inspect_segments(segments, is_leaving, self._is_gone)
        must_be_copied = segments.any_of_ledger(inspection.must_be_copied)
        cause_codes, doubts, has_no_spare = self._find_causes(segments, windows, inspection, self._is_gone)
        if self._absent and cause_codes.any():
            inspection_without_absent = self._inspect_segments(segments, is_leaving, self._is_leaving)
            causes_of_leaving = self._find_causes(
                segments, windows, inspection_without_absent, self._is_leaving
            )
            cause_codes[(cause_codes > 0) & (causes_of_leaving.codes == 0)] = _CODE_BY_CAUSE[Cause.ABSENT]
            has_no_spare &= causes_of_leaving.ledgers_without_spare
        self.ledgers_without_spare += int(has_no_spare.sum())
        is_blocked = cause_codes > 0
        self.blocked.append((segments.ids[is_blocked], cause_codes[is_blocked]))
        is_moving = must_be_copied & ~is_blocked
        for doubt_text, is_doubtful in doubts.items():
            self.doubts[doubt_text] += int((is_doubtful & is_moving).sum())
        has_too_few_spares: Bools = inspection.replacement_options.is_refused | (
            inspection.replacement_options.free_spare_counts < inspection.is_gone.sum(1)
        )
        cannot_be_placed = (
            segments.any_of_ledger(has_too_few_spares & has_leaving_member)
            & has_leaving_bookie
            & ~must_be_copied
        )
        has_gone_member = any_true(inspection.is_gone)
        has_gone_neighbour = segments.any_of_ledger(has_gone_member) & ~has_leaving_bookie
        for sum_name, is_counted in (
            ("renamed", has_leaving_bookie & ~must_be_copied),
            ("renamed_stuck", cannot_be_placed),
            ("along", has_gone_neighbour),
        ):
            self.sums[sum_name] += int(is_counted.sum())
        self._add_copy_work(segments, inspection, is_moving)

    def _inspect_segments(
        self, segments: Segments, is_leaving: Bools, is_removed: Bools
    ) -> _SegmentInspection:
        is_gone = is_removed[segments.ensembles]
        segment_shape = (
            segments.first_entries,
            segments.last_entries,
            segments.ensemble_size,
            segments.write_quorum,
        )
        gone_places = GonePlaces(*segment_shape, is_gone)
        entries = gone_places.count_entries()
        is_stored = (entries > 0) & (GonePlaces(*segment_shape, is_leaving).count_gone_places() > 0)
        must_be_copied: Bools = is_stored.any(1) | (segments.is_open_end & is_leaving.any(1))
        isolation_numbers = segments.isolation[segments.ledger]
        replacement_options = self.targets.find_options(
            segments.ensembles, gone_places, segments.ack_quorum, isolation_numbers
        )
        return _SegmentInspection(
            is_gone,
            gone_places,
            entries,
            gone_places.count_gone_places(),
            must_be_copied,
            replacement_options,
        )

    def _find_causes(
        self, segments: Segments, windows: Windows, inspection: _SegmentInspection, is_removed: Bools
    ) -> _LedgerCauses:
        segment_rows = _find_segments(segments, windows)
        is_gone = is_removed[windows.bookies]
        is_missing = is_gone | ((windows.copies == MISSING) & (windows.bookies != NO_BOOKIE))
        is_missing_or_unknown = is_missing | ((windows.copies == UNKNOWN) & (windows.bookies != NO_BOOKIE))
        has_no_copy, may_have_no_copy = (
            is_missing.sum(1) >= windows.write_quorum,
            is_missing_or_unknown.sum(1) >= windows.write_quorum,
        )
        needs_copying = inspection.must_be_copied[segment_rows] & ~windows.is_open_end
        is_only_copy = is_gone.sum(1) >= windows.write_quorum
        has_gone_copy = is_gone.any(1)
        has_too_few_candidates = inspection.replacement_options.free_spare_counts < inspection.is_gone.sum(1)
        has_no_ack_quorum = segments.is_open_end & (
            inspection.gone_counts >= np.maximum(segments.ack_quorum, 1)[:, None]
        ).any(1)
        must_be_copied = segments.any_of_ledger(inspection.must_be_copied)
        is_refused = segments.any_of_ledger(
            inspection.must_be_copied & inspection.replacement_options.is_refused
        )
        has_unknown_groups, has_own_groups = self.targets.flag_uncertain_groups(segments.isolation)
        ledgers_by_cause = {
            Cause.ONLY_COPY: windows.any_of_ledger(needs_copying & is_only_copy),
            Cause.UNREADABLE: windows.any_of_ledger(needs_copying & has_gone_copy & has_no_copy),
            Cause.NO_SPARE: segments.any_of_ledger(inspection.must_be_copied & has_too_few_candidates),
            Cause.NO_ADMISSIBLE: is_refused & ~has_unknown_groups & ~has_own_groups,
            Cause.NO_COVERAGE: segments.any_of_ledger(has_no_ack_quorum) & must_be_copied,
        }
        has_too_few_spares = ledgers_by_cause[Cause.NO_SPARE] | ledgers_by_cause[Cause.NO_ADMISSIBLE]
        cause_codes = np.zeros(len(segments.ids), np.int8)
        for cause in reversed(LEDGER_CAUSES):
            cause_codes[ledgers_by_cause[cause]] = _CODE_BY_CAUSE[cause]
        doubts = {
            UNREAD_COPIES_DOUBT: windows.any_of_ledger(
                needs_copying & has_gone_copy & may_have_no_copy & ~has_no_copy
            ),
            OTHER_ENTRIES_DOUBT: windows.any_of_ledger(needs_copying & ~has_gone_copy & may_have_no_copy),
            UNKNOWN_GROUPS_DOUBT: must_be_copied & has_unknown_groups,
            OWN_GROUPS_DOUBT: is_refused & has_own_groups,
        }
        return _LedgerCauses(cause_codes, doubts, has_too_few_spares)

    def _add_copy_work(self, segments: Segments, inspection: _SegmentInspection, is_moving: Bools) -> None:
        """Add to the sums the work of copying those ledgers that must move."""
        is_stored = (inspection.entries_by_class > 0) & (inspection.gone_counts > 0)
        is_moving_segment = is_moving[segments.ledger] & (
            is_stored.any(1) | (segments.is_open_end & inspection.is_gone.any(1))
        )
        gone_count = inspection.is_gone.sum(1)
        entries_read = np.where(is_moving_segment, inspection.gone_places.count_copied_entries(), 0)
        entries_needed = np.where(
            is_moving_segment, (inspection.entries_by_class * inspection.gone_counts).sum(1), 0
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
        """Add reads to the load of the first member that stays; divide writes among all candidates."""
        reading_place = inspection.gone_places.first_remaining_place()
        read_shares = entries_read / np.maximum(inspection.entries_by_class.sum(1), 1)
        entries = np.where(reading_place >= 0, inspection.entries_by_class * read_shares[:, None], 0.0)
        reading_bookies = np.take_along_axis(segments.ensembles, np.maximum(reading_place, 0), 1)
        bookie_slots = self.read.shape[1]
        for sums, entry_weights in zip(self.read, (entries, entries * entry_sizes[:, None]), strict=True):
            sums += np.bincount(
                reading_bookies.ravel() % (bookie_slots + 1), entry_weights.ravel(), bookie_slots + 1
            )[:bookie_slots]
        candidate_counts = inspection.replacement_options.candidates.sum(1)
        entries_per_candidate = entries_read * inspection.is_gone.sum(1) / np.maximum(candidate_counts, 1)
        for first_row in range(0, len(entries_per_candidate), _BATCH_ROWS):
            rows_at_once = slice(first_row, first_row + _BATCH_ROWS)
            candidate_loads = np.stack(
                [entries_per_candidate[rows_at_once], (entries_per_candidate * entry_sizes)[rows_at_once]]
            )
            self.written += candidate_loads @ inspection.replacement_options.candidates[rows_at_once]
        fewest_candidates = np.full(len(segments.ids), _NO_CANDIDATE_COUNT, np.int64)
        np.minimum.at(
            fewest_candidates, segments.ledger[is_moving_segment], candidate_counts[is_moving_segment]
        )
        self.candidates += np.bincount(
            fewest_candidates[fewest_candidates < _NO_CANDIDATE_COUNT], minlength=len(self.candidates)
        )


_SUM_NAMES = (
    "ledgers", "fragments", "batches", "needed", "needed_bytes", "read", "copied", "copied_bytes", "unsized",
    "open_ends", "renamed", "renamed_stuck", "along",
)  # fmt: skip


def _find_segments(segments: Segments, windows: Windows) -> Longs:
    """Return the segment of each window. Window and segment have the same ledger and first entry."""
    assert windows.segment_bounds is not None  # nothing was merged
    first_entries = np.concatenate([segments.first_entries, windows.segment_bounds[:, 0]])
    _, candidate_ranks = np.unique(first_entries, return_inverse=True)
    rank_count = int(candidate_ranks.max(initial=0)) + 1
    segment_keys = segments.ledger * rank_count + candidate_ranks[: len(segments.first_entries)]
    segment_order = np.argsort(segment_keys, kind="stable")
    key_positions = np.searchsorted(
        segment_keys[segment_order],
        windows.ledger * rank_count + candidate_ranks[len(segments.first_entries) :],
    )
    segment_rows: Longs = segment_order[key_positions]
    return segment_rows


def blocked_ledgers(run: RunReader, trial: TrialSums) -> pa.Table:
    """Return every blocked ledger with its first cause and its topic, ordered by cause and id."""
    ids, cause_codes = trial.all_blocked_ledgers()
    segment_order = np.lexsort((ids[:, 1], ids[:, 0], cause_codes))
    ids, cause_codes = ids[segment_order], cause_codes[segment_order]
    cause_texts = pa.array([str(cause) if cause else "" for cause in CAUSE_BY_CODE], pa.string())
    causes = pa.DictionaryArray.from_arrays(pa.array(cause_codes, pa.int8()), cause_texts)
    columns = {"scope_id": ids[:, 0], "ledger_id": ids[:, 1], "cause": causes, "topic": topics_of(run, ids)}
    return pa.table(columns)


def blocked_topics(run: RunReader, trial: TrialSums) -> pa.Table:
    """Return the number of blocked ledgers by cause and topic, largest first. An unknown topic is null."""
    ledgers = blocked_ledgers(run, trial)
    text_table = pa.table({column: ledgers[column].cast(pa.string()) for column in ("cause", "topic")})
    topic_counts = text_table.group_by(["cause", "topic"]).aggregate([([], "count_all")])
    topic_counts = topic_counts.rename_columns(["cause", "topic", "ledgers"])
    return topic_counts.sort_by([("cause", "ascending"), ("ledgers", "descending"), ("topic", "ascending")])


def blocked_table(table_name: str | None, run: RunReader, trial: TrialSums) -> pa.Table:
    """Return the table ``topics`` (`blocked_topics`), or for any other name `blocked_ledgers`."""
    return blocked_topics(run, trial) if table_name == "topics" else blocked_ledgers(run, trial)
