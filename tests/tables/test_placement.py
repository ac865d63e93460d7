"""Placement of segments, compared with a brute-force judge that examines each window."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from auditor.model.placement import Location, Locations, PlacementSettings, Policy
from auditor.sources.metadata.ledger_rows import LEDGERS
from auditor.tables.placement import PLACEMENT, PlacementJudge, judge_placement

WHERE = {
    Policy.RACK: {"b1": "/r1", "b2": "/r1", "b3": "/r2", "b4": "/r2", "b5": "/r3"},
    Policy.REGION: {"b1": "/e/1", "b2": "/e/2", "b3": "/w/1", "b4": "/w/2", "b5": "/n/1"},
    Policy.ZONE: {"b1": "/z1/u1", "b2": "/z1/u2", "b3": "/z2/u1", "b4": "/z2/u2", "b5": "/z3/u1"},
}
BOOKIES = ["b1", "b2", "b3", "b4", "b5", "b6"]  # nobody knows where b6 is
Segment = tuple[int, list[str]]


@dataclass(frozen=True)
class Ledger:
    quorum: int
    segments: list[Segment]
    last: int = -1
    state: str = "CLOSED"
    acks: int = 1

    def row(self, ledger_id: int) -> dict[str, Any]:
        segments = [{"first_entry_id": first, "ensemble": members} for first, members in self.segments]
        return {
            **dict.fromkeys(LEDGERS.names),
            "scope_id": 0,
            "ledger_id": ledger_id,
            "undecidable": False,
            "state": self.state,
            "write_quorum": self.quorum,
            "ack_quorum": self.acks,
            "last_entry_id": self.last,
            "segments": segments,
        }


def judge(
    settings: PlacementSettings, absent: str = "", where: dict[str, str] | None = None, readonly: str = ""
) -> PlacementJudge:
    paths = WHERE[settings.policy] if where is None else where
    locations = Locations({name: Location(path) for name, path in paths.items()})
    registered = [name for name in BOOKIES if name not in absent.split()]
    writable = [name for name in registered if name not in readonly.split()]
    return PlacementJudge.for_cluster(settings, locations, BOOKIES, writable, registered)


def rows(judge: PlacementJudge, *ledgers: Ledger) -> list[dict[str, Any]]:
    table = pa.Table.from_pylist([ledger.row(number) for number, ledger in enumerate(ledgers)], LEDGERS)
    placements = judge_placement(table, judge)
    assert placements.schema.equals(PLACEMENT)
    listed: list[dict[str, Any]] = placements.to_pylist()
    return listed


RACK, REGION, ZONE = (PlacementSettings(policy) for policy in (Policy.RACK, Policy.REGION, Policy.ZONE))


def test_well_placed_ledger_has_no_row() -> None:
    assert rows(judge(RACK), Ledger(2, [(0, ["b1", "b3"]), (7, ["b5", "b3"])], 9)) == []


def test_row_contains_first_violating_window_of_segment() -> None:
    [row] = rows(judge(RACK), Ledger(2, [(0, ["b3", "b5"]), (7, ["b5", "b1", "b2", "b6"])], 9))
    assert row == {
        "scope_id": 0,
        "ledger_id": 0,
        "state": "CLOSED",
        "write_quorum": 2,
        "ack_quorum": 1,
        "first_entry_id": 7,
        "violated": True,
        "excused": False,
        "windows": 1,
        "bookies": ["b1", "b2"],
        "locations": ["/r1", "/r1"],
        "unwritable": [],
        "domain": "/r1",
    }


def test_open_ledgers_and_empty_segments_are_judged_like_closed_ones() -> None:
    bad = (0, ["b1", "b2"])
    bad_ledgers = [Ledger(2, [bad], -1), Ledger(2, [bad], -1, "OPEN"), Ledger(2, [bad], -1, "IN_RECOVERY")]
    assert [(row["ledger_id"], row["state"]) for row in rows(judge(RACK), *bad_ledgers)] == [
        (0, "CLOSED"),
        (1, "OPEN"),
        (2, "IN_RECOVERY"),
    ]


def test_violation_caused_only_by_unwritable_bookie_is_excused() -> None:
    ledger = Ledger(2, [(0, ["b1", "b3"])], 5)
    assert rows(judge(RACK), ledger) == []
    for view in (judge(RACK, readonly="b3"), judge(RACK, absent="b3")):
        [row] = rows(view, ledger)
        assert (row["violated"], row["excused"], row["unwritable"]) == (True, True, ["b3"])
    [row] = rows(judge(RACK, absent="b2"), Ledger(2, [(0, ["b1", "b2"])], 5))
    assert not row["excused"]
    [row] = rows(judge(RACK, absent="b6"), Ledger(2, [(0, ["b1", "b6"])], 5))
    assert (row["excused"], row["locations"]) == (False, ["/r1", None])


def test_segment_within_one_region_is_at_risk_but_not_violated() -> None:
    two_ledgers = [Ledger(2, [(0, ["b1", "b2", "b3"])], 5), Ledger(2, [(0, ["b1", "b3"])], 5)]
    [row] = rows(judge(REGION), *two_ledgers)
    assert (row["violated"], row["domain"], row["bookies"]) == (False, "e", ["b1", "b2"])


def test_ack_quorum_in_fewer_regions_than_required_is_at_risk() -> None:
    settings = PlacementSettings(Policy.REGION, regions_to_write=("e", "w", "n"))
    spread = [(0, ["b1", "b2", "b3"])]
    [row] = rows(judge(settings), Ledger(3, spread, 5, acks=2), Ledger(3, spread, 5, acks=3))
    assert (row["ledger_id"], row["windows"], row["domain"]) == (0, 3, None)


def test_absent_bookie_in_zone_makes_segment_at_risk_instead_of_violated() -> None:
    where = WHERE[Policy.ZONE] | {"b6": "/z1/u3"}
    dead = Ledger(3, [(0, ["b1", "b2", "b6"])], 5)
    [row] = rows(judge(ZONE, absent="b6", where=where), dead)
    assert (row["violated"], row["domain"]) == (False, "z1")  # row 23: the server says SOFT
    [row] = rows(judge(ZONE, where=where), dead)
    assert row["violated"]


def test_segments_of_closed_ledgers_without_entries_are_not_at_risk() -> None:
    where = {"b1": "/e/1", "b2": "/e/2", "b3": "/w/1"}
    empty = Ledger(2, [(0, ["b1", "b2"]), (0, ["b1", "b3"])], 5)
    end = Ledger(2, [(0, ["b1", "b3"]), (6, ["b1", "b2"])], 5)
    open_end = Ledger(2, [(0, ["b1", "b3"]), (6, ["b1", "b2"])], -1, "OPEN")
    risk_rows = rows(judge(REGION, where=where), empty, end, open_end)
    assert [(row["ledger_id"], row["first_entry_id"]) for row in risk_rows] == [(2, 6)]


def test_window_with_mixed_location_depths_gets_a_row() -> None:
    where = {"b1": "/e/1", "b2": "/e/2", "b3": "/r3"}  # b4 to b6 stand in /default-rack
    view = judge(RACK, where=where)
    one_deep, one_flat = Ledger(2, [(0, ["b1", "b2"])], 5), Ledger(2, [(0, ["b3", "b4"])], 5)
    mixed = Ledger(2, [(0, ["b1", "b3"])], 5)
    assert [row["ledger_id"] for row in rows(view, one_deep, one_flat, mixed)] == [2]


def test_ledger_without_usable_metadata_has_no_row() -> None:
    assert rows(judge(RACK), Ledger(2, [(0, [])], 5), Ledger(0, [(0, ["b1"])], 5), Ledger(2, [], 5)) == []


members = st.lists(st.sampled_from(BOOKIES), min_size=1, max_size=6, unique=True)


@given(
    policy=st.sampled_from([Policy.RACK, Policy.REGION, Policy.ZONE]),
    ensembles=st.lists(members, min_size=1, max_size=4),
    quorum=st.integers(1, 6),
    closed=st.booleans(),
    last=st.integers(-1, 9),
    gaps=st.lists(st.integers(0, 3), min_size=4, max_size=4),
    gone=st.sets(st.sampled_from(BOOKIES), max_size=2),
)
def test_placement_judge_matches_brute_force(
    policy: Policy,
    ensembles: list[list[str]],
    quorum: int,
    closed: bool,
    last: int,
    gaps: list[int],
    gone: set[str],
) -> None:
    settings = PlacementSettings(policy)
    firsts = [sum(gaps[:number]) for number in range(len(ensembles))]
    ledger = Ledger(
        quorum,
        list(zip(firsts, ensembles, strict=True)),
        last if closed else -1,
        "CLOSED" if closed else "OPEN",
    )
    judged_windows = {
        (row["first_entry_id"], row["violated"], tuple(row["bookies"]))
        for row in rows(judge(settings, absent=" ".join(gone)), ledger)
    }
    expected = set()
    for number, (first, ensemble) in enumerate(ledger.segments):
        verdict = judge_by_hand(policy, ensemble, quorum, gone)
        end = [*firsts[number + 1 : number + 2], 10**9][0]
        end = min(end, last + 1) if closed else end
        if verdict and (verdict[0] or first < end):
            expected.add((first, *verdict))
    assert judged_windows == expected


def judge_by_hand(
    policy: Policy, ensemble: list[str], quorum: int, absent: set[str]
) -> tuple[bool, tuple[str, ...]] | None:
    """Return True if violated, False if at risk, and the first such window; None if neither."""
    where, size = WHERE[policy], len(ensemble)
    windows = [[ensemble[(start + place) % size] for place in range(quorum)] for start in range(size)]
    paths = {name: UNSEEN if name in absent else where.get(name, "") for name in ensemble}
    # What the policy refuses by size and quorum alone is no row: every ensemble of these would be one.
    if policy is Policy.ZONE and "" in paths.values():
        return True, tuple(windows[0])
    for window in windows:
        racks = {where.get(name, "d") for name in window if name not in absent}
        zones: dict[str, list[str]] = {}
        for name in window:
            zones.setdefault(paths[name].partition("/")[2].partition("/")[0], []).append(paths[name])
        crowded = any(len(zone_paths) > 1 and len({*zone_paths}) == 1 for zone_paths in zones.values())
        too_few = {
            Policy.RACK: len(racks) < min(quorum, 2),
            Policy.ZONE: len(zones) < min(quorum, 2) or crowded,
        }
        if too_few.get(policy):
            return True, tuple(window)
    for window in windows:
        parts = {where.get(name, "") for name in window}
        domains = (
            parts if policy is Policy.RACK else {part.partition("/")[2].partition("/")[0] for part in parts}
        )
        if quorum > 1 and len(domains) == 1 and "" not in domains:
            return False, tuple(window)
    return None


UNSEEN = "/default-region/default-rack"
