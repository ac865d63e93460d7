"""Forecasts compared with the actions of ``decommissionbookie`` 4.17.2, its Auditor and its workers.

| cluster | setup |
| --- | --- |
| mixed | one bookie is down already: ledgers that move and ledgers that cannot, side by side |
| clean | everything moves, and the command ends; a ledger is deleted meanwhile |
| together | two bookies at once, which share ledgers |
| one by one | the same, in the order of the forecast |
| racks enforced | a spare in the wrong rack |
| switched off | AutoRecovery is disabled; a ledger with one copy is copied off while the bookie runs |

In the last cluster a rack burns first, as ``bkaudit simulate`` forecast. A client then reads every entry.
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
from tests.decommission.fire import BELOW_ACK, BELOW_WRITE, FIRE, LOST, RACK, UNRECOVERABLE, FireResult
from tests.decommission.living import ScenarioResult, run_scenarios
from tests.decommission.scenarios import FIRST_BURNT, MOVED, RENAMED, SCENARIOS, STAYED, WAITING, Case

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAMES = list(SCENARIOS)
BURNING = [*enumerate(FIRE, FIRST_BURNT)]
CASES = [(name, case) for name, scenario in SCENARIOS.items() for case in scenario.cases]


@pytest.fixture(scope="module")
def lived(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, ScenarioResult]:
    def audited(store: Store, bookies: RackedBookies, out: Path, placement: str) -> Path:
        racks = out.parent.parent / "racks.toml"
        lines = [f"{json.dumps(bookie)} = {json.dumps(rack)}" for bookie, rack in bookies.racks.items()]
        racks.write_text("\n".join(["[bookies]", *lines, ""]), "utf-8")
        sources = [str(bookies.directory)]
        return audit(spark, store, sources, out, racks=str(racks), placement=placement).out

    return run_scenarios(tmp_path_factory.mktemp("lived"), audited, SCENARIOS)


@pytest.mark.parametrize("name", NAMES)
def test_command_ends_as_forecast(name: str, lived: dict[str, ScenarioResult]) -> None:
    run = lived[name]
    assert run.forecast.answer is run.scenario.answer
    assert run.ends == run.scenario.ends
    assert {*run.scenario.racks} - run.cookies == ({*run.scenario.going} if "done" in run.ends else set())


@pytest.mark.parametrize(("name", "case"), CASES, ids=[f"{name}: {case.name}" for name, case in CASES])
def test_ledger_moves_or_stays_as_forecast(name: str, case: Case, lived: dict[str, ScenarioResult]) -> None:
    run = lived[name]
    expected = MOVED if case.outcome in (RENAMED, STAYED) else case.outcome
    assert run.forecast_of(case) == expected
    if case.name in run.scenario.deleted:
        assert case.name not in run.ledgers
        return
    letters = {*run.scenario.going, *run.scenario.down}
    # One by one also moves what is stuck where both go at once.
    moves = case.outcome in (MOVED, RENAMED) or run.scenario.one_by_one
    if not (run.scenario.disabled and case.outcome == Cause.ONLY_COPY):
        assert bool(run.names(case) & letters) != moves
    if case.outcome == RENAMED:
        assert run.new[case.name] == {}


@pytest.mark.parametrize("name", [name for name in NAMES if not SCENARIOS[name].one_by_one])
def test_number_of_written_copies_equals_the_forecast(name: str, lived: dict[str, ScenarioResult]) -> None:
    run = lived[name]
    if run.scenario.disabled:
        assert not any(run.new[case.name] for case in run.scenario.cases if case.outcome == STAYED)
        return
    moved = [
        case
        for case in run.scenario.cases
        if case.outcome == MOVED and {*case.ensemble} & {*run.scenario.going} and not case.open
    ]
    written = sum(sum(run.new[case.name].values()) for case in moved if case.name not in run.scenario.deleted)
    # Of a deleted ledger nothing is copied, which nobody foresees.
    deleted = sum(case.entries for case in moved if case.name in run.scenario.deleted)
    work = run.forecast.together.work
    assert work.copied == written + deleted > 0
    assert work.copied_bytes == 12 * work.copied
    assert work.open_ends == sum(
        case.open and case.outcome == MOVED and "x" in case.ensemble for case in run.scenario.cases
    )
    assert work.renamed == sum(case.outcome == RENAMED for case in run.scenario.cases)


@pytest.mark.parametrize("name", [name for name in NAMES if not SCENARIOS[name].disabled])
def test_copies_go_to_the_bookies_of_the_forecast(name: str, lived: dict[str, ScenarioResult]) -> None:
    run = lived[name]
    letter = {id: letter for letter, id in run.bookies.items()}
    trials = [run.forecast.together, *run.forecast.alone]
    targets = {letter[load.bookie_id] for trial in trials for load in trial.loads if load.entries_written}
    receivers = {
        letter
        for case in run.scenario.cases
        if case.outcome == MOVED and {*case.ensemble} & {*run.scenario.going} and not case.open
        for letter in run.new[case.name]
    }
    assert receivers <= targets


def test_failed_move_leaves_9_stray_copies_and_the_command_waiting(lived: dict[str, ScenarioResult]) -> None:
    stray = {case.name: lived["mixed"].new[case.name] for case in SCENARIOS["mixed"].cases if case.lacks}
    assert sum(stray["an unreadable entry (3887)"].values()) == 9
    assert lived["mixed"].ends == (WAITING,)


def test_only_copy_is_recovered_to_other_bookies_while_bookie_runs(lived: dict[str, ScenarioResult]) -> None:
    off = lived["switched off"]
    case = next(case for case in off.scenario.cases if case.outcome == Cause.ONLY_COPY)
    assert off.names(case) == {"a", "b"}
    assert off.new[case.name]["a"] >= 5


def test_two_bookies_that_block_together_can_go_one_by_one(lived: dict[str, ScenarioResult]) -> None:
    forecast = lived["one by one"].forecast
    assert forecast.together.answer is Answer.NEVER
    assert [trial.answer for trial in forecast.alone] == [Answer.NOW, Answer.NOW]
    assert {*forecast.order} == {*forecast.bookies}
    # Two spares too few stay too few, in whatever order.
    assert lived["together"].forecast.order == ()


@pytest.fixture
def burnt(lived: dict[str, ScenarioResult]) -> FireResult:
    result = lived["switched off"].burnt
    assert result is not None
    return result


@pytest.mark.parametrize(("number", "case"), BURNING, ids=[case.name for case in FIRE])
def test_ledger_loss_in_a_rack_fire_equals_the_forecast(number: int, case: Case, burnt: FireResult) -> None:
    assert burnt.outcome(number, case) == case.outcome
    assert burnt.forecast_of(number) == (case.outcome if case.outcome in (LOST, UNRECOVERABLE) else None)
    if case.open and case.outcome != UNRECOVERABLE:
        assert burnt.read[number]["entries"] == [*range(case.entries)]


def test_lost_and_under_replicated_entry_counts_equal_the_forecast(burnt: FireResult) -> None:
    failure = burnt.forecast["failure"]
    assert (failure["names"], failure["bookies"]) == ([RACK], 2)
    today, closed = failure["today"]["sure"], [pair for pair in BURNING if not pair[1].open]
    assert failure["today"]["possible"] == today
    for word, fate in (("lost", LOST), ("below_ack", BELOW_ACK), ("below_write", BELOW_WRITE)):
        entries = sum(burnt.fates(*pair).count(fate) for pair in closed)
        ledgers = sum(burnt.outcome(*pair) == fate for pair in closed)
        assert (today[word]["ledgers"], today[word]["entries"]) == (ledgers, entries)
        assert entries > 0
    assert today["unrecoverable"] == sum(burnt.outcome(*pair) == UNRECOVERABLE for pair in BURNING)
    # By the metadata alone every entry has its copies: the missing one makes no difference there.
    promised = failure["promise"]["sure"]
    assert today["lost"]["entries"] - promised["lost"]["entries"] == 1
    assert burnt.forecast["ledgers_concerned"] == sum(c.outcome in (LOST, UNRECOVERABLE) for c in FIRE)


def test_ledgers_can_be_created_after_a_fire_as_forecast(burnt: FireResult) -> None:
    shapes = {
        (write["ensemble"], write["write_quorum"], write["ack_quorum"]): write["answer"]
        for write in burnt.forecast["writes"]
    }
    assert shapes == {shape: "yes" if is_created else "no" for shape, is_created in burnt.creates.items()}
    assert {*shapes.values()} == {"yes", "no"}
