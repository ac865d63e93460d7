"""Tests of plan checks against the plan's run, newer runs and a saved store, and of the command line."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner, Result

from auditor.cli import main
from auditor.errors import RunUsageError, UsageError
from auditor.model.finding import Severity
from auditor.model.holds import ActionKind
from auditor.model.owner_scope import SCOPE_NOTHING
from auditor.model.plan import Condition, Fact, PlannedLedger, RepairPlan, StepCheck, StepState
from auditor.plan.answers import ClusterState, PlanLedgerState, read_run_state, read_store_state
from auditor.plan.parts import LedgerRow
from auditor.plan.plan_file import make_plan, write_plan
from auditor.plan.step_checks import check_plan, is_condition_met, is_met_for_ledger, planned_ledger_ids
from auditor.reports.schema import plan_check_schema, plan_schema
from auditor.runs.reader import RunReader
from tests.plan.made import HOUR, NOW_MS, hold, ledger, lock, make_finding, mark, run_of
from tests.plan.test_make import FORGOTTEN, LOST, ON_LOST, PROVED_STORE, RETIRED, UNUSED, full_plan

BELOW = [
    make_finding("below-ack-quorum", 7, lacking=["c:1"]),
    make_finding("below-ack-quorum", 8, lacking=["c:1"]),
]
DAY = 24 * HOUR
ROWS = [ledger(7, "b:1", "c:1"), ledger(8, "b:1", "c:1")]
MOVED = ledger(7, "b:1", "d:1", version=4)
LAYOUT = "2\norg.apache.bookkeeper.meta.HierarchicalLedgerManagerFactory:1"


def check_steps(plan: RepairPlan, run: str) -> list[StepCheck]:
    return list(check_plan(plan, read_run_state(run, planned_ledger_ids(plan), plan.scan_time)).steps)


def test_plan_is_still_valid_for_its_own_run(tmp_path: Path) -> None:
    plan = full_plan(tmp_path / "run")
    assert {step.state for step in check_steps(plan, str(tmp_path / "run"))} == {StepState.STILL_VALID}


@pytest.mark.parametrize(
    ("rows", "tables", "state", "numbers"),
    [
        ([MOVED, ledger(8, "b:1", "d:1", version=4)], {}, StepState.DONE, (2, 0, 0, 0)),
        ([MOVED, ROWS[1]], {}, StepState.STILL_VALID, (1, 1, 0, 0)),
        ([ledger(7, "b:1", "c:1", version=4), ROWS[1]], {}, StepState.CHANGED, (0, 1, 1, 0)),
        ([MOVED], {}, StepState.DONE, (2, 0, 0, 0)),  # one was deleted
        (ROWS, {"marks": [lock(7)]}, StepState.CHANGED, (0, 1, 1, 0)),
        ([ROWS[0]], {"facts": {"gaps": ["/ledgers/00"]}}, StepState.UNKNOWN, (0, 1, 0, 1)),
        (ROWS, {"facts": {"marks_listed": False}}, StepState.UNKNOWN, (0, 0, 0, 2)),
        (ROWS, {"facts": {"scan_time": NOW_MS + 25 * HOUR}}, StepState.UNKNOWN, (0, 2, 0, 0)),
    ],
)  # fmt: skip
def test_recover_step_state_follows_the_ledgers_in_a_newer_run(
    rows: Any, tables: Any, state: StepState, numbers: tuple[int, ...], tmp_path: Path
) -> None:
    plan = make_plan(run_of(tmp_path / "old", BELOW, ledgers=ROWS))
    run_of(tmp_path / "new", [], ledgers=rows, **tables)
    [step] = check_steps(plan, str(tmp_path / "new"))
    assert step.state is state
    counted = (step.ledgers_done, step.ledgers_true, step.ledgers_changed, step.ledgers_unknown)
    assert counted == numbers
    assert bool(step.why) == (state in (StepState.CHANGED, StepState.UNKNOWN))


@pytest.mark.parametrize(
    ("marks", "after", "state"),
    [
        ([], HOUR, StepState.DONE),
        ([mark(7, "c:1")], HOUR, StepState.STILL_VALID),
        ([mark(7, "c:1")], HOUR + 1, StepState.CHANGED),
    ],
)
def test_wait_step_ends_without_marks_or_after_an_hour(
    marks: Any, after: int, state: StepState, tmp_path: Path
) -> None:
    plan = make_plan(run_of(tmp_path / "old", BELOW[:1], ledgers=ROWS, marks=[mark(7, "c:1")]))
    run_of(tmp_path / "new", [], facts={"scan_time": NOW_MS + after}, ledgers=ROWS, marks=marks)
    [step] = check_steps(plan, str(tmp_path / "new"))
    assert step.state is state


@pytest.mark.parametrize(
    ("rows", "tables", "lost", "state"),
    [
        ([ledger(7, "a:1", "b:1")], {"marks": [mark(7, "a:1")]}, LOST, StepState.DONE),
        ([ledger(7, "b:1", "c:1", version=4)], {}, LOST, StepState.DONE),
        ([ledger(7, "a:1", "b:1")], {}, LOST, StepState.STILL_VALID),
        ([ledger(7, "a:1", "b:1")], {}, {}, StepState.CHANGED),
        ([ledger(7, "a:1", "b:1")], {"cluster": []}, LOST, StepState.CHANGED),
    ],
)
def test_marking_step_state_follows_the_newer_run(
    rows: Any, tables: Any, lost: Any, state: StepState, tmp_path: Path
) -> None:
    plan = make_plan(run_of(tmp_path / "old", [ON_LOST, FORGOTTEN], LOST, ledgers=[ledger(7, "a:1", "b:1")]))
    run_of(tmp_path / "new", [], lost, ledgers=rows, **tables)
    [step] = check_steps(plan, str(tmp_path / "new"))
    assert step.state is state


def test_hold_on_another_bookies_ledger_forbids_marking_all_ledgers(tmp_path: Path) -> None:
    """The auditor marks the ledgers of every lost bookie, not only of the bookie that the step names."""
    rows = [ledger(7, "a:1", "b:1"), ledger(8, "b:1", "c:1")]
    plan = make_plan(run_of(tmp_path / "old", [ON_LOST, FORGOTTEN], LOST, ledgers=rows))
    ledger_hold = hold("8", ActionKind.RECOVER, reason="replica-mismatch", object="ledger")
    run_of(tmp_path / "new", [], LOST, ledgers=rows, holds=[ledger_hold])
    [step] = check_steps(plan, str(tmp_path / "new"))
    assert step.state is StepState.CHANGED
    assert "replica-mismatch" in step.why[0]


@pytest.mark.parametrize(
    ("findings", "bookies", "facts", "state"),
    [
        ([make_finding("metadata-suspect", None, "a:1")], {}, {}, StepState.STILL_VALID),
        ([], {}, {}, StepState.DONE),
        ([], {"a:1": {"read": "unread"}}, {}, StepState.UNKNOWN),
        ([], {}, {"blind": ["metadata-suspect"]}, StepState.UNKNOWN),
    ],
)
def test_absent_finding_counts_as_gone_only_if_it_was_checked(
    findings: Any, bookies: Any, facts: Any, state: StepState, tmp_path: Path
) -> None:
    plan = make_plan(run_of(tmp_path / "old", [make_finding("metadata-suspect", None, "a:1")]))
    run_of(tmp_path / "new", findings, bookies, facts)
    [step] = check_steps(plan, str(tmp_path / "new"))
    assert step.state is state


COOKIE: dict[str, Any] = {
    "bookie_id": "e:1", "layout": 5, "bookie_host": "e:1", "journal_dirs": "/j", "ledger_dirs": ["/l"],
    "index_dirs": None, "instance_id": None, "damage": None, "version": 3,
}  # fmt: skip


@pytest.mark.parametrize(
    ("cookies", "bookies", "state"),
    [
        ([COOKIE], RETIRED, StepState.STILL_VALID),
        ([], RETIRED, StepState.DONE),
        ([COOKIE | {"journal_dirs": "/other"}], RETIRED, StepState.CHANGED),
        ([COOKIE | {"version": 4}], RETIRED, StepState.CHANGED),
        ([COOKIE], {"e:1": {**RETIRED["e:1"], "registered": "writable"}}, StepState.CHANGED),
        ([COOKIE], {"e:1": {**RETIRED["e:1"], "named": True}}, StepState.CHANGED),
    ],
)
def test_cookie_deletion_state_follows_cookie_and_bookie(
    cookies: Any, bookies: Any, state: StepState, tmp_path: Path
) -> None:
    plan = make_plan(run_of(tmp_path / "old", [UNUSED], RETIRED, cookies=[COOKIE]))
    run_of(tmp_path / "new", [], bookies, cookies=cookies)
    [step] = check_steps(plan, str(tmp_path / "new"))
    assert step.state is state


UNOWNED = make_finding(
    "ledger-unowned", 7, severity=Severity.NOTE, state="CLOSED", seen_before=True, owners_complete=True
)


@pytest.mark.parametrize("stores", [None, [], [{**PROVED_STORE, "scope_proved": SCOPE_NOTHING}]])
def test_deletion_is_unknown_if_a_newer_run_did_not_read_every_owner(stores: Any, tmp_path: Path) -> None:
    plan = make_plan(run_of(tmp_path / "old", [UNOWNED], ledgers=ROWS))
    unowned = [{"scope_id": 0, "ledger_id": 7, "standing": "unowned"}]
    tables = {} if stores is None else {"owner_stores": stores}
    run_of(tmp_path / "new", [], ledgers=ROWS, ownership=unowned, **tables)
    [step] = check_steps(plan, str(tmp_path / "new"))
    assert step.state is StepState.UNKNOWN


@pytest.mark.parametrize(
    ("standing", "state"), [("unowned", StepState.STILL_VALID), ("owned", StepState.CHANGED)]
)
def test_deletion_is_changed_if_the_ledger_has_an_owner_again(
    standing: str, state: StepState, tmp_path: Path
) -> None:
    plan = make_plan(run_of(tmp_path / "old", [UNOWNED], ledgers=ROWS))
    owned = [{"scope_id": 0, "ledger_id": 7, "standing": standing}]
    run_of(tmp_path / "new", [], ledgers=ROWS, ownership=owned, owner_stores=[PROVED_STORE])
    [step] = check_steps(plan, str(tmp_path / "new"))
    assert step.state is state


def of_earlier_version(plan: RepairPlan) -> RepairPlan:
    """Return the same plan in the form of plan/1, which had no holds."""
    steps = (replace(step, urgency=None, fewest_copies=None) for step in plan.steps)
    return replace(plan, steps=tuple(steps))


HOLD_ROWS = {
    "ledger": hold("7", ActionKind.RECOVER, reason="replica-mismatch", object="ledger"),
    "bookie": hold("c:1", ActionKind.RECOVER, reason="bookie-alias"),
}


@pytest.mark.parametrize("row", HOLD_ROWS.values(), ids=HOLD_ROWS)
def test_plan_of_an_earlier_version_is_checked_against_newer_holds(row: Any, tmp_path: Path) -> None:
    plan = of_earlier_version(make_plan(run_of(tmp_path / "old", BELOW[:1], ledgers=ROWS)))
    run_of(tmp_path / "free", [], ledgers=ROWS)
    run_of(tmp_path / "held", [], ledgers=ROWS, holds=[row])
    assert [step.state for step in check_steps(plan, str(tmp_path / "free"))] == [StepState.STILL_VALID]
    assert [step.state for step in check_steps(plan, str(tmp_path / "held"))] == [StepState.CHANGED]


def test_store_permits_no_step_of_a_plan_of_an_earlier_version(tmp_path: Path) -> None:
    plan = make_plan(run_of(tmp_path / "old", BELOW[:1], ledgers=ROWS))
    rows = PlanLedgerState({7: LedgerRow(7, 3, "CLOSED", 120, (("b:1", "c:1"),))}, locked_ids=())
    store_state = replace(PLAIN, ledgers=rows)
    [step] = check_plan(plan, store_state).steps
    assert step.state is StepState.STILL_VALID
    [step] = check_plan(of_earlier_version(plan), store_state).steps
    assert step.state is StepState.UNKNOWN
    assert step.why[0].startswith(
        "not permitted: an earlier bkaudit version made this plan without checking holds"
    )


def test_earlier_plan_deletes_no_ledger_without_proof_in_a_newer_run(tmp_path: Path) -> None:
    """The plan's own proof did not need every owner, so the newer run must contain a proof that does."""
    plan = of_earlier_version(make_plan(run_of(tmp_path / "old", [UNOWNED], ledgers=ROWS)))
    tables: Any = {
        "ledgers": ROWS, "owner_stores": [PROVED_STORE],
        "ownership": [{"scope_id": 0, "ledger_id": 7, "standing": "unowned"}],
    }  # fmt: skip
    run_of(tmp_path / "once", [], **tables)
    [step] = check_steps(plan, str(tmp_path / "once"))
    assert step.state is StepState.UNKNOWN
    assert step.why[0].startswith(
        "not permitted: no confirmed finding of the check ledger-unowned proves that"
    )
    run_of(tmp_path / "twice", [UNOWNED], **tables)
    [step] = check_steps(plan, str(tmp_path / "twice"))
    assert step.state is StepState.STILL_VALID


def test_an_older_run_and_another_cluster_are_refused(tmp_path: Path) -> None:
    plan = full_plan(tmp_path / "run")
    with pytest.raises(RunUsageError, match="older than the run that the plan is based on"):
        read_run_state(str(tmp_path / "run"), planned_ledger_ids(plan), NOW_MS + 1)
    with pytest.raises(UsageError, match="the plan is for another"):
        check_steps(replace(plan, instance_id="another"), str(tmp_path / "run"))


def test_step_with_unlisted_ledgers_is_unknown_when_listed_ones_are_done(tmp_path: Path) -> None:
    plan = make_plan(run_of(tmp_path / "old", BELOW, ledgers=ROWS))
    plan = replace(plan, steps=(replace(plan.steps[0], ledger_count=5_000),))
    run_of(tmp_path / "new", [], ledgers=[])
    [step] = check_steps(plan, str(tmp_path / "new"))
    assert (step.state, step.why) == (
        StepState.UNKNOWN, ("the plan lists 2 of 5,000 ledgers, and these are done; plan again",),
    )  # fmt: skip


# stores


def znode(path: str, data: str = "") -> dict[str, Any]:
    stat = {"czxid": 1, "mzxid": 1, "ctime": NOW_MS, "mtime": NOW_MS, "version": 3, "ephemeralOwner": 0}
    return {"path": path, "data": data, **stat}


def dump_of(path: Path, *znodes: dict[str, Any]) -> str:
    def text(value: str) -> str:
        return base64.b64encode(value.encode()).decode()

    record = (
        "BookieMetadataFormatVersion\t2\nquorumSize: 2\nensembleSize: 2\nlength: 120\nlastEntryId: 9\n"
        'state: CLOSED\nsegment {\n  ensembleMember: "b:1"\n  ensembleMember: "c:1"\n  firstEntryId: 0\n}\n'
        "ackQuorumSize: 2\n"
    )
    lines = [
        znode("/ledgers"), znode("/ledgers/LAYOUT", text(LAYOUT)),
        znode("/ledgers/available"), znode("/ledgers/cookies"), *znodes, znode("/ledgers/underreplication"),
        znode("/ledgers/00"), znode("/ledgers/00/0000"), znode("/ledgers/00/0000/L0007", text(record)),
    ]  # fmt: skip
    file = path / "dump.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return f"dump://{file}"


def test_store_state_is_read_from_a_dump(tmp_path: Path) -> None:
    store_state = read_store_state(dump_of(tmp_path), [7, 8])
    assert store_state.ledgers.rows == {7: LedgerRow(7, 3, "CLOSED", 240, (("b:1", "c:1"),))}
    assert (
        store_state.replication_state,
        store_state.auditor_state,
        store_state.ensemble_bookies,
        store_state.finding_fingerprints,
    ) == (
        "on",
        "none",
        None,
        None,
    )
    assert store_state.ledgers.marked_ids == set()
    plan = make_plan(run_of(tmp_path / "old", BELOW[:1], ledgers=ROWS))
    [step] = check_plan(plan, store_state).steps
    assert step.state is StepState.STILL_VALID


@pytest.mark.parametrize(
    ("journal", "extra_paths", "state", "why"),
    [
        ("/j", [], StepState.UNKNOWN, (
            "unknown: no ledger's ensembles contain e:1",
            "a store cannot show this, but an audit of the metadata can; use plan check --run",
        )),
        ("/k", [], StepState.CHANGED, ("not true: e:1 has its cookie (DIGEST)",)),
        ("/j", ["/ledgers/available/e:1"], StepState.CHANGED, ("not true: e:1 is not registered",)),
    ],
)  # fmt: skip
def test_cookie_deletion_is_checked_against_a_store(
    journal: str, extra_paths: list[str], state: StepState, why: tuple[str, ...], tmp_path: Path
) -> None:
    plan = make_plan(run_of(tmp_path / "old", [UNUSED], RETIRED, cookies=[COOKIE]))
    text = f'5\nbookieHost: "e:1"\njournalDir: "{journal}"\nledgerDirs: "1\\t/l"\n'
    cookie = znode("/ledgers/cookies/e:1", base64.b64encode(text.encode()).decode())
    sessions = [znode(path) | {"ephemeralOwner": 7} for path in extra_paths]
    [step] = check_plan(plan, read_store_state(dump_of(tmp_path, cookie, *sessions), [])).steps
    digest = plan.steps[0].requires[0].value
    assert (step.state, step.why) == (state, tuple(sentence.replace("DIGEST", digest) for sentence in why))


def test_truncated_dump_proves_no_absence(tmp_path: Path) -> None:
    uri = dump_of(tmp_path)
    file = tmp_path / "dump.jsonl"
    file.write_bytes(file.read_bytes()[:-9])
    assert read_store_state(uri, [7, 8]).ledgers.unread_ids == {7, 8}
    assert not read_store_state(uri, []).are_bookies_listed


# conditions

PLAIN = ClusterState(
    source_text="x",
    time=NOW_MS,
    instance_id=None,
    mode_by_bookie={"b:1": "readonly"},
    cookie_digests={"b:1": "d" * 16},
    are_bookies_listed=True,
    unread_bookies=frozenset({"u:1"}),
    replication_state=None,
    auditor_state=None,
    ledgers=PlanLedgerState(),
)


@pytest.mark.parametrize(
    ("condition", "answer"),
    [
        (Condition(Fact.REGISTERED, "b:1", "yes"), True),
        (Condition(Fact.REGISTERED, "b:1", "writable"), False),
        (Condition(Fact.REGISTERED, "a:1", "no"), True),
        (Condition(Fact.REGISTERED, "u:1", "no"), None),
        (Condition(Fact.COOKIE, "b:1", "d" * 16), True),
        (Condition(Fact.COOKIE, "a:1", "yes"), False),
        (Condition(Fact.REPLICATION, "", "on"), None),
        (Condition(Fact.AUDITOR, "", "elected"), None),
        (Condition(Fact.IN_ANY_LEDGER, "b:1", "no"), None),
        (Condition(Fact.FINDING, "metadata-suspect 0", "gone"), None),
    ],
)
def test_condition_is_met_unmet_or_unknown(condition: Condition, answer: bool | None) -> None:
    assert is_condition_met(condition, PLAIN) is answer


@pytest.mark.parametrize("fact", [Fact.MARKED, Fact.LOCKED, Fact.UNOWNED])
def test_marks_locks_and_owners_are_unknown_for_a_plain_store(fact: Fact) -> None:
    assert is_met_for_ledger(Condition(fact, "", "no"), PlannedLedger("7", 1, "CLOSED"), PLAIN) is None


def test_ensemble_condition_is_unknown_for_an_unreadable_record() -> None:
    cluster_state = replace(PLAIN, ledgers=PlanLedgerState({7: LedgerRow(7, 1, None, 0, ())}))
    assert (
        is_met_for_ledger(
            Condition(Fact.IN_ENSEMBLE, "b:1", "no"), PlannedLedger("7", 1, "CLOSED"), cluster_state
        )
        is None
    )


# the command line


def bkaudit(*words: str | Path) -> Result:
    return CliRunner().invoke(main, ["plan", *map(str, words)], prog_name="bkaudit")


def set_clock(monkeypatch: pytest.MonkeyPatch, now_ms: int) -> None:
    for module in ("auditor.sources.clock", "auditor.runs.reader"):
        monkeypatch.setattr(f"{module}.now_ms", lambda: now_ms)


@pytest.fixture
def hour_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the clock to an hour after the scan of the runs."""
    set_clock(monkeypatch, NOW_MS + HOUR)


@pytest.mark.usefixtures("hour_later")
def test_plan_is_made_shown_and_written_as_a_ticket(tmp_path: Path) -> None:
    full_plan(tmp_path / "run")
    plan = tmp_path / "plan.toml"
    result = bkaudit(tmp_path / "run", "--out", plan)
    assert result.exit_code == 0, result.output
    assert result.stderr.splitlines() == [
        f"bkaudit: wrote {plan}",
        f"bkaudit: before each step, run: bkaudit plan check {plan}",
    ]
    assert "1. stop: keep a:1 from collecting garbage" in result.stdout
    for line in result.stdout.splitlines():
        assert len(line) <= 80 or "bookkeeper shell" in line
    assert bkaudit("show", plan).stdout == result.stdout
    ticket = bkaudit("show", plan, "--format", "markdown").stdout
    assert (
        "- [ ] **3. recover**: copy 1 ledger from c:1 to other bookies, because c:1 lacks entries" in ticket
    )
    assert "`bookkeeper shell recover -l 7 c:1`" in ticket
    value = json.loads(bkaudit("show", plan, "--format", "json").stdout)
    jsonschema.validate(value, plan_schema())
    second_result = bkaudit(tmp_path / "run", "--out", plan)
    assert (second_result.exit_code, "already exists" in second_result.stderr) == (2, True)


def test_expired_plan_is_reported_as_expired_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "plan.toml"
    findings = [*BELOW[:1], make_finding("metadata-suspect", None, "a:1")]
    write_plan(make_plan(run_of(tmp_path / "run", findings, ledgers=ROWS)), str(path))
    set_clock(monkeypatch, NOW_MS + DAY)
    assert "2 steps to do" in bkaudit("show", path).stdout.splitlines()[0]
    set_clock(monkeypatch, NOW_MS + DAY + 1)
    first = "expired at 2026-11-22 05:07:49 UTC: carry out no step; audit and plan again"
    commands: list[list[str | Path]] = [["show", path], ["check", path, "--run", tmp_path / "run"]]
    for words in commands:
        shown = bkaudit(*words)
        assert " ".join(shown.stdout.split()).startswith(first), shown.stdout
        assert " to do" not in shown.stdout
        assert first in bkaudit(*words, "--format", "markdown").stdout.splitlines()[0]
    assert bkaudit("check", path, "--run", tmp_path / "run").exit_code == 3
    value = json.loads(bkaudit("check", path, "--run", tmp_path / "run", "--format", "json").stdout)
    assert value["expired"] is True
    jsonschema.validate(value, plan_check_schema())


@pytest.mark.usefixtures("hour_later")
@pytest.mark.parametrize("ahead", [0, 48 * HOUR])
def test_check_of_a_plan_from_the_future_exits_with_3(ahead: int, tmp_path: Path) -> None:
    """A run whose clock was wrong makes a plan that would expire two days from now."""
    times = {"scan_time": NOW_MS + ahead}
    plan = make_plan(run_of(tmp_path / "old", [make_finding("metadata-suspect", None, "a:1")], {}, times))
    write_plan(plan, str(tmp_path / "plan.toml"))
    run_of(tmp_path / "new", [make_finding("metadata-suspect", None, "a:1")], {}, times)
    ended = bkaudit("check", tmp_path / "plan.toml", "--run", tmp_path / "new")
    assert ended.exit_code == (3 if ahead else 0), ended.output
    assert ("newer than the current time" in " ".join(ended.stdout.split())) == bool(ahead)


def test_a_plan_of_an_old_run_has_no_dangerous_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_of(tmp_path / "run", BELOW[:1], ledgers=ROWS)
    set_clock(monkeypatch, NOW_MS + DAY + 1)
    value = json.loads(bkaudit(tmp_path / "run", "--format", "json").stdout)
    assert value["steps"] == []
    [refused] = value["refused"]
    assert (refused["kind"], refused["reason"]) == ("recover", "audit-again")
    assert "more than 24 hours old" in refused["why"]


@pytest.mark.usefixtures("hour_later")
@pytest.mark.parametrize(
    ("rows", "code", "word"),
    [
        (ROWS, 0, "still true"),
        ([ledger(7, "b:1", "d:1", version=4)], 0, "done"),
        ([ledger(7, "b:1", "c:1", version=4)], 1, "no longer true"),
    ],
)
def test_check_exit_code_follows_the_step_states(rows: Any, code: int, word: str, tmp_path: Path) -> None:
    plan = make_plan(run_of(tmp_path / "old", BELOW[:1], ledgers=ROWS))
    write_plan(plan, str(tmp_path / "plan.toml"))
    run_of(tmp_path / "new", [], ledgers=rows)
    ended = bkaudit("check", tmp_path / "plan.toml", "--run", tmp_path / "new")
    assert (ended.exit_code, f"1. {word}: copy 1 ledger" in ended.stdout) == (code, True)
    value = bkaudit("check", tmp_path / "plan.toml", "--run", tmp_path / "new", "--format", "json")
    jsonschema.validate(json.loads(value.stdout), plan_check_schema())
    ticket = bkaudit("check", tmp_path / "plan.toml", "--run", tmp_path / "new", "--format", "markdown")
    assert f"- [{'x' if word == 'done' else ' '}] **1. {word}**" in ticket.stdout


@pytest.mark.usefixtures("hour_later")
def test_store_check_leaves_disk_findings_unknown(tmp_path: Path) -> None:
    plan = make_plan(run_of(tmp_path / "old", [make_finding("metadata-suspect", None, "a:1")]))
    plan = replace(plan, instance_id=None)
    write_plan(plan, str(tmp_path / "plan.toml"))
    ended = bkaudit("check", tmp_path / "plan.toml", "--metadata", dump_of(tmp_path))
    assert ended.exit_code == 3
    assert "unknown: the finding metadata-suspect" in ended.stdout


@pytest.mark.usefixtures("hour_later")
def test_newest_run_is_planned_and_a_saved_store_is_refused_for_checks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run_of(tmp_path / "runs" / "1", BELOW[:1], ledgers=ROWS)
    shown = bkaudit("--format", "json")
    assert (shown.exit_code, json.loads(shown.stdout)["run"]) == (0, "runs/1")
    assert "add --out PLAN.toml to write the plan to a file" in shown.stderr
    plan = replace(make_plan(RunReader("runs/1")), metadata_uri="dump:///saved.jsonl")
    write_plan(plan, "plan.toml")
    ended = bkaudit("check", "plan.toml")
    assert (ended.exit_code, ended.stderr.count("\n")) == (2, 1)
    assert "a saved store does not have the current state. Pass --run NEWER or --metadata URI" in ended.stderr


def test_wrong_plan_usage_prints_one_line(tmp_path: Path) -> None:
    path = tmp_path / "plan.toml"
    path.write_text('schema = "something"\n')
    for words in (["show", path], ["check", path, "--run", tmp_path], [tmp_path / "nowhere"]):
        ended = bkaudit(*words)
        assert (ended.exit_code, ended.stderr.count("\n")) == (2, 1), ended.output


NOT_ALLOWED = "not allowed because of a hold"


def hold_table(kind: ActionKind, key: str, object: str = "bookie", reason: str = "replica-mismatch") -> Any:
    return {"holds": [hold(key, kind, reason=reason, object=object)]}


@pytest.mark.parametrize(
    ("kind", "key", "object", "why"),
    [
        (ActionKind.RECOVER, "7", "ledger", "changed: ledgers 7"),
        (ActionKind.RECOVER, "c:1", "bookie", f"{NOT_ALLOWED}: bookie c:1 is needed (replica-mismatch)"),
        (ActionKind.RECOVER, "metadata", "source", NOT_ALLOWED),
        (ActionKind.RECOVER, "bookie c:1", "source", NOT_ALLOWED),
    ],
)  # fmt: skip
def test_step_is_changed_if_a_newer_run_holds_its_objects(
    kind: ActionKind, key: str, object: str, why: str, tmp_path: Path
) -> None:
    plan = make_plan(run_of(tmp_path / "old", BELOW, ledgers=ROWS))
    run_of(tmp_path / "new", [], ledgers=ROWS, **hold_table(kind, key, object))
    [step] = check_steps(plan, str(tmp_path / "new"))
    assert step.state is StepState.CHANGED
    assert any(sentence.startswith(why) for sentence in step.why)
    assert step.ledgers_changed == (1 if object == "ledger" else 0)


def test_cookie_deletion_is_changed_if_a_newer_run_holds_the_cookie(tmp_path: Path) -> None:
    plan = make_plan(run_of(tmp_path / "old", [UNUSED], RETIRED, cookies=[COOKIE]))
    held_cookie = hold_table(ActionKind.DELETE_COOKIE, "e:1", reason="bookie-alias")
    run_of(tmp_path / "new", [UNUSED], RETIRED, cookies=[COOKIE], **held_cookie)
    [step] = check_steps(plan, str(tmp_path / "new"))
    assert (step.kind, step.state) == (ActionKind.DELETE_COOKIE, StepState.CHANGED)


def test_recovery_of_a_whole_bookie_is_changed_if_one_ledger_is_held(tmp_path: Path) -> None:
    rows = [ledger(7, "a:1", "b:1"), ledger(8, "a:1", "b:1")]
    plan = make_plan(run_of(tmp_path / "old", [ON_LOST], LOST, ledgers=rows, cluster=[]))
    [step] = plan.steps
    assert "recover -sk" in step.commands[-1].text
    run_of(
        tmp_path / "new", [], LOST, ledgers=rows, cluster=[], **hold_table(ActionKind.RECOVER, "7", "ledger")
    )
    [answer] = check_steps(plan, str(tmp_path / "new"))
    assert answer.state is StepState.CHANGED
    assert any("not allowed because of a hold: ledger 7 is needed" in sentence for sentence in answer.why)


def test_step_that_restarts_a_held_bookie_is_changed(tmp_path: Path) -> None:
    finding = make_finding(
        "gc-would-delete-live", None, "a:1", severity=Severity.CRITICAL, reasons=["last-copy"]
    )
    plan = make_plan(run_of(tmp_path / "old", [finding], ledgers=ROWS))
    assert "start a:1" in {command.text for command in plan.steps[0].commands}
    run_of(
        tmp_path / "new", [finding], ledgers=ROWS, **hold_table(ActionKind.START, "a:1", reason="disk-shared")
    )
    [step] = check_steps(plan, str(tmp_path / "new"))
    assert step.state is StepState.CHANGED


def test_newer_run_without_holds_permits_no_step(tmp_path: Path) -> None:
    plan = make_plan(run_of(tmp_path / "old", BELOW, ledgers=ROWS))
    run_of(tmp_path / "new", [], ledgers=ROWS, facts={"holds": None})
    [step] = check_steps(plan, str(tmp_path / "new"))
    assert step.state is StepState.UNKNOWN
    assert any("which had no holds" in sentence for sentence in step.why)


WIDE = ledger(7, "a:1", "b:1", "c:1", quorum=3)
ON_TWO = ledger(7, "a:1", "b:1", version=4)
"""The same ledger after its third copy was given up."""
REINDEX = make_finding("ledger-not-indexed", 7, "b:1", path="/x/current/locations/1.sst", reason="-")
STOPS = [make_finding("metadata-suspect", None, name, severity=Severity.CRITICAL) for name in ("a:1", "b:1")]


@pytest.mark.parametrize(
    ("findings", "bookies", "states"),
    [
        (STOPS, {}, [StepState.STILL_VALID, StepState.CHANGED]),
        # What stopped since is no part of the set: holds of the run know whose last copies there are now.
        (STOPS, {"a:1": {"registered": None}}, [StepState.STILL_VALID, StepState.STILL_VALID]),
        (STOPS[1:], {}, [StepState.DONE, StepState.STILL_VALID]),
        ([STOPS[0], REINDEX], {}, [StepState.STILL_VALID, StepState.CHANGED]),
    ],
    ids=["both", "stopped", "mended", "rebuild"],
)
def test_stops_that_leave_entries_unserved_are_changed(
    findings: Any, bookies: Any, states: list[StepState], tmp_path: Path
) -> None:
    planned = [STOPS[0], REINDEX] if REINDEX in findings else STOPS
    facts = {"entry_logs": True}
    plan = make_plan(run_of(tmp_path / "old", planned, {}, facts, ledgers=[WIDE]))
    assert [step.bookie_id for step in plan.steps] == ["a:1", "b:1"]
    run_of(tmp_path / "new", findings, bookies, facts, ledgers=[ON_TWO])
    steps = check_steps(plan, str(tmp_path / "new"))
    assert [step.state for step in steps] == states
    refused = [why for step in steps for why in step.why]
    assert refused == [
        "not permitted: only a:1, b:1 serve some entries, and this plan already stops the others of "
        "these bookies"
    ] * (states.count(StepState.CHANGED))
