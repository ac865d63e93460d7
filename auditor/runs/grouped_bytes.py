"""Bytes added up by some columns, batch by batch: memory follows the groups that there are, not the rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

MERGED_AT = 500_000
"""So many rows of partial sums are kept at least before they are merged."""


class GroupedBytes:
    """Sums of the column ``bytes`` by the columns ``keys``.

    >>> import pyarrow as pa
    >>> sums = GroupedBytes(["name"])
    >>> sums.add(pa.table({"name": ["a", "b", "a"], "bytes": [1, 2, 3]}))
    >>> sorted(sums.table().to_pydict().items())
    [('bytes', [4, 2]), ('name', ['a', 'b'])]
    """

    def __init__(self, keys: Sequence[str]) -> None:
        self._keys = list(keys)
        self._parts: list[pa.Table] = []
        self._rows = 0
        self._limit = MERGED_AT

    def add(self, rows: pa.Table) -> None:
        """Add rows that have the keys and ``bytes``."""
        part = self._sum(rows)
        self._parts.append(part)
        self._rows += part.num_rows
        if self._rows > self._limit:
            merged = self.table()
            self._parts, self._rows = [merged], merged.num_rows
            self._limit = max(MERGED_AT, 2 * merged.num_rows)

    def table(self) -> pa.Table:
        """One row a group, with ``bytes``; groups in the order in which they came."""
        import pyarrow as pa

        if not self._parts:
            return pa.table({name: [] for name in (*self._keys, "bytes")})
        return self._sum(pa.concat_tables(self._parts))

    def _sum(self, rows: pa.Table) -> pa.Table:
        # One thread: the order of the groups is that of the rows.
        grouped = rows.group_by(self._keys, use_threads=False).aggregate([("bytes", "sum")])
        return grouped.rename_columns({"bytes_sum": "bytes"})
