"""A run's figures of bookies' disks for its metrics, added up batch by batch without Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.model.space_gauges import SpaceGauges
from auditor.model.states import GcAction
from auditor.runs.fill_forecasts import fill_forecasts
from auditor.runs.grouped_bytes import GroupedBytes
from auditor.runs.load_disks import disk_totals
from auditor.runs.load_space import bookies_space

if TYPE_CHECKING:
    from auditor.runs.reader import RunReader

FREEING = (GcAction.DELETE, GcAction.MINOR, GcAction.MAJOR)
"""What gives bytes back."""


def space_gauges(run: RunReader) -> SpaceGauges:
    """The figures; none where entry logs were not read.

    Raises:
        RunError: a table is broken, or the directory that the run lies in cannot be listed.
    """
    totals, disks = bookies_space(run), disk_totals(run)
    if not totals and not disks:
        return SpaceGauges()
    return SpaceGauges(totals, disks, _reclaimable(run), fill_forecasts(run, disks))


def _reclaimable(run: RunReader) -> dict[str, dict[str, int]]:
    """By bookie and action, zeros too: a line that falls to 0 says more than one that ends."""
    import pyarrow as pa

    if "log_foresight" not in run.table_names():
        return {}
    sums = GroupedBytes(["bookie_id", "action"])
    for batch in run.batches("tables/log_foresight", ["bookie_id", "action", "frees"]):
        sums.add(pa.Table.from_batches([batch]).rename_columns({"frees": "bytes"}))
    found: dict[str, dict[str, int]] = {}
    for row in sums.table().to_pylist():
        of_bookie = found.setdefault(row["bookie_id"], dict.fromkeys(map(str, FREEING), 0))
        if row["action"] in of_bookie:
            of_bookie[row["action"]] += row["bytes"]
    return found
