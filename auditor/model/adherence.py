"""Whether ensembles keep to a placement policy: the server's verdicts, many ensembles at once.

A window is the write quorum of an entry: for each position i of an ensemble of E bookies, those at (i+j) mod
E, j < Qw. What each class of BookKeeper 4.17.2 says of an ensemble (`isEnsembleAdheringToPlacementPolicy`):

    rack     FAIL where a window has fewer racks than min(Qw, minNumRacksPerWriteQuorum); where that is
             enforced, also where one has a bookie in the default rack. Bookies that are not writable now have
             no rack.
    region   always STRICT
    zone     FAIL where Qw does not divide E or is no more than minNumZonesPerWriteQuorum, a bookie has no
             zone, a window has fewer zones than that minimum, or two or more bookies of a zone in one upgrade
             domain. STRICT where all windows have min(Qw, desiredNumZonesPerWriteQuorum), else SOFT. A bookie
             that the server has never seen counts as one more zone.
    none     always STRICT

Nothing of it looks at the ack quorum, or at entries. An empty ensemble is FAIL by rack and by zone.

Rows that are alike: what is asked of each different row only is asked once of many.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from auditor.model.placement import DEFAULT_RACK, Level, Locations, PlacementSettings, Policy, normalise

DEFAULTS = {
    Policy.RACK: DEFAULT_RACK,
    Policy.REGION: "/default-region/default-rack",
    Policy.ZONE: "/default-zone/default-upgradedomain",
    Policy.NONE: DEFAULT_RACK,
}
"""Where each policy puts a bookie of which the mapping says nothing."""

UNSEEN = DEFAULTS | {Policy.ZONE: DEFAULTS[Policy.REGION]}
"""And one that is not registered, and was not since the server started."""

Numbers = NDArray[np.int32]
Flags = NDArray[np.bool_]


class Adherence(IntEnum):
    """A server's verdict on an ensemble (`PlacementPolicyAdherence`); FAIL is the worst."""

    FAIL = 0
    SOFT = 1
    STRICT = 2


@dataclass(frozen=True)
class ServerView:
    """What a server that starts now takes each bookie to be at, and which are writable.

    ``paths`` has every bookie, ``known`` those among which a rack policy finds racks and replacements: of a
    mapping of mixed depths only those of one.

    >>> from auditor.model.placement import Location
    >>> racks = Locations({"bk1": Location("/r1")})
    >>> ServerView.of(racks, Policy.ZONE, ["bk1", "bk2", "bk3"], writable=["bk1"], registered=["bk2"]).paths
    {'bk1': '/r1', 'bk2': '/default-zone/default-upgradedomain', 'bk3': '/default-region/default-rack'}
    """

    paths: Mapping[str, str]
    known: frozenset[str]

    @classmethod
    def of(
        cls,
        locations: Locations,
        policy: Policy,
        bookies: Iterable[str],
        writable: Collection[str],
        registered: Collection[str] = (),
        depth: int | None = None,
    ) -> ServerView:
        """The view of a mapping by a policy; ``registered`` bookies that are not writable are read-only.

        ``depth`` is the number of parts of the location that joined first; None: all have one depth.
        """
        all_registered, at_hand = {*writable, *registered}, {*writable}
        paths = {}
        for bookie in bookies:
            location = locations.of.get(bookie)
            path = location.path if location and bookie in all_registered else None
            paths[bookie] = path or (DEFAULTS if bookie in all_registered else UNSEEN)[policy]
        candidates = {name for name in paths if name in at_hand and depth in (None, depth_of(paths[name]))}
        return cls(paths, frozenset(candidates))


def depth_of(path: str) -> int:
    """How many parts a location has; all in one topology must have as many.

    >>> depth_of("/r1"), depth_of("/east/r1")
    (1, 2)
    """
    return path.count("/")


@dataclass(frozen=True)
class CodedView:
    """A `ServerView` in numbers, by the number of a bookie in ``names``; -1 stands for none.

    ``rack`` is -1 of a bookie that is not known, ``zone`` and ``domain`` of one that is unresolved.
    ``default_rack`` is the code of the default rack, or -1.
    """

    names: Sequence[str]
    rack: Numbers
    zone: Numbers
    domain: Numbers
    default_rack: int

    @classmethod
    def of(cls, view: ServerView, names: Sequence[str]) -> CodedView:
        """The view of these bookies."""
        racks = [view.paths[name] if name in view.known else None for name in names]
        zones = [zone_of(view.paths[name]) for name in names]
        codes, rack = _codes(racks)
        return cls(
            names,
            rack,
            _codes([zone and zone[0] for zone in zones])[1],
            _codes([zone and "/".join(zone) for zone in zones])[1],
            codes.get(DEFAULT_RACK, -1),
        )


def zone_of(path: str) -> tuple[str, str] | None:
    """Zone and upgrade domain of a location as the zone policy takes it apart; None: unresolved.

    >>> zone_of("/z1/u1"), zone_of("/z1"), zone_of("/default-zone/default-upgradedomain")
    (('z1', 'u1'), None, None)
    """
    parts = [part for part in normalise(path).split("/") if part]
    return (parts[0], parts[1]) if len(parts) == 2 and path != DEFAULTS[Policy.ZONE] else None


def domain_codes(locations: Locations, level: Level, names: Sequence[str]) -> Numbers:
    """The domain of each bookie by the mapping alone, in numbers; -1 where nobody knows it."""
    return _codes([locations.domain(name, level) for name in names])[1]


@dataclass(frozen=True)
class Verdicts:
    """Of each ensemble the server's verdict, and of each of its windows whether that is what FAIL comes from.

    A zone policy that refuses E and Qw as such, or a bookie, breaks all windows.
    """

    adherence: NDArray[np.int8]
    broken: Flags


def refuses_shape(size: int, write_quorum: int, settings: PlacementSettings) -> bool:
    """Whether the policy fails every ensemble of this size and write quorum, wherever its bookies are.

    ``ZoneawareEnsemblePlacementPolicyImpl`` does: it wants a write quorum that divides the ensemble and is
    larger than minNumZonesPerWriteQuorum. Rack policies lower their minimum to the write quorum.

    >>> refuses_shape(3, 2, PlacementSettings(Policy.ZONE, min_zones=2))
    True
    """
    return settings.policy is Policy.ZONE and (size % write_quorum != 0 or write_quorum <= settings.min_zones)


def judge_ensembles(
    ensembles: Numbers,
    write_quorum: int,
    view: CodedView,
    settings: PlacementSettings,
    *,
    by_places: bool = False,
) -> Verdicts:
    """Judge ensembles of one size, a row each, bookies as numbers in ``view``.

    ``by_places`` leaves out what `refuses_shape` says of all of them, and judges where their bookies are.
    """
    count, size = ensembles.shape
    if settings.policy in (Policy.REGION, Policy.NONE):
        return Verdicts(np.full(count, Adherence.STRICT, np.int8), np.zeros((count, size), np.bool_))
    if not size:
        return Verdicts(np.full(count, Adherence.FAIL, np.int8), np.zeros((count, 0), np.bool_))
    if settings.policy is Policy.RACK:
        racks = windows(view.rack[ensembles], write_quorum)
        broken = count_distinct(racks) < min(write_quorum, settings.min_racks)
        if settings.enforce_min_racks and view.default_rack >= 0:
            broken |= (racks == view.default_rack).any(axis=2)
        return Verdicts(
            np.where(broken.any(axis=1), Adherence.FAIL, Adherence.STRICT).astype(np.int8), broken
        )
    refused = not by_places and refuses_shape(size, write_quorum, settings)
    least = min(settings.min_zones, write_quorum) if by_places else settings.min_zones
    return _by_zone(ensembles, write_quorum, view, replace(settings, min_zones=least), refused)


def _by_zone(
    ensembles: Numbers, write_quorum: int, view: CodedView, settings: PlacementSettings, refused: bool
) -> Verdicts:
    zones = windows(view.zone[ensembles], write_quorum)
    number = count_distinct(zones)
    broken = (number < settings.min_zones) | crowded(zones, windows(view.domain[ensembles], write_quorum))
    broken |= (view.zone[ensembles] < 0).any(axis=1, keepdims=True) | refused
    soft = (number < min(write_quorum, settings.desired_zones)).any(axis=1)
    grades = np.where(soft, Adherence.SOFT, Adherence.STRICT)
    return Verdicts(np.where(broken.any(axis=1), Adherence.FAIL, grades).astype(np.int8), broken)


def windows(codes: Numbers, write_quorum: int) -> Numbers:
    """The windows of ensembles: rows, positions, members.

    >>> windows(np.array([[4, 5, 6]], np.int32), 2).tolist()
    [[[4, 5], [5, 6], [6, 4]]]
    """
    size = codes.shape[1]
    return codes[:, (np.arange(size)[:, None] + np.arange(write_quorum)) % size]


def count_distinct(members: Numbers) -> Numbers:
    """How many different codes the last axis has; -1 counts for none.

    >>> count_distinct(np.array([3, -1, 3, 0], np.int32)).tolist()
    2
    """
    count: Numbers = first_of_each(np.sort(members, axis=-1)).sum(axis=-1, dtype=np.int32)
    return count


def first_of_each(ordered: NDArray[np.integer[Any]]) -> Flags:
    """Where each different code of the last axis, which is sorted, stands first; codes below 0 are none.

    >>> first_of_each(np.array([-1, 0, 3, 3])).tolist()
    [False, True, True, False]
    """
    new: Flags = np.ones(ordered.shape, np.bool_)
    new[..., 1:] = ordered[..., 1:] != ordered[..., :-1]
    return new & (ordered >= 0)


def crowded(zones: Numbers, domains: Numbers) -> Flags:
    """Which windows have two or more bookies of one zone, all of them in one upgrade domain."""
    is_crowded = np.zeros(zones.shape[:-1], np.bool_)
    for member in range(zones.shape[-1]):
        same_zone = zones == zones[..., member : member + 1]
        elsewhere = same_zone & (domains != domains[..., member : member + 1])
        is_crowded |= (same_zone.sum(axis=-1) > 1) & ~elsewhere.any(axis=-1)
    return is_crowded


def sole_domains(codes: Numbers, write_quorum: int) -> Numbers:
    """Of each window the one domain that has all copies; -1 where there are more, or one is not known.

    ``codes`` are domains by row and position (`domain_codes`). With one copy nothing is spread: -1.

    >>> sole_domains(np.array([[7, 7, 8]], np.int32), 2).tolist()
    [[7, -1, -1]]
    """
    if write_quorum < 2 or not codes.shape[1]:
        return np.full(codes.shape, -1, np.int32)
    members = windows(codes, write_quorum)
    first: Numbers = members[..., 0]
    return np.where((members == first[..., None]).all(axis=-1), first, np.int32(-1))


def regions_hold_acks(codes: Numbers, write_quorum: int, ack_quorum: int, min_regions: int) -> Flags:
    """Which windows have an ack quorum or more in fewer regions than must survive a loss.

    What a region policy means by ``reppMinimumRegionsForDurability`` when it makes an ensemble: no
    ``min_regions`` - 1 of them may hold ``ack_quorum`` copies. A bookie whose region is not known counts for
    none.

    >>> two_and_one = np.array([[0, 0, 1]], np.int32)
    >>> regions_hold_acks(two_and_one, 3, 2, 2).all(), regions_hold_acks(two_and_one, 3, 3, 2).any()
    (np.True_, np.False_)
    """
    if min_regions < 2 or not codes.shape[1]:
        return np.zeros(codes.shape, np.bool_)
    members = windows(codes, write_quorum)
    region_copies = (members[..., None] == members[..., None, :]).sum(axis=-1)
    # Each region counts once, at its first member.
    before = np.tril(np.ones((write_quorum, write_quorum), np.bool_), -1)
    again = ((members[..., None] == members[..., None, :]) & before).any(axis=-1)
    counts = np.sort(np.where(again | (members < 0), 0, region_copies), axis=-1)
    has_ack_quorum: Flags = counts[..., -(min_regions - 1) :].sum(axis=-1) >= ack_quorum
    return has_ack_quorum


def _codes(values: Sequence[str | None]) -> tuple[dict[str, int], Numbers]:
    """A number for each text, -1 for none, and the numbers of all."""
    numbers = {
        text: number for number, text in enumerate(sorted({text for text in values if text is not None}))
    }
    return numbers, np.array([-1 if text is None else numbers[text] for text in values], np.int32)


def distinct_rows(rows: NDArray[np.integer[Any]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The number of each row's kind, kinds in the order in which they come, and the first row of each.

    By Arrow's hashes of whole rows: NumPy's ``unique`` with an axis sorts them, some thirty times slower.

    >>> kind, first = distinct_rows(np.array([[1, 2], [3, 4], [1, 2]]))
    >>> kind.tolist(), first.tolist()
    ([0, 1, 0], [0, 1])
    """
    import pyarrow as pa

    data = np.ascontiguousarray(rows)
    if not data.size:
        return np.zeros(len(data), np.int64), np.arange(min(len(data), 1))
    width = pa.binary(data.shape[1] * data.itemsize)
    coded = pa.Array.from_buffers(width, len(data), [None, pa.py_buffer(data)]).dictionary_encode()
    kind = coded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    first = np.full(len(coded.dictionary), len(data))
    np.minimum.at(first, kind, np.arange(len(data)))
    return kind, first
