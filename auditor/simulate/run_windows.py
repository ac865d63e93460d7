"""The windows of a finished run's ledgers, batch by batch, with the state of their copies in the indexes.

A window consists of the entries on the same set of bookies (`auditor.simulate.windows`).
`auditor.simulate.copy_states` provides the states of copies.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from auditor.model.ledger_metadata import LedgerState
from auditor.model.states import LISTED
from auditor.runs.directory import RunDirectory
from auditor.simulate.copy_states import CopyStates
from auditor.simulate.window_merging import merge_equal_ledgers, with_bytes
from auditor.simulate.windows import (
    WINDOW_COLUMNS,
    BookieNumbers,
    Bools,
    SegmentColumns,
    Windows,
    make_windows,
    segment_columns,
)
from auditor.simulate.writes import IsolationNumbers

MERGED_WINDOWS = 1 << 18
"""Smallest number of windows in a batch, except the last batch. Smaller batches are merged."""


@dataclass
class LedgerCounts:
    """Counts from a pass over the ledgers of a run.

    ``undecided_ledgers`` counts the ledgers whose metadata does not show which bookies should have each
    entry. ``ledgers_by_shape`` counts ledgers by (ensemble size, write quorum, ack quorum, is not closed,
    number that `IsolationNumbers` gives to the ledger's isolation groups).
    """

    ledgers: int = 0
    undecided_ledgers: int = 0
    not_closed_ledgers: int = 0
    ledgers_by_shape: Counter[tuple[int, int, int, bool, int]] = field(default_factory=Counter)


def decided_ledgers(
    run: RunDirectory, extra_columns: Sequence[str] = ()
) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Yield batches of decided ledgers, each with the number of undecided ledgers that it leaves out.

    A ledger is decided if its metadata shows which bookies should have each entry. Ledgers that the store
    did not list are not counted. The run's report has the ids that such ledgers may have
    (`RunFacts.in_doubt`). ``extra_columns`` are read in addition to `WINDOW_COLUMNS`.
    """
    is_listed_ledger = ds.field("status").isin(list(LISTED)) & ds.field("ledger_id").is_valid()
    for ledger_batch in run.batches("tables/ledgers", [*WINDOW_COLUMNS, *extra_columns], is_listed_ledger):
        row_count, is_undecidable = ledger_batch.num_rows, ledger_batch["undecidable"].fill_null(True)
        if pc.any(is_undecidable).as_py():
            ledger_batch = ledger_batch.filter(pc.invert(is_undecidable))
        yield ledger_batch, row_count - ledger_batch.num_rows


class RunWindows:
    """The windows of a run's ledgers. A window consists of the entries on the same set of bookies.

    Each iteration makes one pass over the run's tables, and sets ``read`` to the counts of ledgers.

    Args:
        run: A finished run.
        must_merge: Whether ledgers with equal windows are merged into one. Their ids are then lost.
        segment_filter: Function that selects ledgers by their segments. Ledgers with a missing or unknown
            copy are selected in any case. None selects all ledgers.
        isolation: Numbers of isolation groups, to count ledgers by group. None if they are not needed.
    """

    def __init__(
        self,
        run: RunDirectory,
        must_merge: bool = True,
        segment_filter: Callable[[SegmentColumns], Bools] | None = None,
        isolation: IsolationNumbers | None = None,
    ) -> None:
        self.run = run
        self.read = LedgerCounts()
        self.numbers = BookieNumbers(_member_names(run))
        self._merge, self._segment_filter, self._isolation = must_merge, segment_filter, isolation
        self._copies = CopyStates(run, self.numbers)

    @property
    def unread_bookies(self) -> tuple[str, ...]:
        """Return the bookies from which nothing was read."""
        return tuple(
            sorted(bookie for bookie in self.numbers.names if bookie not in self._copies.read_bookies)
        )

    def __iter__(self) -> Iterator[Windows]:
        self.read = LedgerCounts()
        pending_windows: list[Windows] = []
        for windows in self._iterate_batches():
            pending_windows.append(self._merge_windows(windows))
            if sum(map(len, pending_windows)) < MERGED_WINDOWS:
                continue
            merged_batch = (
                pending_windows[0]
                if len(pending_windows) == 1
                else self._merge_windows(Windows.concat(pending_windows))
            )
            # If merging made the batch small, keep it until more windows have come.
            if self._merge and len(merged_batch) < MERGED_WINDOWS // 2:
                pending_windows = [merged_batch]
            else:
                yield merged_batch
                pending_windows = []
        if pending_windows:
            yield self._merge_windows(Windows.concat(pending_windows))

    def _merge_windows(self, windows: Windows) -> Windows:
        return merge_equal_ledgers(windows) if self._merge else windows

    def _iterate_batches(self) -> Iterator[Windows]:
        for ledger_batch, undecided_count in decided_ledgers(
            self.run, self._isolation.columns if self._isolation else ()
        ):
            self._count_batch(ledger_batch, undecided_count)
            if self._segment_filter is not None:
                segments = segment_columns(ledger_batch, self.numbers)
                ledger_batch = ledger_batch.filter(
                    pa.array(self._copies.flag_uncertain_ledgers(segments) | self._segment_filter(segments))
                )
            windows = self._copies.add_copy_states(make_windows(ledger_batch, self.numbers))
            length_by_ledger = ledger_batch["length"].fill_null(0).to_numpy(zero_copy_only=False)
            yield with_bytes(windows, np.maximum(length_by_ledger, 0))

    def _count_batch(self, decided_batch: pa.RecordBatch, undecided_count: int) -> None:
        self.read.ledgers += decided_batch.num_rows + undecided_count
        self.read.undecided_ledgers += undecided_count
        is_closed = pc.equal(decided_batch["state"].cast("string"), LedgerState.CLOSED.value).fill_null(False)
        self.read.not_closed_ledgers += decided_batch.num_rows - (pc.sum(is_closed).as_py() or 0)
        shape_columns = ["ensemble_size", "write_quorum", "ack_quorum"]
        isolation_numbers = (
            self._isolation.number_isolations(decided_batch)
            if self._isolation
            else np.zeros(len(decided_batch), np.int64)
        )
        shape_values = [
            *(decided_batch[column_name] for column_name in shape_columns),
            is_closed,
            pa.array(isolation_numbers),
        ]
        shape_rows = pa.table(shape_values, [*shape_columns, "closed", "isolation"])
        for shape_row in (
            shape_rows.group_by(shape_rows.column_names).aggregate([([], "count_all")]).to_pylist()
        ):
            quorums = (shape_row["ensemble_size"], shape_row["write_quorum"], shape_row["ack_quorum"])
            shape_key = (*quorums, not shape_row["closed"], shape_row["isolation"])
            self.read.ledgers_by_shape[shape_key] += shape_row["count_all"]


def _member_names(run: RunDirectory) -> list[str]:
    """Return every bookie of the run, sorted by id."""
    return sorted(
        bookie for bookie in run.read("tables/bookies", ["bookie_id"])["bookie_id"].to_pylist() if bookie
    )
