"""Actions that the gate permits and refuses, on runs with handwritten holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import auditor
from auditor.actions.commands import permit_command
from auditor.actions.gate import MAX_DATA_AGE_MS, Allowed, HoldBook, Refused, permit, permit_ledgers
from auditor.actions.objects import ActionObject, bookie, ledger, objects_with_needed_data
from auditor.checks import ALL_CHECKS, Check
from auditor.model.finding import Finding
from auditor.model.holds import (
    ACTIONS_NEEDING_TWO_RUNS,
    DANGEROUS_ACTIONS,
    METADATA_SOURCE,
    ActionKind,
    HoldObject,
    HoldTarget,
    bookie_source,
)
from auditor.model.permission import UnfitRunReason
from auditor.model.source_scope import MAX_CLOCK_AHEAD_MS
from auditor.runs.reader import RunReader
from tests.made_runs import made_run
from tests.plan.made import HOUR, NOW_MS, make_finding, run_of
from tests.plan.made import ledger as ledger_row
from tests.reports.samples import report

HOLD: dict[str, Any] = {
    "object": "bookie",
    "key": "bk1:3181",
    "scope_id": None,
    "ledger_id": None,
    "forbids": ["decommission", "stop"],
    "reason": "last-known-copy",
    "certain": True,
    "urgency": "rest",
    "count": 1,
    "accepted": False,
    "first_seen": 1,
    "lift": "fact-gone",
    "carried": False,
    "message": "bk1:3181 has the last known copy of entries of 1 ledger",
}


UNOWNED: dict[str, Any] = {"owners_complete": True, "seen_before": True, "state": "CLOSED"}
"""Evidence of ``ledger-unowned`` that proves that a ledger may be deleted."""


class Run:
    """A run with the holds ``rows``. The gate's clock is ``age_ms`` milliseconds after the run's data.

    ``unowned`` has ledgers that are proved to have no owner. ``opened`` has open ledgers.
    """

    def __init__(
        self,
        path: Path,
        *rows: dict[str, Any],
        has_earlier: bool = True,
        age_ms: int = 1,
        unowned: Sequence[int] = (),
        opened: Sequence[int] = (),
        entry_logs: bool = True,
        unheld: Sequence[str] = (),
    ) -> None:
        facts = replace(
            report(entry_logs=entry_logs).run,
            checks={"not_run": [*unheld], "unheld": [*unheld], "constants": []},
            holds={
                "total": len(rows),
                "urgent": 0,
                "carried": 0,
                "earlier_run": "before" if has_earlier else None,
            },
        )
        findings = [make_finding("ledger-unowned", id, **UNOWNED) for id in unowned]
        ledgers = [ledger_row(id, "bk1:3181", state="OPEN") for id in opened]
        run = made_run(path, findings, replace(report(), run=facts), holds=[*rows], ledgers=ledgers)
        self.holds = RunReader(run.path).holds
        self.holds.now_ms = self.holds.data_time + age_ms


def test_hold_refuses_only_its_kinds_on_its_bookie(tmp_path: Path) -> None:
    run = Run(tmp_path, HOLD)
    refused = permit(run, ActionKind.STOP, [bookie("bk1:3181")])
    assert isinstance(refused, Refused)
    assert refused.is_certain
    assert refused.sentence == "bk1:3181 has the last known copy of entries of 1 ledger (last-known-copy)"
    assert (
        refused.way_out
        == "an audit reads everything that last-known-copy depends on, and the reason no longer applies"
    )
    assert isinstance(permit(run, ActionKind.START, [bookie("bk1:3181")]), Allowed)
    assert isinstance(permit(run, ActionKind.STOP, [bookie("bk2:3181")]), Allowed)


def test_uncertain_hold_refuses_an_action(tmp_path: Path) -> None:
    refused = permit(Run(tmp_path, HOLD | {"certain": False}), ActionKind.DECOMMISSION, [bookie("bk1:3181")])
    assert isinstance(refused, Refused)
    assert not refused.is_certain


def test_each_ledger_is_permitted_separately(tmp_path: Path) -> None:
    row = HOLD | {"object": "ledger", "key": "0/42", "scope_id": 0, "ledger_id": 42, "forbids": ["recover"]}
    run = Run(tmp_path, row)
    allowed, refused = permit_ledgers(
        run, ActionKind.RECOVER, [bookie("bk1:3181")], [ledger(41), ledger(42), ledger(43)]
    )
    assert allowed is not None
    assert allowed.objects == (bookie("bk1:3181"), ledger(41), ledger(43))
    assert [refusal.objects for refusal in refused] == [(ledger(42),)]
    allowed, refused = permit_ledgers(run, ActionKind.RECOVER, [], [ledger(42)])
    assert allowed is None
    assert len(refused) == 1


@pytest.mark.parametrize("key", [METADATA_SOURCE, bookie_source("bk1:3181")])
def test_hold_on_a_source_refuses_actions_that_need_the_source(key: str, tmp_path: Path) -> None:
    run = Run(tmp_path, HOLD | {"object": "source", "key": key, "forbids": ["delete-cookie"]})
    assert isinstance(permit(run, ActionKind.DELETE_COOKIE, [bookie("bk1:3181")]), Refused)


@pytest.mark.parametrize("kind", ActionKind)
def test_dangerous_kinds_need_data_of_the_last_24_hours(kind: ActionKind, tmp_path: Path) -> None:
    old = Run(tmp_path, age_ms=MAX_DATA_AGE_MS + 1)
    answer = permit(old, kind, [bookie("bk1:3181")])
    assert isinstance(answer, Refused if kind in DANGEROUS_ACTIONS else Allowed)


@pytest.mark.parametrize("kind", ActionKind)
def test_dangerous_kinds_are_refused_for_data_of_the_future(kind: ActionKind, tmp_path: Path) -> None:
    """A clock was wrong: data with a time in the future would never become too old."""
    run = Run(tmp_path, age_ms=-MAX_CLOCK_AHEAD_MS)
    assert not run.holds.is_in_future
    run.holds.now_ms -= 1
    answer = permit(run, kind, [bookie("bk1:3181")])
    assert isinstance(answer, Refused if kind in DANGEROUS_ACTIONS else Allowed)
    if isinstance(answer, Refused):
        assert answer.unfit_reason is UnfitRunReason.DATA_OF_FUTURE
        assert "a clock was wrong" in answer.sentence


@pytest.mark.parametrize("kind", ActionKind)
def test_two_run_actions_need_an_earlier_run(kind: ActionKind, tmp_path: Path) -> None:
    answer = permit(Run(tmp_path, has_earlier=False), kind, [bookie("bk1:3181")])
    assert isinstance(answer, Refused if kind in ACTIONS_NEEDING_TWO_RUNS else Allowed)


@pytest.mark.parametrize("kind", ActionKind)
def test_run_without_holds_in_its_report_permits_only_waiting(kind: ActionKind, tmp_path: Path) -> None:
    run = RunReader(made_run(tmp_path, report=replace(report(), run=replace(report().run, holds=None))).path)
    run.holds.now_ms = run.holds.data_time
    answer = permit(run, kind, [bookie("bk1:3181")])
    assert isinstance(answer, Allowed if kind is ActionKind.WAIT else Refused)


def test_only_the_gate_creates_permissions() -> None:
    with pytest.raises(TypeError, match="only auditor"):
        Allowed(ActionKind.STOP, (), object())
    package = Path(auditor.__file__).parent
    users = {
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        if "GATE_SEAL" in path.read_text("utf-8")
    }
    assert users == {"model/permission.py", "actions/gate.py"}


def test_refusal_for_too_old_data_still_names_the_holds(tmp_path: Path) -> None:
    old = Run(tmp_path, HOLD, age_ms=MAX_DATA_AGE_MS + 1)
    refused = permit(old, ActionKind.DECOMMISSION, [bookie("bk1:3181")])
    assert isinstance(refused, Refused)
    assert refused.unfit_reason is UnfitRunReason.DATA_TOO_OLD
    assert refused.is_certain
    assert refused.sentence.endswith("(last-known-copy)")
    assert "24 hours" in refused.reason


def test_refusal_lists_the_most_urgent_hold_first(tmp_path: Path) -> None:
    rows = [
        HOLD | {"reason": "open-ledgers"},
        HOLD | {"reason": "bookie-alias", "urgency": "destroys-data", "certain": False},
        HOLD | {"reason": "entry-lost", "urgency": "lost"},
        HOLD | {"reason": "gc-would-delete-live", "urgency": "destroys-data"},
        HOLD,
    ]
    refused = permit(Run(tmp_path, *rows), ActionKind.DECOMMISSION, [bookie("bk1:3181")])
    assert isinstance(refused, Refused)
    assert [hold.reason for hold in refused.holds] == [
        "gc-would-delete-live",
        "bookie-alias",
        "entry-lost",
        "last-known-copy",
        "open-ledgers",
    ]


def test_unknown_action_kinds_in_a_hold_are_ignored(tmp_path: Path) -> None:
    run = Run(tmp_path, HOLD | {"forbids": ["stop", "explode"]})
    [[hold]] = run.holds.holds_by_key.values()
    assert hold.forbids == (ActionKind.STOP,)


def test_needed_data_of_an_action_includes_its_stores_and_bookies() -> None:
    sources = list(objects_with_needed_data(ActionKind.DELETE_LEDGER, [ledger(1)]))
    assert [source.key for source in sources] == ["metadata", "owners"]
    assert ActionObject(HoldObject.SOURCE, "bookie bk1:3181") in objects_with_needed_data(
        ActionKind.STOP, [bookie("bk1:3181")]
    )


def test_hold_book_without_a_holds_table_finds_no_hold() -> None:
    book = HoldBook(
        lambda *_: [],
        has_holds_table=False,
        oldest_data_time=0,
        has_earlier_run=False,
        are_logs_read=False,
        current_time=0,
    )
    assert not list(book.find_holds([bookie("a"), ledger(1)]))


@pytest.mark.parametrize(
    ("finding", "is_allowed"),
    [
        (make_finding("ledger-unowned", 42, **UNOWNED), True),
        (make_finding("ledger-unowned", 42, sure=False, **UNOWNED), False),
        (make_finding("ledger-unowned", 42, **UNOWNED | {"owners_complete": False}), False),
        (make_finding("ledger-unowned", 42, **UNOWNED | {"seen_before": False}), False),
        (make_finding("ledger-unowned", 42, **UNOWNED | {"state": "OPEN"}), False),
        (make_finding("ledger-unowned", 43, **UNOWNED), False),
        (make_finding("mark-stuck", 42), False),
    ],
)
def test_only_a_ledger_proved_unowned_may_be_deleted(
    finding: Finding, is_allowed: bool, tmp_path: Path
) -> None:
    """The manual page of `mark-stuck` has the delete command too, but its ledger may be in use."""
    run = run_of(tmp_path, [finding])
    run.holds.now_ms = run.holds.data_time
    answer = permit(run, ActionKind.DELETE_LEDGER, [ledger(42)])
    assert isinstance(answer, Allowed if is_allowed else Refused)
    allowed, refused = permit_ledgers(run, ActionKind.DELETE_LEDGER, [], [ledger(42)])
    assert (allowed is not None, len(refused)) == (is_allowed, not is_allowed)
    command = "bookkeeper shell deleteledger -l ID"
    assert isinstance(permit_command(run, command, {"ID": "42"}), Allowed if is_allowed else Refused)


def test_index_rebuild_is_refused_if_logs_were_not_read(tmp_path: Path) -> None:
    bookies = [bookie("bk1:3181")]
    assert isinstance(permit(Run(tmp_path / "read"), ActionKind.REBUILD_INDEX, bookies), Allowed)
    unread = permit(Run(tmp_path / "unread", entry_logs=False), ActionKind.REBUILD_INDEX, bookies)
    assert isinstance(unread, Refused)
    assert unread.unfit_reason is UnfitRunReason.LOGS_NOT_READ
    assert "--entry-logs" in unread.sentence


@pytest.mark.parametrize("reason", ["ledger-not-indexed", "index-damaged"])
def test_rebuild_permission_lifts_a_hold_on_the_start_of_its_bookie(reason: str, tmp_path: Path) -> None:
    run = Run(tmp_path, HOLD | {"reason": reason, "forbids": ["start"]})
    bookies = [bookie("bk1:3181")]
    assert isinstance(permit(run, ActionKind.START, bookies), Refused)
    rebuilt = permit(run, ActionKind.REBUILD_INDEX, bookies)
    stopped = permit(run, ActionKind.STOP, bookies)
    elsewhere = permit(run, ActionKind.REBUILD_INDEX, [bookie("bk2:3181")])
    assert isinstance(rebuilt, Allowed)
    assert isinstance(permit(run, ActionKind.START, bookies, previous_action=rebuilt), Allowed)
    for before in (stopped, elsewhere):
        assert isinstance(before, Allowed)
        assert isinstance(permit(run, ActionKind.START, bookies, previous_action=before), Refused)


def test_rebuild_permission_does_not_lift_a_start_refused_hold(tmp_path: Path) -> None:
    run = Run(tmp_path, HOLD | {"reason": "start-refused", "forbids": ["start"]})
    rebuilt = permit(run, ActionKind.REBUILD_INDEX, [bookie("bk1:3181")])
    assert isinstance(rebuilt, Allowed)
    assert isinstance(permit(run, ActionKind.START, [bookie("bk1:3181")], previous_action=rebuilt), Refused)


START_ALLOWED_CHECKS = {
    "entry-lost": "gc-would-delete-live holds the start where logs have bytes of the lost entries",
}
"""Checks whose bookies may start although nothing may be collected there, and why."""


def test_checks_that_forbid_collection_also_forbid_the_start() -> None:
    """A bookie's collector runs within gcWaitTime (10 minutes) of the bookie's start."""
    forbidding = {
        check.id: {*rule.forbids}
        for check in ALL_CHECKS
        for rule in check.holds
        if ActionKind.COLLECT in rule.forbids and rule.target is not HoldTarget.METADATA_STORE
    }
    starting = {id for id, kinds in forbidding.items() if ActionKind.START not in kinds}
    assert starting == {*START_ALLOWED_CHECKS}


@pytest.mark.parametrize("check", [check for check in ALL_CHECKS if check.holds], ids=lambda check: check.id)
def test_skipped_check_refuses_the_kinds_that_it_can_forbid(check: Check, tmp_path: Path) -> None:
    run = Run(tmp_path, unheld=[check.id], unowned=[42])
    forbidden = {kind for rule in check.holds for kind in rule.forbids}
    for kind in ActionKind:
        objects = [ledger(42)] if kind is ActionKind.DELETE_LEDGER else [bookie("bk1:3181")]
        answer = permit(run, kind, objects)
        assert isinstance(answer, Refused if kind in forbidden else Allowed), kind
        if isinstance(answer, Refused):
            assert answer.unfit_reason is UnfitRunReason.CHECKS_NOT_RUN
            assert check.id in answer.sentence
            assert "Audit again with all checks" in answer.sentence


def test_skipped_check_without_holds_permits_decommissioning(tmp_path: Path) -> None:
    run = Run(tmp_path, unheld=["mark-stuck"])
    assert isinstance(permit(run, ActionKind.DECOMMISSION, [bookie("bk1:3181")]), Allowed)


def test_one_source_of_the_future_marks_the_run_as_of_the_future(tmp_path: Path) -> None:
    """The other sources are from today, so the oldest of them does not show that a clock was wrong."""
    run = made_run(tmp_path, sources=[source_row(NOW_MS), source_row(NOW_MS + 48 * HOUR, "pulsar:dump:///o")])
    holds = RunReader(run.path).holds
    holds.now_ms = NOW_MS + HOUR
    assert holds.data_time == NOW_MS
    assert holds.is_in_future
    holds.now_ms = NOW_MS + 48 * HOUR
    assert not holds.is_in_future


def source_row(as_of: int, name: str = "zk://h1/ledgers") -> dict[str, Any]:
    """Return a row of the table sources."""
    return {
        "source": name, "kind": "owners", "scope_claimed": "all", "scope_proved": "all", "proof": "-",
        "as_of": as_of, "reason": None,
    }  # fmt: skip
