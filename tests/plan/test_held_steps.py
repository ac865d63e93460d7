"""Tests of steps that are kept out of a plan, of their replacements, and of the order of steps."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from auditor.actions.gate import permit
from auditor.actions.objects import bookie as bookie_object
from auditor.model.finding import Severity, Urgency
from auditor.model.holds import ActionKind as Kind
from auditor.model.holds import FactReason
from auditor.model.permission import Allowed
from auditor.model.plan import PlanStep, RefusedStep
from auditor.plan.parts import make_step
from auditor.plan.plan_file import make_plan
from auditor.reports.plan import plan_text
from tests.plan.made import (
    BOOKIES,
    HOUR,
    NOW_MS,
    hold,
    ledger,
    make_finding,
    mark,
    refusals_of,
    run_of,
    steps_of,
    typed_commands,
)
from tests.plan.test_make import COOKIE, FIRST_DIRS, FORGOTTEN, LOST, ON_LOST, PAIR, RETIRED, UNUSED

DAY = 24 * HOUR
BELOW = make_finding("below-ack-quorum", 7, lacking=["a:1"])
GC = make_finding("gc-would-delete-live", None, "a:1", severity=Severity.CRITICAL, reasons=["last-copy"])
REINDEX = make_finding("ledger-not-indexed", 7, "a:1", path="/x/current/locations/1.sst", reason="-")
UNOWNED = make_finding(
    "ledger-unowned", 7, severity=Severity.NOTE, state="CLOSED", seen_before=True, owners_complete=True
)
ORPHAN_COOKIE = make_finding("cookie-missing", None, "a:1")


def on_ledger(kind: Kind, reason: str) -> dict[str, Any]:
    return hold("7", kind, reason=reason, object="ledger")


CASES = {
    "6": ([BELOW], on_ledger(Kind.RECOVER, "replica-mismatch"), Kind.RECOVER),
    "7": ([UNUSED], hold("e:1", Kind.DELETE_COOKIE, reason="metadata-suspect"), Kind.DELETE_COOKIE),
    "8, open": ([REINDEX], hold("a:1", Kind.REBUILD_INDEX, reason="open-ledgers"), Kind.REBUILD_INDEX),
    "8, stop": ([REINDEX], hold("a:1", Kind.STOP, reason="cookie-missing"), Kind.REBUILD_INDEX),
    "8, alone": ([REINDEX], hold("a:1", Kind.STOP, reason="last-known-copy"), Kind.REBUILD_INDEX),
    "13": ([ORPHAN_COOKIE], hold("a:1", Kind.MAKE_COOKIE, reason="instance-mismatch"), Kind.MAKE_COOKIE),
    "17": ([BELOW], on_ledger(Kind.RECOVER, "copies-on-down-bookies"), Kind.RECOVER),
    "stop": ([GC], hold("a:1", Kind.STOP, reason="index-incomplete"), Kind.STOP),
    "delete": ([UNOWNED], on_ledger(Kind.DELETE_LEDGER, "owner-dangling"), Kind.DELETE_LEDGER),
}
"""Rows of what must be refused: findings that ask for a step, a hold that forbids it, and its kind."""
TABLES: dict[str, Any] = {
    "ledgers": [PAIR],
    "cookies": [COOKIE],
    "directories": [FIRST_DIRS | {"owner": "a:1"}],
}


@pytest.mark.parametrize(("findings", "hold_row", "kind"), CASES.values(), ids=CASES)
def test_hold_turns_a_step_into_a_refusal(findings: Any, hold_row: Any, kind: Kind, tmp_path: Path) -> None:
    free = run_of(tmp_path / "free", findings, RETIRED, **TABLES)
    assert [step.kind for step in make_plan(free).steps] == [kind]
    run = run_of(tmp_path / "held", findings, RETIRED, holds=[hold_row], **TABLES)
    plan = make_plan(run)
    assert plan.steps == ()
    [refused] = plan.refused
    assert (refused.kind, refused.reason, refused.holds) == (kind, "held", (hold_row["reason"],))
    assert hold_row["message"] in refused.why
    assert refused.way_out


def test_held_ledgers_are_split_from_the_step(tmp_path: Path) -> None:
    findings = [make_finding("below-ack-quorum", id, lacking=["a:1"]) for id in (7, 8, 9)]
    hold_rows = [hold("8", Kind.RECOVER, reason="replica-mismatch", object="ledger")]
    rows = [ledger(id, "a:1", "b:1") for id in (7, 8, 9)]
    plan = make_plan(run_of(tmp_path, findings, ledgers=rows, holds=hold_rows))
    [step] = plan.steps
    assert ([row.ledger_id for row in step.ledgers], step.ledger_count) == (["7", "9"], 2)
    [refused] = plan.refused
    assert (refused.ledgers, refused.ledger_count) == (("8",), 1)


def test_wait_step_needs_a_registered_member_and_a_running_worker(tmp_path: Path) -> None:
    hold_rows = [hold("7", Kind.WAIT, Kind.RECOVER, reason="no-member-registered", object="ledger")]
    marks = [mark(7, "a:1")]
    run = run_of(tmp_path / "held", [BELOW], ledgers=[PAIR], marks=marks, holds=hold_rows)
    assert make_plan(run).steps == ()
    assert refusals_of(run)["wait: held"].holds == ("no-member-registered",)
    idle = run_of(tmp_path / "idle", [BELOW], ledgers=[PAIR], marks=marks, cluster=[])
    assert steps_of(idle, Kind.WAIT) == []


@pytest.mark.parametrize("rows", [{"owner": "a:1"}, {"owner": None, "place": "a:1"}])
def test_disks_of_another_cluster_get_no_cookie(rows: Any, tmp_path: Path) -> None:
    directories = [FIRST_DIRS | {"owner": "a:1"}, FIRST_DIRS | {"instance_id": "another"} | rows]
    run = run_of(tmp_path, [make_finding("cookie-missing", None, "a:1")], directories=directories)
    assert make_plan(run).steps == ()
    assert "instance id of another cluster, another" in refusals_of(run)["make-cookie: other-cluster"].why


def test_a_record_without_digest_and_password_is_not_recovered(tmp_path: Path) -> None:
    rows = [PAIR | {"digest_type": None}, ledger(8, "a:1", "b:1")]
    findings = [BELOW, make_finding("below-ack-quorum", 8, lacking=["a:1"])]
    run = run_of(tmp_path / "one", findings, ledgers=rows)
    [step] = make_plan(run).steps
    assert [row.ledger_id for row in step.ledgers] == ["8"]
    refused = refusals_of(run)["recover: shell-refuses"]
    assert refused.ledgers == ("7",)
    assert "digestType and passwd" in refused.way_out
    lost = run_of(tmp_path / "lost", [ON_LOST], LOST, ledgers=rows, cluster=[])
    [step] = make_plan(lost).steps
    assert typed_commands(step)[1] == "do: bookkeeper shell recover -l 8 a:1"


@pytest.mark.parametrize("works", [True, False])
def test_bookie_wide_command_is_not_used_if_a_ledger_is_held(works: bool, tmp_path: Path) -> None:
    rows = [PAIR, ledger(8, "a:1", "b:1")]
    hold_rows = [hold("8", Kind.RECOVER, reason="replica-mismatch", object="ledger")]
    tables: dict[str, Any] = {"ledgers": rows, "holds": hold_rows} | ({} if works else {"cluster": []})
    run = run_of(tmp_path, [ON_LOST, FORGOTTEN], LOST, **tables)
    [step] = make_plan(run).steps
    assert typed_commands(step)[1] == "do: bookkeeper shell recover -l 7 a:1"
    assert refusals_of(run)["recover: held"].ledgers == ("8",)


def test_lost_bookie_that_may_have_last_copies_is_started_and_not_copied(tmp_path: Path) -> None:
    hold_rows = [hold("7", Kind.RECOVER, reason="copies-on-down-bookies", object="ledger")]
    findings = [ON_LOST, make_finding("below-ack-quorum", 7, lacking=["b:1"])]
    rows = [PAIR, ledger(8, "a:1", "b:1")]
    run = run_of(tmp_path / "run", findings, LOST, ledgers=rows, holds=hold_rows, cluster=[])
    [step] = make_plan(run).steps
    assert (step.kind, step.bookie_id, typed_commands(step)) == (Kind.START, "a:1", ["by hand: start a:1"])
    assert list(refusals_of(run)) == ["recover: held"]
    away = [*hold_rows, hold("a:1", Kind.START, reason="disk-version-missing")]
    run = run_of(tmp_path / "away", findings, LOST, ledgers=rows, holds=away, marks=[mark(8, "a:1")])
    assert not [step for step in make_plan(run).steps if "start a:1" in " ".join(typed_commands(step))]
    assert refusals_of(run)["start: held"].holds == ("disk-version-missing",)


def test_exchanged_disks_are_put_back_and_no_ledger_is_copied(tmp_path: Path) -> None:
    def carries(bookie: str, owner: str) -> Any:
        directories = [{"path": f"/{bookie}/ledgers", "role": "ledgers", "names": owner, "owner": owner}]
        return make_finding("disk-id-mismatch", None, bookie, directories=directories)

    lacking = [
        make_finding("below-ack-quorum", id, lacking=["a:1" if id % 2 else "b:1"]) for id in range(7, 61)
    ]
    findings = [carries("a:1", "b:1"), carries("b:1", "a:1"), *lacking]
    rows = [ledger(id, "a:1", "b:1") for id in range(7, 61)]
    run = run_of(tmp_path, findings, {"b:1": {"registered": None}}, ledgers=rows)
    [step] = make_plan(run).steps
    assert typed_commands(step) == [
        "by hand: stop the bookie a:1",
        "by hand: move each of these directories back to its own place: "
        "'/a:1/ledgers (of b:1)', '/b:1/ledgers (of a:1)'",
    ]
    assert step.about == "move the disks of a:1, b:1 back to their places"
    assert refusals_of(run)["recover: disks-exchanged"].ledger_count == 54
    assert make_plan(run).without_step == ()


def test_exchanged_directories_of_one_bookie_are_put_back(tmp_path: Path) -> None:
    directories = [{"path": f"/l{number}", "wrong": 9, "right": 0} for number in (1, 2)]
    finding = make_finding("ledgers-in-wrong-directory", None, "a:1", exchanged=True, directories=directories)
    added = make_finding("ledgers-in-wrong-directory", None, "b:1", exchanged=False, directories=directories)
    [step] = make_plan(run_of(tmp_path, [finding, added])).steps
    assert (
        typed_commands(step)[1] == "by hand: move each of these directories back to its own place: /l1, /l2"
    )


@pytest.mark.parametrize("reason", [FactReason.LAST_SERVED_COPY, FactReason.LAST_KNOWN_COPY])
def test_copies_are_planned_before_a_held_stop(reason: FactReason, tmp_path: Path) -> None:
    hold_rows = [hold("a:1", Kind.STOP, reason=str(reason))]
    lacking = {"scope_id": 0, "ledger_id": 7, "missing": [{"bookie_id": "b:1", "groups": b"", "count": 10}]}
    findings = [
        GC,
        make_finding("below-ack-quorum", 7, lacking=["b:1"]),
        make_finding("entry-lost", 8, lacking=["c:1"]),
    ]
    rows = [PAIR, ledger(9, "a:1", quorum=1)]
    availability = [{"scope_id": 0, "ledger_id": id, "bookie_id": "a:1", "state": "ok"} for id in (7, 9)]
    run = run_of(
        tmp_path, findings, ledgers=rows, judged=[lacking], availability=availability, holds=hold_rows
    )
    plan = make_plan(run)
    assert {step.kind for step in plan.steps} == {Kind.RECOVER}
    assert {(step.bookie_id, step.urgency, step.ledgers[0].ledger_id) for step in plan.steps} == {
        ("b:1", "destroys-data", "7"), ("a:1", "destroys-data", "9"),
    }  # fmt: skip
    refused = refusals_of(run)["stop: held"]
    assert refused.way_out.startswith("copy first, then stop")


def test_no_ledger_is_copied_if_every_bookie_should_stop(tmp_path: Path) -> None:
    """After the store got another instance id, each copy would go to a bookie that should stop too."""
    findings = [make_finding("metadata-suspect", None, name, severity=Severity.CRITICAL) for name in BOOKIES]
    hold_rows = [hold(name, Kind.STOP, reason="last-served-copy") for name in BOOKIES]
    availability = [{"scope_id": 0, "ledger_id": 7, "bookie_id": name, "state": "ok"} for name in BOOKIES]
    run = run_of(tmp_path, findings, ledgers=[PAIR], availability=availability, holds=hold_rows)
    plan = make_plan(run)
    assert plan.steps == ()
    assert {refused.kind for refused in plan.refused} == {Kind.STOP}
    for refused in plan.refused:
        assert refused.way_out.startswith("the findings require a stop of every writable bookie; ")


def test_most_urgent_steps_with_fewest_copies_come_first(tmp_path: Path) -> None:
    def lacks(id: int, bookie: str, copies: int, urgency: str = "below-ack-quorum") -> Any:
        evidence: dict[str, Any] = {"write_quorum": 3, "copies_missing_or_unknown": 3 - copies}
        finding = make_finding("below-ack-quorum", id, lacking=[bookie], **evidence)
        return replace(finding, urgency=Urgency(urgency))

    findings = [
        make_finding("cookie-missing", None, "a:1"), replace(GC, bookie_id="d:1"),
        lacks(7, "a:1", 2), lacks(8, "b:1", 2), lacks(9, "b:1", 1), lacks(10, "c:1", 2, "near-loss"),
    ]  # fmt: skip
    rows = [ledger(id, "a:1", "b:1", "c:1") for id in (7, 8, 9, 10)]
    run = run_of(tmp_path, findings, ledgers=rows, directories=TABLES["directories"])
    plan = make_plan(run)
    assert [(step.kind, step.bookie_id, step.fewest_copies) for step in plan.steps] == [
        (Kind.STOP, "d:1", None), (Kind.RECOVER, "c:1", 2), (Kind.RECOVER, "b:1", 1),
        (Kind.RECOVER, "a:1", 2), (Kind.MAKE_COOKIE, "a:1", None),
    ]  # fmt: skip
    assert [row.ledger_id for row in plan.steps[2].ledgers] == ["9", "8"]


def test_step_prints_no_start_that_a_hold_forbids(tmp_path: Path) -> None:
    hold_rows = [hold("a:1", Kind.START, reason="gc-would-delete-live")]
    for finding, kind in ((GC, Kind.STOP), (REINDEX, Kind.REBUILD_INDEX)):
        run = run_of(tmp_path / str(kind), [finding], ledgers=[PAIR], holds=hold_rows)
        [step] = steps_of(run, kind)
        assert "by hand: stop the bookie a:1" in typed_commands(step)
        assert "by hand: start a:1" not in typed_commands(step)
        assert "stays stopped" in " ".join([step.effect, *step.needs])


def test_rebuild_step_starts_a_bookie_held_for_that_index(tmp_path: Path) -> None:
    hold_rows = [hold("a:1", Kind.START, reason="ledger-not-indexed")]
    run = run_of(tmp_path, [REINDEX], ledgers=[PAIR], holds=hold_rows)
    [step] = steps_of(run, Kind.REBUILD_INDEX)
    assert typed_commands(step)[-1] == "by hand: start a:1"


def test_old_runs_and_first_runs_refuse_dangerous_steps(tmp_path: Path) -> None:
    old = run_of(tmp_path / "old", [BELOW, GC], ledgers=[PAIR])
    old.holds.now_ms = NOW_MS + DAY + 1
    plan = make_plan(old)
    assert [step.kind for step in plan.steps] == [Kind.STOP]
    assert [(refused.kind, refused.reason) for refused in plan.refused] == [(Kind.RECOVER, "audit-again")]
    assert plan_text(plan, old.holds.now_ms).startswith("expired at ")
    first = {"total": 0, "urgent": 0, "carried": 0, "earlier_run": None}
    run = run_of(tmp_path / "first", [UNUSED], RETIRED, {"holds": first}, cookies=[COOKIE])
    assert refusals_of(run)["delete-cookie: audit-again"].why.startswith("no earlier run")


def test_step_needs_permission_for_every_object(tmp_path: Path) -> None:
    run = run_of(tmp_path, [])
    allowed = permit(run, Kind.STOP, [bookie_object("a:1")])
    assert isinstance(allowed, Allowed)

    def step(**fields: Any) -> PlanStep | RefusedStep:
        return make_step(
            allowed,
            "a",
            (),
            (),
            urgency="rest",
            effect_text="",
            risk_text="",
            undo_text="",
            expiry_time=0,
            **fields,
        )

    assert step(bookie_id="a:1").kind is Kind.STOP
    with pytest.raises(ValueError, match="not permitted for bookie b:1"):
        step(bookie_id="b:1")
    with pytest.raises(ValueError, match="not permitted for ledger 0/7"):
        step(ledgers=make_plan(run_of(tmp_path / "2", [BELOW], ledgers=[PAIR])).steps[0].ledgers)


def test_plan_starts_no_lost_bookie_that_a_hold_keeps_stopped(tmp_path: Path) -> None:
    ledgers = [PAIR, ledger(9, "a:1", "b:1")]
    start_hold = hold("a:1", Kind.START, reason="start-refused")
    cases: list[dict[str, Any]] = [{}, {"cluster": []}]  # the second has no AutoRecovery
    for cluster in cases:
        free, refused = (
            run_of(
                tmp_path / f"{len(cluster)}{len(holds)}", [ON_LOST, FORGOTTEN], LOST,
                ledgers=ledgers, holds=holds, **cluster,
            )
            for holds in ([], [start_hold])
        )  # fmt: skip
        texts = [" ".join(plan_text(make_plan(run)).split()) for run in (free, refused)]
        assert "otherwise, start it and copy nothing" in texts[0]
        assert "start it and" not in texts[1]
        assert "do not start it in its present state: " in texts[1]
        assert "(start-refused)" in texts[1]


OTHER_LEDGER_HOLD = hold("99", Kind.RECOVER, reason="replica-mismatch", object="ledger")


def test_marking_of_all_ledgers_is_not_used_while_one_is_held(tmp_path: Path) -> None:
    """`triggeraudit` marks the ledgers of every lost bookie, so those are copied one by one instead."""
    ledgers = [PAIR, ledger(9, "a:1", "c:1"), ledger(99, "b:1", "c:1")]
    run = run_of(tmp_path, [ON_LOST, FORGOTTEN], LOST, ledgers=ledgers, marks=[], holds=[OTHER_LEDGER_HOLD])
    plan = make_plan(run)
    [step] = plan.steps
    assert typed_commands(step) == [
        "look: bookkeeper shell recover -dr -l ID a:1", "do: bookkeeper shell recover -l ID a:1",
    ]  # fmt: skip
    assert [planned_ledger.ledger_id for planned_ledger in step.ledgers] == ["7", "9"]
    assert "triggeraudit" not in plan_text(plan, NOW_MS + HOUR, 100)


@pytest.mark.parametrize("hold_rows", [[], [OTHER_LEDGER_HOLD]], ids=["free", "held"])
def test_replication_is_enabled_only_if_every_ledger_may_be_copied(hold_rows: Any, tmp_path: Path) -> None:
    cluster = [{"fact": "auditor", "value": "b:1"}, {"fact": "replication-disabled", "value": ""}]
    run = run_of(tmp_path, [ON_LOST], LOST, ledgers=[PAIR], cluster=cluster, holds=hold_rows)
    way_out = refusals_of(run)["recover: replication-off"].way_out
    assert ("then enable it" in way_out) == (not hold_rows)
    assert ("leave it disabled" in way_out) == bool(hold_rows)


@pytest.mark.parametrize("hold_rows", [[], [OTHER_LEDGER_HOLD]], ids=["free", "held"])
def test_autorecovery_is_started_only_if_every_ledger_may_be_copied(hold_rows: Any, tmp_path: Path) -> None:
    run = run_of(tmp_path, [ON_LOST], LOST, ledgers=[PAIR], cluster=[], holds=hold_rows)
    [step] = make_plan(run).steps
    assert ("preferably: start AutoRecovery on a bookie" in step.needs) == (not hold_rows)


def stops_of(*bookies: str) -> list[Any]:
    return [replace(GC, bookie_id=name, fingerprint=f"{number:016x}") for number, name in enumerate(bookies)]


def test_two_bookies_with_the_only_copies_are_not_both_stopped(tmp_path: Path) -> None:
    """Neither bookie has a hold: each may stop while the other one runs."""
    run = run_of(tmp_path, stops_of("a:1", "b:1", "c:1"), ledgers=[PAIR, ledger(8, "b:1", "c:1", "d:1")])
    plan = make_plan(run)
    assert [step.bookie_id for step in plan.steps] == ["a:1", "c:1"]
    [refused] = plan.refused
    assert (refused.kind, refused.reason) == (Kind.STOP, "last-copy")
    assert (
        refused.why == "only a:1, b:1 serve some entries, and this plan already stops the others of these "
        "bookies"
    )


def test_two_bookies_may_both_stop_if_a_third_has_a_copy(tmp_path: Path) -> None:
    run = run_of(tmp_path, stops_of("a:1", "b:1"), ledgers=[ledger(7, "a:1", "b:1", "c:1", quorum=3)])
    assert [step.bookie_id for step in make_plan(run).steps] == ["a:1", "b:1"]


def test_index_is_not_rebuilt_while_the_only_other_bookie_is_stopped(tmp_path: Path) -> None:
    rows = [replace(GC, bookie_id="b:1"), REINDEX]
    run = run_of(tmp_path, rows, {}, {"entry_logs": True}, ledgers=[PAIR])
    plan = make_plan(run)
    assert [step.bookie_id for step in plan.steps] == ["b:1"]
    assert [(refused.kind, refused.reason) for refused in plan.refused] == [(Kind.REBUILD_INDEX, "last-copy")]
    rebuild_run = run_of(tmp_path / "alone", [REINDEX], {}, {"entry_logs": True}, ledgers=[PAIR])
    assert [step.kind for step in make_plan(rebuild_run).steps] == [Kind.REBUILD_INDEX]


def test_too_many_joint_holders_allow_only_one_stop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("auditor.simulate.exposure.MAX_JOINT_HOLDERS", 0)
    run = run_of(tmp_path, stops_of("a:1", "b:1", "c:1"), ledgers=[PAIR])
    assert [step.bookie_id for step in make_plan(run).steps] == ["a:1"]
