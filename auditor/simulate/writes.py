"""Whether writing goes on after a failure: bookies enough for each shape of ledger under the policy.

A ledger is made where E bookies are writable that the policy takes; where an ensemble lost some of its own,
each needs another outside it, which comes to the same number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from auditor.model.amounts import plural
from auditor.model.placement import POLICY_LEVEL, Locations, PlacementSettings
from auditor.model.replacements import makes_ensemble, refuses_by_place
from auditor.model.simulation import NO, UNSURE, YES, WriteAnswer
from auditor.simulate.isolation import Isolation

Shape = tuple[int, int, int]


def write_answers(
    shapes: Mapping[tuple[int, int, int, bool, int], int],
    isolations: Sequence[Isolation],
    left: list[str],
    settings: PlacementSettings,
    locations: Locations,
) -> tuple[WriteAnswer, ...]:
    """One answer for each shape of ledgers (E, Qw, Qa, not closed, number of ``isolations``).

    ``left`` are the bookies that would still be writable.
    """
    counts: Counter[tuple[Shape, int]] = Counter()
    for (ensemble, write, ack, still_open, number), ledgers in shapes.items():
        counts[(ensemble, write, ack), number] += ledgers if still_open else 0
    found = []
    for (shape, number), ledgers in sorted(counts.items()):
        isolation = isolations[number]
        answer, why = _answer(shape, isolation, left, settings, locations)
        found.append(WriteAnswer(*shape, isolation.words, ledgers, answer, why))
    return tuple(found)


def _answer(
    shape: Shape, isolation: Isolation, left: list[str], settings: PlacementSettings, locations: Locations
) -> tuple[str, str]:
    out = isolation.outside(shape[0], locations, left) if isolation.known else frozenset()
    inside = [name for name in left if name not in out]
    settings = isolation.settings(settings)
    paths = [locations.path(name) for name in inside]
    can = makes_ensemble(shape, paths, settings, [locations.path(name) for name in out])
    there = plural(len(inside), "writable bookie") + (" in its groups" if out else "")
    if len(inside) < shape[0]:
        return NO, f"{there} for an ensemble of {shape[0]}"
    if not isolation.known:
        return UNSURE, f"{there}; which of them are in its isolation groups is not known"
    if not refuses_by_place(settings):
        return YES, there
    level = POLICY_LEVEL[settings.policy]
    domains = {locations.domain(name, level) for name in inside}
    there += f" in {plural(len(domains - {None}), str(level))}"
    if can is not None:
        return (YES if can else NO), f"{there}, by policy {settings.policy}"
    if None in domains:
        return UNSURE, f"{there}, and some without a location"
    return UNSURE, f"{there}, and policy {settings.policy} may refuse by what it chose before"
