"""Selection of the rows of a large table that concern the ledgers in a small table.

The small table has under-replication marks or unequal pairs. An unequal pair is a ledger and a bookie whose
expected and held entries differ. A query about a pair concerns its ledger and the other copies of the ledger.
These are few rows, but each query would search the whole large table for them. So tasks search the table's
files once, and make Spark rows only of the matches.
"""

from collections.abc import Iterator, Sequence
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from auditor.model.batch_bounds import batch_rows, column_bytes
from auditor.model.columns import LEDGER
from auditor.spark.batches import from_files
from auditor.spark.part_tables import PartTable
from auditor.spark.table_files import TableFiles
from auditor.spark.types import SparkSession, StructType
from auditor.tables.judged import LEDGER_COLUMNS

QUERIED_LEDGER_COLUMNS = (*LEDGER_COLUMNS, "status", "undecidable", "replicas")
"""Columns of the table ``ledgers`` that queries about these ledgers need."""

_LEDGER_ID_COLUMN = LEDGER[-1]


def rows_of_ledgers(
    spark: SparkSession,
    table: TableFiles,
    ledger_files: TableFiles,
    schema: StructType,
    columns: Sequence[str] | None = None,
) -> PartTable:
    """Return all rows of ``table`` whose ledger id is in ``ledger_files``.

    The rows may be of any bookie, and of any scope (upper half of a 128-bit ledger id). ``schema`` has the
    columns of ``table``. ``columns`` are the columns to keep, or None for all columns.
    """
    from pyspark.sql.types import StructType

    kept_schema = StructType(
        [schema_column for schema_column in schema.fields if columns is None or schema_column.name in columns]
    )
    return from_files(
        spark,
        kept_schema,
        table,
        partial(_matching_rows, ledger_files=ledger_files, columns=kept_schema.names),
    )


def _matching_rows(
    files: TableFiles, ledger_files: TableFiles, columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    ledger_ids = ledger_files.read([_LEDGER_ID_COLUMN])[_LEDGER_ID_COLUMN].unique()
    for file in files.open():
        for row_group in range(file.num_row_groups):
            group_ledger_ids = file.read_row_group(row_group, [_LEDGER_ID_COLUMN], use_threads=False)[
                _LEDGER_ID_COLUMN
            ]
            is_match = pc.is_in(group_ledger_ids, value_set=ledger_ids, skip_nulls=True)
            if pc.any(is_match).as_py():
                group_bytes = column_bytes(file.metadata, row_group, columns)
                max_batch_rows = batch_rows(group_ledger_ids.length(), group_bytes, group_ledger_ids.length())
                row_offset = 0
                for rows in file.iter_batches(max_batch_rows, [row_group], list(columns), use_threads=False):
                    yield rows.select(columns).filter(
                        is_match.slice(row_offset, rows.num_rows).combine_chunks()
                    )
                    row_offset += rows.num_rows
