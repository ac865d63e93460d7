"""sources: the inputs of an audit, what each claims to cover (its scope), and the proved part of the scope.

If a source lacks an object, the object counts as absent only if it is in the proved part. There is one row
for each metadata store, listing of bookies, bookie, and owner store.
"""

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

import pyarrow as pa

from auditor.model.columns import make_schema
from auditor.model.source_scope import SourceScope

SOURCES = make_schema(
    ("source", pa.string(), "URI of the source without credentials, or its name; for a bookie, its id"),
    (
        "kind",
        pa.string(),
        "kind of the source: metadata, bookies (a list), bookie (the entries of one bookie) or owners",
    ),
    ("scope_claimed", pa.string(), "objects that the source is assumed to list completely"),
    (
        "scope_proved",
        pa.string(),
        "the part of scope_claimed that the audit proved; equal to scope_claimed if it proved all",
    ),
    ("proof", pa.string(), "reason why scope_proved counts as proved"),
    (
        "as_of",
        pa.int64(),
        "time of the source's data (ms since 1970, UTC). null: the source was not read, or the time "
        "is not known",
    ),
    ("reason", pa.string(), "reason why scope_claimed is not completely proved; null: all of it is proved"),
)


def rows_of_scopes(scopes: Iterable[SourceScope]) -> list[dict[str, Any]]:
    """Return the rows of `SOURCES`, one per source, ordered by kind and name."""
    return [asdict(scope) for scope in sorted(scopes, key=lambda scope: (scope.kind, scope.source))]
