"""Tests of every kind of step: the finding that needs it, the commands it prints, and refusals."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from auditor.model.finding import Confidence, Severity
from auditor.model.holds import ActionKind
from auditor.model.owner_scope import SCOPE_EVERY_OWNER
from auditor.model.plan import Condition, Fact, PlanFinding, RepairPlan, UnplannedCount
from auditor.plan.plan_file import make_plan
from auditor.reports.plan import plan_text
from tests.plan.made import (
    HOUR,
    NOW_MS,
    WORKING,
    ledger,
    lock,
    make_finding,
    mark,
    refusals_of,
    run_of,
    steps_of,
    typed_commands,
)

DAY = 24 * HOUR
PROVED_STORE = {"scope_claimed": SCOPE_EVERY_OWNER, "scope_proved": SCOPE_EVERY_OWNER}
PAIR = ledger(7, "a:1", "b:1")
WIDE = ledger(7, "a:1", "b:1", "c:1", "d:1")
KEEP_FOREIGN, VERIFY = "gcOverreplicatedLedgerWaitTime=0", "verifyMetadataOnGC=true"
OLD = [mark(7, "a:1", age=2 * DAY), lock(1)]
FIRST_DIRS, SECOND_DIRS = (
    {"journal_dirs": "/j", "ledger_dirs": ["/l"]},
    {"journal_dirs": "/k", "ledger_dirs": ["/l"]},
)
LEDGERS_INDEX = [
    "look: bookkeeper shell check-db-ledgers-index", "do: bookkeeper shell rebuild-db-ledgers-index",
]  # fmt: skip
COOKIE = {
    "bookie_id": "e:1", "layout": 5, "bookie_host": "e:1", "journal_dirs": "/j", "ledger_dirs": ["/l"],
    "index_dirs": None, "instance_id": "x", "damage": None, "version": 0,
}  # fmt: skip


# copies


def test_incomplete_ledgers_are_copied_off_a_registered_bookie(tmp_path: Path) -> None:
    run = run_of(
        tmp_path,
        [
            make_finding("below-ack-quorum", 7, lacking=["a:1"]),
            make_finding("below-write-quorum", 9, lacking=["a:1", "b:1"]),
        ],
        ledgers=[PAIR, ledger(9, "a:1", "b:1", version=5)],
    )
    [step] = steps_of(run, ActionKind.RECOVER)
    assert typed_commands(step) == [
        "look: bookkeeper shell recover -dr -l ID a:1",
        "do: bookkeeper shell recover -l ID a:1",
    ]
    assert [(planned.ledger_id, planned.version, planned.state) for planned in step.ledgers] == [
        ("7", 3, "CLOSED"), ("9", 5, "CLOSED"),
    ]  # fmt: skip
    assert step.bytes == 2 * 2 * 120
    assert step.expires == NOW_MS + DAY
    assert step.requires == (Condition(Fact.VERSION, "", "as listed"), Condition(Fact.LOCKED, "", "no"))
    assert step.done_when == (Condition(Fact.IN_ENSEMBLE, "a:1", "no"),)
    assert make_plan(run).without_step == ()


def test_single_ledger_id_is_put_into_the_command(tmp_path: Path) -> None:
    run = run_of(tmp_path, [make_finding("below-ack-quorum", 7, lacking=["a:1"])], ledgers=[PAIR])
    [step] = steps_of(run, ActionKind.RECOVER)
    assert typed_commands(step)[1] == "do: bookkeeper shell recover -l 7 a:1"


@pytest.mark.parametrize(
    ("finding", "row", "tables", "reason"),
    [
        (make_finding("entry-lost", 7, lacking=["a:1", "b:1"]), PAIR, {}, "no-copy"),
        (make_finding("below-ack-quorum", 7, sure=False, lacking=["a:1"]), PAIR, {}, "not-confirmed"),
        (make_finding("below-ack-quorum", 7, scope=4, lacking=["a:1"]), PAIR, {}, "shell-refuses"),
        (make_finding("below-ack-quorum", 7, lacking=["a:1"]), WIDE, {}, "no-spare"),
        (make_finding("below-ack-quorum", 7, lacking=["a:1"]), ledger(7, "b:1", "c:1"), {}, "not-confirmed"),
        (
            make_finding("mark-stuck", 7, unrecoverable=False, replicas=["a:1"]),
            ledger(7, "a:1", "b:1", state="OPEN"), {"marks": OLD}, "live-writer",
        ),
        (
            make_finding("mark-stuck", 7, unrecoverable=True, replicas=["a:1"]), ledger(7, "a:1", quorum=1),
            {"marks": OLD}, "no-copy",
        ),
        (
            make_finding("below-ack-quorum", 7, lacking=["a:1"]), PAIR,
            {"marks": [lock(7)], "cluster": []}, "held-by-worker",
        ),
    ],
)  # fmt: skip
def test_ledger_that_recover_must_not_copy_is_refused(
    finding: Any, row: Any, tables: Any, reason: str, tmp_path: Path
) -> None:
    run = run_of(tmp_path, [finding], ledgers=[row], **tables)
    assert steps_of(run, ActionKind.RECOVER) == []
    assert refusals_of(run)[f"recover: {reason}"].ledgers == ("7",)


@pytest.mark.parametrize("marks", [[mark(7, "a:1")], [mark(7, "a:1", age=3 * DAY), lock(7)]])
def test_marked_ledger_is_left_to_autorecovery(marks: Any, tmp_path: Path) -> None:
    finding = make_finding("below-ack-quorum", 7, lacking=["a:1"])
    run = run_of(tmp_path, [finding], ledgers=[PAIR], marks=marks)
    [step] = make_plan(run).steps
    assert (step.kind, step.expires) == (ActionKind.WAIT, NOW_MS + HOUR)
    assert [planned.ledger_id for planned in step.ledgers] == ["7"]
    assert step.done_when == (Condition(Fact.MARKED, "", "no"),)


def test_ledger_with_an_old_unlocked_mark_is_recovered(tmp_path: Path) -> None:
    finding = make_finding("mark-stuck", 7, unrecoverable=False, replicas=["a:1"])
    marks = [mark(7, "a:1", age=2 * DAY), lock(1)]
    run = run_of(tmp_path, [finding], ledgers=[PAIR], marks=marks)
    [step] = make_plan(run).steps
    assert (step.kind, step.findings) == (
        ActionKind.RECOVER, (PlanFinding("mark-stuck", 1, (finding.fingerprint,)),),
    )  # fmt: skip


# bookies that are lost

LOST = {"a:1": {"registered": None, "read": "unread"}}
ON_LOST = make_finding("on-unregistered-bookie", None, "a:1", severity=Severity.WARNING, depending=2)
FORGOTTEN = make_finding("mark-missing", None, "a:1", severity=Severity.NOTE, unmarked=2, sample=["7"])


def test_marked_ledgers_of_a_lost_bookie_are_one_wait_step(tmp_path: Path) -> None:
    findings = [ON_LOST, make_finding("below-write-quorum", 7, lacking=["a:1"])]
    ledgers = [PAIR, ledger(9, "a:1", "c:1")]
    run = run_of(tmp_path, findings, LOST, ledgers=ledgers, marks=[mark(7, "a:1"), mark(9, "a:1")])
    [step] = make_plan(run).steps
    assert (step.kind, step.bookie_id, step.ledger_count) == (ActionKind.WAIT, "a:1", 2)
    assert [finding.id for finding in step.findings] == ["on-unregistered-bookie", "below-write-quorum"]


def test_unmarked_ledgers_of_a_lost_bookie_are_marked_by_triggeraudit(tmp_path: Path) -> None:
    ledgers = [PAIR, ledger(9, "a:1", "c:1", state="OPEN"), ledger(8, "b:1", "c:1")]
    run = run_of(tmp_path, [ON_LOST, FORGOTTEN], LOST, ledgers=ledgers, marks=[mark(11, "d:1")])
    [step] = make_plan(run).steps
    assert step.kind is ActionKind.RECOVER
    assert typed_commands(step) == [
        "look: bookkeeper shell lostbookierecoverydelay -g", "do: bookkeeper shell triggeraudit",
    ]  # fmt: skip
    assert [planned.ledger_id for planned in step.ledgers] == ["7", "9"]
    assert Condition(Fact.REGISTERED, "a:1", "no") in step.requires
    assert step.done_when == (Condition(Fact.MARKED_OR_DONE, "a:1", "yes"),)


def test_suspected_missing_marks_are_not_requested(tmp_path: Path) -> None:
    doubted = replace(FORGOTTEN, confidence=Confidence.SUSPECT)
    run = run_of(tmp_path, [ON_LOST, doubted], LOST, ledgers=[PAIR])
    assert make_plan(run).steps == ()
    assert list(refusals_of(run)) == ["recover: not-confirmed"]


def test_lost_bookie_is_recovered_without_autorecovery(tmp_path: Path) -> None:
    ledgers = [
        PAIR, ledger(9, "a:1", "c:1", state="OPEN"), ledger(8, "b:1", "c:1"),
        ledger(10, "a:1", quorum=1), ledger(11, "a:1", "b:1", "c:1", "d:1"),
    ]  # fmt: skip
    run = run_of(tmp_path, [ON_LOST, FORGOTTEN], LOST, ledgers=ledgers, cluster=[])
    plan = make_plan(run)
    [step] = plan.steps
    assert typed_commands(step) == [
        "look: bookkeeper shell recover -dr -sk -sku a:1", "do: bookkeeper shell recover -sk -sku a:1",
    ]  # fmt: skip
    assert step.risk.startswith("danger")
    assert {f"{part.reason}: {part.ledger_count}" for part in plan.refused} == {
        "no-copy: 1", "no-spare: 1", "live-writer: 1",
    }  # fmt: skip
    assert [part.ledger_id for part in step.ledgers] == ["7"]  # each of the others is refused


def test_no_recovery_is_planned_while_replication_is_disabled(tmp_path: Path) -> None:
    cluster = [*WORKING, {"fact": "replication-disabled", "value": "true"}]
    run = run_of(tmp_path, [ON_LOST], LOST, ledgers=[PAIR], cluster=cluster)
    assert make_plan(run).steps == ()
    assert "then enable it" in refusals_of(run)["recover: replication-off"].way_out


def test_unread_marks_refuse_recovery(tmp_path: Path) -> None:
    run = run_of(tmp_path, [ON_LOST], LOST, {"marks_listed": False}, ledgers=[PAIR], marks=[])
    assert make_plan(run).steps == ()
    assert list(refusals_of(run)) == ["recover: input-not-known"]


# bookies


@pytest.mark.parametrize(
    ("finding", "settings", "starts"),
    [
        (make_finding("gc-would-delete-live", None, "a:1", reasons=["in-its-ensembles"]), VERIFY, True),
        (make_finding("gc-would-delete-live", None, "a:1", reasons=["last-copy"]), KEEP_FOREIGN, True),
        (make_finding("gc-would-delete-live", None, "a:1", reasons=["not-indexed"]), None, False),
        (make_finding("alias-gc-danger", None, "a:1", ids="old:1"), KEEP_FOREIGN, True),
        (make_finding("metadata-suspect", None, "a:1", rules=["orphan-share"]), None, False),
    ],
)  # fmt: skip
def test_garbage_collector_is_stopped_by_hand(
    finding: Any, settings: str | None, starts: bool, tmp_path: Path
) -> None:
    [step] = steps_of(run_of(tmp_path, [finding]), ActionKind.STOP)
    settings_lines = [f"by hand: set {settings} in its configuration"] if settings else []
    assert typed_commands(step) == [
        "by hand: stop the bookie a:1",
        *settings_lines,
        *(["by hand: start a:1"] if starts else []),
    ]
    assert step.requires == (Condition(Fact.FINDING, f"{finding.id} {finding.fingerprint}", "there"),)


def test_unregistered_bookie_is_not_stopped_first(tmp_path: Path) -> None:
    finding = make_finding("alias-gc-danger", None, "a:1", ids="old:1")
    [step] = steps_of(run_of(tmp_path, [finding], {"a:1": {"registered": None}}), ActionKind.STOP)
    assert typed_commands(step)[0].startswith("by hand: set ")


@pytest.mark.parametrize("id", ["metadata-suspect", "ledger-not-indexed"])
def test_bookie_that_serves_entries_missing_on_disk_is_not_stopped(id: str, tmp_path: Path) -> None:
    finding = make_finding(
        id, 7 if id == "ledger-not-indexed" else None, "a:1", path="/x/current/locations", state="ok"
    )
    run = run_of(tmp_path, [finding, make_finding("index-incomplete", None, "a:1")])
    assert [key.partition(": ")[2] for key in refusals_of(run)] == ["last-copy"]
    assert make_plan(run).steps == ()


def test_suspected_finding_stops_no_bookie(tmp_path: Path) -> None:
    run = run_of(tmp_path, [make_finding("metadata-suspect", None, "a:1", sure=False)])
    assert list(refusals_of(run)) == ["stop: not-confirmed"]


def test_cookie_is_made_from_the_version_files(tmp_path: Path) -> None:
    dirs = {"owner": "a:1", "journal_dirs": "/j1,/j2", "ledger_dirs": ["/l1", "/l2"], "index_dirs": ["/i 1"]}
    run = run_of(tmp_path, [make_finding("cookie-missing", None, "a:1")], directories=[dirs, dirs])
    [step] = steps_of(run, ActionKind.MAKE_COOKIE)
    instance = run.report.cluster.instance_id
    assert typed_commands(step) == [
        f"look: bookkeeper shell cookie_generate -j /j1,/j2 -l /l1,/l2 -i {instance} -o a_1.cookie a:1 "
        "-ix '/i 1'",
        "do: bookkeeper shell cookie_create -cf a_1.cookie a:1",
    ]
    assert step.requires[0] == Condition(Fact.COOKIE, "a:1", "none")


@pytest.mark.parametrize(
    ("bookie", "rows", "reason"),
    [
        ("a:1", [], "input-not-known"),
        ("a:1", [FIRST_DIRS, SECOND_DIRS], "input-not-known"),
        ("named", [FIRST_DIRS], "shell-refuses"),
    ],
)  # fmt: skip
def test_cookie_with_unknown_or_invalid_input_is_refused(
    bookie: str, rows: Any, reason: str, tmp_path: Path
) -> None:
    directories = [{"owner": bookie, **row} for row in rows]
    run = run_of(
        tmp_path, [make_finding("cookie-missing", None, bookie)], {bookie: {}}, directories=directories
    )
    assert list(refusals_of(run)) == [f"make-cookie: {reason}"]


@pytest.mark.parametrize(
    ("finding", "commands", "ledgers"),
    [
        (
            make_finding("ledger-not-indexed", 7, "a:1", path="/x/current/locations/1.sst", reason="-"),
            LEDGERS_INDEX, 0,
        ),
        (
            make_finding("index-unreadable", None, "a:1", path="/x/current/locations/1.sst", state="damaged"),
            ["do: bookkeeper shell rebuild-db-ledger-locations-index"], 0,
        ),
        (
            make_finding("index-unreadable", None, "a:1", path="/x/current/ledgers", state="damaged"),
            LEDGERS_INDEX, 0,
        ),
        (
            make_finding("index-unreadable", 7, "a:1", path="/x/current/0/0/7.idx", state="cut"),
            [
                "look: bookkeeper shell regenerate-interleaved-storage-index-file -l 7 -password ANY -dryRun",
                "do: bookkeeper shell regenerate-interleaved-storage-index-file -l 7 -password PASSWORD",
            ], 1,
        ),
    ],
)  # fmt: skip
def test_index_is_rebuilt_by_the_command_of_its_storage(
    finding: Any, commands: list[str], ledgers: int, tmp_path: Path
) -> None:
    [step] = steps_of(run_of(tmp_path, [finding], ledgers=[PAIR]), ActionKind.REBUILD_INDEX)
    assert typed_commands(step) == ["by hand: stop the bookie a:1", *commands, "by hand: start a:1"]
    assert step.ledger_count == ledgers


def test_a_misplaced_index_file_is_not_rebuilt(tmp_path: Path) -> None:
    finding = make_finding("index-unreadable", 7, "a:1", path="/x/current/0/0/7.idx", state="misplaced")
    plan = make_plan(run_of(tmp_path, [finding]))
    assert (plan.steps, plan.without_step) == ((), (UnplannedCount("index-unreadable", 1),))


UNUSED = make_finding("cookie-unused", None, "e:1", severity=Severity.NOTE)
RETIRED = {"e:1": {"named": False, "registered": None, "found": False, "read": "unread"}}


def test_unused_cookie_is_deleted(tmp_path: Path) -> None:
    [step] = steps_of(run_of(tmp_path, [UNUSED], RETIRED, cookies=[COOKIE]), ActionKind.DELETE_COOKIE)
    assert typed_commands(step) == [
        "save: bookkeeper shell cookie_get e:1",
        "do: bookkeeper shell cookie_delete e:1",
        "undo: bookkeeper shell cookie_create -cf e_1.cookie e:1",
    ]
    assert [condition.fact for condition in step.requires] == [
        Fact.COOKIE,
        Fact.REGISTERED,
        Fact.IN_ANY_LEDGER,
    ]


@pytest.mark.parametrize(
    ("findings", "bookies", "tables", "reason"),
    [
        ([UNUSED, make_finding("entry-lost", 7, lacking=["a:1"])], RETIRED, {}, "last-copy"),
        (
            [UNUSED], {"e:1": {**RETIRED["e:1"], "read": "read"}},
            {"gc_foresight": [{"bookie_id": "e:1", "scope_id": 0, "ledger_id": 7, "reason": "last-copy"}]},
            "last-copy",
        ),
        ([UNUSED], {"e:1": {**RETIRED["e:1"], "marked": True}}, {}, "not-confirmed"),
        ([make_finding("bookie-down", None, "e:1")], {"e:1": {"registered": None}}, {}, "named-by-metadata"),
    ],
)  # fmt: skip
def test_cookie_deletion_is_refused_with_its_reason(
    findings: Any, bookies: Any, tables: Any, reason: str, tmp_path: Path
) -> None:
    run = run_of(tmp_path, findings, bookies, cookies=[COOKIE], ledgers=[PAIR], **tables)
    assert steps_of(run, ActionKind.DELETE_COOKIE) == []
    assert f"delete-cookie: {reason}" in refusals_of(run)


# metadata of ledgers


def test_metadata_that_an_owner_names_is_restored_before_collection(tmp_path: Path) -> None:
    findings = [
        make_finding("owner-dangling", 7), make_finding("owner-dangling", 8),
        make_finding("owner-dangling", 9, sure=False),
        make_finding("owner-dangling", 10, severity=Severity.WARNING),
        *(make_finding("orphan-ledger", id, "a:1", severity=Severity.NOTE) for id in (7, 9, 11)),
    ]  # fmt: skip
    plan = make_plan(run_of(tmp_path, findings))
    [step] = plan.steps
    assert typed_commands(step) == [
        "look: bookkeeper shell ledgermetadata -l 7",
        "do: bookkeeper shell ledgermetadata -l 7 -restorefromfile 7.metadata",
    ]
    assert "before garbage collection on a:1 deletes them" in step.about
    assert {(refusal.reason, refusal.ledgers) for refusal in plan.refused} == {
        ("no-copy", ("8",)),
        ("not-confirmed", ("9",)),
    }
    assert plan.without_step == (UnplannedCount("owner-dangling", 1), UnplannedCount("orphan-ledger", 1))


def test_ledgers_without_owner_in_two_runs_are_deleted_one_by_one(tmp_path: Path) -> None:
    def unowned(
        id: int, state: str = "CLOSED", seen_before: bool = True, sure: bool = True, complete: bool = True
    ) -> Any:
        return make_finding(
            "ledger-unowned", id, severity=Severity.NOTE, sure=sure, state=state, seen_before=seen_before,
            owners_complete=complete,
        )  # fmt: skip

    findings = [unowned(7), unowned(8), unowned(9, "OPEN"), unowned(10, seen_before=False, sure=False)]
    plan = make_plan(run_of(tmp_path, findings, ledgers=[PAIR, ledger(8, "a:1", "b:1")]))
    [step] = plan.steps
    assert typed_commands(step) == [
        "look: bookkeeper shell ledgermetadata -l ID",
        "save: bookkeeper shell ledgermetadata -l ID -dumptofile ID.metadata",
        "do: bookkeeper shell deleteledger -l ID",
        "undo: bookkeeper shell ledgermetadata -l ID -restorefromfile ID.metadata",
    ]
    assert not any("-f" in part.text.split() for part in step.commands)
    assert [part.ledger_id for part in step.ledgers] == ["7", "8"]
    assert {(part.reason, part.ledgers) for part in plan.refused} == {
        ("live-writer", ("9",)), ("not-confirmed", ("10",)),
    }  # fmt: skip


@pytest.mark.parametrize("evidence", [{}, {"owners_complete": False}], ids=["old run", "not proved"])
def test_no_ledger_is_deleted_unless_every_owner_was_read(evidence: dict[str, Any], tmp_path: Path) -> None:
    finding = make_finding(
        "ledger-unowned", 7, severity=Severity.NOTE, state="CLOSED", seen_before=True, **evidence
    )
    plan = make_plan(run_of(tmp_path, [finding], ledgers=[PAIR]))
    assert plan.steps == ()
    [refused] = plan.refused
    assert (refused.reason, refused.ledgers) == ("not-confirmed", ("7",))
    assert "not every owner was read" in refused.why


# the plan


def full_plan(path: Path) -> RepairPlan:
    findings = [
        make_finding("metadata-suspect", None, "a:1", severity=Severity.CRITICAL),
        make_finding("owner-dangling", 30), make_finding("orphan-ledger", 30, "b:1", severity=Severity.NOTE),
        make_finding("ledger-not-indexed", 7, "b:1", path="/x/current/locations", reason="-"),
        make_finding("below-ack-quorum", 7, lacking=["c:1"]),
        make_finding("below-ack-quorum", 8, lacking=["c:1"]), UNUSED,
        make_finding("ledger-unowned", 8, severity=Severity.NOTE, state="CLOSED", seen_before=True,
                     owners_complete=True),
        make_finding("stray-file", None, "a:1", severity=Severity.NOTE),
    ]  # fmt: skip
    rows = [ledger(7, "b:1", "c:1"), ledger(8, "b:1", "c:1")]
    return make_plan(
        run_of(
            path,
            findings,
            RETIRED,
            ledgers=rows,
            cookies=[COOKIE],
            marks=[mark(8, "c:1"), lock(1)],
            ownership=[{"scope_id": 0, "ledger_id": 8, "standing": "unowned"}],
            owner_stores=[PROVED_STORE],
        )
    )


def test_steps_are_ordered_and_findings_without_step_are_counted(tmp_path: Path) -> None:
    plan = full_plan(tmp_path)
    assert [step.number for step in plan.steps] == [1, 2, 3, 4, 5, 6]
    assert [str(step.kind) for step in plan.steps] == [
        "stop", "restore-metadata", "recover", "wait", "rebuild-index", "delete-ledger",
    ]  # fmt: skip
    # owner-dangling stands for metadata that e:1 could be the last to hold entries of
    assert [refusal.reason for refusal in plan.refused] == ["last-copy"]
    assert plan.without_step == (UnplannedCount("stray-file", 1),)


def test_suppressed_findings_get_no_step_and_are_counted(tmp_path: Path) -> None:
    accepted = [
        make_finding("below-ack-quorum", 9, lacking=["a:1"]), make_finding("cookie-missing", None, "b:1"),
        make_finding("entry-lost", 8, lacking=["a:1", "b:1"]),
    ]  # fmt: skip
    asks = make_finding("below-ack-quorum", 7, lacking=["a:1"])
    ledgers = [PAIR, ledger(8, "a:1", "b:1"), ledger(9, "a:1", "b:1")]
    plan = make_plan(run_of(tmp_path, [asks], accepted=accepted, ledgers=ledgers))
    [step] = plan.steps
    assert [part.ledger_id for part in step.ledgers] == ["7"]
    assert step.findings == (PlanFinding("below-ack-quorum", 1, (asks.fingerprint,)),)
    assert (plan.refused, plan.without_step) == ((), ())
    assert {part.id: part.count for part in plan.accepted} == {
        "below-ack-quorum": 1, "cookie-missing": 1, "entry-lost": 1,
    }  # fmt: skip
    accepted_line = "accepted   by suppressions: 1 below-ack-quorum, 1 cookie-missing, 1 entry-lost"
    assert accepted_line in plan_text(plan)


def test_accepted_findings_still_affect_other_steps(tmp_path: Path) -> None:
    incomplete, orphan = (
        make_finding("index-incomplete", None, "a:1"),
        make_finding("orphan-ledger", 7, "b:1"),
    )
    findings = [make_finding("metadata-suspect", None, "a:1"), make_finding("owner-dangling", 7)]
    plan = make_plan(run_of(tmp_path, findings, accepted=[incomplete, orphan]))
    assert [str(part.reason) for part in plan.refused] == ["last-copy"]
    assert [part.kind for part in plan.steps] == [ActionKind.RESTORE_METADATA]
    assert "before garbage collection on b:1 deletes them" in plan.steps[0].about
