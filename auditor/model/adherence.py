"""Adherence of ensembles to a placement policy: the server's verdicts, computed for many ensembles at once.

A window is the write quorum of an entry. Position i of an ensemble of E bookies starts the window of the
bookies at (i+j) mod E, for j < Qw. BookKeeper 4.17.2 gives each ensemble a verdict
(`isEnsembleAdheringToPlacementPolicy`). The verdict depends on the class of the policy:

    rack     FAIL if a window has fewer racks than min(Qw, minNumRacksPerWriteQuorum). If that minimum is
             enforced, also FAIL if a window has a bookie in the default rack. A bookie that is not writable
             counts as a bookie without a rack.
    region   always STRICT
    zone     FAIL if Qw does not divide E or is at most minNumZonesPerWriteQuorum. FAIL if a bookie has no
             zone, or a window has fewer zones than that minimum. FAIL if a window has two or more bookies of
             a zone, all in one upgrade domain. STRICT if every window has
             min(Qw, desiredNumZonesPerWriteQuorum) zones, else SOFT. A bookie that the server has never seen
             counts as one more zone.
    none     always STRICT

No policy looks at the ack quorum or at entries. The rack and zone policies give FAIL to an empty ensemble.
`distinct_rows` lets callers judge equal rows only once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from auditor.model.placement import DEFAULT_RACK, Level, Locations, PlacementSettings, Policy, normalise

DEFAULT_PATHS = {
    Policy.RACK: DEFAULT_RACK,
    Policy.REGION: "/default-region/default-rack",
    Policy.ZONE: "/default-zone/default-upgradedomain",
    Policy.NONE: DEFAULT_RACK,
}
"""Location that each policy gives to a bookie without an entry in the mapping of bookies to locations."""

UNSEEN_PATHS = DEFAULT_PATHS | {Policy.ZONE: DEFAULT_PATHS[Policy.REGION]}
"""Location that each policy gives to a bookie that was never registered since the server started."""

Numbers = NDArray[np.int32]
Flags = NDArray[np.bool_]


class Adherence(IntEnum):
    """A server's verdict on an ensemble (`PlacementPolicyAdherence`); FAIL is the worst."""

    FAIL = 0
    SOFT = 1
    STRICT = 2


@dataclass(frozen=True)
class ServerView:
    """Locations of bookies as a server that starts now sees them, and the bookies that it can choose.

    ``paths`` has the location of every bookie. ``choosable_bookies`` has the writable bookies, among which a
    rack policy finds racks and replacements. If locations have different depths, ``choosable_bookies`` has
    the bookies of one depth.

    >>> from auditor.model.placement import Location
    >>> racks = Locations({"bk1": Location("/r1")})
    >>> bookies = ["bk1", "bk2", "bk3"]
    >>> ServerView.from_locations(racks, Policy.ZONE, bookies, writable=["bk1"], registered=["bk2"]).paths
    {'bk1': '/r1', 'bk2': '/default-zone/default-upgradedomain', 'bk3': '/default-region/default-rack'}
    """

    paths: Mapping[str, str]
    choosable_bookies: frozenset[str]

    @classmethod
    def from_locations(
        cls,
        locations: Locations,
        policy: Policy,
        bookies: Iterable[str],
        writable: Collection[str],
        registered: Collection[str] = (),
        depth: int | None = None,
    ) -> ServerView:
        """Return the server's view of a mapping under a policy.

        Args:
            locations: the mapping from bookies to locations.
            policy: the placement policy.
            bookies: all bookies that the view describes.
            writable: bookies that are registered as writable.
            registered: registered bookies; those that are not in ``writable`` are read-only.
            depth: number of parts that a location must have; None if all locations have the same number. The
                first bookie that joined the server determines the number.
        """
        registered_names, writable_names = {*writable, *registered}, {*writable}
        paths = {}
        for bookie in bookies:
            location = locations.by_bookie.get(bookie)
            path = location.path if location and bookie in registered_names else None
            paths[bookie] = path or (DEFAULT_PATHS if bookie in registered_names else UNSEEN_PATHS)[policy]
        choosable_bookies = {
            name for name in paths if name in writable_names and depth in (None, depth_of(paths[name]))
        }
        return cls(paths, frozenset(choosable_bookies))


def depth_of(path: str) -> int:
    """Return the number of parts of a location; a server requires the same number in all locations.

    >>> depth_of("/r1"), depth_of("/east/r1")
    (1, 2)
    """
    return path.count("/")


@dataclass(frozen=True)
class CodedView:
    """A `ServerView` as arrays of codes, with one element for each bookie of ``names``.

    Equal names of racks, zones or upgrade domains have equal codes, and -1 stands for no name. ``rack_codes``
    is -1 for a bookie that is not in `ServerView.choosable_bookies`. ``zone_codes`` and
    ``upgrade_domain_codes`` are -1 for a bookie without a zone. ``default_rack_code`` is the code of the
    default rack, or -1 if no known bookie is in it.
    """

    names: Sequence[str]
    rack_codes: Numbers
    zone_codes: Numbers
    upgrade_domain_codes: Numbers
    default_rack_code: int

    @classmethod
    def from_server_view(cls, view: ServerView, names: Sequence[str]) -> CodedView:
        """Return the arrays of a view, for bookies in the order of ``names``."""
        racks = [view.paths[name] if name in view.choosable_bookies else None for name in names]
        zones = [zone_of(view.paths[name]) for name in names]
        codes, rack = _encode_texts(racks)
        return cls(
            names,
            rack,
            _encode_texts([zone and zone[0] for zone in zones])[1],
            _encode_texts([zone and "/".join(zone) for zone in zones])[1],
            codes.get(DEFAULT_RACK, -1),
        )


def zone_of(path: str) -> tuple[str, str] | None:
    """Return zone and upgrade domain of a location, as the zone policy splits it.

    Returns None for the default location, and for a location without exactly two parts.

    >>> zone_of("/z1/u1"), zone_of("/z1"), zone_of("/default-zone/default-upgradedomain")
    (('z1', 'u1'), None, None)
    """
    path_parts = [path_part for path_part in normalise(path).split("/") if path_part]
    return (
        (path_parts[0], path_parts[1])
        if len(path_parts) == 2 and path != DEFAULT_PATHS[Policy.ZONE]
        else None
    )


def domain_codes(locations: Locations, level: Level, names: Sequence[str]) -> Numbers:
    """Return a code for the rack, zone or region of each bookie; -1 if the mapping does not give it."""
    return _encode_texts([locations.domain(name, level) for name in names])[1]


@dataclass(frozen=True)
class Verdicts:
    """The server's verdict on each ensemble, and the windows that break the policy.

    ``adherence`` has one verdict per ensemble. ``broken_windows`` has one flag per ensemble and window. A
    zone policy can refuse a bookie, or a combination of ensemble size and write quorum. All windows of the
    ensemble are then broken.
    """

    adherence: NDArray[np.int8]
    broken_windows: Flags


def refuses_shape(ensemble_size: int, write_quorum: int, settings: PlacementSettings) -> bool:
    """Return whether the policy gives FAIL to all ensembles of this size and write quorum, wherever they are.

    Only zone policies do (``ZoneawareEnsemblePlacementPolicyImpl``). For them the write quorum must divide
    the ensemble size, and be larger than minNumZonesPerWriteQuorum. A rack policy never does: it lowers its
    minimum of racks to the write quorum.

    >>> refuses_shape(3, 2, PlacementSettings(Policy.ZONE, min_zones=2))
    True
    """
    return settings.policy is Policy.ZONE and (
        ensemble_size % write_quorum != 0 or write_quorum <= settings.min_zones
    )


def judge_ensembles(
    ensembles: Numbers,
    write_quorum: int,
    view: CodedView,
    settings: PlacementSettings,
    *,
    judges_locations_only: bool = False,
) -> Verdicts:
    """Return the server's verdicts on ensembles of one size.

    Args:
        ensembles: one row per ensemble; elements are positions of bookies in ``view.names``.
        write_quorum: the write quorum of all these ensembles.
        view: the server's view of the bookies.
        settings: the placement policy and its minimums.
        judges_locations_only: judge only the locations of the bookies, and ignore `refuses_shape`.
    """
    ensemble_count, ensemble_size = ensembles.shape
    if settings.policy in (Policy.REGION, Policy.NONE):
        return Verdicts(
            np.full(ensemble_count, Adherence.STRICT, np.int8),
            np.zeros((ensemble_count, ensemble_size), np.bool_),
        )
    if not ensemble_size:
        return Verdicts(
            np.full(ensemble_count, Adherence.FAIL, np.int8), np.zeros((ensemble_count, 0), np.bool_)
        )
    if settings.policy is Policy.RACK:
        racks = quorum_windows(view.rack_codes[ensembles], write_quorum)
        is_broken = count_distinct(racks) < min(write_quorum, settings.min_racks)
        if settings.enforce_min_racks and view.default_rack_code >= 0:
            is_broken |= (racks == view.default_rack_code).any(axis=2)
        return Verdicts(
            np.where(is_broken.any(axis=1), Adherence.FAIL, Adherence.STRICT).astype(np.int8), is_broken
        )
    is_refused = not judges_locations_only and refuses_shape(ensemble_size, write_quorum, settings)
    min_zones = min(settings.min_zones, write_quorum) if judges_locations_only else settings.min_zones
    return _judge_by_zone(ensembles, write_quorum, view, replace(settings, min_zones=min_zones), is_refused)


def _judge_by_zone(
    ensembles: Numbers, write_quorum: int, view: CodedView, settings: PlacementSettings, is_refused: bool
) -> Verdicts:
    zones = quorum_windows(view.zone_codes[ensembles], write_quorum)
    zone_counts = count_distinct(zones)
    is_broken = (zone_counts < settings.min_zones) | flag_crowded(
        zones, quorum_windows(view.upgrade_domain_codes[ensembles], write_quorum)
    )
    is_broken |= (view.zone_codes[ensembles] < 0).any(axis=1, keepdims=True) | is_refused
    is_below_desired = (zone_counts < min(write_quorum, settings.desired_zones)).any(axis=1)
    adherence_grades = np.where(is_below_desired, Adherence.SOFT, Adherence.STRICT)
    return Verdicts(
        np.where(is_broken.any(axis=1), Adherence.FAIL, adherence_grades).astype(np.int8), is_broken
    )


def quorum_windows(codes: Numbers, write_quorum: int) -> Numbers:
    """Return all windows (write quorums) of ensembles, with the axes ensemble, position and member.

    >>> quorum_windows(np.array([[4, 5, 6]], np.int32), 2).tolist()
    [[[4, 5], [5, 6], [6, 4]]]
    """
    size = codes.shape[1]
    return codes[:, (np.arange(size)[:, None] + np.arange(write_quorum)) % size]


def count_distinct(members: Numbers) -> Numbers:
    """Count the different codes along the last axis; -1 does not count.

    >>> count_distinct(np.array([3, -1, 3, 0], np.int32)).tolist()
    2
    """
    count: Numbers = flag_first_of_equal_codes(np.sort(members, axis=-1)).sum(axis=-1, dtype=np.int32)
    return count


def flag_first_of_equal_codes(sorted_codes: NDArray[np.integer[Any]]) -> Flags:
    """Flag the first element of each different code along the last, sorted axis; codes below 0 get no flag.

    >>> flag_first_of_equal_codes(np.array([-1, 0, 3, 3])).tolist()
    [False, True, True, False]
    """
    is_first: Flags = np.ones(sorted_codes.shape, np.bool_)
    is_first[..., 1:] = sorted_codes[..., 1:] != sorted_codes[..., :-1]
    return is_first & (sorted_codes >= 0)


def flag_crowded(zones: Numbers, domains: Numbers) -> Flags:
    """Flag the windows that have two or more bookies of a zone, all of them in one upgrade domain."""
    is_crowded = np.zeros(zones.shape[:-1], np.bool_)
    for member_index in range(zones.shape[-1]):
        is_same_zone = zones == zones[..., member_index : member_index + 1]
        has_other_domain = is_same_zone & (domains != domains[..., member_index : member_index + 1])
        is_crowded |= (is_same_zone.sum(axis=-1) > 1) & ~has_other_domain.any(axis=-1)
    return is_crowded


def sole_domains(codes: Numbers, write_quorum: int) -> Numbers:
    """Return for each window the domain that has all its copies; -1 for several domains, or an unknown one.

    ``codes`` are domains by row and position (`domain_codes`). With a write quorum of 1 the result is -1.

    >>> sole_domains(np.array([[7, 7, 8]], np.int32), 2).tolist()
    [[7, -1, -1]]
    """
    if write_quorum < 2 or not codes.shape[1]:
        return np.full(codes.shape, -1, np.int32)
    members = quorum_windows(codes, write_quorum)
    first_domain: Numbers = members[..., 0]
    return np.where((members == first_domain[..., None]).all(axis=-1), first_domain, np.int32(-1))


def regions_hold_acks(codes: Numbers, write_quorum: int, ack_quorum: int, min_regions: int) -> Flags:
    """Return which windows have an ack quorum in fewer regions than the policy requires.

    A region policy with ``reppMinimumRegionsForDurability`` applies this rule when it makes an ensemble:
    ``min_regions`` - 1 regions together must hold fewer than ``ack_quorum`` copies. A bookie of an unknown
    region counts for no region.

    >>> two_and_one = np.array([[0, 0, 1]], np.int32)
    >>> regions_hold_acks(two_and_one, 3, 2, 2).all(), regions_hold_acks(two_and_one, 3, 3, 2).any()
    (np.True_, np.False_)
    """
    if min_regions < 2 or not codes.shape[1]:
        return np.zeros(codes.shape, np.bool_)
    members = quorum_windows(codes, write_quorum)
    region_copies = (members[..., None] == members[..., None, :]).sum(axis=-1)
    # Each region counts once, at its first member.
    is_earlier_member = np.tril(np.ones((write_quorum, write_quorum), np.bool_), -1)
    is_repeated = ((members[..., None] == members[..., None, :]) & is_earlier_member).any(axis=-1)
    copies_by_region = np.sort(np.where(is_repeated | (members < 0), 0, region_copies), axis=-1)
    has_ack_quorum: Flags = copies_by_region[..., -(min_regions - 1) :].sum(axis=-1) >= ack_quorum
    return has_ack_quorum


def _encode_texts(texts: Sequence[str | None]) -> tuple[dict[str, int], Numbers]:
    """Return a code for each different text, and the codes of all ``texts``; -1 stands for None."""
    code_by_text = {
        text: code for code, text in enumerate(sorted({text for text in texts if text is not None}))
    }
    return code_by_text, np.array([-1 if text is None else code_by_text[text] for text in texts], np.int32)


def distinct_rows(rows: NDArray[np.integer[Any]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Number the different rows: return each row's number, and the index of the first row with each number.

    Equal rows have one number. Numbers begin at 0, in the order of the first rows. The function hashes whole
    rows with Arrow. ``numpy.unique`` with an axis sorts the rows, which is some thirty times slower.

    >>> kind, first = distinct_rows(np.array([[1, 2], [3, 4], [1, 2]]))
    >>> kind.tolist(), first.tolist()
    ([0, 1, 0], [0, 1])
    """
    import pyarrow as pa

    row_bytes = np.ascontiguousarray(rows)
    if not row_bytes.size:
        return np.zeros(len(row_bytes), np.int64), np.arange(min(len(row_bytes), 1))
    row_type = pa.binary(row_bytes.shape[1] * row_bytes.itemsize)
    row_dictionary = pa.Array.from_buffers(
        row_type, len(row_bytes), [None, pa.py_buffer(row_bytes)]
    ).dictionary_encode()
    row_codes = row_dictionary.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    first_rows = np.full(len(row_dictionary.dictionary), len(row_bytes))
    np.minimum.at(first_rows, row_codes, np.arange(len(row_bytes)))
    return row_codes, first_rows
