"""The rehearsal held to what ``decommissionbookie`` of 4.17.2, its Auditor and its workers then do.

| cluster | what it is |
| --- | --- |
| mixed | one bookie is down already: ledgers that move and ledgers that cannot, side by side |
| clean | everything moves, and the command ends; a ledger is deleted meanwhile |
| together | two bookies at once, which share ledgers |
| one by one | the same, in the order of the forecast |
| racks enforced | a spare in the wrong rack |
| switched off | AutoRecovery is disabled; a ledger with one copy is copied off while the bookie runs |

In the last a rack burns before, as ``bkaudit simulate`` forecast it: every entry is read by a client then.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from auditor.model.decommission import Answer, Cause
from tests.clusters.idle import audit
from tests.clusters.store import Store
from tests.decommission.cluster import RackedBookies
from tests.decommission.fire import BELOW_ACK, BELOW_WRITE, FIRE, LOST, RACK, UNRECOVERABLE, Burnt
from tests.decommission.living import Lived, live
from tests.decommission.scenarios import FIRST_BURNT, MOVED, RENAMED, SCENARIOS, STAYED, WAITING, Case

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAMES = list(SCENARIOS)
BURNING = [*enumerate(FIRE, FIRST_BURNT)]
CASES = [(name, case) for name, scenario in SCENARIOS.items() for case in scenario.cases]


@pytest.fixture(scope="module")
def lived(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Lived]:
    def audited(store: Store, bookies: RackedBookies, out: Path, placement: str) -> Path:
        racks = out.parent.parent / "racks.toml"
        lines = [f"{json.dumps(bookie)} = {json.dumps(rack)}" for bookie, rack in bookies.racks.items()]
        racks.write_text("\n".join(["[bookies]", *lines, ""]), "utf-8")
        sources = [str(bookies.directory)]
        return audit(spark, store, sources, out, racks=str(racks), placement=placement).out

    return live(tmp_path_factory.mktemp("lived"), audited, SCENARIOS)


@pytest.mark.parametrize("name", NAMES)
def test_the_command_ends_as_was_said(name: str, lived: dict[str, Lived]) -> None:
    one = lived[name]
    assert one.forecast.answer is one.scenario.answer
    assert one.ends == one.scenario.ends
    assert {*one.scenario.racks} - one.cookies == ({*one.scenario.going} if "done" in one.ends else set())


@pytest.mark.parametrize(("name", "case"), CASES, ids=[f"{name}: {case.name}" for name, case in CASES])
def test_a_ledger_moves_or_stays_as_was_said(name: str, case: Case, lived: dict[str, Lived]) -> None:
    one = lived[name]
    expected = MOVED if case.outcome in (RENAMED, STAYED) else case.outcome
    assert one.forecast_of(case) == expected
    if case.name in one.scenario.deleted:
        assert case.name not in one.ledgers
        return
    gone = {*one.scenario.going, *one.scenario.down}
    # One by one also moves what is stuck where both go at once.
    moves = case.outcome in (MOVED, RENAMED) or one.scenario.one_by_one
    if not (one.scenario.disabled and case.outcome == Cause.ONLY_COPY):
        assert bool(one.names(case) & gone) != moves
    if case.outcome == RENAMED:
        assert one.new[case.name] == {}


@pytest.mark.parametrize("name", [name for name in NAMES if not SCENARIOS[name].one_by_one])
def test_as_many_copies_are_written_as_was_said(name: str, lived: dict[str, Lived]) -> None:
    one = lived[name]
    if one.scenario.disabled:
        assert not any(one.new[case.name] for case in one.scenario.cases if case.outcome == STAYED)
        return
    moved = [
        case
        for case in one.scenario.cases
        if case.outcome == MOVED and {*case.ensemble} & {*one.scenario.going} and not case.open
    ]
    written = sum(sum(one.new[case.name].values()) for case in moved if case.name not in one.scenario.deleted)
    # Of a deleted ledger nothing is copied, which nobody foresees.
    deleted = sum(case.entries for case in moved if case.name in one.scenario.deleted)
    work = one.forecast.together.work
    assert work.copied == written + deleted > 0
    assert work.copied_bytes == 12 * work.copied
    assert work.open_ends == sum(
        case.open and case.outcome == MOVED and "x" in case.ensemble for case in one.scenario.cases
    )
    assert work.renamed == sum(case.outcome == RENAMED for case in one.scenario.cases)


@pytest.mark.parametrize("name", [name for name in NAMES if not SCENARIOS[name].disabled])
def test_copies_go_where_was_said(name: str, lived: dict[str, Lived]) -> None:
    one = lived[name]
    letter = {id: letter for letter, id in one.bookies.items()}
    trials = [one.forecast.together, *one.forecast.alone]
    said = {letter[each.bookie_id] for trial in trials for each in trial.loads if each.entries_written}
    took = {
        letter
        for case in one.scenario.cases
        if case.outcome == MOVED and {*case.ensemble} & {*one.scenario.going} and not case.open
        for letter in one.new[case.name]
    }
    assert took <= said


def test_what_fails_is_tried_again_and_leaves_copies_that_no_ensemble_names(lived: dict[str, Lived]) -> None:
    stray = {case.name: lived["mixed"].new[case.name] for case in SCENARIOS["mixed"].cases if case.lacks}
    assert sum(stray["an unreadable entry (3887)"].values()) == 9
    assert lived["mixed"].ends == (WAITING,)


def test_while_it_runs_the_only_copies_can_be_copied_off(lived: dict[str, Lived]) -> None:
    off = lived["switched off"]
    case = next(case for case in off.scenario.cases if case.outcome == Cause.ONLY_COPY)
    assert off.names(case) == {"a", "b"}
    assert off.new[case.name]["a"] >= 5


def test_what_is_in_the_way_of_both_is_in_the_way_of_neither_alone(lived: dict[str, Lived]) -> None:
    forecast = lived["one by one"].forecast
    assert forecast.together.answer is Answer.NEVER
    assert [each.answer for each in forecast.alone] == [Answer.NOW, Answer.NOW]
    assert {*forecast.order} == {*forecast.bookies}
    # Two spares too few stay too few, in whatever order.
    assert lived["together"].forecast.order == ()


@pytest.fixture
def burnt(lived: dict[str, Lived]) -> Burnt:
    found = lived["switched off"].burnt
    assert found is not None
    return found


@pytest.mark.parametrize(("number", "case"), BURNING, ids=[case.name for case in FIRE])
def test_a_ledger_is_lost_in_a_fire_as_was_said(number: int, case: Case, burnt: Burnt) -> None:
    assert burnt.outcome(number, case) == case.outcome
    assert burnt.forecast_of(number) == (case.outcome if case.outcome in (LOST, UNRECOVERABLE) else None)
    if case.open and case.outcome != UNRECOVERABLE:
        assert burnt.read[number]["entries"] == [*range(case.entries)]


def test_as_many_entries_are_lost_and_short_of_copies_as_was_said(burnt: Burnt) -> None:
    failure = burnt.forecast["failure"]
    assert (failure["names"], failure["bookies"]) == ([RACK], 2)
    today, closed = failure["today"]["sure"], [each for each in BURNING if not each[1].open]
    assert failure["today"]["possible"] == today
    for word, fate in (("lost", LOST), ("below_ack", BELOW_ACK), ("below_write", BELOW_WRITE)):
        entries = sum(burnt.fates(*each).count(fate) for each in closed)
        ledgers = sum(burnt.outcome(*each) == fate for each in closed)
        assert (today[word]["ledgers"], today[word]["entries"]) == (ledgers, entries)
        assert entries > 0
    assert today["unrecoverable"] == sum(burnt.outcome(*each) == UNRECOVERABLE for each in BURNING)
    # By the metadata alone every entry has its copies: the missing one makes no difference there.
    promised = failure["promise"]["sure"]
    assert today["lost"]["entries"] - promised["lost"]["entries"] == 1
    assert burnt.forecast["ledgers_concerned"] == sum(c.outcome in (LOST, UNRECOVERABLE) for c in FIRE)


def test_ledgers_are_made_after_a_fire_where_was_said(burnt: Burnt) -> None:
    shapes = {
        (each["ensemble"], each["write_quorum"], each["ack_quorum"]): each["answer"]
        for each in burnt.forecast["writes"]
    }
    assert shapes == {shape: "yes" if made else "no" for shape, made in burnt.creates.items()}
    assert {*shapes.values()} == {"yes", "no"}
