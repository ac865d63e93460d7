"""The scenarios of BookKeeper's replicas check, as clusters on disk, one audit per layout."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.corpora import scenarios
from tests.corpora.audited import FinishedRun, assert_extra, audit, extra_of, in_class, missing
from tests.corpora.brute_force import (
    World,
    deleted_by_overflow,
    foreign,
    judge,
    past_end,
    stale,
    surplus,
    undecided,
)
from tests.corpora.corpora import CLASSES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GAP = "E - Qw is 2 or more: the server calls everything after a gap of two entries unavailable"
HOLE = "a bookie has a hole, or skipped a segment: the server calls everything after it unavailable"
# Where the server's check as it is differs from its exact form, which is ours.
STOCK_DIFFERS = {
    "healthy-all-quorums-0": {5: GAP, 11: GAP, 12: GAP, 13: GAP, **dict.fromkeys(range(21, 27), GAP)},
    "gaps-0": dict.fromkeys([1, 2, 3, 4, 5, 6, 7, 9], HOLE),
    "random-0": dict.fromkeys([1, 7920, 39596], HOLE),
    "random-1": dict.fromkeys([1, 10], HOLE),
    "random-2": dict.fromkeys([10, 11], HOLE),
    "random-4": dict.fromkeys([2, 4, 5, 8], HOLE),
    "random-5": dict.fromkeys([2, 3, 9], HOLE),
    "random-6": dict.fromkeys([39596, 47515], HOLE),
    "random-8": dict.fromkeys([2, 5, 6, 7, 8], HOLE),
    "random-9": dict.fromkeys([63353], HOLE),
    "random-10": dict.fromkeys([2, 3, 5, 10, 12], HOLE),
}
# The server passes over a marked ledger and says nothing of its entries; brute force alone judges these.
MARKED = {
    "marked-0": {1, 3, 5},
    "random-0": {71272},
    "random-1": {2},
    "random-2": {2},
    "random-3": {63353},
    "random-5": {4},
    "random-6": {87110},
    "random-7": {4},
    "random-11": {1},
}
# The server cannot read it and gives the whole run up; here it is one finding, and the run goes on.
UNDECODABLE_CHECK = {("unreadable-metadata-0", 2)}


class Layout(NamedTuple):
    cases: list[scenarios.Case]
    world: World
    audited: FinishedRun


@pytest.fixture(scope="module", params=["hierarchical", "flat", "longhierarchical"])
def layout(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, spark: SparkSession
) -> Layout:
    specs = scenarios.load()
    root = scenarios.build(specs, request.param).write(tmp_path_factory.mktemp("scenarios") / request.param)
    run = audit(spark, f"dump://{root}/metadata.jsonl", root / "bookies", root / "run")
    world = World.from_files(root / "metadata.jsonl", root / "bookies")
    return Layout(list(scenarios.cases(specs, request.param)), world, run)


def test_all_26_scenarios_with_281_ledgers_are_loaded() -> None:
    specs = scenarios.load()
    layouts = ("hierarchical", "flat", "longhierarchical")
    all_cases = [case for layout in layouts for case in scenarios.cases(specs, layout)]
    assert len(specs) == 26
    assert len(all_cases) == sum(len(scenario["ledgers"]) for scenario in specs) == 281
    for layout in layouts:
        ids = [case.ledger for case in scenarios.cases(specs, layout)]
        assert len(ids) == len(set(ids))
    marked: dict[str, set[int]] = {}
    for case in all_cases:
        if case.marked:
            marked.setdefault(case.scenario, set()).add(case.own_id)
    assert marked == MARKED


def test_stock_server_check_differs_from_its_exact_form_on_listed_ledgers() -> None:
    specs = scenarios.load()
    differs: dict[str, set[int]] = {}
    for layout in ("hierarchical", "flat", "longhierarchical"):
        for case in scenarios.cases(specs, layout):
            if case.stock != case.exact:
                differs.setdefault(case.scenario, set()).add(case.own_id)
    assert differs == {scenario: set(ledgers) for scenario, ledgers in STOCK_DIFFERS.items()}


def test_every_closed_ledger_has_the_class_that_the_server_gives(layout: Layout) -> None:
    rows = layout.audited.verdicts()
    for case in layout.cases:
        if case.own_id in MARKED.get(case.scenario, ()) or (case.scenario, case.own_id) in UNDECODABLE_CHECK:
            continue
        row = rows[case.ledger]
        if row["state"] == "CLOSED":
            assert row["class"] == CLASSES[str(case.exact)], (case.scenario, case.own_id)
            assert judge(layout.world, case.ledger).name == row["class"]


def test_every_ledger_has_the_class_that_brute_force_gives(layout: Layout) -> None:
    rows = layout.audited.verdicts()
    undecodable = {case.ledger for case in layout.cases if (case.scenario, case.own_id) in UNDECODABLE_CHECK}
    assert layout.world.undecodable == undecodable
    assert set(rows) == {case.ledger for case in layout.cases}
    for case in layout.cases:
        row = rows[case.ledger]
        if case.ledger in undecodable:
            assert row["class"] == "undecided"
            continue
        verdict = judge(layout.world, case.ledger)
        answer = (verdict.name, verdict.potential, verdict.m, verdict.mu, list(verdict.unknown))
        assert answer == (
            row["class"],
            row["potential_class"],
            row["m"],
            row["mu"],
            row["unread_bookies"],
        ), (case.scenario, case.own_id)


def test_findings_equal_those_that_brute_force_expects(layout: Layout) -> None:
    world, finding_rows = layout.world, layout.audited.findings()
    # No auditor is elected where the scenarios are.
    expected: set[tuple[str, int | None, str | None]] = {("no-auditor", None, None)}
    stale_marks: set[int] = set()
    for ledger in world.ledgers:
        verdict = judge(world, ledger)
        if verdict.unhealthy:
            expected.add((verdict.name, ledger, None))
        if undecided(world, ledger):
            expected.add(("replication-undecided", ledger, None))
        if verdict.lagging:
            expected.add(("copy-lagging", ledger, None))
        if ledger in world.marks and verdict.name == verdict.potential == "healthy":
            stale_marks.add(ledger)
    assert {row["ledger_id"] for row in layout.audited.table("stale_marks")} == stale_marks
    expected |= {("mark-stale", None, bookie) for ledger in stale_marks for bookie in world.marks[ledger]}
    expected |= {("over-replicated-ledger", *pair) for pair in foreign(world) if pair[0] not in world.marks}
    expected |= {("copy-in-flight", ledger, None) for ledger, _ in foreign(world) if ledger in world.marks}
    assert_extra(layout.audited, "stale-segment", "stale", stale(world))
    assert_extra(layout.audited, "surplus-entries", "surplus", surplus(world))
    assert extra_of(layout.audited, "past_end") == past_end(world)
    expected |= {("stale-segment", None, bookie) for _, bookie in stale(world)}
    expected |= {("surplus-entries", None, bookie) for _, bookie in surplus(world)}
    expected |= {("entries-past-end", ledger, None) for ledger, _ in past_end(world)}
    expected |= {("index-unreadable", *pair) for pair, index in world.indexes.items() if not index.readable}
    expected |= {("metadata-unreadable", ledger, None) for ledger in world.undecodable}
    expected |= {("gc-would-delete-live", None, bookie) for _, bookie in deleted_by_overflow(world)}
    starts = {ledger: plain.segments[0][0] for ledger, plain in world.ledgers.items()}
    expected |= {("segment-gap", ledger, None) for ledger, first in starts.items() if first > 0}
    assert {(row["id"], row["ledger_id"], row["bookie_id"]) for row in finding_rows} == expected
    assert len(finding_rows) == len(expected)


def test_missing_entries_equal_those_of_brute_force(layout: Layout) -> None:
    for row in layout.audited.findings():
        if row["id"] in ("entry-lost", "below-ack-quorum", "below-write-quorum"):
            verdict = judge(layout.world, row["ledger_id"])
            assert missing(row) == verdict.missing
            assert in_class(row) == verdict.in_class
            assert row["unknown"] == list(verdict.unknown)
            closed = verdict.state == "CLOSED"
            assert row["confidence"] == ("confirmed" if closed else "suspect")
        elif row["id"] == "copy-lagging":
            assert missing(row) == judge(layout.world, row["ledger_id"]).lagging
