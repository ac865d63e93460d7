"""The gate's effect on decommissioning: the answer is never `now` while a hold forbids it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner

from auditor.actions.gate import MAX_DATA_AGE_MS, permit
from auditor.actions.objects import bookie
from auditor.cli import main
from auditor.decommission.rehearse import rehearse
from auditor.model.decommission import Answer, Cause, Rehearsal
from auditor.model.holds import ActionKind
from auditor.reports.decommission import decommission_json, decommission_text
from auditor.reports.schema import decommission_schema
from auditor.runs.reader import RunReader
from tests.decommission.made_clusters import CLEAN_FACTS, reopen_run, run_of
from tests.decommission.test_answers import ALL_WRITE, HOUR, PLAIN, SCANNED, ledger

HOLD: dict[str, Any] = {
    "object": "bookie",
    "key": "a",
    "forbids": ["decommission"],
    "reason": "gc-would-delete-live",
    "certain": True,
    "urgency": "destroys-data",
    "count": 1,
    "accepted": False,
    "first_seen": SCANNED,
    "lift": "finding-gone",
    "carried": False,
    "message": "a: it holds the only copy of entries 0-9 of ledger 30",
}

CERTAIN_HOLDS = {
    "last copy outside its ensembles": ("foreign-copy", "destroys-data", "fact-gone"),
    "metadata suspect": ("metadata-suspect", "destroys-data", "finding-gone"),
    "alias": ("bookie-alias", "destroys-data", "data-elsewhere"),
    "its copy differs": ("replica-mismatch", "rest", "finding-gone"),
    "entries past the end": ("copies-differ", "rest", "fact-gone"),
}


def run_with_holds(path: Path, *rows: dict[str, Any], **facts: Any) -> RunReader:
    return run_of(path, [PLAIN], ALL_WRITE, set(), holds=[*rows], facts=facts)


def causes(rehearsal: Rehearsal) -> list[Cause]:
    return [blocker.cause for blocker in rehearsal.together.blockers]


@pytest.mark.parametrize("case", CERTAIN_HOLDS)
def test_certain_hold_refuses_decommissioning(case: str, tmp_path: Path) -> None:
    reason, urgency, lift = CERTAIN_HOLDS[case]
    hold = HOLD | {"reason": reason, "urgency": urgency, "lift": lift}
    outcome = rehearse(run_with_holds(tmp_path, hold), ["a"])
    assert (outcome.answer, outcome.exit_code, causes(outcome)) == (Answer.NEVER, 1, [Cause.PROVED_HOLD])
    text = decommission_text(outcome)
    first, _, tail = " ".join(text.split()).partition("(exit 1)")
    assert first == (
        f"decommission a: refused. It holds the only copy of entries 0-9 of ledger 30 ({reason}). "
    )
    assert outcome.together.holds[0].lifted_when in tail
    assert "decommissionbookie" not in text
    assert outcome.together.commands == ()


def test_uncertain_hold_alone_makes_the_answer_unknown(tmp_path: Path) -> None:
    hold = HOLD | {"reason": "unread-disk", "certain": False, "urgency": "rest", "lift": "fact-gone"}
    outcome = rehearse(run_with_holds(tmp_path, hold), ["a"])
    assert (outcome.answer, outcome.exit_code, causes(outcome)) == (Answer.UNKNOWN, 3, [Cause.DOUBTFUL_HOLD])
    assert "decommissionbookie" not in decommission_text(outcome)


@pytest.mark.parametrize(
    ("reason", "cause", "way_out"),
    [
        ("open-ledgers", Cause.OPEN_LEDGERS, "make the bookie read-only"),
        ("last-served-copy", Cause.LAST_SERVED, "start these bookies again first"),
    ],
)
def test_hold_that_can_be_lifted_while_the_bookie_runs_gives_the_answer_after(
    reason: str, cause: Cause, way_out: str, tmp_path: Path
) -> None:
    hold = HOLD | {"reason": reason, "urgency": "rest", "lift": "fact-gone"}
    outcome = rehearse(run_with_holds(tmp_path, hold), ["a"])
    assert (outcome.answer, outcome.exit_code, causes(outcome)) == (Answer.AFTER, 1, [cause])
    text = " ".join(decommission_text(outcome).split())
    assert way_out in text
    assert "decommissionbookie" not in text


def test_hold_on_stop_refuses_a_running_bookie_but_not_a_stopped_bookie(tmp_path: Path) -> None:
    hold = HOLD | {"reason": "cookie-missing", "forbids": ["stop"]}
    assert rehearse(run_with_holds(tmp_path, hold), ["a"]).answer is Answer.NEVER
    stopped = run_of(tmp_path, [PLAIN], ALL_WRITE | {"a": None}, set(), holds=[hold])
    assert rehearse(stopped, ["a"]).answer is Answer.NOW


NO_EARLIER = {"holds": CLEAN_FACTS["holds"] | {"earlier_run": None}}  # type: ignore[operator]  # a mapping


@pytest.mark.parametrize(
    ("facts", "age", "cause"),
    [
        (NO_EARLIER, 0, Cause.NO_EARLIER_RUN),
        ({"holds": None}, 0, Cause.RUN_LACKS_HOLDS),
        ({}, MAX_DATA_AGE_MS + 1, Cause.DATA_TOO_OLD),
        ({}, -MAX_DATA_AGE_MS, Cause.DATA_OF_FUTURE),
    ],
)
def test_run_without_holds_or_of_wrong_age_makes_the_answer_unknown(
    facts: dict[str, Any], age: int, cause: Cause, tmp_path: Path
) -> None:
    run = run_with_holds(tmp_path, **facts)
    run.holds.now_ms += age
    outcome = rehearse(run, ["a"])
    assert (outcome.answer, outcome.exit_code, causes(outcome)) == (Answer.UNKNOWN, 3, [cause])
    text = decommission_text(outcome)
    assert "audit again" in text or "run a second audit" in text
    assert "decommissionbookie" not in text


def test_certain_hold_refuses_also_without_an_earlier_run(tmp_path: Path) -> None:
    run = run_with_holds(tmp_path, HOLD, **NO_EARLIER)
    outcome = rehearse(run, ["a"])
    assert (outcome.answer, causes(outcome)) == (Answer.NEVER, [Cause.PROVED_HOLD, Cause.NO_EARLIER_RUN])


def test_certain_blocker_comes_before_a_missing_earlier_run(tmp_path: Path) -> None:
    run_of(tmp_path, [PLAIN, ledger(2, "a", 1, 1)], ALL_WRITE, set(), facts=NO_EARLIER)
    outcome = rehearse(reopen_run(tmp_path), ["a"])
    assert (outcome.answer, causes(outcome)) == (Answer.NEVER, [Cause.ONLY_COPY, Cause.NO_EARLIER_RUN])
    assert decommission_text(outcome).startswith(
        "decommission a: refused. 1 ledger; some entries are on no other bookie of the\nensemble"
    )


def test_holds_on_other_bookies_or_actions_do_not_refuse(tmp_path: Path) -> None:
    rows = [HOLD | {"key": "b"}, HOLD | {"forbids": ["start"]}]
    assert rehearse(run_with_holds(tmp_path, *rows), ["a"]).answer is Answer.NOW
    rehearsal = rehearse(run_with_holds(tmp_path, *rows), ["a", "b"])
    assert rehearsal.answer is Answer.NEVER
    assert [trial.answer for trial in rehearsal.alone] == [Answer.NOW, Answer.NEVER]
    assert rehearsal.order == ()


def test_text_shows_the_most_important_holds_and_json_shows_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [HOLD | {"reason": f"reason-{number}", "urgency": "rest"} for number in range(5)]
    outcome = rehearse(run_with_holds(tmp_path, *rows, HOLD), ["a"])
    assert outcome.together.holds[0].reason == "gc-would-delete-live"
    lines = [line.strip() for line in decommission_text(outcome).splitlines()]
    assert "3 more:" in lines
    assert f"bkaudit explain bookie a --run {tmp_path}" in lines
    assert lines[0].startswith("decommission a: refused. It holds the only copy")
    shown = json.loads(decommission_json(outcome))
    jsonschema.validate(shown, decommission_schema())
    assert len(shown["together"]["holds"]) == 6
    assert shown["together"]["holds"][0]["lifted_when"].startswith("an audit looks for gc-would-delete-live")
    monkeypatch.setattr("auditor.runs.reader.now_ms", lambda: SCANNED + HOUR)
    assert CliRunner().invoke(main, ["decommission", str(tmp_path), "a"]).exit_code == 1


def test_answer_now_needs_a_permission_of_the_gate(tmp_path: Path) -> None:
    run = run_with_holds(tmp_path)
    trial = rehearse(run, ["a"]).together
    with pytest.raises(ValueError, match="the gate did not permit"):
        replace(trial, permission=permit(run, ActionKind.STOP, [bookie("a")]))
    with pytest.raises(ValueError, match="the gate did not permit"):
        replace(trial, permission=permit(run, ActionKind.DECOMMISSION, [bookie("b")]))
    run_with_holds(tmp_path, HOLD)
    refused = permit(reopen_run(tmp_path), ActionKind.DECOMMISSION, [bookie("a")])
    with pytest.raises(ValueError, match="the gate did not permit"):
        replace(trial, permission=refused)
    with pytest.raises(ValueError, match="InitVar"):
        replace(trial)  # type: ignore[call-arg]  # what is to fail
