"""Whether a ledger of a run is in the replication queue, since when, and who holds it, in words."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from auditor.model.amounts import format_time
from auditor.model.states import MarkRow
from auditor.runs.tables import RunTables

NONE_KEPT = "this store keeps no replication queue"
NOT_SAID = "not known: this run does not say whether its store keeps a replication queue; audit again"


def queue_view(run: str, keeps_marks: bool | None, ledger_id: int, scope_id: int) -> tuple[str, ...]:
    """What the marks and locks of a run say of one ledger; nothing where a run has not read them.

    ``keeps_marks`` is whether its store keeps any, None where the run does not say.

    Raises `RunError` where the table cannot be read.
    """
    import pyarrow.dataset as ds

    tables = RunTables(run)
    if "marks" not in tables.names("tables"):
        return ()
    if keeps_marks is False:
        return (NONE_KEPT,)
    wanted = (ds.field("ledger_id") == ledger_id) | (ds.field("kind") == MarkRow.GAP)
    rows = tables.read("tables/marks", filter=wanted)
    found = rows.to_pylist()
    its = [row for row in found if row["kind"] != MarkRow.GAP] if scope_id == 0 else []
    if keeps_marks is None and not its:
        return (NOT_SAID,)
    return _sentences(its, gaps=len(found) > len(its) and scope_id == 0)


def _sentences(rows: Iterable[dict[str, Any]], gaps: bool) -> tuple[str, ...]:
    """One for each mark and lock of a ledger.

    >>> _sentences([{"kind": "lock", "owner": "worker1", "ctime": 1795237669000}], gaps=False)
    ('not marked for replication', 'held by worker1 since 2026-11-21 05:07:49 UTC')
    """
    marks, locks = [], []
    for row in rows:
        if row["kind"] == "lock":
            locks.append(f"held by {row['owner'] or 'somebody'} since {_since(row)}")
        else:
            names = ", ".join(row["replicas"] or ()) or "a better placement"
            marks.append(f"marked for replication since {_since(row)}, for {names}")
    if not marks:
        marks = ["not known: not all marks could be listed" if gaps else "not marked for replication"]
        return (*marks, *locks)
    return (*marks, *(locks or ["no worker holds it"]))


def _since(row: dict[str, Any]) -> str:
    ms = row.get("ctime") or row.get("mtime")
    return format_time(ms) if ms else "an unknown time"
