"""What lies on each disk of a bookie: the entry logs of its ledger directories, in one pass."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from auditor.model.simulation import DiskLoad
from auditor.model.states import LogFileKind
from auditor.runs.reader import RunReader
from auditor.simulate.windows import Longs, distinct_values

_DISK = ("bookie_id", "directory")
_PRIME = 1_000_003


def disk_loads(run: RunReader) -> tuple[DiskLoad, ...] | None:
    """All disks, the largest first; None where entry logs were not read. 8 bytes a ledger and disk are kept.

    Raises:
        RunError: a table of the run is broken.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if not {"entry_logs", "disks"} <= {*run.table_names()}:
        return None
    loads: dict[tuple[str, str], DiskLoad] = {}
    ledgers: dict[tuple[str, str], Longs] = {}
    used = _used(run)
    columns = ["bookie_id", "directory", "kind", "scope_id", "ledger_id", "bytes", "entries"]
    for batch in run.batches("tables/entry_logs", columns):
        # A log that compaction left under two names is there once.
        second = pc.equal(batch["kind"], LogFileKind.COMPACTED.value).fill_null(False)
        some = pa.table(batch.filter(pc.and_(batch["bookie_id"].is_valid(), pc.invert(second))))
        ids = pc.add(pc.multiply(some["ledger_id"], _PRIME), some["scope_id"])
        blank = pc.and_(some["ledger_id"].is_valid(), some["entries"].is_null()).cast("int64")
        found = some.append_column("id", ids).append_column("blank", blank).group_by([*_DISK])
        sums = [("bytes", "sum"), ("entries", "sum"), ("blank", "sum"), ("id", "distinct")]
        for row in found.aggregate(sums).to_pylist():
            disk = row["bookie_id"], row["directory"]
            before = loads.get(disk, DiskLoad(*disk, 0, 0, 0, used.get(disk[1])))
            new = np.array([id for id in row["id_distinct"] if id is not None], np.int64)
            ledgers[disk] = distinct_values(np.append(ledgers.get(disk, new[:0]), new))
            known = before.entries is not None and not row["blank_sum"]
            loads[disk] = replace(
                before,
                ledgers=len(ledgers[disk]),
                entries=(before.entries or 0) + (row["entries_sum"] or 0) if known else None,
                bytes=before.bytes + (row["bytes_sum"] or 0),
            )
    return tuple(sorted(loads.values(), key=lambda each: (-each.bytes, each.bookie, each.directory)))


def _used(run: RunReader) -> dict[str, float]:
    """The share of its file system that is in use, of each directory where that was seen."""
    rows = run.table("disks", ["directory", "capacity_bytes", "free_bytes"]).to_pylist()
    return {
        row["directory"]: 1 - row["free_bytes"] / row["capacity_bytes"]
        for row in rows
        if row["capacity_bytes"] and row["free_bytes"] is not None
    }
