"""What lies beside the entry logs of a run's bookies, and how full their file systems are; without Spark."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from auditor.model.disk_total import DiskTotal, FileSystem
from auditor.model.space_total import NO_BOOKIE

if TYPE_CHECKING:
    from auditor.runs.reader import RunReader

KINDS = {
    "journals": "journal_bytes",
    "indexes": "index_bytes",
    "rocksdb": "rocksdb_bytes",
    "other": "other_bytes",
}
_FILE_SYSTEM = ("device", "capacity_bytes", "free_bytes", "seen")


def disk_totals(run: RunReader) -> tuple[DiskTotal, ...]:
    """One total a bookie, by id; none where entry logs were not read. A row per directory is in memory.

    Raises:
        RunError: the table disks is broken.
    """
    if "disks" not in run.table_names():
        return ()
    bytes: dict[str, Counter[str]] = {}
    unread: Counter[str] = Counter()
    systems: dict[str, dict[int, FileSystem]] = {}
    columns = ["bookie_id", *KINDS.values(), *_FILE_SYSTEM, "reason"]
    for batch in run.batches("tables/disks", columns):
        for row in batch.to_pylist():
            name = row["bookie_id"] if row["bookie_id"] is not None else NO_BOOKIE
            counts = bytes.setdefault(name, Counter())
            counts.update({kind: row[column] or 0 for kind, column in KINDS.items()})
            unread[name] += row["reason"] is not None
            if row["capacity_bytes"] is not None:
                systems.setdefault(name, {})[row["device"]] = _file_system(row)
    return tuple(
        DiskTotal(
            name,
            **{kind: bytes[name][kind] for kind in KINDS},
            file_systems=tuple(sorted(systems.get(name, {}).values(), key=lambda each: -each.used)),
            unread=unread[name],
        )
        for name in sorted(bytes)
    )


def _file_system(row: dict[str, Any]) -> FileSystem:
    return FileSystem(row["device"], row["capacity_bytes"], row["free_bytes"], row["seen"])
