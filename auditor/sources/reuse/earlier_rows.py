"""What an earlier run read of a bookie's index, for the one that reads only what has changed since.

The rows lie in some Parquet files of that run's table ``availability``; their number in the order of these
files is what rows are known by here. They are gone through twice, batch by batch: once for paths and stamps,
which decide, and once for those that may stay. In between one bit a row is kept, no row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from auditor.errors import RunError
from auditor.sources.bookies.availability_schema import SCHEMA
from auditor.sources.bookies.parts import Earlier
from auditor.sources.reuse.earlier_files import open_earlier_file

BATCH_ROWS = 4096
"""Rows in memory at once: those of ledgers full of holes are large."""


class EarlierRows:
    """The rows of one bookie in an earlier run; what is marked comes again.

    Raises:
        RunError: from any method, where a file is missing, cut, damaged, or of another schema.
    """

    def __init__(self, earlier: Earlier, bookie_id: str) -> None:
        self._earlier = earlier
        self._bookie_id = bookie_id
        self._marked = np.zeros(0, np.bool_)

    @property
    def began(self) -> int:
        """When that run began to list, in ms."""
        return self._earlier.began

    def scan(self, columns: Sequence[str]) -> Iterator[tuple[NDArray[np.int64], pa.RecordBatch]]:
        """The bookie's rows and their numbers, batch by batch, some columns of them."""
        wanted = ["bookie_id", *(name for name in columns if name != "bookie_id")]
        for first, batch in self._batches(wanted):
            own = np.asarray(pc.equal(batch["bookie_id"], self._bookie_id).fill_null(False))
            if own.any():
                yield first + np.flatnonzero(own), batch.filter(pa.array(own))

    def narrow(self, columns: Sequence[str], wanted: Callable[[pa.RecordBatch], NDArray[np.bool_]]) -> int:
        """Pass over files without a row that is ``wanted`` from here on; returns how many rows are.

        It changes the numbers of rows. The rows themselves decide, for their pages have checksums, and the
        least and greatest values in a file's footer have none.
        """
        count, files = 0, []
        for name in self._earlier.files:
            only = EarlierRows(replace(self._earlier, files=(name,)), self._bookie_id)
            found = sum(int(np.count_nonzero(wanted(batch))) for _, batch in only.scan(columns))
            count += found
            if found:
                files.append(name)
        self._earlier = replace(self._earlier, files=tuple(files))
        return count

    def mark(self, numbers: NDArray[np.int64]) -> None:
        """Let the rows with these numbers come again."""
        if len(numbers) and (last := int(numbers.max())) >= len(self._marked):
            self._marked = np.append(self._marked, np.zeros(last + 1, np.bool_))
        self._marked[numbers] = True

    def rows(self) -> Iterator[pa.RecordBatch]:
        """What was marked, as rows of ``availability``."""
        left = int(self._marked.sum())
        for first, batch in self._batches(SCHEMA.names) if left else ():
            kept = np.zeros(batch.num_rows, np.bool_)
            here = self._marked[first : first + batch.num_rows]
            kept[: len(here)] = here
            if kept.any():
                taken = batch.filter(pa.array(kept))
                columns = {name: taken[name] for name in SCHEMA.names}
                columns["reused"] = pa.repeat(pa.scalar(True), taken.num_rows)
                yield pa.RecordBatch.from_arrays(list(columns.values()), schema=SCHEMA)
                left -= taken.num_rows
        if left:
            raise RunError(f"{self._earlier.table}: {left} rows that it had do not come again")

    def _batches(self, columns: Sequence[str]) -> Iterator[tuple[int, pa.RecordBatch]]:
        """All rows of all files, and the number of the first row of each batch."""
        first = 0
        for name in self._earlier.files:
            with open_earlier_file(self._earlier.table, name, SCHEMA) as file:
                last = first + file.metadata.num_rows
                for batch in file.iter_batches(BATCH_ROWS, columns=list(columns), use_threads=False):
                    yield first, batch
                    first += batch.num_rows
                if first != last:
                    raise RunError(f"{abs(last - first)} rows more or fewer than it says")
