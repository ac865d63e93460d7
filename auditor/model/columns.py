"""Columns of tables: the key columns of ledgers, replicas and owners, and functions that create columns.

schemas/tables.json contains the descriptions of all columns.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

LEDGER = ("scope_id", "ledger_id")
"""Key of a ledger in every table; two scopes never share a ledger."""

REPLICA = (*LEDGER, "bookie_id")
"""Key of one bookie's replica of a ledger."""

OWNER = ("application", "kind", "tenant", "namespace", "topic", "cursor", "detail", "path")
"""Key of an owner of a ledger; ``detail`` is the version of a schema, or the name of a bucket."""


def column(name: str, arrow_type: pa.DataType, comment: str) -> pa.Field[pa.DataType]:
    """Create a column. Its comment is stored in the field's metadata.

    >>> import pyarrow as pa
    >>> column("ledger_id", pa.int64(), "the ledger").metadata
    {b'comment': b'the ledger'}
    """
    import pyarrow as pa  # not at the top: modules that only need the keys do not need Arrow

    return pa.field(name, arrow_type, metadata={"comment": comment})


def make_schema(*columns: tuple[str, pa.DataType, str]) -> pa.Schema:
    """Create a schema from (name, type, comment) triples.

    >>> import pyarrow as pa
    >>> make_schema((LEDGER[1], pa.int64(), "the ledger")).names
    ['ledger_id']
    """
    import pyarrow as pa

    return pa.schema([column(*column_triple) for column_triple in columns])


def make_batch(schema: pa.Schema, row_count: int, columns: Mapping[str, Any]) -> pa.RecordBatch:
    """Create a batch of ``row_count`` rows with the schema ``schema``.

    Args:
        schema: the columns of the batch.
        row_count: the number of rows.
        columns: the values of each column, by name: an Arrow array (which is cast to the column's type), a
            NumPy array, a list, or a single value for all rows. A column that is not in ``columns`` is
            null.

    >>> import pyarrow as pa
    >>> schema = pa.schema([("ledger_id", pa.int64()), ("state", pa.string()), ("reason", pa.string())])
    >>> make_batch(schema, 2, {"ledger_id": [7, 8], "state": "ok"}).to_pylist()[1]
    {'ledger_id': 8, 'state': 'ok', 'reason': None}
    """
    import numpy as np
    import pyarrow as pa

    def make_array(values: Any, arrow_type: pa.DataType) -> pa.Array:
        if isinstance(values, pa.Array):
            return values.cast(arrow_type)
        if isinstance(values, list | np.ndarray):
            return pa.array(values, arrow_type)
        return pa.repeat(pa.scalar(values, arrow_type), row_count)

    arrays = [make_array(columns.get(field.name), field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
