"""How every finding of a run stands against the run before, read beside the findings and never held."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from auditor.errors import RunError
from auditor.model.standing import Standing, Standings, no_standing
from auditor.runs.tables import RunTables
from auditor.tables.changes import FOUND

_TABLE = "changes"
_COLUMNS = ["fingerprint", "change", "first_seen", "suppressed"]


def standings_in_order(path: str) -> Standings:
    """The standings of the findings of the run at ``path``, to be asked for in the order of its findings.

    The table of changes lies in the same order, so that each answer is the next row, or a little further.
    A run without that table knows of none.

    Raises:
        RunError: when asked, where the table is broken, or has no row of a finding at its place.
    """
    tables = RunTables(path)
    if _TABLE not in tables.names("tables"):
        return no_standing
    rows = _rows(tables)

    def standing(fingerprint: str) -> Standing:
        for row in rows:
            if row["fingerprint"] == fingerprint:
                return Standing(row["change"], row["first_seen"], row["suppressed"])
        raise RunError(f"{path}/tables/{_TABLE}: no row of the finding {fingerprint} is at its place")

    return standing


def _rows(tables: RunTables) -> Iterator[dict[str, Any]]:
    import pyarrow.dataset as ds

    found = ds.field("change").isin(FOUND)
    for batch in tables.batches(f"tables/{_TABLE}", _COLUMNS, found):
        yield from batch.to_pylist()
