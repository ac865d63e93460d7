"""sources: the inputs of an audit, the scope that each claims to cover, and the part that is proved.

Absence counts only within the proved scope. An object that a source lacks may exist outside of it. There is
one row per metadata store, listing of bookies, bookie, and owner store.
"""

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

import pyarrow as pa

from auditor.model.columns import schema_of
from auditor.model.source_scope import SourceScope

SOURCES = schema_of(
    ("source", pa.string(), "its URI without credentials, or its name; of a bookie the id"),
    ("kind", pa.string(), "metadata, bookies (a listing of them), bookie (what one holds) or owners"),
    ("scope_claimed", pa.string(), "what it is taken to cover"),
    ("scope_proved", pa.string(), "what of that is proved; equal to scope_claimed where all of it is"),
    ("proof", pa.string(), "what proves that"),
    ("as_of", pa.int64(), "the time of its data, ms; null: it was not read, or nothing tells"),
    ("reason", pa.string(), "why not all of its claim is proved; null: all of it is"),
)


def rows_of_scopes(scopes: Iterable[SourceScope]) -> list[dict[str, Any]]:
    """Return the rows of `SOURCES`, one per source, in order of kind and name."""
    return [asdict(scope) for scope in sorted(scopes, key=lambda scope: (scope.kind, scope.source))]
