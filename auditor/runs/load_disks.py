"""What lies beside the entry logs of a run's bookies, and how full their file systems are; without Spark."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from auditor.model.disk_total import DISK_BYTES, DiskTotal, FileSystem
from auditor.model.space_total import NO_BOOKIE

if TYPE_CHECKING:
    from auditor.runs.reader import RunReader

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
    columns = ["bookie_id", *(kind.column for kind in DISK_BYTES), *_FILE_SYSTEM, "reason"]
    for batch in run.batches("tables/disks", columns):
        for row in batch.to_pylist():
            name = row["bookie_id"] if row["bookie_id"] is not None else NO_BOOKIE
            counts = bytes.setdefault(name, Counter())
            counts.update({kind.name: row[kind.column] or 0 for kind in DISK_BYTES})
            unread[name] += row["reason"] is not None
            if row["capacity_bytes"] is not None:
                systems.setdefault(name, {})[row["device"]] = _file_system(row)
    return tuple(
        DiskTotal(
            name,
            **{kind.name: bytes[name][kind.name] for kind in DISK_BYTES},
            file_systems=tuple(sorted(systems.get(name, {}).values(), key=lambda each: -each.used)),
            unread=unread[name],
        )
        for name in sorted(bytes)
    )


def _file_system(row: dict[str, Any]) -> FileSystem:
    return FileSystem(row["device"], row["capacity_bytes"], row["free_bytes"], row["seen"])
