"""What the gate says of a decommissioning: no answer is `now` while a hold forbids it."""

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
from tests.decommission.made_clusters import CALM, reopened, run_of
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

ROW_1 = {
    "last copy outside its ensembles": ("foreign-copy", "destroys-data", "fact-gone"),
    "metadata suspect": ("metadata-suspect", "destroys-data", "finding-gone"),
    "alias": ("bookie-alias", "destroys-data", "data-elsewhere"),
    "its copy differs": ("replica-mismatch", "rest", "finding-gone"),
    "entries past the end": ("copies-differ", "rest", "fact-gone"),
}


def held_run(path: Path, *rows: dict[str, Any], **facts: Any) -> RunReader:
    return run_of(path, [PLAIN], ALL_WRITE, set(), holds=[*rows], facts=facts)


def causes(rehearsal: Rehearsal) -> list[Cause]:
    return [blocker.cause for blocker in rehearsal.together.blockers]


@pytest.mark.parametrize("case", ROW_1)
def test_a_certain_hold_refuses(case: str, tmp_path: Path) -> None:
    reason, urgency, lift = ROW_1[case]
    hold = HOLD | {"reason": reason, "urgency": urgency, "lift": lift}
    found = rehearse(held_run(tmp_path, hold), ["a"])
    assert (found.answer, found.exit_code, causes(found)) == (Answer.NEVER, 1, [Cause.PROVED_HOLD])
    text = decommission_text(found)
    first, _, rest = " ".join(text.split()).partition("(exit 1)")
    assert first == (
        f"decommission a: refused. It holds the only copy of entries 0-9 of ledger 30 ({reason}). "
    )
    assert found.together.holds[0].lifted_when in rest
    assert "decommissionbookie" not in text
    assert found.together.commands == ()


def test_doubt_alone_makes_the_answer_unknown(tmp_path: Path) -> None:
    hold = HOLD | {"reason": "unread-disk", "certain": False, "urgency": "rest", "lift": "fact-gone"}
    found = rehearse(held_run(tmp_path, hold), ["a"])
    assert (found.answer, found.exit_code, causes(found)) == (Answer.UNKNOWN, 3, [Cause.DOUBTFUL_HOLD])
    assert "decommissionbookie" not in decommission_text(found)


@pytest.mark.parametrize(
    ("reason", "cause", "way_out"),
    [
        ("open-ledgers", Cause.OPEN_LEDGERS, "make the bookie read-only"),
        ("last-served-copy", Cause.LAST_SERVED, "start these bookies again first"),
    ],
)
def test_what_ends_while_the_bookie_runs_is_not_yet(
    reason: str, cause: Cause, way_out: str, tmp_path: Path
) -> None:
    hold = HOLD | {"reason": reason, "urgency": "rest", "lift": "fact-gone"}
    found = rehearse(held_run(tmp_path, hold), ["a"])
    assert (found.answer, found.exit_code, causes(found)) == (Answer.AFTER, 1, [cause])
    text = " ".join(decommission_text(found).split())
    assert way_out in text
    assert "decommissionbookie" not in text


def test_a_bookie_that_must_not_stop_is_not_taken_out_while_it_runs(tmp_path: Path) -> None:
    hold = HOLD | {"reason": "cookie-missing", "forbids": ["stop"]}
    assert rehearse(held_run(tmp_path, hold), ["a"]).answer is Answer.NEVER
    stopped = run_of(tmp_path, [PLAIN], ALL_WRITE | {"a": None}, set(), holds=[hold])
    assert rehearse(stopped, ["a"]).answer is Answer.NOW


NO_EARLIER = {"holds": CALM["holds"] | {"earlier_run": None}}  # type: ignore[operator]  # a mapping


@pytest.mark.parametrize(
    ("facts", "age", "cause"),
    [
        (NO_EARLIER, 0, Cause.NO_EARLIER_RUN),
        ({"holds": None}, 0, Cause.RUN_LACKS_HOLDS),
        ({}, MAX_DATA_AGE_MS + 1, Cause.DATA_TOO_OLD),
        ({}, -MAX_DATA_AGE_MS, Cause.DATA_OF_FUTURE),
    ],
)
def test_a_run_that_nothing_can_rest_on_is_never_now(
    facts: dict[str, Any], age: int, cause: Cause, tmp_path: Path
) -> None:
    run = held_run(tmp_path, **facts)
    run.holds.now += age
    found = rehearse(run, ["a"])
    assert (found.answer, found.exit_code, causes(found)) == (Answer.UNKNOWN, 3, [cause])
    text = decommission_text(found)
    assert "audit again" in text or "run a second audit" in text
    assert "decommissionbookie" not in text


def test_a_certain_hold_counts_in_an_old_run_too(tmp_path: Path) -> None:
    run = held_run(tmp_path, HOLD, **NO_EARLIER)
    found = rehearse(run, ["a"])
    assert (found.answer, causes(found)) == (Answer.NEVER, [Cause.PROVED_HOLD, Cause.NO_EARLIER_RUN])


def test_what_is_certain_comes_before_what_is_not_known(tmp_path: Path) -> None:
    run_of(tmp_path, [PLAIN, ledger(2, "a", 1, 1)], ALL_WRITE, set(), facts=NO_EARLIER)
    found = rehearse(reopened(tmp_path), ["a"])
    assert (found.answer, causes(found)) == (Answer.NEVER, [Cause.ONLY_COPY, Cause.NO_EARLIER_RUN])
    assert decommission_text(found).startswith(
        "decommission a: refused. 1 ledger; no other bookie of the ensemble"
    )


def test_holds_on_others_do_not_matter(tmp_path: Path) -> None:
    rows = [HOLD | {"key": "b"}, HOLD | {"forbids": ["start"]}]
    assert rehearse(held_run(tmp_path, *rows), ["a"]).answer is Answer.NOW
    both = rehearse(held_run(tmp_path, *rows), ["a", "b"])
    assert both.answer is Answer.NEVER
    assert [trial.answer for trial in both.alone] == [Answer.NOW, Answer.NEVER]
    assert both.order == ()


def test_the_text_has_the_most_important_holds_and_json_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [HOLD | {"reason": f"reason-{number}", "urgency": "rest"} for number in range(5)]
    found = rehearse(held_run(tmp_path, *rows, HOLD), ["a"])
    assert found.together.holds[0].reason == "gc-would-delete-live"
    lines = [line.strip() for line in decommission_text(found).splitlines()]
    assert "3 more:" in lines
    assert f"bkaudit explain bookie a --run {tmp_path}" in lines
    assert lines[0].startswith("decommission a: refused. It holds the only copy")
    shown = json.loads(decommission_json(found))
    jsonschema.validate(shown, decommission_schema())
    assert len(shown["together"]["holds"]) == 6
    assert shown["together"]["holds"][0]["lifted_when"].startswith("an audit looks for gc-would-delete-live")
    monkeypatch.setattr("auditor.runs.reader.now_ms", lambda: SCANNED + HOUR)
    assert CliRunner().invoke(main, ["decommission", str(tmp_path), "a"]).exit_code == 1


def test_an_answer_of_now_needs_the_gate(tmp_path: Path) -> None:
    run = held_run(tmp_path)
    trial = rehearse(run, ["a"]).together
    with pytest.raises(ValueError, match="the gate did not permit"):
        replace(trial, permission=permit(run, ActionKind.STOP, [bookie("a")]))
    with pytest.raises(ValueError, match="the gate did not permit"):
        replace(trial, permission=permit(run, ActionKind.DECOMMISSION, [bookie("b")]))
    held_run(tmp_path, HOLD)
    refused = permit(reopened(tmp_path), ActionKind.DECOMMISSION, [bookie("a")])
    with pytest.raises(ValueError, match="the gate did not permit"):
        replace(trial, permission=refused)
    with pytest.raises(ValueError, match="InitVar"):
        replace(trial)  # type: ignore[call-arg]  # what is to fail
