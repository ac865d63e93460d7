"""Bookies that may replace a bookie. The server chooses often enough to show all of its choices."""

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
    excluded_bookies,
    isolated_cluster,
    random_cluster,
    random_config,
)
from tests.model.placement_oracle import Cluster, ask, make, replace

TRIES = 120
"""Of six candidates the chance to miss one is below 1 in a million million."""


REFUSALS = ("BKNotEnoughBookiesException", "NullPointerException")


def vacancies(cluster: Cluster, source: random.Random, number: int) -> list[Vacancy]:
    drawn_vacancies: list[Vacancy] = []
    while len(drawn_vacancies) < number:
        size = source.randint(2, 6)
        quorum = source.randint(1, size)
        if cluster.policy == Policy.ZONE:
            quorum = source.choice([divisor for divisor in range(1, size + 1) if size % divisor == 0])
        ensemble = [str(bookie) for bookie in source.sample(BOOKIES, size)]
        drawn_vacancies.append(Vacancy(ensemble, source.randrange(size), quorum, source.randint(1, quorum)))
    return drawn_vacancies


@pytest.mark.parametrize("policy", [Policy.RACK, Policy.REGION, Policy.ZONE])
def test_replacement_candidates_match_the_server_class(policy: Policy) -> None:
    source = random.Random(f"replace-{policy}")
    cases = [
        (cluster, vacancies(cluster, source, 12))
        for cluster in (random_cluster(policy, seed) for seed in range(60))
    ]
    questions = [
        (
            cluster,
            [
                replace([*map(int, slot.ensemble)], slot.position, slot.write_quorum, slot.ack_quorum, TRIES)
                for slot in slots
            ],
        )
        for cluster, slots in cases
    ]
    refused = 0
    for (cluster, slots), replies in zip(cases, ask(questions), strict=True):
        for vacancy, answer in zip(slots, replies, strict=True):
            is_refused = answer in REFUSALS
            expected = "refused" if is_refused else answer
            assert candidates_of(cluster, vacancy) == expected, (cluster, vacancy)
            refused += is_refused
    assert 0 < refused < 60 * 12


def test_isolation_groups_exclude_bookies_as_pulsars_policy_does() -> None:
    """Groups come from its configuration or a ledger's own config, for new ensembles and replacements."""
    source = random.Random("isolated")
    questions, cases = [], []
    for seed in range(150):
        cluster = isolated_cluster(seed)
        cluster_questions: list[str] = []
        for vacancy in vacancies(cluster, source, 4):
            config, ensemble = random_config(source), [*map(int, vacancy.ensemble)]
            shape = (len(ensemble), vacancy.write_quorum, vacancy.ack_quorum)
            out = excluded_bookies(cluster, len(ensemble), config)
            cases.append((cluster, config, dataclasses.replace(vacancy, excluded_ids=out)))
            cluster_questions += [
                make(*shape, 1, config),
                replace(ensemble, vacancy.position, *shape[1:], TRIES, config),
            ]
        questions.append((cluster, cluster_questions))
    answers = iter([reply for cluster_answers in ask(questions, pulsar=True) for reply in cluster_answers])
    exclusion_count = 0
    for cluster, config, vacancy in cases:
        excluded, answer = next(answers).partition(" ")[2], next(answers)
        assert excluded == str(sorted(map(int, vacancy.excluded_ids))), (cluster, config, vacancy)
        expected = "refused" if answer in REFUSALS else answer
        assert candidates_of(cluster, vacancy) == expected, (cluster, config, vacancy)
        exclusion_count += bool(vacancy.excluded_ids)
    assert 150 < exclusion_count < len(cases)


SPARE_IN_R2 = {"b1": "/r1", "b2": "/r2", "b3": "/r3", "spare": "/r2"}


def test_enforced_racks_refuse_a_replacement_that_the_verdict_allows() -> None:
    view = ServerView(SPARE_IN_R2, frozenset({"b2", "b3", "spare"}))
    lost = Vacancy(["b1", "b2", "b3"], 0, 3, 2)
    assert find_spares(lost, view, PlacementSettings(Policy.RACK)) == {"spare"}
    assert find_spares(lost, view, PlacementSettings(Policy.RACK, enforce_min_racks=True)) == frozenset()


def test_excluded_bookie_is_no_replacement() -> None:
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
ALL_BOOKIES = frozenset({"p1", "p2", "s1", "o1", "free"})


@pytest.mark.parametrize(
    ("size", "groups", "remaining"),
    [
        (2, IsolationGroups(("first",), ("second",)), {"p1", "p2"}),
        (3, IsolationGroups(("first",), ("second",)), {"p1", "p2", "s1"}),
        (4, IsolationGroups(("first",), ("second",)), {"p1", "p2", "s1", "free"}),
        (9, IsolationGroups(("first",), ()), {"p1", "p2", "free"}),
        (2, IsolationGroups(("*",), ()), ALL_BOOKIES),
        (2, IsolationGroups((), ("second",)), {"s1", "free"}),
        (2, None, ALL_BOOKIES),
    ],
)
def test_isolation_groups_exclude_bookies_of_other_groups(
    size: int, groups: IsolationGroups | None, remaining: set[str]
) -> None:
    assert ALL_BOOKIES - find_excluded(size, GROUPS, ALL_BOOKIES, groups) == remaining
