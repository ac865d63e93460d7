"""Random clusters for placement policies, and this program's answers for them."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence

import numpy as np

from auditor.codecs.pulsar.placement_config import decode
from auditor.model.adherence import Adherence, EncodedView, ServerView, judge_ensembles
from auditor.model.placement import (
    ISOLATING_POLICY_CLASSES,
    Location,
    Locations,
    PlacementSettings,
    Policy,
    normalise_location,
)
from auditor.model.replacements import Vacancy, can_form_ensemble, find_excluded, find_spares
from tests.model.placement_oracle import Cluster

WORDS = {Adherence.FAIL: "FAIL", Adherence.SOFT: "MEETS_SOFT", Adherence.STRICT: "MEETS_STRICT"}
BOOKIES = range(1, 10)
PATHS = {
    Policy.RACK: ("/r1", "/r2", "/r3", "/r1/", "/default-rack"),
    Policy.REGION: ("/a/r1", "/a/r2", "/b/r1", "/c/r1", "/default-region/default-rack"),
    Policy.ZONE: ("/z1/u1", "/z1/u2", "/z2/u1", "/z2/u2", "/z3/u1", "/z3/u2", "/z4/u1/"),
}
ODD_ZONES = ("/z4", "/z5/u/x", "/default-zone/default-upgradedomain", "/default-region/default-rack")


def policy_of(cluster: Cluster) -> Policy:
    """Return the policy as this program names it; Pulsar's is rack-aware."""
    return Policy.RACK if cluster.groups is not None else Policy(cluster.policy)


def settings_of(cluster: Cluster) -> PlacementSettings:
    """Return the settings as this program reads them."""
    properties = {key: str(value).lower() for key, value in cluster.settings.items()}
    return PlacementSettings.from_properties(properties, "test", policy_of(cluster))


def excluded_bookies(cluster: Cluster, ensemble_size: int, config: bytes | None) -> frozenset[str]:
    """Return the bookies that may not be in an ensemble of a ledger with its own config ``config``."""
    groups = settings_of(cluster).groups
    if groups is not None and config is not None:
        own = decode(config)
        groups = own.groups if own.policy_class.rpartition(".")[2] in ISOLATING_POLICY_CLASSES else groups
    return find_excluded(ensemble_size, locations_of(cluster), [*map(str, cluster.writable)], groups)


def can_make_ensemble(cluster: Cluster, shape: tuple[int, int, int]) -> bool | None:
    """Return this program's answer to whether an ensemble of (E, Qw, Qa) can be made."""
    locations = locations_of(cluster)
    paths = [locations.path(str(bookie)) for bookie in cluster.writable]
    return can_form_ensemble(shape, paths, settings_of(cluster))


def locations_of(cluster: Cluster) -> Locations:
    """Return the locations and the groups of the bookies."""
    groups = cluster.groups or {}
    return Locations(
        {
            str(bookie): Location(
                normalise_location(cluster.locations[bookie]) if bookie in cluster.locations else None,
                tuple(group for group, members in groups.items() if bookie in members),
            )
            for bookie in {*cluster.locations, *(member for members in groups.values() for member in members)}
        }
    )


def view_of(cluster: Cluster, bookies: Sequence[int]) -> ServerView:
    """Return the server's view: the location that it assumes for each bookie."""
    names = [str(bookie) for bookie in bookies]
    writable, readonly = ([str(number) for number in part] for part in (cluster.writable, cluster.readonly))
    return ServerView.from_locations(locations_of(cluster), policy_of(cluster), names, writable, readonly)


def verdicts_of(cluster: Cluster, ensembles: Sequence[tuple[tuple[int, ...], int]]) -> list[str]:
    """Return this program's verdicts on ensembles with their write quorums, one batch per shape."""
    settings, names = settings_of(cluster), [str(bookie) for bookie in range(100)]
    coded = EncodedView.from_server_view(view_of(cluster, range(100)), names)
    answers: dict[int, str] = {}
    shapes: dict[tuple[int, int], list[int]] = {}
    for number, (ensemble, quorum) in enumerate(ensembles):
        shapes.setdefault((len(ensemble), quorum), []).append(number)
    for (size, quorum), rows in shapes.items():
        batch = np.array([ensembles[row][0] for row in rows], np.int32).reshape(len(rows), size)
        judgement = judge_ensembles(batch, quorum, coded, settings)
        assert (
            not size
            or ((judgement.adherence == Adherence.FAIL) == judgement.broken_windows.any(axis=1)).all()
        )
        answers |= {
            row: WORDS[Adherence(level)] for row, level in zip(rows, judgement.adherence, strict=True)
        }
    return [answers[number] for number in range(len(ensembles))]


def candidates_of(cluster: Cluster, vacancy: Vacancy) -> str:
    """Return this program's candidates in the format of the oracle, or "refused"."""
    bookies = {*map(int, vacancy.ensemble), *cluster.writable, *cluster.readonly}
    candidates = find_spares(vacancy, view_of(cluster, sorted(bookies)), settings_of(cluster))
    return str(sorted(map(int, candidates))) if candidates else "refused"


def random_cluster(policy: Policy, seed: int, *, odd: bool = False) -> Cluster:
    """Return a cluster of bookies, most with locations. A bookie is writable, read-only or gone."""
    source = random.Random(f"{policy}-{seed}")
    paths = PATHS[policy] + (ODD_ZONES if odd and policy is Policy.ZONE else ())
    locations = {bookie: source.choice(paths) for bookie in BOOKIES if source.random() < 0.9}
    states = {bookie: source.choices(("writable", "readonly", "gone"), (8, 1, 1))[0] for bookie in BOOKIES}
    return Cluster(
        str(policy),
        _settings(policy, source),
        locations,
        [bookie for bookie in BOOKIES if states[bookie] == "writable"],
        [bookie for bookie in BOOKIES if states[bookie] == "readonly"],
    )


GROUPS = ("a", "b", "c")
CLASSES = (
    *("org.apache.pulsar.bookie.rackawareness.IsolatedBookieEnsemblePlacementPolicy",) * 4,
    "org.apache.pulsar.zookeeper.ZkIsolatedBookieEnsemblePlacementPolicy",
    "org.apache.bookkeeper.client.RackawareEnsemblePlacementPolicy",
    "org.apache.bookkeeper.client.DefaultEnsemblePlacementPolicy",
)


def isolated_cluster(seed: int) -> Cluster:
    """Return a random cluster of a rack policy with isolation groups, some with bookies that are gone."""
    source, cluster = random.Random(f"isolated-{seed}"), random_cluster(Policy.RACK, seed)
    settings = dict(cluster.settings)
    for key, share in (("isolationBookieGroups", 0.7), ("secondaryIsolationBookieGroups", 0.6)):
        if source.random() < share:
            settings[key] = _some_groups(source)
    groups = {
        group: sorted(source.sample(range(1, 12), source.randint(0, 5)))
        for group in source.sample(GROUPS, source.randint(0, 3))
    }
    return Cluster("isolated", settings, cluster.locations, cluster.writable, cluster.readonly, groups)


def random_config(source: random.Random) -> bytes | None:
    """Return a ledger's config of its own isolation groups, or None if it has none."""
    if source.random() < 0.4:
        return None
    properties: dict[str, object] = {}
    if source.random() < 0.9:
        group_names = _some_groups(source)
        properties["isolationBookieGroups"] = group_names if source.random() < 0.8 else group_names.split(",")
    if source.random() < 0.6:
        properties["secondaryIsolationBookieGroups"] = _some_groups(source)
    return json.dumps({"policyClass": source.choice(CLASSES), "properties": properties}).encode()


def _some_groups(source: random.Random) -> str:
    return ",".join(source.sample((*GROUPS, "*", "gone"), source.randint(0, 2)))


def _settings(policy: Policy, source: random.Random) -> dict[str, object]:
    if policy is Policy.RACK:
        return {
            "minNumRacksPerWriteQuorum": source.choice((0, 1, 2, 2, 3, 4)),
            "enforceMinNumRacksPerWriteQuorum": source.random() < 0.3,
        }
    if policy is Policy.ZONE:
        fewest = source.choice((1, 2, 2))
        return {
            "minNumZonesPerWriteQuorum": fewest,
            "desiredNumZonesPerWriteQuorum": max(fewest, source.choice((1, 2, 3, 3, 4))),
            "enforceStrictZoneawarePlacement": source.random() < 0.8,
        }
    written: dict[str, object] = {"enforceMinNumRacksPerWriteQuorum": source.random() < 0.3}
    if source.random() < 0.6:
        written |= {
            "reppRegionsToWrite": "a;b;c",
            "reppMinimumRegionsForDurability": source.choice((1, 2, 3)),
        }
        written |= {"reppEnableDurabilityEnforcementInReplace": source.random() < 0.8}
    return written


def random_ensembles(source: random.Random, number: int) -> list[tuple[tuple[int, ...], int]]:
    """Return ensembles of different bookies, and their write quorums."""
    ensembles: list[tuple[tuple[int, ...], int]] = []
    while len(ensembles) < number:
        size = source.randint(1, 7)
        ensembles.append((tuple(source.sample(BOOKIES, size)), source.randint(1, size)))
    return ensembles
