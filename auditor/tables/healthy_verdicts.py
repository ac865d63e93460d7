"""verdicts of the ledgers without an unequal replica: nearly all, and of each nothing is to be worked out.

What `auditor.tables.verdicts.verdicts` says of a ledger that the table judged does not have, said by tasks
that read a few columns of ledgers, and write the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import parquet as pq

from auditor.model.columns import LEDGER
from auditor.model.finding import Confidence
from auditor.model.ledger_metadata import LedgerState
from auditor.model.states import LISTED, LedgerClass
from auditor.spark.part_tables import PartTable
from auditor.spark.table_files import from_files, lots_of_files, row_groups
from auditor.tables.verdicts import VERDICTS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CODED = ("status", "state")
_CLASSES = [LedgerClass.HEALTHY.value, LedgerClass.NOT_CLOSED.value, LedgerClass.UNDECIDED.value]
_CONFIDENCES = [Confidence.CONFIRMED.value, Confidence.UNKNOWN.value]
_ROWS = 1 << 17


def verdicts_in_files(spark: SparkSession, ledgers: Path, judged: Path, others: Path) -> PartTable:
    """The table verdicts to be written, from the directories of tables that have landed.

    ``others`` are the rows of verdicts of the ledgers that ``judged`` has.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    healthy = partial(healthy_verdicts, judged=str(judged))
    table = from_files(spark, from_arrow_schema(VERDICTS), ledgers, healthy)
    return table.with_parts((_read, lot) for lot in lots_of_files(spark, others))


def healthy_verdicts(files: Iterable[str], judged: str) -> Iterator[pa.RecordBatch]:
    """Rows of `VERDICTS`, of the ledgers of some files that the table ``judged`` does not have."""
    others = pq.read_table(judged, columns=[*LEDGER], partitioning=None)
    pairs = set(zip(*(others[name].to_pylist() for name in LEDGER), strict=True))
    ids = others[LEDGER[-1]].unique()
    known = pa.array([status.value for status in LISTED])
    for rows in row_groups(files, (*LEDGER, *_CODED, "undecidable"), _CODED, _ROWS):
        listed = pc.and_(rows[LEDGER[-1]].is_valid(), pc.is_in(rows["status"].cast(pa.string()), known))
        maybe = pc.is_in(rows[LEDGER[-1]], value_set=ids, skip_nulls=True)
        named = zip(*(rows[name].filter(maybe).to_pylist() for name in LEDGER), strict=True)
        kept = listed.combine_chunks().to_numpy(zero_copy_only=False)
        kept[maybe.to_numpy()] &= np.array([pair not in pairs for pair in named], bool)
        yield from _verdicts(rows.filter(pa.array(kept))).to_batches()


def _verdicts(rows: pa.Table) -> pa.Table:
    undecided = rows["undecidable"].fill_null(False).to_numpy()
    closed = pc.equal(rows["state"].cast(pa.string()), LedgerState.CLOSED.value).fill_null(False).to_numpy()
    classes = _codes(np.where(undecided, 2, np.where(closed, 0, 1)), _CLASSES)
    none = pa.array(np.zeros(rows.num_rows, np.int32))
    no_bookies = pa.ListArray.from_arrays(np.zeros(rows.num_rows + 1, np.int32), pa.array([], pa.string()))
    columns = {
        **{name: rows[name] for name in (*LEDGER, "state")},
        "class": classes,
        "potential_class": classes,
        "m": none,
        "mu": none,
        "unread_bookies": no_bookies,
        # A class is sure without an unknown copy, and of none there is a doubt.
        "confidence": _codes(undecided.astype(np.int64), _CONFIDENCES),
    }
    return pa.table([columns[name] for name in VERDICTS.names], VERDICTS.names)


def _codes(places: NDArray[np.int64], names: list[str]) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(places.astype(np.int32)), pa.array(names))


def _read(files: Iterable[str]) -> Iterator[pa.RecordBatch]:
    for rows in row_groups(files, VERDICTS.names, (), _ROWS):
        yield from rows.to_batches()
