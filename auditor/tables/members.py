"""members: who is in the ensembles of ledgers, one row per bookie."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from auditor.spark import functions as F
from auditor.spark.table_files import from_files, row_groups, table_files
from auditor.tables.replica_blocks import Coded

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MEMBERS = pa.schema(
    [
        ("bookie_id", pa.string()),
        ("ledgers", pa.int64()),
        ("depending", pa.int64()),
        ("replicas", pa.int64()),
    ]
)
"""An id, the ledgers whose ensembles name it, those of which a segment depends on it, and those of which it
should hold an entry."""

_ROWS = 1 << 18
_FIELDS = ("bookie_id", "groups", "depends")


def members(ledgers: DataFrame) -> DataFrame:
    """Rows of `MEMBERS`, of a table that Spark reads."""
    return (
        ledgers.select(F.explode("replicas").alias("r"))
        .groupBy("r.bookie_id")
        .agg(
            F.count("*").alias("ledgers"),
            F.sum(F.col("r.depends").cast("long")).alias("depending"),
            F.sum((F.length("r.groups") > 0).cast("long")).alias("replicas"),
        )
    )


def members_in_files(spark: SparkSession, ledgers: Path) -> DataFrame:
    """The same of the directory of a table that has landed, from its files."""
    from pyspark.sql.pandas.types import from_arrow_schema

    counts = from_files(spark, from_arrow_schema(MEMBERS), ledgers, members_of).frame()
    sums = [F.sum(name).alias(name) for name in MEMBERS.names[1:]]
    return counts.groupBy("bookie_id").agg(*sums)


def members_here(ledgers: Path) -> pa.Table:
    """The same, counted here and now."""
    counts = pa.Table.from_batches(members_of(table_files(ledgers)), MEMBERS).group_by("bookie_id")
    sums = counts.aggregate([(name, "sum") for name in MEMBERS.names[1:]])
    return sums.rename_columns(MEMBERS.names).cast(MEMBERS)


def members_of(files: Iterable[str]) -> Iterator[pa.RecordBatch]:
    """Rows of `MEMBERS`, of some rows of some files at a time."""
    columns = [f"replicas.list.element.{name}" for name in _FIELDS]
    for rows in row_groups(files, columns, (), _ROWS):
        flat = [each.flatten() for each in rows["replicas"].chunks]
        bookie, groups, depends = (
            pa.chunked_array([each.field(name) for each in flat], kind)
            for name, kind in zip(_FIELDS, (pa.string(), pa.binary(), pa.bool_()), strict=True)
        )
        ids = Coded.of(bookie)
        holds = pc.greater(pc.binary_length(groups), 0)
        counts = [np.bincount(ids.codes, minlength=len(ids.values))]
        for each in (depends, holds):
            true = each.fill_null(False).to_numpy()
            counts.append(np.bincount(ids.codes[true], minlength=len(ids.values)))
        yield pa.RecordBatch.from_arrays(
            [ids.values.cast(pa.string()), *(pa.array(each) for each in counts)], schema=MEMBERS
        )
