"""Reuse of an earlier run's ledger rows, so that a run on etcd reads only what changed since then.

The rows are in the Parquet files of the earlier run's table ``ledgers``. They are in the order of their
keys, within a file and from one file to the next. Each part of the new scan gets a few neighbouring files.
The key range of a part ends at the first key of the next part. A part is read in pieces. Each piece has a
range of keys, and the earlier run's rows in this range. Together the pieces cover every key once, including
keys without a row.

A row is reused only if it has the path that belongs to its ledger id. Rows with another path are for stray
keys, or for values that are too large for a message. The keys of such rows are uncertain. If a table has
such rows, its pieces may lack keys.

A store that can report the changes since an earlier run is a `ComparableStore`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import NamedTuple, Protocol, runtime_checkable

import pyarrow as pa
import pyarrow.compute as pc

from auditor.errors import RunError
from auditor.keys.etcd import key_bytes
from auditor.model.batch_bounds import whole_batch_rows
from auditor.model.states import LISTED
from auditor.sources.file_systems import open_earlier_file
from auditor.sources.metadata.ledger_rows import LEDGERS
from auditor.sources.metadata.store import History, Part

PIECE_ROWS = 5_000
"""Largest number of rows in a piece.

To find changes, the server goes through all keys of a piece, as it does for a page of keys.
"""

BATCH_ROWS = 4 * PIECE_ROWS
"""Largest number of rows to hold in memory."""

PIECE_BYTES = 8 << 20
"""Largest size of a piece's rows, in bytes. The server keeps a piece's values in memory while it answers."""

_MAX_OPEN_FILES = 16

_FIRST_LEDGER_BATCH_ROWS = 1_024
"""Number of rows to read at a time to find the first ledger of a file."""


class LedgerFile(NamedTuple):
    """A file of the earlier run's table ``ledgers``.

    ``first_path`` is the path of the first ledger in the file.
    """

    name: str
    first_path: str


@dataclass(frozen=True, slots=True)
class EarlierLedgers:
    """Files of an earlier run's table: those with ledgers, in the order of the ledgers' keys.

    ``table`` is the directory of the table. ``whole`` is True if every row has the path that belongs to its
    ledger id.
    """

    table: str
    files: tuple[LedgerFile, ...]
    whole: bool

    def to_json(self) -> str:
        """Return this object as JSON text, to pass it in an option of a Spark data source."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, json_text: str) -> EarlierLedgers:
        """Create an object from the result of `to_json`.

        >>> earlier = EarlierLedgers("/runs/1/tables/ledgers", (LedgerFile("part-0", "/a"),), True)
        >>> EarlierLedgers.from_json(earlier.to_json()) == earlier
        True
        """
        json_document = json.loads(json_text)
        files = tuple(LedgerFile(*file) for file in json_document["files"])
        return cls(json_document["table"], files, json_document["whole"])

    def group_files(
        self, start: bytes, end: bytes, part_count: int
    ) -> list[tuple[EarlierLedgers, bytes, bytes]]:
        """Group neighbouring files into at most ``part_count`` groups, each with its range of keys.

        Together the ranges cover all keys from ``start`` on and before ``end``.

        Returns:
            One tuple for each group: its files, the first key of its range, and the exclusive end of its
                range.
        """
        group_count = max(1, min(part_count, len(self.files)))
        file_bounds = [len(self.files) * part_number // group_count for part_number in range(group_count + 1)]
        file_groups = [
            EarlierLedgers(self.table, self.files[first_file:file_end], self.whole)
            for first_file, file_end in pairwise(file_bounds)
        ]
        boundary_keys = [
            start,
            *(key_bytes(file_group.files[0].first_path) for file_group in file_groups[1:]),
            end,
        ]
        return [
            (file_group, *key_range)
            for file_group, key_range in zip(file_groups, pairwise(boundary_keys), strict=True)
        ]


class EarlierPiece(NamedTuple):
    """A range of keys, and the earlier run's rows for the ledgers in this range.

    The range begins at the key ``start`` and ends before the key ``end``.
    """

    start: bytes
    end: bytes
    rows: pa.RecordBatch


def find_ledgers(table: str, file_names: Sequence[str]) -> EarlierLedgers:
    """Find the files of a table that contain ledgers, and the first ledger in each of these files.

    ``table`` is the directory of the table. ``file_names`` are the names of all files in it.

    Raises:
        RunError: a file cannot be read, or the files are not in the order of their keys.
    """
    with ThreadPoolExecutor(_MAX_OPEN_FILES) as thread_pool:
        reusable_files = list(thread_pool.map(lambda name: _reusable_file(table, name), sorted(file_names)))
    files = tuple(file for file, _ in reusable_files if file is not None)
    if any(file.first_path >= next_file.first_path for file, next_file in pairwise(files)):
        raise RunError(f"{table}: its files are not in the order of their keys; audit without --since")
    return EarlierLedgers(table, files, all(whole for _, whole in reusable_files))


def read_earlier_pieces(
    earlier_ledgers: EarlierLedgers, start: bytes, end: bytes, columns: pa.Schema = LEDGERS
) -> Iterator[EarlierPiece]:
    """Yield the rows of the earlier run's files piece by piece.

    Together the pieces cover the keys from ``start`` on and before ``end``. ``columns`` are the columns of
    `LEDGERS` to read. They must include path, version and status.

    Raises:
        RunError: a file is missing, cut off or damaged, has a different schema, or its rows are not in the
            order of their keys.
    """
    pending_rows: pa.RecordBatch | None = None
    minimum_key = start
    for rows in _read_batches(earlier_ledgers, columns.names):
        first_key, last_key = (key_bytes(rows["path"][row].as_py()) for row in (0, -1))
        is_ascending = pc.all(pc.less(rows["path"][:-1], rows["path"][1:]), min_count=0).as_py()
        if not (is_ascending and minimum_key <= first_key and last_key < end):
            raise RunError(
                f"{earlier_ledgers.table}: its rows are not in the order of their keys; audit without --since"
            )
        if pending_rows is not None:
            yield EarlierPiece(start, first_key, pending_rows)
            start = first_key
        pending_rows, minimum_key = rows, last_key + b"\0"
    empty_batch = pa.RecordBatch.from_pylist([], columns)
    yield EarlierPiece(start, end, pending_rows if pending_rows is not None else empty_batch)


def _read_batches(earlier_ledgers: EarlierLedgers, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield the rows that can be reused, in batches of at most `PIECE_ROWS` rows. No batch is empty.

    A row can be reused if it has the path that belongs to its ledger id.
    """
    for name, _ in earlier_ledgers.files:
        with open_earlier_file(earlier_ledgers.table, name, LEDGERS) as file:
            row_groups = range(file.num_row_groups)
            # One limit for the file, because a batch can span several small row groups.
            batch_row_bounds = [
                whole_batch_rows(file.metadata, row_group, BATCH_ROWS) for row_group in row_groups
            ]
            max_batch_rows = min(batch_row_bounds, default=BATCH_ROWS)
            for batch in file.iter_batches(max_batch_rows, columns=list(columns), use_threads=False):
                is_reusable = _ledger_row_mask(batch)
                rows = batch if pc.all(is_reusable).as_py() else batch.filter(is_reusable)
                rows_per_part = min(PIECE_ROWS, max(1, rows.num_rows // (1 + rows.nbytes // PIECE_BYTES)))
                for start in range(0, rows.num_rows, rows_per_part):
                    yield rows.slice(start, rows_per_part)


def _reusable_file(table: str, name: str) -> tuple[LedgerFile | None, bool]:
    """Return a file with its first ledger, and whether all rows of the file can be reused.

    A row can be reused if it has the path that belongs to its ledger id. If no row can be reused, the
    function returns None instead of the file. It reads the columns, not the statistics in the footer,
    because Arrow ends the process if a footer is damaged.
    """
    with open_earlier_file(table, name, LEDGERS) as file:
        statuses = file.iter_batches(columns=["status"], use_threads=False)
        is_whole = all(pc.all(_ledger_row_mask(batch), min_count=0).as_py() for batch in statuses)
        for batch in file.iter_batches(
            _FIRST_LEDGER_BATCH_ROWS, columns=["path", "status"], use_threads=False
        ):
            for path in batch["path"].filter(_ledger_row_mask(batch))[:1]:
                return LedgerFile(name, path.as_py()), is_whole
    return None, is_whole


def _ledger_row_mask(ledgers: pa.RecordBatch) -> pa.BooleanArray:
    return pc.is_in(ledgers["status"], pa.array(LISTED))


@runtime_checkable
class ComparableStore(Protocol):
    """A store that can report changes since an earlier run, and reuse the unchanged rows of that run."""

    def history(self) -> History:
        """Return facts that identify the store's history. Call `MetadataStore.cluster` first."""

    def parts_since(self, earlier_ledgers: EarlierLedgers, part_count: int) -> list[Part]:
        """Cut the ledgers into parts, like `MetadataStore.parts`.

        Each part after the first one begins at the first key of a file of the earlier run.
        """

    def rows_since(self, part: Part, columns: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Yield the current rows of a part that `parts_since` returned.

        Rows that have not changed come from the earlier run.
        """
