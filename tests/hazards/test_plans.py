"""Required and forbidden content of a plan for each hazard case: the column "must" of the cases."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from auditor.actions.gate import permit
from auditor.actions.objects import bookie, ledger
from auditor.model.holds import ActionKind
from auditor.model.permission import ActionObject, Refused
from auditor.model.plan import PlanStep, RefusedStep, RepairPlan
from auditor.plan.plan_file import make_plan
from tests.hazards.cases import CASES, Hazards

if TYPE_CHECKING:
    from auditor.runs.reader import RunReader


def plan_of(hazards: Hazards, name: str, number: int = 2) -> RepairPlan:
    return make_plan(hazards.run(name, number))


def steps(plan: RepairPlan, *kinds: ActionKind) -> list[PlanStep]:
    return [step for step in plan.steps if step.kind in kinds]


def refused(plan: RepairPlan, kind: ActionKind) -> list[RefusedStep]:
    return [step for step in plan.refused if step.kind is kind]


def ledgers_of(*plan_steps: PlanStep) -> set[int]:
    return {int(planned.ledger_id) for step in plan_steps for planned in step.ledgers}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("number", [1, 2])
def test_no_hold_forbids_a_step(number: int, name: str, hazards: Hazards) -> None:
    run = hazards.run(name, number)
    for step in make_plan(run).steps:
        objects = [ledger(int(planned.ledger_id)) for planned in step.ledgers]
        objects += [bookie(step.bookie_id)] if step.bookie_id is not None else []
        assert not isinstance(permit(run, step.kind, objects), Refused), step
        for command in step.commands:
            for kind, target in _manual_actions(command.text):
                assert not isinstance(permit(run, kind, [target]), Refused), command


def _manual_actions(text: str) -> list[tuple[ActionKind, ActionObject]]:
    words = text.split()
    if text.startswith("stop the bookie "):
        return [(ActionKind.STOP, bookie(words[3]))]
    return [(ActionKind.START, bookie(words[1]))] if text.startswith("start ") else []


@pytest.mark.parametrize("name", CASES)
def test_plan_combines_start_or_delete_cookie_with_no_contrary_step(name: str, hazards: Hazards) -> None:
    by_bookie: dict[str, set[ActionKind]] = {}
    contrary = {ActionKind.START, ActionKind.STOP, ActionKind.RECOVER, ActionKind.DELETE_COOKIE}
    for step in plan_of(hazards, name).steps:
        if step.bookie_id is not None and step.kind in contrary:
            by_bookie.setdefault(step.bookie_id, set()).add(step.kind)
    for kinds in by_bookie.values():
        assert ActionKind.START not in kinds or len(kinds) == 1
        assert ActionKind.DELETE_COOKIE not in kinds or len(kinds) == 1


def test_h2_plan_restores_metadata_first(hazards: Hazards) -> None:
    plan = plan_of(hazards, "h2")
    assert plan.steps[0].kind is ActionKind.RESTORE_METADATA
    assert len(plan.steps[0].ledgers) == 8


def test_h3_plan_does_not_recover_ledgers_with_differing_copies(hazards: Hazards) -> None:
    run = hazards.run("h3", 2)
    [finding] = [finding for finding in run.findings if finding.id == "replica-mismatch"]
    plan = make_plan(run)
    assert finding.ledger_id not in ledgers_of(*steps(plan, ActionKind.RECOVER))
    assert any("replica-mismatch" in step.holds for step in refused(plan, ActionKind.RECOVER))


def test_h5_plan_refuses_to_delete_cookies_while_metadata_is_suspect(hazards: Hazards) -> None:
    plan = plan_of(hazards, "h5")
    assert steps(plan, ActionKind.DELETE_COOKIE) == []
    assert all("metadata-suspect" in step.holds for step in refused(plan, ActionKind.DELETE_COOKIE))
    assert refused(plan, ActionKind.DELETE_COOKIE)


def test_h6_plan_refuses_to_recover_from_an_alias(hazards: Hazards) -> None:
    plan = plan_of(hazards, "h6")
    assert steps(plan, ActionKind.DELETE_COOKIE, ActionKind.RECOVER, ActionKind.START) == []
    assert any("bookie-alias" in step.holds for step in refused(plan, ActionKind.RECOVER))


def test_h10_plan_refuses_recovery_and_names_the_bookie_with_the_last_copy(hazards: Hazards) -> None:
    plan = plan_of(hazards, "h10")
    [copies] = refused(plan, ActionKind.RECOVER)
    assert copies.ledgers == ("30",)
    assert "keep bk4:3181" in copies.way_out
    [stop] = plan.steps
    assert "by hand: start" not in {f"{command.role}: {command.text}" for command in stop.commands}


def test_h11_plan_has_no_recover_or_delete_steps(hazards: Hazards) -> None:
    plan = plan_of(hazards, "h11")
    assert steps(plan, ActionKind.RECOVER, ActionKind.DELETE_LEDGER, ActionKind.DELETE_COOKIE) == []


def test_h12_disks_of_another_cluster_get_no_cookie_and_their_bookie_is_stopped(hazards: Hazards) -> None:
    plan = plan_of(hazards, "h12")
    assert steps(plan, ActionKind.MAKE_COOKIE) == []
    [cookie] = refused(plan, ActionKind.MAKE_COOKIE)
    assert cookie.reason == "other-cluster"
    # It is stopped for good: that it could not start again is no reason to let its collector run.
    run = hazards.run("h12")
    [finding] = [candidate for candidate in run.findings if candidate.id == "instance-mismatch"]
    stops = [action for action in run.report.run.actions or () if action["kind"] == "stop"]
    assert {name for action in stops for name in action["bookies"]} == {finding.bookie_id}


def test_h16_a_bookie_without_its_disk_is_not_started(hazards: Hazards) -> None:
    plan = plan_of(hazards, "h16")
    assert not [step for step in plan.steps if any(c.text == "start bk1:3181" for c in step.commands)]


def test_h17_the_bookie_with_the_only_copy_is_started(hazards: Hazards) -> None:
    plan = plan_of(hazards, "h17")
    [start] = steps(plan, ActionKind.START)
    assert start.bookie_id == "bk2:3181"
    assert 30 not in ledgers_of(*steps(plan, ActionKind.RECOVER, ActionKind.DELETE_LEDGER))


def test_h20_plan_starts_members_and_does_not_wait_recover_or_delete_ledgers(hazards: Hazards) -> None:
    plan = plan_of(hazards, "h20")
    lost = {*range(20, 25)}
    assert not lost & ledgers_of(*steps(plan, ActionKind.WAIT, ActionKind.RECOVER, ActionKind.DELETE_LEDGER))
    assert steps(plan, ActionKind.START)


def test_plan_from_data_older_than_a_day_has_no_dangerous_step(hazards: Hazards) -> None:
    run: RunReader = hazards.run("h10", 2)
    run.holds.now_ms = run.holds.data_time + 25 * 3_600_000
    assert steps(make_plan(run), ActionKind.RECOVER, ActionKind.REBUILD_INDEX, ActionKind.DELETE_COOKIE) == []
