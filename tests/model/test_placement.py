"""Locations as a server keeps them, and placement settings as configurations define them."""

from __future__ import annotations

from typing import Any

import pytest

from auditor.model.placement import (
    IsolationGroups,
    Level,
    Location,
    Locations,
    PlacementSettings,
    Policy,
    normalise_location,
    policy_of,
)


@pytest.mark.parametrize(
    ("location", "normalised"), [("/r1", "/r1"), ("/r1/", "/r1"), ("/R 1", "/R 1"), ("/", "")]
)
def test_normalise_removes_one_trailing_slash(location: str, normalised: str) -> None:
    assert normalise_location(location) == normalised


def test_a_location_without_a_slash_before_it_is_refused() -> None:
    with pytest.raises(ValueError, match="'r1' does not begin with a slash"):
        normalise_location("r1")


RACKS = Locations(
    {
        "deep": Location("/east/r1"),
        "flat": Location("/r1"),
        "silent": Location(None),
        "default": Location("/default-rack"),
        "default-region": Location("/default-region/default-rack"),
    }
)


@pytest.mark.parametrize(
    ("bookie", "domains"),
    [
        ("deep", ["deep", "/east/r1", "east", "east"]),
        ("flat", ["flat", "/r1", "r1", "r1"]),
        ("silent", ["silent", None, None, None]),
        ("default", ["default", None, None, None]),
        ("default-region", ["default-region", None, None, None]),
        ("stranger", ["stranger", None, None, None]),
    ],
)
def test_bookie_has_the_expected_failure_domain_at_each_level(bookie: str, domains: list[str | None]) -> None:
    levels = (Level.BOOKIE, Level.RACK, Level.ZONE, Level.REGION)
    assert [RACKS.domain(bookie, level) for level in levels] == domains


@pytest.mark.parametrize(
    ("properties", "policy"),
    [
        ({}, Policy.RACK),
        ({"ensemblePlacementPolicy": "org.x.RegionAwareEnsemblePlacementPolicy"}, Policy.REGION),
        ({"ensemblePlacementPolicy": "org.x.DefaultEnsemblePlacementPolicy"}, Policy.NONE),
        ({"ensemblePlacementPolicy": "org.y.IsolatedBookieEnsemblePlacementPolicy"}, Policy.RACK),
        ({"bookkeeperClientRegionawarePolicyEnabled": "true"}, Policy.REGION),
        ({"bookkeeperClientRackawarePolicyEnabled": "false"}, Policy.NONE),
        ({"bookkeeperClientRackawarePolicyEnabled": "true"}, Policy.RACK),
        (
            {"bookkeeperClientRegionawarePolicyEnabled": "true", "bookkeeperClientIsolationGroups": "a"},
            Policy.RACK,
        ),
    ],
)
def test_configuration_chooses_the_expected_policy(properties: dict[str, str], policy: Policy) -> None:
    assert policy_of(properties) is policy


def test_server_and_broker_settings_are_read() -> None:
    server = {
        "minNumRacksPerWriteQuorum": "3",
        "enforceMinNumRacksPerWriteQuorum": "true",
        "reppRegionsToWrite": "east;west",
        "gcWaitTime": "1",
    }
    assert PlacementSettings.from_properties(server, "bk") == PlacementSettings(
        Policy.RACK, min_racks=3, enforce_min_racks=True, regions_to_write=("east", "west"), origin="bk"
    )
    broker = {
        "bookkeeperClientMinNumRacksPerWriteQuorum": "1",
        "bookkeeperClientIsolationGroups": "a, b",
        "bookkeeperClientSecondaryIsolationGroups": "",
    }
    assert PlacementSettings.from_properties(broker, "broker") == PlacementSettings(
        Policy.RACK, min_racks=1, isolation_groups=("a", "b"), origin="broker"
    )


ISOLATED = {"ensemblePlacementPolicy": "org.y.IsolatedBookieEnsemblePlacementPolicy"}


@pytest.mark.parametrize(
    ("properties", "groups"),
    [
        (ISOLATED, None),
        (ISOLATED | {"isolationBookieGroups": ""}, IsolationGroups((), ())),
        (ISOLATED | {"isolationBookieGroups": "a,b"}, IsolationGroups(("a", "b"), ())),
        (
            {
                "ensemblePlacementPolicy": "org.x.RackawareEnsemblePlacementPolicy",
                "isolationBookieGroups": "a",
            },
            None,
        ),
        ({"isolationBookieGroups": "a", "secondaryIsolationBookieGroups": "b"}, None),
        ({"bookkeeperClientIsolationGroups": ""}, None),
    ],
)
def test_isolation_groups_need_pulsars_policy_and_the_key(
    properties: dict[str, str], groups: IsolationGroups | None
) -> None:
    assert PlacementSettings.from_properties(properties, "bk").groups == groups


def test_isolation_groups_need_the_rack_policy() -> None:
    with pytest.raises(ValueError, match="isolation groups are only possible with the policy rack"):
        PlacementSettings.from_properties({"isolationBookieGroups": "a"}, "--placement", Policy.ZONE)


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"minNumRacksPerWriteQuorum": "two"}, "minNumRacksPerWriteQuorum: 'two' is not a number"),
        (
            {"enforceMinNumRacksPerWriteQuorum": "1"},
            "enforceMinNumRacksPerWriteQuorum: '1' is neither true nor",
        ),
        (
            {"ensemblePlacementPolicy": "org.z.Mine"},
            "ensemblePlacementPolicy: 'org.z.Mine' is not a known class; known classes: ",
        ),
    ],
)
def test_invalid_placement_setting_is_refused(properties: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PlacementSettings.from_properties(properties, "bk")


@pytest.mark.parametrize(
    "settings",
    [
        PlacementSettings(),
        PlacementSettings(Policy.ZONE, desired_zones=5, isolation_groups=("a",), origin="x"),
    ],
)
def test_placement_settings_are_read_back_from_json(settings: PlacementSettings) -> None:
    import json

    document: dict[str, Any] = json.loads(json.dumps(settings.to_json()))
    assert PlacementSettings.from_json(str(settings.policy), document, settings.origin) == settings
