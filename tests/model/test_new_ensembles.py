"""Whether a policy makes an ensemble, compared with the server's classes, which choose at random."""

from __future__ import annotations

import dataclasses
import random
from collections import Counter

import pytest

from auditor.model.placement import PlacementSettings, Policy
from auditor.model.replacements import MAX_RACK_CHOICES, rack_choices, refuses_by_location
from tests.model.placement_cases import PATHS, can_make_ensemble, random_cluster
from tests.model.placement_oracle import Cluster, ask, make, replace

TRIES = 40


def clusters(policy: Policy, number: int) -> list[Cluster]:
    """Return random clusters. Most enforce racks. In half of them all bookies are writable and located."""
    random_clusters = []
    for seed in range(number):
        cluster = random_cluster(policy, seed)
        if policy is Policy.RACK and seed % 3:
            enforced = cluster.settings | {"enforceMinNumRacksPerWriteQuorum": True}
            cluster = dataclasses.replace(cluster, settings=enforced)
        if seed % 2:
            source = random.Random(f"whole-{policy}-{seed}")
            bookies = range(1, source.randint(4, 20))
            paths = [path for path in PATHS[policy] if "default" not in path]
            locations = {bookie: source.choice(paths) for bookie in bookies}
            cluster = dataclasses.replace(cluster, locations=locations, writable=[*bookies], readonly=())
        random_clusters.append(cluster)
    return random_clusters


@pytest.mark.parametrize("policy", [Policy.RACK, Policy.REGION, Policy.ZONE])
def test_new_ensemble_answers_match_the_server_class(policy: Policy) -> None:
    source = random.Random(f"new-{policy}")
    sizes = [source.randint(1, 7) for _ in range(8)]
    shapes = [
        (size, write, source.randint(1, write)) for size in sizes for write in {1, (size + 1) // 2, size}
    ]
    sample_clusters = clusters(policy, 60)
    answers = ask([(cluster, [make(*shape, TRIES) for shape in shapes]) for cluster in sample_clusters])
    counts: Counter[tuple[bool | None, bool | None]] = Counter()
    for cluster, cluster_answers in zip(sample_clusters, answers, strict=True):
        for shape, answer in zip(shapes, cluster_answers, strict=True):
            successes = int(answer.split()[0]) if answer[0].isdigit() else 0
            server_result = {TRIES: True, 0: False}.get(successes)
            our_result = can_make_ensemble(cluster, shape)
            counts[our_result, server_result] += 1
            assert our_result is None or our_result is server_result, (cluster, shape, answer)
    assert min(counts[True, True], counts[False, False]) > 40, counts
    undecided = sum(number for (our_result, _), number in counts.items() if our_result is None)
    assert undecided < counts.total() * (0.1 if policy is Policy.RACK else 0.4), counts


def test_region_policy_with_enforced_racks_refuses_bookies_without_location() -> None:
    """With enforced racks and no regions to write, replacements and new ensembles are refused."""
    cluster = Cluster("region", {"enforceMinNumRacksPerWriteQuorum": True}, {1: "/a/r1"}, [1, 2])
    lax = Cluster("region", {}, {1: "/a/r1"}, [1, 2])
    questions = [make(2, 2, 2, TRIES), replace([1], 0, 1, 1, TRIES)]
    refused, accepted = ask([(cluster, questions), (lax, questions)])
    assert refused == ["0 []", "BKNotEnoughBookiesException"]
    assert accepted == [f"{TRIES} []", "[2]"]
    assert refuses_by_location(PlacementSettings(Policy.REGION, enforce_min_racks=True))
    assert not refuses_by_location(PlacementSettings(Policy.REGION))


def test_too_many_rack_choices_count_as_both_results() -> None:
    racks = {f"/r{number}": number for number in range(1, 10)}
    assert rack_choices(racks, 30, 3, 2) == {True, False}
    assert rack_choices(racks, 9, 3, 2) == {True}
    assert MAX_RACK_CHOICES < 1 << 20
