"""A table's columns: what names a ledger and a replica, and columns with their meaning beside them.

The meaning is what schemas/tables.json publishes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

LEDGER = ("scope_id", "ledger_id")
"""What names a ledger in every table; ledgers of two scopes never meet."""

REPLICA = (*LEDGER, "bookie_id")
"""What names one bookie's part of a ledger."""

OWNER = ("application", "kind", "tenant", "namespace", "topic", "cursor", "detail", "path")
"""What names who refers to a ledger; ``detail`` is the version of a schema, or the name of a bucket."""


def column(name: str, kind: pa.DataType, comment: str) -> pa.Field[pa.DataType]:
    """One column; the comment travels as the field's metadata.

    >>> import pyarrow as pa
    >>> column("ledger_id", pa.int64(), "the ledger").metadata
    {b'comment': b'the ledger'}
    """
    import pyarrow as pa  # not above: whoever asks what names a ledger needs no Arrow

    return pa.field(name, kind, metadata={"comment": comment})


def schema_of(*columns: tuple[str, pa.DataType, str]) -> pa.Schema:
    """A schema of (name, type, comment).

    >>> import pyarrow as pa
    >>> schema_of((LEDGER[1], pa.int64(), "the ledger")).names
    ['ledger_id']
    """
    import pyarrow as pa

    return pa.schema([column(*definition) for definition in columns])


def rows_of_columns(schema: pa.Schema, rows: int, columns: Mapping[str, Any]) -> pa.RecordBatch:
    """So many rows of ``schema``: of each column its values, or one for all rows; null where it is not given.

    Values are an Arrow array, which is cast to the column's type, a NumPy one, or a list.

    >>> import pyarrow as pa
    >>> schema = pa.schema([("ledger_id", pa.int64()), ("state", pa.string()), ("reason", pa.string())])
    >>> rows_of_columns(schema, 2, {"ledger_id": [7, 8], "state": "ok"}).to_pylist()[1]
    {'ledger_id': 8, 'state': 'ok', 'reason': None}
    """
    import numpy as np
    import pyarrow as pa

    def array(values: Any, kind: pa.DataType) -> pa.Array:
        if isinstance(values, pa.Array):
            return values.cast(kind)
        if isinstance(values, list | np.ndarray):
            return pa.array(values, kind)
        return pa.repeat(pa.scalar(values, kind), rows)

    arrays = [array(columns.get(field.name), field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
