"""Bookies that a placement policy may choose, for a replacement or a new ensemble, as in BookKeeper 4.17.2.

The policy chooses at random, so these functions return all bookies that it may choose. It replaces a bookie
(`replaceBookie`) in stages, and chooses from the first stage that finds a bookie:

    rack     the old bookie's own rack; then any rack without another bookie of the ensemble; then, unless
             racks are enforced, any bookie
    region   the old bookie's rack; then its region; then any region. If durability is enforced, the last
             stage allows a region only if afterwards no (minimum - 1) regions together have an ack quorum
             of copies in any window
    zone     a zone that none of the nearest neighbours in the ensemble is in. Each stage avoids fewer
             neighbours, down to the minimum of zones. The last stage allows any zone that keeps this
             minimum. Each stage prefers an upgrade domain without a neighbour. Otherwise it keeps two
             domains in each zone. If the policy is not strict: any bookie
    none     any bookie

The server does not check the adherence of the resulting ensemble. It first excludes bookies outside of
isolation groups.

A new ensemble (`newEnsemble`) needs enough bookies. Some policies need more:

    rack     if enforced: no bookie of the default rack, and the minimum of racks per write quorum
    region   if regions to write are set: quorums that the minimum of regions allows
    zone     if strict: Qw divides E and is above the minimum of zones, and that many zones exist

A policy that enforces locations chooses one bookie after the other, at random, and never goes back. It may
fail although another choice would have succeeded. `rack_choices` tries all choices of racks. For regions and
zones the functions only return certain results.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from auditor.model.adherence import DEFAULT_PATHS, ServerView, zone_of
from auditor.model.placement import IsolationGroups, Locations, PlacementSettings, Policy

SYSTEM_GROUP = "*"
"""Isolation group of Pulsar's system topics, which excludes no bookie."""

Names = frozenset[str]


@dataclass(frozen=True)
class Vacancy:
    """A position of an ensemble to fill. ``excluded_ids`` bookies are already chosen, or are not accepted."""

    ensemble: Sequence[str]
    position: int
    write_quorum: int
    ack_quorum: int
    excluded_ids: Names = frozenset()

    @property
    def other_members(self) -> list[str]:
        """Bookies of the ensemble in order, except the old bookie, which may be at several positions."""
        leaving_member = self.ensemble[self.position]
        return [member for member in self.ensemble if member != leaving_member]


def find_spares(vacancy: Vacancy, view: ServerView, settings: PlacementSettings) -> Names:
    """Return the bookies from which a server chooses. Empty if the server fails with NotEnoughBookies.

    >>> paths = {"b1": "/r1", "b2": "/r2", "b3": "/r3", "spare": "/r2"}
    >>> view = ServerView(paths, frozenset({"b2", "b3", "spare"}))
    >>> vacancy = Vacancy(["b1", "b2", "b3"], 0, 3, 2)
    >>> find_spares(vacancy, view, PlacementSettings(Policy.RACK))
    frozenset({'spare'})
    >>> find_spares(vacancy, view, PlacementSettings(Policy.RACK, enforce_min_racks=True))
    frozenset()

    Args:
        vacancy: the position to fill. Its ``excluded`` must contain the bookies of `find_excluded`.
        view: the server's view, with a path for every bookie, also for members of the ensemble. The path of
            a lost bookie is the location that the server remembers, or the default.
        settings: the placement policy.
    """
    spares = view.choosable_bookies - vacancy.excluded_ids - {*vacancy.ensemble}
    match settings.policy:
        case Policy.RACK:
            return _fill_by_rack(vacancy, view, settings, spares)
        case Policy.REGION:
            return _fill_by_region(vacancy, view, settings, spares)
        case Policy.ZONE if settings.strict_zones:
            return _fill_by_zone(vacancy, view, settings, spares)
    return spares


def find_excluded(
    ensemble_size: int, locations: Locations, writable: Collection[str], groups: IsolationGroups | None
) -> Names:
    """Return the bookies that Pulsar's isolation groups exclude (`IsolatedBookieEnsemblePlacementPolicy`).

    If the primary groups have fewer bookies than an ensemble needs, the secondary groups are allowed too. If
    that is not enough, bookies in no group are allowed. If no bookie is in a group, none is excluded.

    >>> from auditor.model.placement import Location
    >>> locations = Locations({"a": Location(None, ("fast",)), "b": Location(None, ("slow",))})
    >>> sorted(find_excluded(1, locations, {"a", "b", "c"}, IsolationGroups(("fast",), ())))
    ['b', 'c']

    Args:
        ensemble_size: the number of bookies that an ensemble needs.
        locations: the groups of all bookies.
        writable: the writable bookies, which can be chosen.
        groups: the groups of the ledger; None if it is not restricted.
    """
    if groups is None or SYSTEM_GROUP in groups.primary:
        return frozenset()
    primary, secondary = groups
    group_members = {name for name, entry in locations.by_bookie.items() if {*entry.groups} & {*primary}}
    grouped_names = {name for name, entry in locations.by_bookie.items() if entry.groups}
    if not grouped_names:
        return frozenset()
    excluded = (grouped_names | {*writable}) - group_members
    writable_count = len(group_members & {*writable})
    if writable_count < ensemble_size:
        secondary_members = {name for name in excluded if {*locations.groups(name)} & {*secondary}}
        excluded -= secondary_members
        writable_count += len(secondary_members)  # as the server counts: whether they are writable or not
    if writable_count < ensemble_size:
        excluded -= {*writable} - grouped_names
    return frozenset(excluded)


def _choose_stage(stages: Iterable[Iterable[str]]) -> Names:
    """Return the bookies of the first stage that has any, or an empty set if no stage has any."""
    return next((names for stage in stages if (names := frozenset(stage))), frozenset())


def _exclude_default(view: ServerView, settings: PlacementSettings, spares: Names) -> Names:
    if not settings.enforce_min_racks:
        return spares
    return frozenset(name for name in spares if view.paths[name] != DEFAULT_PATHS[settings.policy])


def _fill_by_rack(vacancy: Vacancy, view: ServerView, settings: PlacementSettings, spares: Names) -> Names:
    spares, path = _exclude_default(view, settings, spares), view.paths[vacancy.ensemble[vacancy.position]]
    used_paths = {view.paths[member] for member in vacancy.other_members}
    own_rack = [name for name in spares if view.paths[name] == path]
    other_racks = [name for name in spares if view.paths[name] not in used_paths]
    return _choose_stage([own_rack, other_racks, [] if settings.enforce_min_racks else spares])


def _fill_by_region(vacancy: Vacancy, view: ServerView, settings: PlacementSettings, spares: Names) -> Names:
    spares, member = _exclude_default(view, settings, spares), vacancy.ensemble[vacancy.position]
    region = _region(view.paths[member])
    region_spares = [name for name in spares if _region(view.paths[name]) == region]
    own_rack = [name for name in region_spares if view.paths[name] == view.paths[member]]
    is_durable = _durable_check(vacancy, view, settings)
    durable_spares = [name for name in spares if is_durable(_region(view.paths[name]))]
    return _choose_stage([own_rack, region_spares, durable_spares])


def _region(path: str) -> str:
    return path.split("/")[1]


_NO_REGION = _region(DEFAULT_PATHS[Policy.REGION])


def _durable_check(vacancy: Vacancy, view: ServerView, settings: PlacementSettings) -> Callable[[str], bool]:
    """Return a function that says whether the new bookie may be in a given region.

    The returned function repeats the test in `RRTopologyAwareCoverageEnsemble`. The server first adds the
    bookies that stay. It then adds the new bookie at the last position, even if the replaced bookie was at
    a different position. If the bookies that stay already break the rule, the server does not enforce
    durability. A member that is not writable counts as a region of its own.
    """
    min_regions = settings.min_regions if settings.regions_to_write and settings.durable_replacements else 1
    if min_regions <= 1:
        return lambda region: True
    # The server has another name here for the region of bookies without a location, and never counts it.
    choosable_regions = {_region(view.paths[name]) for name in view.choosable_bookies}
    regions = {*settings.regions_to_write, *choosable_regions} - {_NO_REGION}
    size, write_quorum = len(vacancy.ensemble), vacancy.write_quorum
    window_regions: list[Counter[str]] = [Counter() for _ in range(1 if size == write_quorum else size)]

    def windows_of(position: int) -> list[Counter[str]]:
        if len(window_regions) == 1:
            return window_regions
        return [window_regions[start % size] for start in range(position - write_quorum + 1, position + 1)]

    def keeps_durable(region: str, position: int) -> bool:
        for window in windows_of(position):
            counts = sorted((window[other] for other in regions - {region}), reverse=True)[: min_regions - 2]
            if window[region] + 1 + sum(counts) > vacancy.ack_quorum - 1:
                return False
        return True

    for slot, member in enumerate(vacancy.other_members):
        region = _region(view.paths[member]) if member in view.choosable_bookies else view.paths[member]
        if not keeps_durable(region, slot):
            return lambda region: True
        for window in windows_of(slot):
            window[region] += 1
    last_position = len(vacancy.other_members)
    return lambda region: keeps_durable(region, last_position)


def _fill_by_zone(vacancy: Vacancy, view: ServerView, settings: PlacementSettings, spares: Names) -> Names:
    if min(vacancy.write_quorum, settings.desired_zones) < settings.min_zones:
        return frozenset()  # the server ends with a NullPointerException
    spares = frozenset(name for name in spares if view.paths[name] != DEFAULT_PATHS[Policy.ZONE])
    zone_by_bookie = {name: zone_of(path) or zone_of_default() for name, path in view.paths.items()}
    size, write_quorum, position = len(vacancy.ensemble), vacancy.write_quorum, vacancy.position

    def zones_at(offsets: Iterable[int]) -> list[tuple[str, str]]:
        positions = ((position + offset) % size for offset in offsets)
        return [zone_by_bookie[vacancy.ensemble[slot]] for slot in positions if slot != position]

    nearby_zones = zones_at(offset for offset in range(1 - write_quorum, write_quorum) if offset)
    zone_windows = [zones_at(range(start, start + write_quorum)) for start in range(1 - write_quorum, 1)]

    def spread(skip_zones: set[str]) -> Iterable[Names]:
        candidates = [name for name in spares if zone_by_bookie[name][0] not in skip_zones]
        yield frozenset(name for name in candidates if zone_by_bookie[name] not in nearby_zones)
        # Two upgrade domains in each zone of a window: not the one that all the others of the zone share.
        sole_domains = {
            (zone, domains.pop())
            for window in zone_windows
            for zone in {zone for zone, _ in window}
            if len(domains := {domain for member_zone, domain in window if member_zone == zone}) == 1
        }
        yield frozenset(name for name in candidates if zone_by_bookie[name] not in sole_domains)

    def stages() -> Iterable[Names]:
        for zone_distance in range(min(write_quorum, settings.desired_zones) - 1, settings.min_zones - 2, -1):
            neighbours = zones_at(offset for offset in range(-zone_distance, zone_distance + 1) if offset)
            yield from spread({zone for zone, _ in neighbours})
        zone_sets = [{zone for zone, _ in window} for window in zone_windows]
        yield from spread({zone for zones in zone_sets if len(zones) < settings.min_zones for zone in zones})

    return _choose_stage(stages())


def zone_of_default() -> tuple[str, str]:
    """Return the zone and upgrade domain of the location that a server gives to bookies it cannot resolve."""
    zone, domain = DEFAULT_PATHS[Policy.ZONE].split("/")[1:]
    return zone, domain


MAX_RACK_CHOICES = 20_000
"""Largest number of choices of racks that `rack_choices` tries; its result is uncertain if there are more."""


def refuses_by_location(settings: PlacementSettings) -> bool:
    """Return whether the policy may refuse a bookie because of its location.

    The result is False if the policy only prefers other bookies.

    >>> refuses_by_location(PlacementSettings(Policy.REGION, enforce_min_racks=True))
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


def can_form_ensemble(
    quorums: tuple[int, int, int],
    paths: Sequence[str | None],
    settings: PlacementSettings,
    other_paths: Sequence[str | None] = (),
) -> bool | None:
    """Return whether bookies with these locations can form an ensemble, or None if that is uncertain.

    The answer is uncertain if it depends on the random choice, or on bookies whose location is unknown. It
    is also uncertain if `rack_choices` reached its limit.

    >>> enforced = PlacementSettings(Policy.RACK, enforce_min_racks=True)
    >>> [can_form_ensemble((2, 2, 2), ["/r1", *more], enforced) for more in (["/r1"], ["/r2"], [None])]
    [False, True, None]

    Args:
        quorums: ensemble size, write quorum and ack quorum of the ledger.
        paths: location of each bookie that can be chosen. None for an unknown location.
        settings: the placement policy.
        other_paths: locations of writable bookies that must not be chosen.
    """
    ensemble, write_quorum, ack_quorum = quorums
    if len(paths) < ensemble:
        return False
    if not refuses_by_location(settings):
        return True
    known_paths = [path for path in paths if path is not None]
    is_possible: bool | None = None
    if settings.policy is Policy.RACK:
        racks = {path or DEFAULT_PATHS[Policy.RACK] for path in (*paths, *other_paths)}
        is_possible = _place_by_rack(quorums, Counter(known_paths), len(racks), settings)
    elif settings.policy is Policy.REGION:
        if settings.regions_to_write and not _is_durable(write_quorum, ack_quorum, settings.min_regions):
            return False
        if len(known_paths) == len(paths):
            region_counts = Counter(path.split("/")[1] for path in known_paths)
            is_possible = _place_by_region(ensemble, region_counts, settings)
    else:
        if ensemble % write_quorum or write_quorum <= settings.min_zones:
            return False
        zone_count = len({path.split("/")[1] for path in known_paths})
        if len(known_paths) < ensemble or zone_count < settings.min_zones:
            is_possible = False
        elif ensemble == write_quorum <= zone_count:
            is_possible = True
    return None if is_possible is False and len(known_paths) < len(paths) else is_possible


def _place_by_rack(
    quorums: tuple[int, int, int], bookies: Counter[str], rack_count: int, settings: PlacementSettings
) -> bool | None:
    ensemble, write_quorum, _ = quorums
    min_racks = min(write_quorum, settings.min_racks)
    if rack_count < 2:
        return min_racks <= 1 and bookies.total() >= ensemble
    outcomes = rack_choices(bookies, ensemble, write_quorum, min_racks)
    return None if len(outcomes) > 1 else outcomes.pop()


def _is_durable(write_quorum: int, ack_quorum: int, regions: int) -> bool:
    """Return whether an entry survives the loss of all but ``regions`` regions, by the rule of the server."""
    return ack_quorum >= regions and (regions < 1 or ack_quorum > write_quorum - write_quorum // regions)


def _place_by_region(ensemble: int, bookies: Counter[str], settings: PlacementSettings) -> bool | None:
    if settings.regions_to_write and len(bookies) < settings.min_regions:
        return False
    # Each region can take its part; those with enforced racks may refuse it.
    is_even = min(bookies.values()) >= -(-ensemble // len(bookies))
    return True if is_even and not settings.enforce_min_racks else None


def rack_choices(bookies: Mapping[str, int], ensemble: int, write_quorum: int, min_racks: int) -> set[bool]:
    """Return the possible outcomes of choosing bookies at random while racks are enforced.

    An outcome is True if the policy finds an ensemble, and False otherwise. The result contains both values
    if both can happen, or if there are more than `MAX_RACK_CHOICES` choices. ``bookies`` maps each rack to
    its number of bookies, without the default rack.

    >>> sorted(rack_choices(Counter({"/r1": 3, "/r2": 1}), 3, 2, 2))
    [False]
    >>> sorted(rack_choices(Counter({"/r1": 3, "/r2": 1}), 2, 2, 2))
    [True]
    """
    if len(bookies) >= ensemble:
        return {True}  # the policy takes unused racks as long as there are any
    free_bookies = {rack: min(count, ensemble) for rack, count in bookies.items()}
    outcomes: set[bool] = set()
    choice_count = 0
    rack_list: list[str] = []

    def choose_next(used_racks: frozenset[str]) -> None:
        nonlocal choice_count
        choice_count += 1
        if choice_count > MAX_RACK_CHOICES:
            outcomes.update((True, False))
        if len(rack_list) == ensemble or len(outcomes) == 2:
            outcomes.add(len(rack_list) == ensemble)
            return
        windows = list(_rack_windows(rack_list, ensemble, write_quorum))
        # Unused racks with equal numbers of bookies are interchangeable.
        representatives = {
            (free_bookies[rack], rack if rack in rack_list else ""): rack
            for rack in free_bookies
            if free_bookies[rack]
        }
        fitting_racks = [
            rack
            for rack in representatives.values()
            if all(len({*window, rack}) + write_quorum - len(window) - 1 >= min_racks for window in windows)
        ]
        racks = [rack for rack in fitting_racks if rack not in used_racks]
        if not racks:
            racks, used_racks = fitting_racks, frozenset()
        if not racks:
            outcomes.add(False)
        for rack in racks:
            free_bookies[rack] -= 1
            rack_list.append(rack)
            choose_next(used_racks | {rack})
            free_bookies[rack_list.pop()] += 1

    choose_next(frozenset())
    return outcomes


def _rack_windows(chosen_racks: Sequence[str], ensemble: int, write_quorum: int) -> Iterator[list[str]]:
    """Yield the racks chosen so far in each write quorum that contains the next position."""
    count = len(chosen_racks)
    first_positions = [0] if ensemble == write_quorum else range(count - write_quorum + 1, count + 1)
    for first_position in first_positions:
        positions = ((first_position + member_offset) % ensemble for member_offset in range(write_quorum))
        yield [chosen_racks[position] for position in positions if position < count]
