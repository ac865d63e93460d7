"""Adherence of ensembles to a placement policy: the verdicts of the server, for many ensembles at once.

A window is the write quorum of an entry. An ensemble of E bookies has one window for each position i. It
consists of the bookies at positions (i+j) mod E, for j < Qw. BookKeeper 4.17.2 gives each ensemble a verdict
(`isEnsembleAdheringToPlacementPolicy`). The verdict depends on the class of the policy:

    rack     FAIL if a window has fewer racks than min(Qw, minNumRacksPerWriteQuorum). If that minimum is
             enforced, also FAIL if a window has a bookie in the default rack. A bookie that is not writable
             counts as a bookie without a rack.
    region   always STRICT
    zone     FAIL if Qw does not divide E, or if Qw is at most minNumZonesPerWriteQuorum. FAIL if a bookie
             has no zone, or if a window has fewer zones than that minimum. FAIL if a window has two or more
             bookies of the same zone, and they are all in the same upgrade domain. STRICT if every window
             has min(Qw, desiredNumZonesPerWriteQuorum) zones, else SOFT. A bookie that the server has never
             seen counts as one more zone.
    none     always STRICT

No policy considers the ack quorum or the entries of a ledger. The rack and zone policies give FAIL to an
empty ensemble. Callers use `distinct_rows` to judge equal ensembles only once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from auditor.model.placement import (
    DEFAULT_RACK,
    Level,
    Locations,
    PlacementSettings,
    Policy,
    normalise_location,
)

DEFAULT_PATHS = {
    Policy.RACK: DEFAULT_RACK,
    Policy.REGION: "/default-region/default-rack",
    Policy.ZONE: "/default-zone/default-upgradedomain",
    Policy.NONE: DEFAULT_RACK,
}
"""Location that each policy gives to a bookie without an entry in the mapping of bookies to locations."""

UNREGISTERED_PATHS = DEFAULT_PATHS | {Policy.ZONE: DEFAULT_PATHS[Policy.REGION]}
"""Location that each policy gives to a bookie that was never registered since the server started."""

Numbers = NDArray[np.int32]
Flags = NDArray[np.bool_]


class Adherence(IntEnum):
    """A server's verdict on an ensemble (`PlacementPolicyAdherence`). FAIL is the worst verdict."""

    FAIL = 0
    SOFT = 1
    STRICT = 2


@dataclass(frozen=True)
class ServerView:
    """What a server that starts now knows: the locations of bookies, and the bookies that it can choose.

    ``paths`` has the location of every bookie. ``choosable_bookies`` are the writable bookies. A rack policy
    takes racks and replacement bookies only from these. If locations have different depths, only the bookies
    of one depth are choosable.

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
        """Return the server's view for a mapping of locations and a placement policy.

        Args:
            locations: the mapping from bookies to locations.
            policy: the placement policy.
            bookies: all bookies that the view describes.
            writable: bookies that are registered as writable.
            registered: registered bookies. Bookies in this collection but not in ``writable`` are
                read-only.
            depth: number of parts that the location of a choosable bookie must have. In the server, the
                first bookie that joins determines this number. None if all locations have the same number.
        """
        registered_names, writable_names = {*writable, *registered}, {*writable}
        paths = {}
        for bookie in bookies:
            location = locations.by_bookie.get(bookie)
            path = location.path if location and bookie in registered_names else None
            paths[bookie] = (
                path or (DEFAULT_PATHS if bookie in registered_names else UNREGISTERED_PATHS)[policy]
            )
        choosable_bookies = {
            name for name in paths if name in writable_names and depth in (None, depth_of(paths[name]))
        }
        return cls(paths, frozenset(choosable_bookies))


def depth_of(path: str) -> int:
    """Return the number of parts of a location. A server requires the same number in all locations.

    >>> depth_of("/r1"), depth_of("/east/r1")
    (1, 2)
    """
    return path.count("/")


@dataclass(frozen=True)
class EncodedView:
    """A `ServerView` as arrays of integer codes. Each array has one element for each bookie in ``names``.

    Equal names of racks, zones or upgrade domains have equal codes. The code -1 stands for no name.
    ``rack_codes`` is -1 for a bookie that is not in `ServerView.choosable_bookies`. ``zone_codes`` and
    ``upgrade_domain_codes`` are -1 for a bookie without a zone. ``default_rack_code`` is the code of the
    default rack, or -1 if no choosable bookie is in it.
    """

    names: Sequence[str]
    rack_codes: Numbers
    zone_codes: Numbers
    upgrade_domain_codes: Numbers
    default_rack_code: int

    @classmethod
    def from_server_view(cls, view: ServerView, names: Sequence[str]) -> EncodedView:
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
    """Return the zone and the upgrade domain in a location, as the zone policy parses it.

    Returns None for the default location, and for a location that does not have exactly two parts.

    >>> zone_of("/z1/u1"), zone_of("/z1"), zone_of("/default-zone/default-upgradedomain")
    (('z1', 'u1'), None, None)
    """
    path_parts = [path_part for path_part in normalise_location(path).split("/") if path_part]
    return (
        (path_parts[0], path_parts[1])
        if len(path_parts) == 2 and path != DEFAULT_PATHS[Policy.ZONE]
        else None
    )


def domain_codes(locations: Locations, level: Level, names: Sequence[str]) -> Numbers:
    """Return the code of each bookie's rack, zone or region; -1 if ``locations`` does not have it."""
    return _encode_texts([locations.domain(name, level) for name in names])[1]


@dataclass(frozen=True)
class Verdicts:
    """The server's verdict on each ensemble, and the windows (write quorums) that break the policy.

    ``adherence`` has one verdict for each ensemble. ``broken_windows`` has one flag for each window of each
    ensemble. A zone policy can refuse a single bookie, or a combination of ensemble size and write quorum.
    In that case, all windows of the ensemble are flagged.
    """

    adherence: NDArray[np.int8]
    broken_windows: Flags


def refuses_shape(ensemble_size: int, write_quorum: int, settings: PlacementSettings) -> bool:
    """Return whether the policy gives FAIL to all ensembles of this size and write quorum, in any location.

    Only zone policies do so (``ZoneawareEnsemblePlacementPolicyImpl``). They require that the write quorum
    divides the ensemble size and is larger than minNumZonesPerWriteQuorum. Rack policies never do so,
    because they never require more racks than the write quorum has bookies.

    >>> refuses_shape(3, 2, PlacementSettings(Policy.ZONE, min_zones=2))
    True
    """
    return settings.policy is Policy.ZONE and (
        ensemble_size % write_quorum != 0 or write_quorum <= settings.min_zones
    )


def judge_ensembles(
    ensembles: Numbers,
    write_quorum: int,
    view: EncodedView,
    settings: PlacementSettings,
    *,
    judges_locations_only: bool = False,
) -> Verdicts:
    """Return the server's verdicts on ensembles of the same size.

    Args:
        ensembles: array with one row for each ensemble. The elements are positions of bookies in
            ``view.names``.
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
        breaks_rule = count_distinct(racks) < min(write_quorum, settings.min_racks)
        if settings.enforce_min_racks and view.default_rack_code >= 0:
            breaks_rule |= (racks == view.default_rack_code).any(axis=2)
        return Verdicts(
            np.where(breaks_rule.any(axis=1), Adherence.FAIL, Adherence.STRICT).astype(np.int8), breaks_rule
        )
    refuses_all = not judges_locations_only and refuses_shape(ensemble_size, write_quorum, settings)
    min_zones = min(settings.min_zones, write_quorum) if judges_locations_only else settings.min_zones
    return _judge_by_zone(ensembles, write_quorum, view, replace(settings, min_zones=min_zones), refuses_all)


def _judge_by_zone(
    ensembles: Numbers, write_quorum: int, view: EncodedView, settings: PlacementSettings, refuses_all: bool
) -> Verdicts:
    zones = quorum_windows(view.zone_codes[ensembles], write_quorum)
    zone_counts = count_distinct(zones)
    breaks_rule = (zone_counts < settings.min_zones) | flag_single_domain_zones(
        zones, quorum_windows(view.upgrade_domain_codes[ensembles], write_quorum)
    )
    breaks_rule |= (view.zone_codes[ensembles] < 0).any(axis=1, keepdims=True) | refuses_all
    has_few_zones = (zone_counts < min(write_quorum, settings.desired_zones)).any(axis=1)
    adherence_verdicts = np.where(has_few_zones, Adherence.SOFT, Adherence.STRICT)
    return Verdicts(
        np.where(breaks_rule.any(axis=1), Adherence.FAIL, adherence_verdicts).astype(np.int8), breaks_rule
    )


def quorum_windows(codes: Numbers, write_quorum: int) -> Numbers:
    """Return the windows (write quorums) of all ensembles.

    The axes of the result are the ensemble, the first position of the window, and the member of the window.

    >>> quorum_windows(np.array([[4, 5, 6]], np.int32), 2).tolist()
    [[[4, 5], [5, 6], [6, 4]]]
    """
    size = codes.shape[1]
    return codes[:, (np.arange(size)[:, None] + np.arange(write_quorum)) % size]


def count_distinct(members: Numbers) -> Numbers:
    """Count the distinct codes along the last axis. The code -1 is not counted.

    >>> count_distinct(np.array([3, -1, 3, 0], np.int32)).tolist()
    2
    """
    count: Numbers = flag_first_of_equal_codes(np.sort(members, axis=-1)).sum(axis=-1, dtype=np.int32)
    return count


def flag_first_of_equal_codes(sorted_codes: NDArray[np.integer[Any]]) -> Flags:
    """Flag the first element of each run of equal codes along the last axis, which must be sorted.

    Codes below 0 are not flagged.

    >>> flag_first_of_equal_codes(np.array([-1, 0, 3, 3])).tolist()
    [False, True, True, False]
    """
    is_first: Flags = np.ones(sorted_codes.shape, np.bool_)
    is_first[..., 1:] = sorted_codes[..., 1:] != sorted_codes[..., :-1]
    return is_first & (sorted_codes >= 0)


def flag_single_domain_zones(zones: Numbers, domains: Numbers) -> Flags:
    """Flag the windows (write quorums) with a zone that has 2 or more bookies, all in one upgrade domain."""
    is_single_domain = np.zeros(zones.shape[:-1], np.bool_)
    for member_index in range(zones.shape[-1]):
        is_same_zone = zones == zones[..., member_index : member_index + 1]
        has_other_domain = is_same_zone & (domains != domains[..., member_index : member_index + 1])
        is_single_domain |= (is_same_zone.sum(axis=-1) > 1) & ~has_other_domain.any(axis=-1)
    return is_single_domain


def sole_domains(codes: Numbers, write_quorum: int) -> Numbers:
    """Return, for each window (an entry's write quorum), the domain that contains all copies of the entry.

    The result is -1 for a window with several domains or with a bookie whose domain is unknown. ``codes``
    has the domain at each position of each ensemble (`domain_codes`). With a write quorum of 1 every result
    is -1.

    >>> sole_domains(np.array([[7, 7, 8]], np.int32), 2).tolist()
    [[7, -1, -1]]
    """
    if write_quorum < 2 or not codes.shape[1]:
        return np.full(codes.shape, -1, np.int32)
    members = quorum_windows(codes, write_quorum)
    first_domain: Numbers = members[..., 0]
    return np.where((members == first_domain[..., None]).all(axis=-1), first_domain, np.int32(-1))


def flag_undurable_windows(codes: Numbers, write_quorum: int, ack_quorum: int, min_regions: int) -> Flags:
    """Flag the windows (write quorums) in which ``min_regions`` - 1 regions have an ack quorum of copies.

    A region policy with ``reppMinimumRegionsForDurability`` avoids such windows when it creates an ensemble.
    It requires that any ``min_regions`` - 1 regions together have fewer than ``ack_quorum`` copies. A bookie
    whose region is unknown counts for no region.

    >>> two_and_one = np.array([[0, 0, 1]], np.int32)
    >>> flag_undurable_windows(two_and_one, 3, 2, 2).all(), flag_undurable_windows(two_and_one, 3, 3, 2).any()
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
    """Return the code of each distinct text, and an array with the code of each element of ``texts``.

    None has the code -1.
    """
    code_by_text = {
        text: code for code, text in enumerate(sorted({text for text in texts if text is not None}))
    }
    return code_by_text, np.array([-1 if text is None else code_by_text[text] for text in texts], np.int32)


def distinct_rows(rows: NDArray[np.integer[Any]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Assign a number to each distinct row of an array.

    Equal rows have the same number. Numbers start at 0, in the order in which the rows first occur. The
    function hashes whole rows with Arrow. ``numpy.unique`` with an axis would sort the rows, which is about
    thirty times slower.

    Returns:
        The number of each row, and the index of the first row with each number.

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
