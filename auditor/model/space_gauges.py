"""What metrics say of bookies' disks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from auditor.model.disk_total import DiskTotal, FillForecast
from auditor.model.space_total import SpaceTotal


@dataclass(frozen=True, slots=True)
class SpaceGauges:
    """The entry logs of a run's bookies by class, what lies beside them, and when disks are full.

    ``reclaimable`` are the bytes that each bookie's next collection, minor or major compaction gives back, by
    bookie and action. All of it is empty where entry logs were not read.
    """

    totals: tuple[SpaceTotal, ...] = ()
    disks: tuple[DiskTotal, ...] = ()
    reclaimable: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    forecasts: tuple[FillForecast, ...] = ()
