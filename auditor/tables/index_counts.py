"""How many rows of availability are alike, bookie by bookie: what is asked of all indexes at once.

A cluster has tens of millions of replicas, and most questions after all of them want numbers per bookie. All
of these come from one look at a few columns of the table's files. The answer is as small as the cluster has
bookies.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet as pq

from auditor.codecs.availability.groups import Longs
from auditor.model.columns import LEDGER
from auditor.sources.bookies.index_files import page_size
from auditor.spark.table_files import TableFiles, counts_in_files
from auditor.spark.types import SparkSession
from auditor.tables.replica_blocks import Coded

COUNTS = pa.schema(
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
_ALIKE = COUNTS.names[:-1]
_CODED = ("bookie_id", "state", "storage", "groups")
_ID = LEDGER[-1]  # of which is asked whether there is one
_READ = (*_CODED, _ID, "page_bytes")
_DENSE = 1 << 20  # kinds of rows that are counted without sorting them first


class IndexCount(NamedTuple):
    """So many rows of availability are alike.

    ``length`` is the least power of two in the length of an index file, `page_size.LARGEST` at most, also of
    what is no file; ``empty`` whether nothing is held, None where nothing says; ``known`` whether there is a
    ledger id, ``placed`` whether there is a path.
    """

    bookie_id: str
    state: str
    storage: str | None
    length: int
    empty: bool | None
    known: bool
    placed: bool
    number: int


def index_counts(spark: SparkSession | None, availability: TableFiles) -> list[IndexCount]:
    """How many rows of the table are alike; tasks of ``spark`` count, None: they are counted here and now."""
    counts = counts_in_files(spark, COUNTS, availability, _counts_of, ("number",))
    return [IndexCount(**row) for row in counts.to_pylist()]


def _counts_of(files: TableFiles) -> Iterator[pa.RecordBatch]:
    counts: Counter[tuple[Any, ...]] = Counter()
    for file in files.open(_CODED):
        for group in range(file.num_row_groups):
            placed = _all_placed(file, group)
            columns = [*_READ, *(["path"] if placed is None else [])]
            for kind, number in _counts(file.read_row_group(group, columns, use_threads=False), placed):
                counts[kind] += number
    rows = [(*kind, number) for kind, number in counts.items()]
    columns_of = zip(*rows, strict=True) if rows else [()] * len(COUNTS)
    arrays = [pa.array(values, field.type) for values, field in zip(columns_of, COUNTS, strict=True)]
    yield pa.RecordBatch.from_arrays(arrays, schema=COUNTS)


def _all_placed(file: pq.ParquetFile, group: int) -> bool | None:
    """Whether all rows of a row group have a path, or none has; None where that has to be looked at."""
    chunk = file.metadata.row_group(group).column(file.schema.names.index("path"))
    statistics = chunk.statistics
    if statistics is None or not statistics.has_null_count:
        return None
    return {0: True, chunk.num_values: False}.get(statistics.null_count)


def _counts(rows: pa.Table, placed: bool | None) -> Iterator[tuple[tuple[Any, ...], int]]:
    """Each kind of row, as the columns of `COUNTS` have it, and how many there are."""
    names = [Coded.of(rows[name]) for name in ("bookie_id", "state", "storage")]
    groups = Coded.of(rows["groups"])
    is_empty = pc.equal(pc.binary_length(groups.values), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    powers = _powers(rows["page_bytes"])
    codes = [
        *(each.codes.astype(np.int64) + 1 for each in names),
        powers,
        np.append(is_empty + 1, 0)[groups.codes],
        _there(rows[_ID]),
        np.full(rows.num_rows, placed, np.int64) if placed is not None else _there(rows["path"]),
    ]
    sizes = [*(len(each.values) + 1 for each in names), page_size.LARGEST.bit_length() + 1, 3, 2, 2]
    key = np.zeros(rows.num_rows, np.int64)
    for code, size in zip(codes, sizes, strict=True):
        key = key * size + code
    if np.prod(sizes, dtype=float) < _DENSE:
        number = np.bincount(key)
        kinds = np.flatnonzero(number)
        number = number[kinds]
    else:
        kinds, number = np.unique(key, return_counts=True)
    for kind, many in zip(
        np.transpose(np.unravel_index(kinds, sizes)).tolist(), number.tolist(), strict=True
    ):
        yield _kind(kind, names), many


def _kind(codes: list[int], names: list[Coded]) -> tuple[Any, ...]:
    texts = [
        each.values[code - 1].as_py().decode() if code else None
        for code, each in zip(codes, names, strict=False)
    ]
    length, empty, known, placed = codes[len(names) :]
    return (*texts, 1 << length - 1 if length else 0, (None, False, True)[empty], bool(known), bool(placed))


def _powers(lengths: pa.ChunkedArray) -> Longs:
    """One more than the place of the least bit that is set, 0 for none; of what is no file the greatest."""
    values = lengths.fill_null(page_size.LARGEST).to_numpy()
    least = np.minimum(values & -values, page_size.LARGEST)
    places: Longs = np.frexp(least.astype(float))[1].astype(np.int64)
    return places


def _there(column: pa.ChunkedArray) -> Longs:
    there: Longs = column.is_valid().to_numpy().astype(np.int64)
    return there
