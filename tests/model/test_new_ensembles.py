"""Whether a policy makes an ensemble: held to the server's classes, which choose at random."""

from __future__ import annotations

import dataclasses
import random
from collections import Counter

import pytest

from auditor.model.placement import PlacementSettings, Policy
from auditor.model.replacements import MAX_RACK_CHOICES, rack_choices, refuses_by_location
from tests.model.placement_cases import PATHS, makes, random_cluster
from tests.model.placement_oracle import Cluster, ask, make, replace

TRIES = 40


def clusters(policy: Policy, number: int) -> list[Cluster]:
    """Random clusters; most enforce racks, of half of them all bookies are writable and stand somewhere."""
    found = []
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
        found.append(cluster)
    return found


@pytest.mark.parametrize("policy", [Policy.RACK, Policy.REGION, Policy.ZONE])
def test_what_is_said_of_new_ensembles_is_what_the_class_does(policy: Policy) -> None:
    source = random.Random(f"new-{policy}")
    sizes = [source.randint(1, 7) for _ in range(8)]
    shapes = [
        (size, write, source.randint(1, write)) for size in sizes for write in {1, (size + 1) // 2, size}
    ]
    made = clusters(policy, 60)
    answers = ask([(cluster, [make(*shape, TRIES) for shape in shapes]) for cluster in made])
    counts: Counter[tuple[bool | None, bool | None]] = Counter()
    for cluster, said in zip(made, answers, strict=True):
        for shape, answer in zip(shapes, said, strict=True):
            successes = int(answer.split()[0]) if answer[0].isdigit() else 0
            found = {TRIES: True, 0: False}.get(successes)
            ours = makes(cluster, shape)
            counts[ours, found] += 1
            assert ours is None or ours is found, (cluster, shape, answer)
    assert min(counts[True, True], counts[False, False]) > 40, counts
    undecided = sum(number for (ours, _), number in counts.items() if ours is None)
    assert undecided < counts.total() * (0.1 if policy is Policy.RACK else 0.4), counts


def test_regions_with_enforced_racks_refuse_bookies_that_stand_nowhere() -> None:
    """No regions to write, and racks enforced: both what replaces a bookie and what is new is refused."""
    cluster = Cluster("region", {"enforceMinNumRacksPerWriteQuorum": True}, {1: "/a/r1"}, [1, 2])
    lax = Cluster("region", {}, {1: "/a/r1"}, [1, 2])
    questions = [make(2, 2, 2, TRIES), replace([1], 0, 1, 1, TRIES)]
    refused, taken = ask([(cluster, questions), (lax, questions)])
    assert refused == ["0 []", "BKNotEnoughBookiesException"]
    assert taken == [f"{TRIES} []", "[2]"]
    assert refuses_by_location(PlacementSettings(Policy.REGION, enforce_min_racks=True))
    assert not refuses_by_location(PlacementSettings(Policy.REGION))


def test_more_choices_than_can_be_looked_at_count_as_either() -> None:
    racks = {f"/r{number}": number for number in range(1, 10)}
    assert rack_choices(racks, 30, 3, 2) == {True, False}
    assert rack_choices(racks, 9, 3, 2) == {True}
    assert MAX_RACK_CHOICES < 1 << 20
