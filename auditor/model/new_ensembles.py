"""Whether a placement policy makes an ensemble of some bookies (`newEnsemble`), as 4.17.2 does.

    none     enough bookies
    rack     the same; enforced: none of the default rack, and the minimum of racks in each write quorum
    region   the same; with regions to write: quorums that the minimum of regions allows
    zone     the same; strict: Qw divides E and is above the minimum of zones, which are there

A policy that enforces places chooses one bookie after the other, at random, and never goes back: it may fail
where another choice would have done. What its choice of racks can come to is looked at in full; of regions
and zones only what is sure is said.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from auditor.model.adherence import DEFAULTS
from auditor.model.placement import PlacementSettings, Policy

MOST_CHOICES = 20_000
"""So many choices of racks are looked at; beyond it is not said what comes of them."""


def refuses_by_place(settings: PlacementSettings) -> bool:
    """Whether the policy may refuse a bookie for where it stands, rather than only prefer others.

    >>> refuses_by_place(PlacementSettings(Policy.REGION, enforce_min_racks=True))
    True
    """
    match settings.policy:
        case Policy.RACK:
            return settings.enforce_min_racks
        case Policy.REGION:
            return bool(settings.regions_to_write) or settings.enforce_min_racks
        case Policy.ZONE:
            return settings.strict_zones
    return False


def makes_ensemble(
    shape: tuple[int, int, int],
    paths: Sequence[str | None],
    settings: PlacementSettings,
    other_paths: Sequence[str | None] = (),
) -> bool | None:
    """Whether a ledger of a shape (E, Qw, Qa) can be made of bookies, by their locations.

    ``other_paths`` are of writable bookies that may not be taken. None: that depends on which bookies are
    chosen, on where those stand that have no location, or was not worked out.

    >>> enforced = PlacementSettings(Policy.RACK, enforce_min_racks=True)
    >>> [makes_ensemble((2, 2, 2), ["/r1", *more], enforced) for more in (["/r1"], ["/r2"], [None])]
    [False, True, None]
    """
    ensemble, write_quorum, ack_quorum = shape
    if len(paths) < ensemble:
        return False
    if not refuses_by_place(settings):
        return True
    placed = [path for path in paths if path is not None]
    found: bool | None = None
    if settings.policy is Policy.RACK:
        there = {path or DEFAULTS[Policy.RACK] for path in (*paths, *other_paths)}
        found = _by_rack(shape, Counter(placed), len(there), settings)
    elif settings.policy is Policy.REGION:
        if settings.regions_to_write and not _durable(write_quorum, ack_quorum, settings.min_regions):
            return False
        if len(placed) == len(paths):
            found = _by_region(ensemble, Counter(path.split("/")[1] for path in placed), settings)
    else:
        if ensemble % write_quorum or write_quorum <= settings.min_zones:
            return False
        zones = len({path.split("/")[1] for path in placed})
        if len(placed) < ensemble or zones < settings.min_zones:
            found = False
        elif ensemble == write_quorum <= zones:
            found = True
    return None if found is False and len(placed) < len(paths) else found


def _by_rack(
    shape: tuple[int, int, int], bookies: Counter[str], racks: int, settings: PlacementSettings
) -> bool | None:
    ensemble, write_quorum, _ = shape
    fewest = min(write_quorum, settings.min_racks)
    if racks < 2:
        return fewest <= 1 and bookies.total() >= ensemble
    ends = rack_choices(bookies, ensemble, write_quorum, fewest)
    return None if len(ends) > 1 else ends.pop()


def _durable(write_quorum: int, ack_quorum: int, fewest: int) -> bool:
    """Whether quorums can survive the loss of all but the minimum of regions; others are refused."""
    return ack_quorum >= fewest and (fewest < 1 or ack_quorum > write_quorum - write_quorum // fewest)


def _by_region(ensemble: int, bookies: Counter[str], settings: PlacementSettings) -> bool | None:
    if settings.regions_to_write and len(bookies) < settings.min_regions:
        return False
    # Each region can take its part; those with enforced racks may refuse it.
    even = min(bookies.values()) >= -(-ensemble // len(bookies))
    return True if even and not settings.enforce_min_racks else None


def rack_choices(bookies: Mapping[str, int], ensemble: int, write_quorum: int, min_racks: int) -> set[bool]:
    """How the choice of bookies ends under enforced racks: with an ensemble, without one, or either.

    ``bookies`` are counted by their rack, without those of the default rack. More than `MOST_CHOICES` count
    as either.

    >>> sorted(rack_choices(Counter({"/r1": 3, "/r2": 1}), 3, 2, 2))
    [False]
    >>> sorted(rack_choices(Counter({"/r1": 3, "/r2": 1}), 2, 2, 2))
    [True]
    """
    if len(bookies) >= ensemble:
        return {True}  # it takes a rack of which it has none as long as there is one
    left = {rack: min(number, ensemble) for rack, number in bookies.items()}
    found: set[bool] = set()
    steps = 0
    chosen: list[str] = []

    def look(avoided: frozenset[str]) -> None:
        nonlocal steps
        steps += 1
        if steps > MOST_CHOICES:
            found.update((True, False))
        if len(chosen) == ensemble or len(found) == 2:
            found.add(len(chosen) == ensemble)
            return
        around = list(_windows(chosen, ensemble, write_quorum))
        # Racks that nobody was chosen of are alike where they have as many bookies.
        alike = {(left[rack], rack if rack in chosen else ""): rack for rack in left if left[rack]}
        fit = [
            rack
            for rack in alike.values()
            if all(len({*seen, rack}) + write_quorum - len(seen) - 1 >= min_racks for seen in around)
        ]
        racks = [rack for rack in fit if rack not in avoided]
        if not racks:
            racks, avoided = fit, frozenset()
        if not racks:
            found.add(False)
        for rack in racks:
            left[rack] -= 1
            chosen.append(rack)
            look(avoided | {rack})
            left[chosen.pop()] += 1

    look(frozenset())
    return found


def _windows(chosen: Sequence[str], ensemble: int, write_quorum: int) -> Iterator[list[str]]:
    """What each write quorum has that the next position is in; with Qw = E there is one."""
    place = len(chosen)
    firsts = [0] if ensemble == write_quorum else range(place - write_quorum + 1, place + 1)
    for first in firsts:
        places = ((first + step) % ensemble for step in range(write_quorum))
        yield [chosen[each] for each in places if each < place]
