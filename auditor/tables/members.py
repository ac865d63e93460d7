"""members: the bookies that the ensembles of ledgers name, with one row per bookie."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from auditor.model.columns import make_schema
from auditor.spark.execution import Execution
from auditor.spark.table_files import TableFiles
from auditor.tables.replica_blocks import CodedColumn

MEMBERS = make_schema(
    ("bookie_id", pa.string(), "a bookie id in an ensemble"),
    ("ledgers", pa.int64(), "number of ledgers that have the bookie in an ensemble"),
    (
        "depending",
        pa.int64(),
        "number of ledgers that need the bookie for their entries or for their open last segment",
    ),
    (
        "replicas",
        pa.int64(),
        "number of ledgers for which the audit compares the bookie's expected entries with its entries",
    ),
)

_ROWS_PER_BATCH = 1 << 18
_MEMBER_FIELDS = ("bookie_id", "groups", "depends")


def members(execution: Execution, ledgers: TableFiles) -> pa.Table:
    """Return the rows of `MEMBERS`. They count ledgers in the files of the table ``ledgers``."""
    return execution.count_rows(MEMBERS, ledgers, _count_members, MEMBERS.names[1:])


def _count_members(files: TableFiles) -> Iterator[pa.RecordBatch]:
    columns = [f"replicas.list.element.{name}" for name in _MEMBER_FIELDS]
    for rows in files.row_groups(columns, (), _ROWS_PER_BATCH):
        flat_chunks = [replica_chunk.flatten() for replica_chunk in rows["replicas"].chunks]
        bookie, groups, dependence_flags = (
            pa.chunked_array([replica_chunk.field(name) for replica_chunk in flat_chunks], arrow_type)
            for name, arrow_type in zip(_MEMBER_FIELDS, (pa.string(), pa.binary(), pa.bool_()), strict=True)
        )
        bookie_column = CodedColumn.from_column(bookie)
        has_groups = pc.greater(pc.binary_length(groups), 0)
        member_counts = [np.bincount(bookie_column.codes, minlength=len(bookie_column.values))]
        for replica_flags in (dependence_flags, has_groups):
            is_dependent = replica_flags.fill_null(False).to_numpy()
            member_counts.append(
                np.bincount(bookie_column.codes[is_dependent], minlength=len(bookie_column.values))
            )
        yield pa.RecordBatch.from_arrays(
            [bookie_column.values.cast(pa.string()), *(pa.array(column) for column in member_counts)],
            schema=MEMBERS,
        )
