"""Who may replace a bookie: the server's choices, taken often enough to see all of them."""

from __future__ import annotations

import dataclasses
import random

import pytest

from auditor.model.adherence import ServerView
from auditor.model.placement import IsolationGroups, Location, Locations, PlacementSettings, Policy
from auditor.model.replacements import Vacancy, find_excluded, find_spares
from tests.model.placement_cases import (
    BOOKIES,
    candidates_of,
    isolated_cluster,
    outside_of,
    random_cluster,
    random_config,
)
from tests.model.placement_oracle import Cluster, ask, make, replace

TRIES = 120
"""Of six candidates the chance to miss one is below 1 in a million million."""


REFUSALS = ("BKNotEnoughBookiesException", "NullPointerException")


def vacancies(cluster: Cluster, source: random.Random, number: int) -> list[Vacancy]:
    found: list[Vacancy] = []
    while len(found) < number:
        size = source.randint(2, 6)
        quorum = source.randint(1, size)
        if cluster.policy == Policy.ZONE:
            quorum = source.choice([each for each in range(1, size + 1) if size % each == 0])
        ensemble = [str(bookie) for bookie in source.sample(BOOKIES, size)]
        found.append(Vacancy(ensemble, source.randrange(size), quorum, source.randint(1, quorum)))
    return found


@pytest.mark.parametrize("policy", [Policy.RACK, Policy.REGION, Policy.ZONE])
def test_the_candidates_are_those_that_the_class_takes(policy: Policy) -> None:
    source = random.Random(f"replace-{policy}")
    made = [
        (cluster, vacancies(cluster, source, 12))
        for cluster in (random_cluster(policy, seed) for seed in range(60))
    ]
    questions = [
        (
            cluster,
            [
                replace([*map(int, each.ensemble)], each.position, each.write_quorum, each.ack_quorum, TRIES)
                for each in asked
            ],
        )
        for cluster, asked in made
    ]
    refused = 0
    for (cluster, asked), said in zip(made, ask(questions), strict=True):
        for vacancy, answer in zip(asked, said, strict=True):
            said_none = answer in REFUSALS
            expected = "refused" if said_none else answer
            assert candidates_of(cluster, vacancy) == expected, (cluster, vacancy)
            refused += said_none
    assert 0 < refused < 60 * 12


def test_groups_leave_out_whom_pulsars_policy_leaves_out() -> None:
    """Its configuration or a ledger's own config, for new ensembles and for replacements."""
    source = random.Random("isolated")
    questions, cases = [], []
    for seed in range(150):
        cluster = isolated_cluster(seed)
        asked: list[str] = []
        for vacancy in vacancies(cluster, source, 4):
            config, ensemble = random_config(source), [*map(int, vacancy.ensemble)]
            shape = (len(ensemble), vacancy.write_quorum, vacancy.ack_quorum)
            out = outside_of(cluster, len(ensemble), config)
            cases.append((cluster, config, dataclasses.replace(vacancy, excluded=out)))
            asked += [
                make(*shape, 1, config),
                replace(ensemble, vacancy.position, *shape[1:], TRIES, config),
            ]
        questions.append((cluster, asked))
    answers = iter([each for said in ask(questions, pulsar=True) for each in said])
    some = 0
    for cluster, config, vacancy in cases:
        excluded, answer = next(answers).partition(" ")[2], next(answers)
        assert excluded == str(sorted(map(int, vacancy.excluded))), (cluster, config, vacancy)
        expected = "refused" if answer in REFUSALS else answer
        assert candidates_of(cluster, vacancy) == expected, (cluster, config, vacancy)
        some += bool(vacancy.excluded)
    assert 150 < some < len(cases)


SPARE_IN_R2 = {"b1": "/r1", "b2": "/r2", "b3": "/r3", "spare": "/r2"}


def test_enforced_racks_refuse_what_the_verdict_would_allow() -> None:
    view = ServerView(SPARE_IN_R2, frozenset({"b2", "b3", "spare"}))
    lost = Vacancy(["b1", "b2", "b3"], 0, 3, 2)
    assert find_spares(lost, view, PlacementSettings(Policy.RACK)) == {"spare"}
    assert find_spares(lost, view, PlacementSettings(Policy.RACK, enforce_min_racks=True)) == frozenset()


def test_who_is_excluded_is_not_taken() -> None:
    view = ServerView(SPARE_IN_R2, frozenset({"b2", "b3", "spare"}))
    lost = Vacancy(["b1", "b2", "b3"], 0, 3, 2, frozenset({"spare"}))
    assert find_spares(lost, view, PlacementSettings(Policy.NONE)) == frozenset()


GROUPS = Locations(
    {
        "p1": Location("/r", ("first",)),
        "p2": Location("/r", ("first", "other")),
        "s1": Location("/r", ("second",)),
        "o1": Location("/r", ("other",)),
    }
)
KNOWN = frozenset({"p1", "p2", "s1", "o1", "free"})


@pytest.mark.parametrize(
    ("size", "groups", "left"),
    [
        (2, IsolationGroups(("first",), ("second",)), {"p1", "p2"}),
        (3, IsolationGroups(("first",), ("second",)), {"p1", "p2", "s1"}),
        (4, IsolationGroups(("first",), ("second",)), {"p1", "p2", "s1", "free"}),
        (9, IsolationGroups(("first",), ()), {"p1", "p2", "free"}),
        (2, IsolationGroups(("*",), ()), KNOWN),
        (2, IsolationGroups((), ("second",)), {"s1", "free"}),
        (2, None, KNOWN),
    ],
)
def test_isolation_groups_leave_out_all_others(
    size: int, groups: IsolationGroups | None, left: set[str]
) -> None:
    assert KNOWN - find_excluded(size, GROUPS, KNOWN, groups) == left
