"""Findings of placement, and the cases without a finding."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from auditor.model.placement import PlacementSettings, Policy
from auditor.tables import Tables
from tests.checks.tables_builder import Row, facts, find, places, tables

RACK = PlacementSettings(Policy.RACK)
TRAPS = (
    "bookie-without-location",
    "location-depths-mixed",
    "location-slashes",
    "bookie-in-two-groups",
    "placement-settings-differ",
)


def with_segments(spark: SparkSession, *segments: Row, settings: PlacementSettings = RACK) -> Tables:
    return tables(spark, facts(placement=settings), placement=segments)


def segment(ledger_id: int, first_entry_id: int = 0, **overrides: Any) -> Row:
    defaults = {"bookies": ["b1", "b2"], "locations": ["/r1", None]}
    return {"ledger_id": ledger_id, "first_entry_id": first_entry_id, **defaults, **overrides}


def test_ledger_gets_one_placement_finding_with_its_first_segment(spark: SparkSession) -> None:
    later = segment(7, 30, bookies=["b3", "b4"], locations=["/r2", "/r2"])
    cluster_tables = with_segments(spark, later, segment(7, 5), segment(8, violated=False, domain="/r1"))
    [finding] = find("placement-violated", cluster_tables)
    assert (finding.where, finding.severity, finding.confidence) == ((7, None), "warning", "confirmed")
    assert finding.message == (
        "ledger 7 breaks the placement policy (rack, minNumRacksPerWriteQuorum 2) in 2 segments, first at "
        "entry 5: b1 in /r1, b2 without a location"
    )
    assert finding.evidence == {
        "state": "CLOSED",
        "segments": 2,
        "first_entry_id": 5,
        "windows": 1,
        "bookies": ["b1", "b2"],
        "locations": ["/r1", None],
        "write_quorum": 2,
        "ack_quorum": 2,
        "excused": False,
        "unwritable": [],
        "rule": "rack, minNumRacksPerWriteQuorum 2",
    }


def test_violation_explained_by_an_unwritable_bookie_is_a_note(spark: SparkSession) -> None:
    excused: dict[str, Any] = {"excused": True, "unwritable": ["b2"], "locations": ["/r1", "/r2"]}
    note, warning = find(
        "placement-violated",
        with_segments(spark, segment(1, **excused), segment(2, **excused), segment(2, 9)),
    )
    assert (note.severity, warning.severity) == ("note", "warning")
    assert note.message.endswith(
        "b1 in /r1, b2 in /r2; the locations of its bookies satisfy the policy, but these bookies "
        "are not writable: b2"
    )


def test_ensemble_shapes_that_a_zone_policy_refuses_get_one_finding(spark: SparkSession) -> None:
    """141 of 141 ledgers with a write quorum below the minimum once gave 141 findings."""
    shapes = {1: (3, 3), 2: (3, 2), 3: (3, 2), 4: (2, 2), 5: (5, 3), 6: (6, 3)}
    cluster_tables = tables(
        spark,
        facts(placement=PlacementSettings(Policy.ZONE, min_zones=2)),
        ledgers=[
            {"ledger_id": n, "ensemble_size": size, "write_quorum": quorum}
            for n, (size, quorum) in shapes.items()
        ],
        placement=[segment(6)],
    )
    by_ledger, by_shape = sorted(
        find("placement-violated", cluster_tables), key=lambda finding: finding.where[0] is None
    )
    assert by_ledger.where == (6, None)
    assert (by_shape.where, by_shape.severity, by_shape.confidence) == (
        (None, None),
        "warning",
        "confirmed",
    )
    assert by_shape.message == (
        "the placement policy (zone, minNumZonesPerWriteQuorum 2) accepts no ensemble of 4 ledgers at any "
        "location: it requires a write quorum that is larger than 2 and divides the ensemble size; found "
        "instead: E2 Qw2 (1), E3 Qw2 (2), E5 Qw3 (1)"
    )
    assert by_shape.evidence["ledgers"] == 4


def test_other_policies_refuse_no_ensemble_shape(spark: SparkSession) -> None:
    ledgers = [{"ledger_id": 1, "ensemble_size": 3, "write_quorum": 2}]
    for settings in (RACK, None):
        assert not find("placement-violated", tables(spark, facts(placement=settings), ledgers=ledgers))


@pytest.mark.parametrize(
    ("settings", "domain", "words"),
    [
        (PlacementSettings(Policy.REGION), "e", "region e alone has all copies of some entries: "),
        (PlacementSettings(Policy.ZONE), "z1", "zone z1 alone has all copies of some entries: "),
        (
            PlacementSettings(Policy.REGION, regions_to_write=("e", "w")),
            None,
            "an ack quorum of some entries is in fewer regions than reppMinimumRegionsForDurability: ",
        ),
    ],
)
def test_segments_with_copies_in_too_few_domains_are_at_risk(
    spark: SparkSession, settings: PlacementSettings, domain: str | None, words: str
) -> None:
    at_risk = segment(3, 4, violated=False, domain=domain, state="OPEN", locations=["/e/1", "/e/2"])
    [finding] = find("placement-at-risk", with_segments(spark, at_risk, segment(9), settings=settings))
    assert (finding.where, finding.severity, finding.confidence) == ((3, None), "warning", "confirmed")
    assert finding.message == f"ledger 3: {words}b1 in /e/1, b2 in /e/2; in 1 segment, first at entry 4"
    assert (finding.evidence["domain"], finding.evidence["state"]) == (domain, "OPEN")


def placed(
    spark: SparkSession, *rows: Row, settings: PlacementSettings | None = RACK, **overrides: Any
) -> Tables:
    """Return writable bookies at these locations; ``overrides`` are facts of the cluster."""
    bookies = [{"bookie_id": row["bookie_id"]} for row in rows]
    location_rows = [{"given": row.get("location"), **row} for row in rows]
    return tables(
        spark, facts(placement=settings, **overrides), bookies=bookies, bookie_locations=location_rows
    )


def test_bookies_without_a_location_get_one_finding(spark: SparkSession) -> None:
    cluster_tables = placed(
        spark,
        {"bookie_id": "b1", "location": "/r1"},
        {"bookie_id": "b2", "location": None},
        {"bookie_id": "b3", "location": "/default-rack"},
    )
    [finding] = find("bookie-without-location", cluster_tables)
    assert (finding.where, finding.severity) == ((None, None), "warning")
    assert (
        finding.message
        == "2 of 3 bookies have no location, so servers assume that they are in /default-rack: b2, b3"
    )
    assert finding.evidence == {"bookies": ["b2", "b3"], "of": 3, "default": "/default-rack"}


def test_bookie_without_a_location_mixes_depths_with_bookies_in_regions(spark: SparkSession) -> None:
    cluster_tables = placed(
        spark,
        {"bookie_id": "b1", "location": "/e/r1"},
        {"bookie_id": "b2", "location": "/e/r2"},
        {"bookie_id": "b3", "location": None},
    )
    [finding] = find("location-depths-mixed", cluster_tables)
    assert (finding.where, finding.severity) == ((None, None), "error")
    assert finding.message == (
        "locations have 2 different depths; a server takes the depth of the first bookie that it adds, "
        "and ignores bookies at other depths: "
        "b3 in /default-rack; or b1 in /e/r1, b2 in /e/r2"
    )
    assert finding.evidence == {
        "depths": [{"depth": 1, "bookies": ["b3"]}, {"depth": 2, "bookies": ["b1", "b2"]}]
    }


def test_locations_that_differ_only_in_slashes_are_reported(spark: SparkSession) -> None:
    cluster_tables = placed(
        spark,
        {"bookie_id": "b1", "given": "/r1", "location": "/r1"},
        {"bookie_id": "b2", "given": "/r1//", "location": "/r1/"},
        {"bookie_id": "b3", "given": "r2", "location": "/r2"},
        {"bookie_id": "b4", "given": "/r2/", "location": "/r2"},
        {"bookie_id": "b5", "given": "/r3", "location": "/r3"},
        {"bookie_id": "b6", "given": "/r3", "location": "/r3"},
    )
    distinct, merged = sorted(find("location-slashes", cluster_tables), key=lambda finding: finding.message)
    assert (distinct.severity, distinct.message) == (
        "warning",
        "the location r1 is written as /r1, /r1//: servers treat /r1, /r1/ as different locations",
    )
    assert (merged.severity, merged.message) == (
        "note",
        "the location r2 is written as /r2/, r2: servers treat all of these as /r2",
    )
    assert distinct.evidence == {
        "written": ["/r1", "/r1//"],
        "locations": ["/r1", "/r1/"],
        "bookies": ["b1", "b2"],
    }


def test_bookie_in_two_isolation_groups_is_reported(spark: SparkSession) -> None:
    rows = [
        {"bookie_id": "b1", "location": "/r1", "groups": ["a", "b"]},
        {"bookie_id": "b2", "location": "/r2", "groups": ["a"]},
    ]
    [finding] = find("bookie-in-two-groups", placed(spark, *rows))
    assert (finding.where, finding.message) == ((None, "b1"), "b1 is in more than one isolation group: a, b")


def test_differing_placement_settings_get_one_finding(spark: SparkSession) -> None:
    rows = [{"bookie_id": "b1", "location": "/r1"}]
    assert find("placement-settings-differ", placed(spark, *rows)) == []
    [finding] = find("placement-settings-differ", placed(spark, *rows, placement_differences=("one", "two")))
    assert finding.message == "AutoRecovery and brokers use different placement settings: one; two"
    assert finding.evidence == {"differences": ["one", "two"]}


@pytest.mark.parametrize("settings", [None, PlacementSettings(Policy.NONE)])
def test_unknown_or_absent_policy_gets_no_location_finding(
    spark: SparkSession, settings: PlacementSettings | None
) -> None:
    cluster_tables = placed(
        spark,
        {"bookie_id": "b1", "location": None},
        {"bookie_id": "b2", "location": "/e/r1"},
        {"bookie_id": "b3", "location": "/r1"},
        settings=settings,
    )
    assert [places(find(trap, cluster_tables)) for trap in TRAPS] == [[]] * len(TRAPS)


def test_locations_of_one_depth_get_no_finding(spark: SparkSession) -> None:
    cluster_tables = placed(
        spark, {"bookie_id": "b1", "location": "/r1"}, {"bookie_id": "b2", "location": "/r2"}
    )
    assert [places(find(trap, cluster_tables)) for trap in TRAPS] == [[]] * len(TRAPS)
