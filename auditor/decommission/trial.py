"""Trial removal of bookies: the ledgers that move, those that are blocked, and the work of copying.

The segments of a batch of ledgers are arrays, with their whole ensembles. Example with two ledgers:

    ledger       0              1                   rows of the batch
    segment      0       1      2                   ``ledger`` has the row of each segment
    member       a b c | a b d | c d                one row of ``members`` per segment, filled up

Windows (`auditor.simulate.windows`) only have positions that hold entries. Segments have all positions,
because the replacement of a bookie also depends on the other members of its ensemble, and on segments without
entries.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from auditor.decommission.targets import BATCH, GonePlaces, Openings, Targets
from auditor.model.decommission import OF_LEDGERS, Cause
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
    """Segments with their ensembles in rows; ``isolation`` and ``entry_bytes`` have one element per ledger.

    ``last`` is below ``first`` if a segment has no entry, or is the open end of its ledger, whose last entry
    is unknown. ``ensembles`` are numbers of bookies, `NO_BOOKIE` past the end of the ensemble.
    ``entry_bytes`` is the mean payload of an entry, NaN if the ledger is not closed. ``isolation`` is the
    number of the ledger's isolation groups.
    """

    entry_bytes: NDArray[np.float64]
    isolation: Longs
    last: Longs
    open_end: Bools
    ensembles: NDArray[np.int32]


def segments_of(rows: pa.RecordBatch, numbers: BookieNumbers, isolation: Longs) -> Segments:
    """Return the segments of decidable rows of the table ``ledgers``."""
    columns = segment_columns(rows, numbers)
    last_entries, open_end = columns.ends()
    last_entry, length = (column_of(rows, name, -1) for name in ("last_entry_id", "length"))
    is_closed = np.zeros(rows.num_rows, bool)
    is_closed[columns.ledger[columns.closed]] = True
    entries = np.where(is_closed & (last_entry >= 0), last_entry + 1, 1)
    sizes = np.diff(np.append(columns.starts, len(columns.members)))
    ensembles = np.full((len(sizes), int(sizes.max(initial=0))), NO_BOOKIE, np.int32)
    ensembles[np.arange(ensembles.shape[1]) < sizes[:, None]] = columns.members
    return Segments(
        **vars(columns),
        entry_bytes=np.where(is_closed, np.maximum(length, 0) / entries, np.nan),
        isolation=isolation,
        last=np.where(open_end, columns.first - 1, last_entries),
        open_end=open_end,
        ensembles=ensembles,
    )


def name_any(rows: pa.RecordBatch, is_wanted: Bools, numbers: BookieNumbers) -> Bools:
    """Return which ledgers have an ensemble with a bookie whose number has a flag in ``is_wanted``.

    Bookies that are new in these rows get further numbers, and are not wanted.
    """
    segments = segment_columns(rows, numbers)
    flags = np.zeros(len(numbers), bool)
    flags[: len(is_wanted)] = is_wanted
    return segments.any_of_members(flags[segments.members])


CAUSES = (None, *OF_LEDGERS, Cause.ABSENT)
"""Cause of each code in `TrialSums.blocked`; code 0 is a ledger that is not blocked."""

_CODE_BY_CAUSE = {cause: code for code, cause in enumerate(CAUSES)}
UNREAD = "ledgers whose other copies may be missing"
OTHER_ENTRIES = "ledgers whose segments have other entries that may be lost"
UNGROUPED = "ledgers whose isolation groups are not known"
OWN_GROUPS = "ledgers with no spare in their own isolation groups, which only Pulsar's policy uses"
DOUBTS = (UNREAD, OTHER_ENTRIES, UNGROUPED, OWN_GROUPS)
_NO_CANDIDATES = 1 << 60
_BATCH_ROWS = 1 << 12


@dataclass(frozen=True, slots=True)
class _Look:
    """Flags and numbers for the segments of a batch, in a trial that removes bookies."""

    is_gone: Bools
    seats: GonePlaces
    entries: Longs
    lost: Longs
    waits: Bools
    openings: Openings


class _Causes(NamedTuple):
    """For each ledger: the code of its first cause, its unknown facts, and whether it has too few spares."""

    codes: NDArray[np.int8]
    doubts: dict[str, Bools]
    without_spare: Bools


class TrialSums:
    """Sums over batches of ledgers in a trial that removes the bookies ``leaving``, given as numbers.

    ``absent`` bookies are gone already, and the server moves their copies at the same time.
    """

    def __init__(
        self, leaving_bookies: Sequence[int], absent_bookies: Sequence[int], targets: Targets
    ) -> None:
        self.targets = targets
        count = len(targets.spares) + 1  # the last place is NO_BOOKIE's
        self._is_leaving: Bools = np.zeros(count, bool)
        self._is_gone: Bools = np.zeros(count, bool)
        self._is_leaving[list(leaving_bookies)] = True
        self._is_gone[[*leaving_bookies, *absent_bookies]] = True
        self._absent = bool(absent_bookies)
        self.sums: dict[str, float] = dict.fromkeys(_SUM_NAMES, 0)
        self.without_spare = 0
        self.doubts = dict.fromkeys(DOUBTS, 0)
        self.blocked: list[tuple[Longs, NDArray[np.int8]]] = []
        self.read, self.written = np.zeros((2, count - 1)), np.zeros((2, count - 1))
        self.candidates = np.zeros(count, np.int64)

    @property
    def concerned(self) -> Bools:
        """A flag for each bookie by number: whether it is leaving or absent."""
        return self._is_gone[:-1]

    def all_blocked(self) -> tuple[Longs, NDArray[np.int8]]:
        """Return every blocked ledger: scope and id, and the position of its cause in `CAUSES`."""
        ids = np.concatenate([np.zeros((0, 2), np.int64), *(ledger_ids for ledger_ids, _ in self.blocked)])
        return ids, np.concatenate(
            [np.zeros(0, np.int8), *(ledger_codes for _, ledger_codes in self.blocked)]
        )

    def stuck(self) -> Longs:
        """Return the ledgers of scope 0, ascending, that are blocked by another cause than absent bookies."""
        ids, codes = self.all_blocked()
        is_ledger_cause = codes != _CODE_BY_CAUSE[Cause.ABSENT]
        ledger_ids: Longs = np.sort(ids[is_ledger_cause & (ids[:, 0] == 0), 1])
        return ledger_ids

    def add(self, segments: Segments, windows: Windows) -> None:
        """Add the ledgers of a batch to the sums; ``windows`` are those of the same ledgers."""
        is_leaving = self._is_leaving[segments.ensembles]
        is_touched = any_true(is_leaving)
        names_leaving = segments.any_of_ledger(is_touched)
        segment_look = self._look(segments, is_leaving, self._is_gone)
        waits = segments.any_of_ledger(segment_look.waits)
        codes, doubts, without_spare = self._causes(segments, windows, segment_look, self._is_gone)
        if self._absent and codes.any():
            return_look = self._look(segments, is_leaving, self._is_leaving)
            causes_of_leaving = self._causes(segments, windows, return_look, self._is_leaving)
            codes[(codes > 0) & (causes_of_leaving.codes == 0)] = _CODE_BY_CAUSE[Cause.ABSENT]
            without_spare &= causes_of_leaving.without_spare
        self.without_spare += int(without_spare.sum())
        is_blocked = codes > 0
        self.blocked.append((segments.ids[is_blocked], codes[is_blocked]))
        moves = waits & ~is_blocked
        for word, is_doubtful in doubts.items():
            self.doubts[word] += int((is_doubtful & moves).sum())
        is_short: Bools = segment_look.openings.refused | (
            segment_look.openings.outside < segment_look.is_gone.sum(1)
        )
        is_stuck = segments.any_of_ledger(is_short & is_touched) & names_leaving & ~waits
        has_leaving = any_true(segment_look.is_gone)
        is_neighbour = segments.any_of_ledger(has_leaving) & ~names_leaving
        for name, number in (
            ("renamed", names_leaving & ~waits),
            ("renamed_stuck", is_stuck),
            ("along", is_neighbour),
        ):
            self.sums[name] += int(number.sum())
        self._work(segments, segment_look, moves)

    def _look(self, segments: Segments, is_leaving: Bools, gone_ids: Bools) -> _Look:
        is_gone = gone_ids[segments.ensembles]
        shape = (segments.first, segments.last, segments.ensemble_size, segments.write_quorum)
        seats = GonePlaces(*shape, is_gone)
        entries = seats.entries()
        is_stored = (entries > 0) & (GonePlaces(*shape, is_leaving).gone_of_windows() > 0)
        waits: Bools = is_stored.any(1) | (segments.open_end & is_leaving.any(1))
        isolation = segments.isolation[segments.ledger]
        openings = self.targets.of(segments.ensembles, seats, segments.ack_quorum, isolation)
        return _Look(is_gone, seats, entries, seats.gone_of_windows(), waits, openings)

    def _causes(self, segments: Segments, windows: Windows, look: _Look, gone_ids: Bools) -> _Causes:
        segment_rows = _find_segments(segments, windows)
        is_gone = gone_ids[windows.bookies]
        is_missing = is_gone | ((windows.copies == MISSING) & (windows.bookies != NO_BOOKIE))
        may_miss = is_missing | ((windows.copies == UNKNOWN) & (windows.bookies != NO_BOOKIE))
        has_no_copy, may_lack = (
            is_missing.sum(1) >= windows.write_quorum,
            may_miss.sum(1) >= windows.write_quorum,
        )
        counts = look.waits[segment_rows] & ~windows.open_end
        is_only_copy = is_gone.sum(1) >= windows.write_quorum
        has_gone_copy = is_gone.any(1)
        has_too_few = look.openings.outside < look.is_gone.sum(1)
        is_uncovered = segments.open_end & (look.lost >= np.maximum(segments.ack_quorum, 1)[:, None]).any(1)
        waits = segments.any_of_ledger(look.waits)
        is_refused = segments.any_of_ledger(look.waits & look.openings.refused)
        is_ungrouped, is_own_group = self.targets.unsure(segments.isolation)
        of_causes = {
            Cause.ONLY_COPY: windows.any_of_ledger(counts & is_only_copy),
            Cause.UNREADABLE: windows.any_of_ledger(counts & has_gone_copy & has_no_copy),
            Cause.NO_SPARE: segments.any_of_ledger(look.waits & has_too_few),
            Cause.NO_ADMISSIBLE: is_refused & ~is_ungrouped & ~is_own_group,
            Cause.NO_COVERAGE: segments.any_of_ledger(is_uncovered) & waits,
        }
        is_short = of_causes[Cause.NO_SPARE] | of_causes[Cause.NO_ADMISSIBLE]
        codes = np.zeros(len(segments.ids), np.int8)
        for cause in reversed(OF_LEDGERS):
            codes[of_causes[cause]] = _CODE_BY_CAUSE[cause]
        doubts = {
            UNREAD: windows.any_of_ledger(counts & has_gone_copy & may_lack & ~has_no_copy),
            OTHER_ENTRIES: windows.any_of_ledger(counts & ~has_gone_copy & may_lack),
            UNGROUPED: waits & is_ungrouped,
            OWN_GROUPS: is_refused & is_own_group,
        }
        return _Causes(codes, doubts, is_short)

    def _work(self, segments: Segments, look: _Look, moves: Bools) -> None:
        """Add the copying work for the ledgers that move."""
        is_stored = (look.entries > 0) & (look.lost > 0)
        rows = moves[segments.ledger] & (is_stored.any(1) | (segments.open_end & look.is_gone.any(1)))
        gone_count = look.is_gone.sum(1)
        entries_read = np.where(rows, look.seats.copied(), 0)
        entries_needed = np.where(rows, (look.entries * look.lost).sum(1), 0)
        mean_bytes = segments.entry_bytes[segments.ledger]
        size, is_unsized = np.nan_to_num(mean_bytes), np.isnan(mean_bytes)
        entries_copied = entries_read * gone_count
        number = segments.last - segments.first + 1
        sums = self.sums
        sums["ledgers"] += int(moves.sum())
        sums["fragments"] += int((entries_read > 0).sum())
        sums["batches"] += int(np.where(entries_read > 0, -(-number // BATCH), 0).sum())
        sums["needed"] += int(entries_needed.sum())
        sums["needed_bytes"] += float((entries_needed * size).sum())
        sums["read"] += int(entries_read.sum())
        sums["copied"] += int(entries_copied.sum())
        sums["copied_bytes"] += float((entries_copied * size).sum())
        sums["unsized"] += int(entries_copied[is_unsized].sum())
        sums["open_ends"] += int(segments.any_of_ledger(rows & segments.open_end & look.is_gone.any(1)).sum())
        self._loads(segments, look, entries_read, size, rows)

    def _loads(
        self, segments: Segments, look: _Look, entries_read: Longs, size: NDArray[np.float64], rows: Bools
    ) -> None:
        """Add reads to the first member that stays, and spread writes evenly over all candidates."""
        position = look.seats.first_left()
        read_share = entries_read / np.maximum(look.entries.sum(1), 1)
        entries = np.where(position >= 0, look.entries * read_share[:, None], 0.0)
        member = np.take_along_axis(segments.ensembles, np.maximum(position, 0), 1)
        count = self.read.shape[1]
        for sums, weights in zip(self.read, (entries, entries * size[:, None]), strict=True):
            sums += np.bincount(member.ravel() % (count + 1), weights.ravel(), count + 1)[:count]
        number = look.openings.candidates.sum(1)
        candidate_share = entries_read * look.is_gone.sum(1) / np.maximum(number, 1)
        for start in range(0, len(candidate_share), _BATCH_ROWS):
            rows_at_once = slice(start, start + _BATCH_ROWS)
            share = np.stack([candidate_share[rows_at_once], (candidate_share * size)[rows_at_once]])
            self.written += share @ look.openings.candidates[rows_at_once]
        fewest_candidates = np.full(len(segments.ids), _NO_CANDIDATES, np.int64)
        np.minimum.at(fewest_candidates, segments.ledger[rows], number[rows])
        self.candidates += np.bincount(
            fewest_candidates[fewest_candidates < _NO_CANDIDATES], minlength=len(self.candidates)
        )


_SUM_NAMES = (
    "ledgers", "fragments", "batches", "needed", "needed_bytes", "read", "copied", "copied_bytes", "unsized",
    "open_ends", "renamed", "renamed_stuck", "along",
)  # fmt: skip


def _find_segments(segments: Segments, windows: Windows) -> Longs:
    """Return the segment of each window: the segment of its ledger with the same first entry."""
    assert windows.bounds is not None  # nothing was merged
    firsts = np.concatenate([segments.first, windows.bounds[:, 0]])
    _, ranks = np.unique(firsts, return_inverse=True)
    rank_count = int(ranks.max(initial=0)) + 1
    keys = segments.ledger * rank_count + ranks[: len(segments.first)]
    order = np.argsort(keys, kind="stable")
    positions = np.searchsorted(keys[order], windows.ledger * rank_count + ranks[len(segments.first) :])
    segment_rows: Longs = order[positions]
    return segment_rows


def blocked_ledgers(run: RunReader, trial: TrialSums) -> pa.Table:
    """Return every blocked ledger with its first cause and its topic, ordered by cause and id."""
    ids, codes = trial.all_blocked()
    order = np.lexsort((ids[:, 1], ids[:, 0], codes))
    ids, codes = ids[order], codes[order]
    words = pa.array([str(cause) if cause else "" for cause in CAUSES], pa.string())
    causes = pa.DictionaryArray.from_arrays(pa.array(codes, pa.int8()), words)
    columns = {"scope_id": ids[:, 0], "ledger_id": ids[:, 1], "cause": causes, "topic": topics_of(run, ids)}
    return pa.table(columns)


def blocked_topics(run: RunReader, trial: TrialSums) -> pa.Table:
    """Return the number of blocked ledgers by cause and topic, the most first; topic null if unknown."""
    ledgers = blocked_ledgers(run, trial)
    text_table = pa.table({name: ledgers[name].cast(pa.string()) for name in ("cause", "topic")})
    counts = text_table.group_by(["cause", "topic"]).aggregate([([], "count_all")])
    counts = counts.rename_columns(["cause", "topic", "ledgers"])
    return counts.sort_by([("cause", "ascending"), ("ledgers", "descending"), ("topic", "ascending")])


def blocked_table(name: str | None, run: RunReader, trial: TrialSums) -> pa.Table:
    """Return the table with this name; None stands for that of the blocked ledgers."""
    return blocked_topics(run, trial) if name == "topics" else blocked_ledgers(run, trial)
