"""Whether writing goes on after a failure: bookies enough for each shape of ledger under the policy.

A ledger is made where E bookies are writable that the policy takes; where an ensemble lost some of its own,
each needs another outside it, which comes to the same number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from auditor.model.amounts import plural
from auditor.model.placement import Level, Locations, PlacementSettings, Policy
from auditor.model.simulation import NO, UNSURE, YES, WriteAnswer


def write_answers(
    shapes: Mapping[tuple[int, int, int, bool], int],
    left: list[str],
    settings: PlacementSettings,
    locations: Locations,
) -> tuple[WriteAnswer, ...]:
    """One answer for each shape (E, Qw, Qa, not closed) of ledgers; ``left`` are the bookies that would
    still be writable."""
    counts: Counter[tuple[int, int, int]] = Counter()
    for (ensemble, write, ack, still_open), ledgers in shapes.items():
        counts[ensemble, write, ack] += ledgers if still_open else 0
    found = []
    for shape, ledgers in sorted(counts.items()):
        answer, why = _answer(shape, left, settings, locations)
        found.append(WriteAnswer(*shape, ledgers, answer, why))
    return tuple(found)


def _answer(
    shape: tuple[int, int, int], left: list[str], settings: PlacementSettings, locations: Locations
) -> tuple[str, str]:
    ensemble, write, _ = shape
    if len(left) < ensemble:
        return NO, f"{plural(len(left), 'writable bookie')} for an ensemble of {ensemble}"
    if settings.isolation_groups:
        return UNSURE, "bookies are isolated in groups; whether the right ones are left is not worked out"
    level, least = _spread(write, settings)
    if level is None:
        return YES, f"{plural(len(left), 'writable bookie')} for an ensemble of {ensemble}"
    domains = {locations.domain(each, level) for each in left}
    known = len(domains - {None})
    if known >= least:
        return YES, f"{len(left):,} writable bookies in {plural(known, str(level))}, {least} needed"
    if None in domains:
        return UNSURE, f"{known} {level}s are known of the bookies that are left, {least} needed"
    return NO, f"{plural(known, str(level))} left, {least} needed by policy {settings.policy}"


def _spread(write: int, settings: PlacementSettings) -> tuple[Level | None, int]:
    """At which level, and over how many domains at least, a policy must spread a write quorum."""
    if settings.policy is Policy.RACK and settings.enforce_min_racks:
        return Level.RACK, min(settings.min_racks, write)
    if settings.policy is Policy.ZONE and settings.strict_zones:
        return Level.ZONE, settings.min_zones
    if settings.policy is Policy.REGION and settings.regions_to_write:
        return Level.REGION, settings.min_regions
    return None, 0
