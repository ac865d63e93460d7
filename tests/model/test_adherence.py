"""Verdicts on ensembles, compared with the reference's rows, upstream's scenarios and server classes."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditor.model.adherence import (
    ServerView,
    count_distinct,
    domain_codes,
    flag_undurable_windows,
    sole_domains,
)
from auditor.model.placement import Level, Location, Locations, Policy
from tests.model.placement_cases import random_cluster, random_ensembles, verdicts_of
from tests.model.placement_oracle import Cluster, adhere, ask

FAIL, SOFT, STRICT = "FAIL", "MEETS_SOFT", "MEETS_STRICT"
ENFORCE: dict[str, object] = {"enforceMinNumRacksPerWriteQuorum": True}
Row = tuple[str, str, str, int, dict[str, object], str]


def min_racks(racks: int) -> dict[str, object]:
    return {"minNumRacksPerWriteQuorum": racks}


ONE_ZONE: dict[str, object] = {"minNumZonesPerWriteQuorum": 1, "desiredNumZonesPerWriteQuorum": 1}

# What was seen of the 4.17.2 classes: a policy, an ensemble, its write quorum, settings, and the verdict.
# "d" has no location, "ro" after a place is a read-only bookie, "x" one that was never registered.
ROWS: list[Row] = [
    ("1", "rack", "d d d", 3, {}, FAIL),
    ("1", "rack", "d d d", 2, {}, FAIL),
    ("1", "rack", "d d d", 1, {}, STRICT),
    ("2", "rack", "/r1 /r1 /r2", 3, {}, STRICT),
    ("2", "rack", "/r1 /r1 /r2", 2, {}, FAIL),
    ("3", "rack", "/r1 /r2 /r3", 2, {}, STRICT),
    ("3", "rack", "/r1 /r2 /r1 /r2", 2, {}, STRICT),
    ("4", "rack", "/r1 /r2 /r2 /r1", 2, {}, FAIL),
    ("4", "rack", "/r1 /r1", 2, {}, FAIL),
    ("5", "rack", "/r1 /r1 /r2 /r2", 3, {}, STRICT),
    ("6", "rack", "/r1 /r2", 3, {}, STRICT),
    ("7", "rack", "/r1 d", 2, {}, STRICT),
    ("7", "rack", "/r1 d", 2, ENFORCE, FAIL),
    ("8", "rack", "/r1 d /r2", 3, {}, STRICT),
    ("8", "rack", "/r1 d /r2", 3, ENFORCE, FAIL),
    ("9", "rack", "d", 1, ENFORCE, FAIL),
    ("10", "rack", "/r1 /r2 /r3ro", 3, {}, STRICT),
    ("10", "rack", "/r1 /r2 x", 3, {}, STRICT),
    ("10", "rack", "/r1 /r2 /r3ro", 3, ENFORCE, STRICT),
    ("10", "rack", "/r1 /r2 x", 3, ENFORCE, STRICT),
    ("11", "rack", "/r1 /r3ro", 2, {}, FAIL),
    ("11", "rack", "/r1 x", 2, {}, FAIL),
    ("11", "rack", "/r1 /r2 x", 2, {}, FAIL),
    ("12", "rack", "/r3ro", 1, {}, FAIL),
    ("13", "rack", "/r1 /r2 /r3 /r1 /r2", 3, min_racks(3), FAIL),
    ("13", "rack", "/r1 /r2 /r3 /r1 /r2 /r3", 3, min_racks(3), STRICT),
    ("14", "rack", "/r1 /r2 /r3", 2, min_racks(3), STRICT),
    ("14", "rack", "/r1 /r2 /r3 /r4", 3, min_racks(4), STRICT),
    ("15", "rack", "/r1 /r1", 2, min_racks(1), STRICT),
    ("15", "rack", "x x", 2, min_racks(0), STRICT),
    ("16", "rack", "/r1/ /r1", 2, {}, FAIL),
    ("17", "region", "/a/r1 /a/r1", 2, {}, STRICT),
    ("17", "region", "x d", 2, {}, STRICT),
    ("17", "region", "", 2, {}, STRICT),
    ("18", "zone", "/z1/u1 /z1/u2 /z2/u1", 3, {}, SOFT),
    ("18", "zone", "/z1/u1 /z2/u1 /z3/u1", 3, {}, STRICT),
    ("19", "zone", "/z1/u1 /z1/u2 /z1/u2", 3, {}, FAIL),
    ("19", "zone", "/z1/u2 /z1/u2 /z2/u1", 3, {}, FAIL),
    ("19", "zone", "/z1/u1 /z2/u1 d", 3, {}, FAIL),
    ("19", "zone", "/z1/u1 /z2/u1 /z4", 3, {}, FAIL),
    ("19", "zone", "/z1/u1 /z2/u1 /z5/u/x", 3, {}, FAIL),
    ("20", "zone", "/z1/u1 /z2/u1", 2, {}, FAIL),
    ("20", "zone", "/z1/u1 /z2/u1 /z3/u1 /z1/u2", 3, {}, FAIL),
    ("20", "zone", "/z1/u1", 1, {}, FAIL),
    ("21", "zone", "/z1/u1 /z2/u1 /z3/u1 /z1/u2 /z2/u2 /z3/u2", 3, {}, STRICT),
    ("22", "zone", "/z1/u1 /z2/u1 x", 3, {}, STRICT),
    ("23", "zone", "/z1/u1 /z1/u2 x", 3, {}, SOFT),
    ("23", "zone", "/z1/u1 x x", 3, {}, FAIL),
    ("24", "zone", "/z1/u1 /z1/u2", 2, ONE_ZONE, STRICT),
    ("24", "zone", "/z1/u2 /z1/u2", 2, ONE_ZONE, FAIL),
    ("empty", "rack", "", 2, {}, FAIL),
    ("empty", "zone", "", 3, {}, FAIL),
]


def cluster_of(row: Row) -> tuple[Cluster, tuple[tuple[int, ...], int]]:
    """Return a cluster of the row's ensemble as its only bookies, without those that are gone."""
    _, policy, places, write_quorum, settings, _ = row
    bookies = dict(enumerate(places.split(), 1))
    readonly = [bookie for bookie, place in bookies.items() if place.endswith("ro")]
    locations = {bookie: place.removesuffix("ro") for bookie, place in bookies.items() if place not in "dx"}
    writable = [bookie for bookie, place in bookies.items() if place != "x" and bookie not in readonly]
    # Topologies have one depth: what the zone policy only resolves does not join.
    joined = [
        member for member in writable if policy != "zone" or locations.get(member, "/a/b").count("/") == 2
    ]
    cluster = Cluster(policy, settings, locations, joined, [*readonly, *({*writable} - {*joined})])
    return cluster, (tuple(bookies), write_quorum)


@pytest.mark.parametrize("row", ROWS, ids=[f"{row[0]}-{row[2]}-{row[3]}" for row in ROWS])
def test_verdicts_match_the_recorded_rows(row: Row) -> None:
    cluster, ensemble = cluster_of(row)
    assert verdicts_of(cluster, [ensemble]) == [row[5]]


def test_server_classes_give_the_verdicts_of_the_rows() -> None:
    cases = [cluster_of(row) for row in ROWS]
    answers = ask([(cluster, [adhere(*ensemble)]) for cluster, ensemble in cases])
    assert [answer for [answer] in answers] == [row[5] for row in ROWS]


@pytest.mark.parametrize("policy", [Policy.RACK, Policy.REGION, Policy.ZONE])
def test_ten_thousand_random_verdicts_equal_the_servers(policy: Policy) -> None:
    source = random.Random(str(policy))
    cases = [
        (random_cluster(policy, seed, odd=seed % 4 == 0), random_ensembles(source, 100))
        for seed in range(100)
    ]
    # A bookie of another depth may not join a zone policy's topology, which its verdicts do not ask.
    cases = [(without_odd_depths(cluster), ensembles) for cluster, ensembles in cases]
    answers = ask([(cluster, [adhere(*ensemble) for ensemble in ensembles]) for cluster, ensembles in cases])
    for (cluster, ensembles), server_verdicts in zip(cases, answers, strict=True):
        assert verdicts_of(cluster, ensembles) == server_verdicts, cluster
    kinds = {word for server_verdicts in answers for word in server_verdicts}
    assert (
        kinds
        == {Policy.RACK: {FAIL, STRICT}, Policy.REGION: {STRICT}, Policy.ZONE: {FAIL, SOFT, STRICT}}[policy]
    )


def without_odd_depths(cluster: Cluster) -> Cluster:
    from dataclasses import replace

    if cluster.policy != Policy.ZONE:
        return cluster
    joined = [
        node for node in cluster.writable if cluster.locations.get(node, "/a/b").rstrip("/").count("/") == 2
    ]
    return replace(cluster, writable=joined, readonly=[*cluster.readonly, *({*cluster.writable} - {*joined})])


RACKS = {number: f"/r{rack}" for number, rack in enumerate((1, 2, 3, 4, 1, 2, 3), 1)}
FIVE_RACKS = {number: f"/r{number}" for number in range(1, 6)}
THREE_RACKS = {number: f"/r{rack}" for number, rack in enumerate((1, 2, 3, 1, 2), 1)}
ZONES = {number + 1: f"/zone{number % 3}/ud{number % 2}" for number in range(6)}

SCENARIOS = [
    # Upstream's AuditorPlacementPolicyCheckTest: ensembles of closed ledgers, and how many FAIL and are SOFT.
    (
        "five racks",
        Cluster("rack", min_racks(4), FIVE_RACKS, [*FIVE_RACKS]),
        [[((1, 2, 3, 4, 5), 4)], [((1, 2, 3, 4), 4)] * 3],
        (0, 0),
    ),
    (
        "three racks of five bookies",
        Cluster("rack", min_racks(3), THREE_RACKS, [*THREE_RACKS]),
        [[((1, 2, 3, 4, 5), 3)]],
        (1, 0),
    ),
    (
        "segments",
        Cluster("rack", min_racks(4), RACKS, [*RACKS]),
        [
            [((1, 2, 3, 4, 5), 5), ((2, 3, 4, 5, 6), 5)],
            [((1, 2, 3, 4, 5), 5), ((1, 2, 3, 5, 6), 5), ((1, 2, 3, 5, 7), 5)],
        ],
        (1, 0),
    ),
    (
        "zones",
        Cluster("zone", {}, ZONES, [*ZONES]),
        [[((1, 2, 3, 4, 5, 6), 6)], [((1, 2, 3, 4, 5, 6), 5)], [((1, 2, 4, 5), 4)]],
        (1, 1),
    ),
    (
        "ten ledgers without racks",
        Cluster("rack", {}, {}, [1, 2, 3]),
        [[((1, 2, 3), 3)]] * 10,
        (10, 0),
    ),
]


@pytest.mark.parametrize(
    ("cluster", "ledgers", "counts"),
    [scenario[1:] for scenario in SCENARIOS],
    ids=[scenario[0] for scenario in SCENARIOS],
)
def test_upstream_scenarios_have_upstream_counts_of_fail_and_soft(
    cluster: Cluster, ledgers: list[list[tuple[tuple[int, ...], int]]], counts: tuple[int, int]
) -> None:
    worst = [min(verdicts_of(cluster, ledger), key=[FAIL, SOFT, STRICT].index) for ledger in ledgers]
    assert (worst.count(FAIL), worst.count(SOFT)) == counts


def test_first_joined_depth_evicts_bookies_of_other_depths() -> None:
    locations = {1: "/east/r1", 2: "/east/r2", 3: "/west/r1"}
    deep_first = Cluster("rack", {}, locations, [1, 2, 3, 4])  # 4 is in /default-rack, of another depth
    flat_first = Cluster("rack", {}, locations, [4, 1, 2, 3])
    questions = [adhere((1, 2, 3), 3), adhere((1, 4), 2), adhere((4,), 1)]
    assert ask([(deep_first, questions), (flat_first, questions)]) == [
        [STRICT, FAIL, FAIL],
        [FAIL, FAIL, STRICT],
    ]
    where = Locations({str(bookie): Location(path) for bookie, path in locations.items()})
    names = ["1", "2", "3", "4"]
    views = [ServerView.from_locations(where, Policy.RACK, names, names, names, depth) for depth in (2, 1)]
    assert [sorted(view.choosable_bookies) for view in views] == [["1", "2", "3"], ["4"]]


@given(st.lists(st.integers(-1, 3), min_size=1, max_size=6))
def test_distinct_count_equals_the_set_size(codes: list[int]) -> None:
    assert count_distinct(np.array([codes], np.int32)).tolist() == [len({*codes} - {-1})]


members = st.lists(st.integers(-1, 3), min_size=1, max_size=7)


@given(members, st.data())
def test_sole_domain_is_reported_if_it_has_all_copies_of_a_window(
    codes: list[int], data: st.DataObject
) -> None:
    quorum = data.draw(st.integers(1, len(codes)))
    domains = sole_domains(np.array([codes], np.int32), quorum)[0].tolist()
    for start, domain in enumerate(domains):
        window = [codes[(start + offset) % len(codes)] for offset in range(quorum)]
        is_sole = quorum > 1 and len({*window}) == 1
        assert domain == (window[0] if is_sole else -1)


@given(members, st.integers(1, 4), st.data())
def test_ack_quorum_in_fewer_regions_than_the_minimum_is_found(
    codes: list[int], fewest: int, data: st.DataObject
) -> None:
    from itertools import combinations

    quorum = data.draw(st.integers(1, len(codes)))
    acks = data.draw(st.integers(1, quorum))
    results = flag_undurable_windows(np.array([codes], np.int32), quorum, acks, fewest)[0].tolist()
    for start, is_held in enumerate(results):
        window = [codes[(start + offset) % len(codes)] for offset in range(quorum)]
        sets = combinations(range(4), fewest - 1) if fewest > 1 else []
        assert is_held == any(sum(code in regions for code in window) >= acks for regions in sets)


def test_domains_are_coded_as_numbers() -> None:
    where = Locations({"a": Location("/e/1"), "b": Location("/e/2"), "c": Location("/default-rack")})
    assert domain_codes(where, Level.REGION, ["a", "b", "c", "d"]).tolist() == [0, 0, -1, -1]
    assert domain_codes(where, Level.RACK, ["b", "a", "b"]).tolist() == [1, 0, 1]
