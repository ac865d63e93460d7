"""Metrics of bookies' disks: what entry logs are full of, what comes free, and when disks are full.

Of `BOOKIES` bookies at most, the fullest; the bytes of all others are one, so that sums stay those of the
cluster. A run without ``--entry-logs`` has no sample of any.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from auditor.model.space import DISK_BYTES, SpaceGauges
from auditor.model.states import SpaceClass

BOOKIES = 1_000
OTHERS = "(others)"
"""The label of what has no sample of its own: no name has brackets."""

METRICS = {
    "bkaudit_space_bytes": "Bytes of a bookie's entry logs, by whose they are; absent without --entry-logs.",
    "bkaudit_space_reclaimable_bytes": "Bytes that a bookie's next collection or compaction gives back.",
    "bkaudit_space_beside_bytes": "Bytes on a bookie's disks beside its entry logs, by what they are.",
    "bkaudit_disk_capacity_bytes": "Size of a bookie's fullest file system, where a collector saw it.",
    "bkaudit_disk_free_bytes": "Bytes of that file system which the bookie may still write.",
    "bkaudit_disk_full_days": "Days until 95 % of a bookie's disk is in use; only where three runs agree.",
}
"""Every one, in order, and its help."""

LABELS = {
    "bkaudit_space_bytes": ("bookie", "class"),
    "bkaudit_space_reclaimable_bytes": ("bookie", "by"),
    "bkaudit_space_beside_bytes": ("bookie", "kind"),
    "bkaudit_disk_capacity_bytes": ("bookie",),
    "bkaudit_disk_free_bytes": ("bookie",),
    "bkaudit_disk_full_days": ("bookie",),
}
"""The labels of their samples, besides that of the cluster."""

_Sample = tuple[str, dict[str, str], float]


def space_samples(gauges: SpaceGauges) -> Iterator[_Sample]:
    """Metric, labels and value of each sample.

    >>> from auditor.model.space import SpaceTotal
    >>> samples = list(space_samples(SpaceGauges((SpaceTotal("bk1:3181", {"live": 9}),))))
    >>> samples[0]
    ('bkaudit_space_bytes', {'bookie': 'bk1:3181', 'class': 'live'}, 9)
    """
    classes = {each.name: each.classes for each in gauges.totals}
    beside = {each.name: each.by_kind for each in gauges.disks}
    fullest = [each.name for each in sorted(gauges.totals, key=lambda each: (-each.bytes, each.name))]
    yield from _samples("bkaudit_space_bytes", "class", _bounded(classes, fullest), map(str, SpaceClass))
    by = ("delete", "minor", "major")
    yield from _samples("bkaudit_space_reclaimable_bytes", "by", _bounded(gauges.reclaimable, fullest), by)
    kinds = [each.name for each in DISK_BYTES]
    yield from _samples("bkaudit_space_beside_bytes", "kind", _bounded(beside, fullest), kinds)
    seen = [(each.fullest.used, each.name, each.fullest) for each in gauges.disks if each.fullest is not None]
    for _, name, system in sorted(seen, key=lambda each: (-each[0], each[1]))[:BOOKIES]:
        yield "bkaudit_disk_capacity_bytes", {"bookie": name}, system.capacity
        yield "bkaudit_disk_free_bytes", {"bookie": name}, system.free
    for forecast in gauges.forecasts[:BOOKIES]:
        yield "bkaudit_disk_full_days", {"bookie": forecast.name}, forecast.days


def _bounded(sizes: Mapping[str, Mapping[str, int]], fullest: Sequence[str]) -> dict[str, Mapping[str, int]]:
    """Those of the fullest bookies by name, and the sum of all others."""
    ordered = [*(name for name in fullest if name in sizes), *sorted(sizes.keys() - {*fullest})]
    kept: dict[str, Mapping[str, int]] = {name: sizes[name] for name in ordered[:BOOKIES]}
    others: Counter[str] = Counter()
    for name in ordered[BOOKIES:]:
        others.update(sizes[name])
    return kept | ({OTHERS: others} if len(ordered) > BOOKIES else {})


def _samples(
    metric: str, label: str, sizes: Mapping[str, Mapping[str, int]], kinds: Iterator[str] | Sequence[str]
) -> Iterator[_Sample]:
    names = list(kinds)
    for bookie, of_kind in sizes.items():
        for kind in names:
            yield metric, {"bookie": bookie, label: kind}, of_kind.get(kind, 0)
