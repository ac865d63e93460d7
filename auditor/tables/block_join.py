"""The join of both sides in blocks of replicas: the same rows as `auditor.tables.unequal.unequal` finds.

    tasks read the landed tables ledgers and availability, a few columns of them, and pack what they read
    Spark brings the blocks of a bucket of ledgers together
    a task sorts what is in a bucket by ledger and bookie, compares neighbours, and gives those that differ

The driver does all of it where the tables are small. A replica is never a row of Spark's before it is known
to differ. It takes local tables, one row for each replica that is held, and no journal to unite it with; for
all else there is the plain join.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from auditor.codecs.availability.groups import Longs
from auditor.model.states import IndexState
from auditor.spark.table_files import from_files, lots_of_files, table_files
from auditor.tables.block_files import expected_sides, held_sides
from auditor.tables.replica_blocks import BLOCKS, NO_ANSWER, Side, pack, unpack

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

UNEQUAL = pa.schema(
    [
        ("scope_id", pa.int64()),
        ("ledger_id", pa.int64()),
        ("bookie_id", pa.string()),
        ("expected", pa.binary()),
        ("held", pa.binary()),
        ("index_state", pa.string()),
        ("answered", pa.int64()),
        ("listed", pa.binary()),
    ]
)
_ROWS = 1 << 16


def unequal_in_blocks(
    spark: SparkSession, ledgers: Path, availability: Path, foreign: Sequence[str], buckets: int
) -> DataFrame:
    """The pairs that differ, from the directories of two tables, compared in so many buckets of ledgers."""
    from pyspark.sql.pandas.types import from_arrow_schema

    should = partial(_blocks, expected_sides, True, buckets)
    held = partial(_blocks, held_sides, False, buckets)
    both = from_files(spark, from_arrow_schema(BLOCKS), ledgers, should)
    blocks = both.with_parts((held, lot) for lot in lots_of_files(spark, availability)).frame()
    compare = partial(_compare, foreign=tuple(foreign))
    return blocks.repartition(buckets, "bucket").mapInArrow(compare, from_arrow_schema(UNEQUAL))


def unequal_here(ledgers: Path, availability: Path, foreign: Sequence[str]) -> pa.Table:
    """The pairs that differ, from the directories of two tables, compared here and now as one bucket."""
    blocks = chain(
        _blocks(expected_sides, True, 1, table_files(ledgers)),
        _blocks(held_sides, False, 1, table_files(availability)),
    )
    return pa.Table.from_batches(_compare(blocks, foreign), UNEQUAL)


def _blocks(
    sides: Callable[[Iterable[str]], Iterator[Side]], expected: bool, buckets: int, files: Iterable[str]
) -> Iterator[pa.RecordBatch]:
    return (pack(side, expected, buckets) for side in sides(files))


def _compare(blocks: Iterator[pa.RecordBatch], foreign: Sequence[str]) -> Iterator[pa.RecordBatch]:
    side, expected = unpack(blocks)
    if len(expected):
        yield from unequal_rows(side, expected, foreign)


def unequal_rows(side: Side, expected: NDArray[np.bool_], foreign: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The pairs that differ among replicas of both sides, as rows of `UNEQUAL`.

    ``expected`` says which side each is of. A replica that a side has twice makes two pairs, as in any join.
    """
    should, held = _pairs(side, expected)
    names = side.bookies.values.to_pylist()
    ours = np.array([name.decode() not in foreign for name in names], bool)
    ok = np.array([*(state == IndexState.OK.encode() for state in side.states.values.to_pylist()), False])
    both = (should >= 0) & (held >= 0)
    same = side.groups.codes[should] == side.groups.codes[held]
    healthy = both & same & ok[side.states.codes[held]] & ours[side.bookies.codes[held]]
    should, held = should[~healthy], held[~healthy]
    for start in range(0, len(should), _ROWS):
        yield _rows(side, should[start : start + _ROWS], held[start : start + _ROWS])


def _pairs(side: Side, expected: NDArray[np.bool_]) -> tuple[Longs, Longs]:
    """Places of what should be held and what is, of the same ledger and bookie; -1 where a side has none."""
    order, heads = _by_pair(side, expected)
    sizes = np.diff(np.append(heads, len(order)))
    n_should = np.add.reduceat(expected[order].astype(np.int64), heads)
    usual = (sizes == 2) & (n_should == 1)
    at = heads[usual]
    odd, n_odd = heads[~usual], n_should[~usual]
    n_held = sizes[~usual] - n_odd
    # Every one with every one; what is alone is beside nothing.
    across = np.maximum(n_held, 1)
    times = np.maximum(n_odd, 1) * across
    group = np.repeat(np.arange(len(odd)), times)
    number = np.arange(len(group)) - np.repeat(np.cumsum(times) - times, times)
    first = odd[group] + number // across[group]
    second = odd[group] + n_odd[group] + number % across[group]
    last = len(order) - 1
    lone_should = np.where(n_odd[group] > 0, order[np.minimum(first, last)], -1)
    lone_held = np.where(n_held[group] > 0, order[np.minimum(second, last)], -1)
    return np.append(order[at], lone_should), np.append(order[at + 1], lone_held)


def _by_pair(side: Side, expected: NDArray[np.bool_]) -> tuple[Longs, Longs]:
    """The replicas by ledger and bookie, the expected first, and where each pair begins."""
    least, bookies = int(side.ledgers.min()), max(1, len(side.bookies.values))
    span = int(side.ledgers.max()) - least + 1
    if span * bookies * 2 < 1 << 63 and not side.scopes.any():
        key = ((side.ledgers - least) * bookies + side.bookies.codes) * 2 + ~expected
        order = np.argsort(key)
        pair = key[order] >> 1
        begins = pair[1:] != pair[:-1]
    else:
        keys = (side.bookies.codes, side.scopes, side.ledgers)
        order = np.lexsort((~expected, *keys))
        begins = np.logical_or.reduce([each[order][1:] != each[order][:-1] for each in keys])
    return order, np.flatnonzero(np.append(True, begins))


def _rows(side: Side, should: Longs, held: Longs) -> pa.RecordBatch:
    either = np.maximum(should, held)
    answered = np.where(held < 0, NO_ANSWER, side.answered[held])
    columns = {
        "scope_id": pa.array(side.scopes[either]),
        "ledger_id": pa.array(side.ledgers[either]),
        "bookie_id": side.bookies.column(either, pa.string()),
        "expected": side.groups.column(should, pa.binary()),
        "held": side.groups.column(held, pa.binary()),
        "index_state": side.states.column(held, pa.string()).fill_null(IndexState.ABSENT),
        "answered": pa.array(answered, mask=answered == NO_ANSWER),
        "listed": pa.nulls(len(either), pa.binary()),  # of answers, which are not compared here
    }
    return pa.RecordBatch.from_arrays([columns[name] for name in UNEQUAL.names], schema=UNEQUAL)
