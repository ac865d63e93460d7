"""Counts over all indexes: numbers of rows by bookie, page sizes, and the states that occur.

A cluster has tens of millions of replicas, and most later questions need only numbers per bookie. A single
pass over a few columns of the table ``availability`` counts everything. The number of bookies limits the
number of results.

Checks query only the few indexes that are not ok. This pass finds out which states occur. A query for a
state that does not occur is skipped. A query for a state that occurs reads only the parts of the table with
this state. It reads paths only for the rows with this state.

SortedLedgerStorage and InterleavedLedgerStorage write whole pages. So a file that does not end at the end
of a page was truncated. But the page size (``pageSize``, 8192 by default) is in the bookie's configuration
and not in its files. It follows from the lengths of the files, because nearly all of them consist of whole
pages. The derived page size is the largest power of two that divides nearly all lengths.

The rule "nearly all" allows a few truncated files. Otherwise one truncated file would make every page look
small, and would hide its own truncation. A false alarm would make every entry after the last whole page
unknown. With the default page size there is no false alarm: every length that the server wrote is a
multiple of 8192, and the derived page size is never larger.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet as pq

from auditor.codecs.availability.groups import Longs
from auditor.codecs.bookie.index_file import HEADER_BYTES
from auditor.model.columns import LEDGER
from auditor.model.states import NOT_REPLICAS, REPLICA_STATES, IndexState
from auditor.spark import functions as F
from auditor.spark.batches import map_batches
from auditor.spark.execution import Execution
from auditor.spark.table_files import TableFiles
from auditor.spark.types import Column, DataFrame
from auditor.tables.accounts import ends_inside_page
from auditor.tables.replica_blocks import CodedColumn

LARGEST_PAGE_BYTES = 8192
"""Largest page size considered, in bytes: the server's default.

Larger pages are multiples of it, so it also divides the lengths of their files.
"""

SECTOR_BYTES = 512
"""Smallest page size considered, in bytes. A file was truncated if this size does not divide its length."""

MIN_FILES_WITH_CUT = 8
"""Smallest number of files of a bookie of which some are allowed to be truncated.

With fewer files, a truncated file cannot be told from files with small pages.
"""

MAX_CUT_FILES_PERCENT = 2
"""Largest percentage of a bookie's files that may be truncated. One truncated file is always allowed."""


@dataclass(frozen=True)
class IndexFileFacts:
    """Properties of the indexes of all bookies, from the table ``availability``.

    ``page_size_by_bookie`` is in bytes. ``bookies_with_cut_files`` are the bookies with an index file that
    ends inside a page. ``states`` are all index states that occur.
    """

    page_size_by_bookie: dict[str, int]
    bookies_with_cut_files: frozenset[str]
    states: frozenset[str]

    @property
    def page_size_of_cut_files(self) -> dict[str, int]:
        """Return the page size in bytes of each bookie with a file that ends inside a page.

        If a bookie's page size is unknown, its value is `SECTOR_BYTES`.

        >>> shapes = IndexFileFacts({"bk1": 8192, "bk2": 4096}, frozenset({"bk1", "bk3"}), frozenset())
        >>> shapes.page_size_of_cut_files["bk3"]
        512
        """
        return {
            bookie: self.page_size_by_bookie.get(bookie, SECTOR_BYTES)
            for bookie in self.bookies_with_cut_files
        }


def derive_facts(rows: Iterable[tuple[str, str, int | None, int]]) -> IndexFileFacts:
    """Derive the `IndexFileFacts` from rows of bookie, state, length, and the number of such indexes.

    ``length`` is the largest power of two that divides the length of the file. It is None if there is no
    file.

    >>> shapes = derive_facts([("bk1", "ok", 8192, 40), ("bk1", "ok", 512, 1), ("bk2", "limbo", None, 2)])
    >>> shapes.page_size_by_bookie, sorted(shapes.bookies_with_cut_files), sorted(shapes.states)
    ({'bk1': 8192}, ['bk1'], ['limbo', 'ok'])
    """
    counts_by_bookie: dict[str, dict[int, int]] = {}
    file_lengths: list[tuple[str, int]] = []
    states = set()
    for bookie, state, length, count in rows:
        states.add(state)
        if state == IndexState.OK and length:
            file_lengths.append((bookie, length))
            if length % SECTOR_BYTES == 0:
                counts_by_bookie.setdefault(bookie, {})[length] = count
    page_size_by_bookie = find_page_sizes(counts_by_bookie)
    bookies_with_cut_files = frozenset(
        bookie for bookie, length in file_lengths if length % page_size_by_bookie.get(bookie, SECTOR_BYTES)
    )
    return IndexFileFacts(page_size_by_bookie, bookies_with_cut_files, frozenset(states))


def find_page_sizes(counts_by_bookie: Mapping[str, Mapping[int, int]]) -> dict[str, int]:
    """Find each bookie's page size, in bytes.

    ``counts_by_bookie`` has the number of files by length for each bookie. A length does not include the
    file's header. Lengths that are 0 or not a multiple of 512 are skipped.

    >>> find_page_sizes({"bk1": {8192: 40, 16384: 9, 4608: 1}, "bk2": {4096: 3, 8192: 4}})
    {'bk1': 8192, 'bk2': 4096}
    """
    return {
        bookie: _find_page_size(list(file_counts.items())) for bookie, file_counts in counts_by_bookie.items()
    }


def _find_page_size(file_counts: Iterable[tuple[int, int]]) -> int:
    whole_files = [(length, count) for length, count in file_counts if length and length % SECTOR_BYTES == 0]
    file_count = sum(count for _, count in whole_files)
    allowed_cut_files = (
        max(1, file_count * MAX_CUT_FILES_PERCENT // 100) if file_count >= MIN_FILES_WITH_CUT else 0
    )
    page_bytes = LARGEST_PAGE_BYTES
    while (
        page_bytes > SECTOR_BYTES
        and sum(count for length, count in whole_files if length % page_bytes) > allowed_cut_files
    ):
        page_bytes //= 2
    return page_bytes


COUNT_SCHEMA = pa.schema(
    [
        ("bookie_id", pa.string()),
        ("state", pa.string()),
        ("storage", pa.string()),
        ("length", pa.int64()),
        ("empty", pa.bool_()),
        ("known", pa.bool_()),
        ("placed", pa.bool_()),
        ("number", pa.int64()),
    ]
)
_DICTIONARY_COLUMNS = ("bookie_id", "state", "storage", "groups")
_LEDGER_ID_COLUMN = LEDGER[-1]  # read only to see whether it is null
_READ_COLUMNS = (*_DICTIONARY_COLUMNS, _LEDGER_ID_COLUMN, "page_bytes")
_MAX_BINCOUNT_CODES = 1 << 20  # kinds of rows that are counted without sorting them first


class IndexCount(NamedTuple):
    """The number of rows of ``availability`` that have the same values of these fields.

    ``length`` is the largest power of two that divides the length of the index file, but at most
    `LARGEST_PAGE_BYTES`. Rows without a file also have `LARGEST_PAGE_BYTES`. ``empty`` is True if no entry
    is held, and None if that is unknown. ``known`` is True if the row has a ledger id, and ``placed`` if it
    has a path.
    """

    bookie_id: str
    state: str
    storage: str | None
    length: int
    empty: bool | None
    known: bool
    placed: bool
    number: int


def count_index_rows(execution: Execution, availability: TableFiles) -> list[IndexCount]:
    """Count the rows of ``availability`` for each combination of values of the `IndexCount` fields.

    ``availability`` are the files of the table of that name.
    """
    counts = execution.count_rows(COUNT_SCHEMA, availability, _count_files, ("number",))
    return [IndexCount(**row) for row in counts.to_pylist()]


def _count_files(files: TableFiles) -> Iterator[pa.RecordBatch]:
    counts: Counter[tuple[Any, ...]] = Counter()
    for file in files.open(_DICTIONARY_COLUMNS):
        for row_group in range(file.num_row_groups):
            has_path = _all_have_path(file, row_group)
            columns = [*_READ_COLUMNS, *(["path"] if has_path is None else [])]
            for combination, row_count in _count_combinations(
                file.read_row_group(row_group, columns, use_threads=False), has_path
            ):
                counts[combination] += row_count
    rows = [(*kind, number) for kind, number in counts.items()]
    value_columns = zip(*rows, strict=True) if rows else [()] * len(COUNT_SCHEMA)
    column_arrays = [
        pa.array(length_values, schema_field.type)
        for length_values, schema_field in zip(value_columns, COUNT_SCHEMA, strict=True)
    ]
    yield pa.RecordBatch.from_arrays(column_arrays, schema=COUNT_SCHEMA)


def _all_have_path(file: pq.ParquetFile, row_group: int) -> bool | None:
    """Return True if all rows of a row group have a path, False if none has one, and None otherwise."""
    path_statistics = file.metadata.row_group(row_group).column(file.schema.names.index("path"))
    statistics = path_statistics.statistics
    if statistics is None or not statistics.has_null_count:
        return None
    return {0: True, path_statistics.num_values: False}.get(statistics.null_count)


def _count_combinations(rows: pa.Table, has_path: bool | None) -> Iterator[tuple[tuple[Any, ...], int]]:
    """Count the rows of each kind. Rows of one kind have the same values in the columns of `COUNT_SCHEMA`."""
    name_columns = [CodedColumn.from_column(rows[name]) for name in ("bookie_id", "state", "storage")]
    groups = CodedColumn.from_column(rows["groups"])
    is_empty = pc.equal(pc.binary_length(groups.values), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    length_codes = _lowest_set_bits(rows["page_bytes"])
    code_columns = [
        *(column.codes.astype(np.int64) + 1 for column in name_columns),
        length_codes,
        np.append(is_empty + 1, 0)[groups.codes],
        _presence_codes(rows[_LEDGER_ID_COLUMN]),
        np.full(rows.num_rows, has_path, np.int64) if has_path is not None else _presence_codes(rows["path"]),
    ]
    code_counts = [
        *(len(column.values) + 1 for column in name_columns),
        LARGEST_PAGE_BYTES.bit_length() + 1,
        3,
        2,
        2,
    ]
    combination_codes = np.zeros(rows.num_rows, np.int64)
    for codes_of_column, code_count in zip(code_columns, code_counts, strict=True):
        combination_codes = combination_codes * code_count + codes_of_column
    if np.prod(code_counts, dtype=float) < _MAX_BINCOUNT_CODES:
        row_counts = np.bincount(combination_codes)
        combination_values = np.flatnonzero(row_counts)
        row_counts = row_counts[combination_values]
    else:
        combination_values, row_counts = np.unique(combination_codes, return_counts=True)
    for combination, combination_count in zip(
        np.transpose(np.unravel_index(combination_values, code_counts)).tolist(),
        row_counts.tolist(),
        strict=True,
    ):
        yield _decode_combination(combination, name_columns), combination_count


def _decode_combination(combination: list[int], name_columns: list[CodedColumn]) -> tuple[Any, ...]:
    decoded_names = [
        column.values[codes_of_column - 1].as_py().decode() if codes_of_column else None
        for codes_of_column, column in zip(combination, name_columns, strict=False)
    ]
    length, emptiness_code, has_ledger_id, has_path = combination[len(name_columns) :]
    return (
        *decoded_names,
        1 << length - 1 if length else 0,
        (None, False, True)[emptiness_code],
        bool(has_ledger_id),
        bool(has_path),
    )


def _lowest_set_bits(lengths: pa.ChunkedArray) -> Longs:
    """Return for each length the number of its lowest set bit, counted from 1.

    The number is 0 for length 0. For rows without a file, it is the number for `LARGEST_PAGE_BYTES`, the
    largest possible value.
    """
    length_values = lengths.fill_null(LARGEST_PAGE_BYTES).to_numpy()
    lowest_bits = np.minimum(length_values & -length_values, LARGEST_PAGE_BYTES)
    bit_numbers: Longs = np.frexp(lowest_bits.astype(float))[1].astype(np.int64)
    return bit_numbers


def _presence_codes(column: pa.ChunkedArray) -> Longs:
    is_present: Longs = column.is_valid().to_numpy().astype(np.int64)
    return is_present


def union_by_state(
    availability: DataFrame,
    index_facts: IndexFileFacts,
    combined_pieces: DataFrame | None = None,
    bookies_in_pieces: Collection[str] = (),
) -> DataFrame:
    """Return ``availability`` with one row per replica, and the state ``cut`` if its file ends inside a page.

    Args:
        availability: The table of that name.
        index_facts: Page sizes and other properties of the indexes in ``availability``.
        combined_pieces: Combined replicas of the bookies ``bookies_in_pieces``
            (`auditor.tables.accounts.combine_index_pieces`).
        bookies_in_pieces: Bookies whose index was read in overlapping pieces.
    """
    whole_indexes = (
        availability if combined_pieces is None else availability.where(~_is_replica_of(bookies_in_pieces))
    )
    page_size_by_bookie = index_facts.page_size_of_cut_files
    may_be_cut = F.col("bookie_id").isin(*page_size_by_bookie)

    def rows_of_state(state: str) -> DataFrame:
        rows = whole_indexes.where(F.col("state") == state)
        if state == IndexState.OK and page_size_by_bookie:
            rows = rows.where(~may_be_cut)
        return rows.withColumn("state", F.lit(state))

    rows_by_state = [
        rows_of_state(state) for state in (*REPLICA_STATES, *NOT_REPLICAS) if state in index_facts.states
    ]
    if page_size_by_bookie:
        # Only these rows may change their state to cut.
        rows_by_state.append(
            mark_cut_files(
                whole_indexes.where((F.col("state") == IndexState.OK) & may_be_cut), page_size_by_bookie
            )
        )
    if combined_pieces is not None:
        rows_by_state.append(combined_pieces)
    return reduce(
        lambda rows_of_earlier_states, state_rows: rows_of_earlier_states.unionByName(state_rows),
        rows_by_state or [availability.where(F.lit(False))],
    )


def replicas_in_pieces(
    availability: DataFrame, index_facts: IndexFileFacts, bookies: Collection[str]
) -> DataFrame:
    """Return the replicas on ``bookies``, whose indexes were read in several pieces that may overlap.

    The result has one row per replica and piece, with the state ``cut`` for truncated files.
    """
    rows = availability.where(_is_replica_of(bookies))
    return (
        mark_cut_files(rows, index_facts.page_size_of_cut_files)
        if index_facts.page_size_of_cut_files
        else rows
    )


def mark_cut_files(rows: DataFrame, page_size_by_bookie: Mapping[str, int]) -> DataFrame:
    """Return rows of ``availability``, with the state ``cut`` for files that end inside a page.

    See `accounts.ends_inside_page`.
    """
    return map_batches(rows, partial(_mark_cut_files, page_size_by_bookie=page_size_by_bookie), rows.schema)


def _mark_cut_files(
    batches: Iterator[pa.RecordBatch], page_size_by_bookie: Mapping[str, int]
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        table = pa.Table.from_batches([batch])
        page_bytes = table["page_bytes"]
        is_cut = pa.array(
            ends_inside_page(
                CodedColumn.from_column(table["state"]),
                CodedColumn.from_column(table["bookie_id"]),
                page_bytes,
                page_size_by_bookie,
            )
        )
        replacement_by_column = {
            "state": IndexState.CUT,
            "reason": "the file ends inside a page",
            "offset": pc.add(page_bytes, HEADER_BYTES),
        }
        for name, value in replacement_by_column.items():
            column_index, schema_field = table.schema.get_field_index(name), table.schema.field(name)
            table = table.set_column(
                column_index, schema_field, pc.if_else(is_cut, value, table[name]).cast(schema_field.type)
            )
        yield from table.to_batches()


def _is_replica_of(bookies: Collection[str]) -> Column:
    is_replica = F.col("ledger_id").isNotNull() & F.col("state").isin(*REPLICA_STATES)
    return F.col("bookie_id").isin(list(bookies)) & is_replica
