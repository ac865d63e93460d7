"""A table's columns with their meaning beside them: what schemas/tables.json publishes."""

from __future__ import annotations

import pyarrow as pa


def commented(*columns: tuple[str, pa.DataType, str]) -> pa.Schema:
    """A schema of (name, type, comment); the comment travels as the field's metadata.

    >>> commented(("ledger_id", pa.int64(), "the ledger")).field("ledger_id").metadata
    {b'comment': b'the ledger'}
    """
    return pa.schema([pa.field(name, kind, metadata={"comment": comment}) for name, kind, comment in columns])
