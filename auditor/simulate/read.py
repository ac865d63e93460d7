"""The windows of a finished run's ledgers, batch by batch, and what the pass over them learns besides."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from auditor.model.ledger_metadata import LedgerState
from auditor.model.states import LISTED
from auditor.runs.directory import RunDirectory
from auditor.simulate.copies import CopiesToday
from auditor.simulate.isolation import IsolationNumbers
from auditor.simulate.windows import (
    COLUMNS,
    BookieNumbers,
    Bools,
    SegmentColumns,
    Windows,
    merged,
    segment_columns,
    windows_of,
    with_bytes,
)

AT_ONCE = 1 << 18
"""So many windows are looked at together; more are given on as they are."""


@dataclass
class LedgersRead:
    """What a pass over the ledgers of a run saw: ``undecided`` are those whose windows are not known.

    ``shapes`` counts ledgers by ensemble size, write quorum and ack quorum, those that are not closed apart,
    and by the number of the groups that they keep to.
    """

    ledgers: int = 0
    undecided: int = 0
    not_closed: int = 0
    shapes: Counter[tuple[int, int, int, bool, int]] = field(default_factory=Counter)


def decided_ledgers(run: RunDirectory, more: Sequence[str] = ()) -> Iterator[tuple[pa.RecordBatch, int]]:
    """The ledgers whose metadata says who should hold what, batch by batch; and how many others there are.

    ``more`` are columns besides `COLUMNS`. A ledger is what the store lists as one, whatever its metadata
    says. Znodes that are no ledger's and parts that were not listed are none: which ids they may hide is said
    by the run's report (`RunFacts.in_doubt`).
    """
    import pyarrow.compute as pc
    import pyarrow.dataset as ds

    listed = ds.field("status").isin(list(LISTED)) & ds.field("ledger_id").is_valid()
    for batch in run.batches("tables/ledgers", [*COLUMNS, *more], listed):
        rows, undecided = batch.num_rows, batch["undecidable"].fill_null(True)
        if pc.any(undecided).as_py():
            batch = batch.filter(pc.invert(undecided))
        yield batch, rows - batch.num_rows


class RunWindows:
    """The windows of a run; iterating makes one pass over its tables, and ``read`` is then what it saw.

    ``merge``: ledgers that are alike are one, and their ids are gone. ``among``: only of ledgers of which
    some copy is not surely there, and of those that it takes by their segments. ``isolation`` tells shapes
    apart by the groups that ledgers keep to.
    """

    def __init__(
        self,
        run: RunDirectory,
        merge: bool = True,
        among: Callable[[SegmentColumns], Bools] | None = None,
        isolation: IsolationNumbers | None = None,
    ) -> None:
        self.run = run
        self.read = LedgersRead()
        self.numbers = BookieNumbers(_members(run))
        self._merge, self._among, self._isolation = merge, among, isolation
        self._copies = CopiesToday(run, self.numbers)

    @property
    def unread(self) -> tuple[str, ...]:
        """Members of which nothing was read."""
        return tuple(sorted(name for name in self.numbers.names if name not in self._copies.seen))

    def __iter__(self) -> Iterator[Windows]:
        self.read = LedgersRead()
        waiting: list[Windows] = []
        for windows in self._each_batch():
            waiting.append(self._alike(windows))
            if sum(map(len, waiting)) < AT_ONCE:
                continue
            together = waiting[0] if len(waiting) == 1 else self._alike(Windows.concat(waiting))
            # What merging left small waits for what comes.
            if self._merge and len(together) < AT_ONCE // 2:
                waiting = [together]
            else:
                yield together
                waiting = []
        if waiting:
            yield self._alike(Windows.concat(waiting))

    def _alike(self, windows: Windows) -> Windows:
        return merged(windows) if self._merge else windows

    def _each_batch(self) -> Iterator[Windows]:
        for batch, others in decided_ledgers(self.run, self._isolation.columns if self._isolation else ()):
            self._count(batch, others)
            if self._among is not None:
                segments = segment_columns(batch, self.numbers)
                batch = batch.filter(pa.array(self._copies.in_doubt(segments) | self._among(segments)))
            windows = self._copies.of(windows_of(batch, self.numbers))
            length = batch["length"].fill_null(0).to_numpy(zero_copy_only=False)
            yield with_bytes(windows, np.maximum(length, 0))

    def _count(self, decided: pa.RecordBatch, others: int) -> None:
        import pyarrow.compute as pc

        self.read.ledgers += decided.num_rows + others
        self.read.undecided += others
        closed = pc.equal(decided["state"].cast("string"), LedgerState.CLOSED.value).fill_null(False)
        self.read.not_closed += decided.num_rows - (pc.sum(closed).as_py() or 0)
        names = ["ensemble_size", "write_quorum", "ack_quorum"]
        isolation = self._isolation.of(decided) if self._isolation else np.zeros(len(decided), np.int64)
        said = [*(decided[name] for name in names), closed, pa.array(isolation)]
        kinds = pa.table(said, [*names, "closed", "isolation"])
        for row in kinds.group_by(kinds.column_names).aggregate([([], "count_all")]).to_pylist():
            quorums = (row["ensemble_size"], row["write_quorum"], row["ack_quorum"])
            shape = (*quorums, not row["closed"], row["isolation"])
            self.read.shapes[shape] += row["count_all"]


def _members(run: RunDirectory) -> list[str]:
    """Every bookie that is named anywhere, by id."""
    return sorted(name for name in run.read("tables/bookies", ["bookie_id"])["bookie_id"].to_pylist() if name)
