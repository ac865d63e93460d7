"""Every kind of step: what asks for it, what it says to type, and what is refused in its place."""

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
    NOW,
    WORKING,
    found,
    ledger,
    lock,
    mark,
    refusals_of,
    run_of,
    steps_of,
    typed,
)

DAY = 24 * HOUR
PROVED_STORE = {"scope_claimed": SCOPE_EVERY_OWNER, "scope_proved": SCOPE_EVERY_OWNER}
PAIR = ledger(7, "a:1", "b:1")
WIDE = ledger(7, "a:1", "b:1", "c:1", "d:1")
KEEP_FOREIGN, VERIFY = "gcOverreplicatedLedgerWaitTime=0", "verifyMetadataOnGC=true"
OLD = [mark(7, "a:1", age=2 * DAY), lock(1)]
ONE, OTHER = {"journal_dirs": "/j", "ledger_dirs": ["/l"]}, {"journal_dirs": "/k", "ledger_dirs": ["/l"]}
LEDGERS_INDEX = [
    "look: bookkeeper shell check-db-ledgers-index", "do: bookkeeper shell rebuild-db-ledgers-index",
]  # fmt: skip
COOKIE = {
    "bookie_id": "e:1", "layout": 5, "bookie_host": "e:1", "journal_dirs": "/j", "ledger_dirs": ["/l"],
    "index_dirs": None, "instance_id": "x", "damage": None, "version": 0,
}  # fmt: skip


# copies


def test_a_ledger_is_copied_off_a_registered_bookie_that_lacks_it(tmp_path: Path) -> None:
    run = run_of(
        tmp_path,
        [
            found("below-ack-quorum", 7, lacking=["a:1"]),
            found("below-write-quorum", 9, lacking=["a:1", "b:1"]),
        ],
        ledgers=[PAIR, ledger(9, "a:1", "b:1", version=5)],
    )
    [step] = steps_of(run, ActionKind.RECOVER)
    assert typed(step) == [
        "look: bookkeeper shell recover -dr -l ID a:1",
        "do: bookkeeper shell recover -l ID a:1",
    ]
    assert [(each.ledger_id, each.version, each.state) for each in step.ledgers] == [
        ("7", 3, "CLOSED"), ("9", 5, "CLOSED"),
    ]  # fmt: skip
    assert step.bytes == 2 * 2 * 120
    assert step.expires == NOW + DAY
    assert step.requires == (Condition(Fact.VERSION, "", "as listed"), Condition(Fact.LOCKED, "", "no"))
    assert step.done_when == (Condition(Fact.IN_ENSEMBLE, "a:1", "no"),)
    assert make_plan(run).without_step == ()


def test_one_ledger_is_put_into_the_command(tmp_path: Path) -> None:
    run = run_of(tmp_path, [found("below-ack-quorum", 7, lacking=["a:1"])], ledgers=[PAIR])
    [step] = steps_of(run, ActionKind.RECOVER)
    assert typed(step)[1] == "do: bookkeeper shell recover -l 7 a:1"


@pytest.mark.parametrize(
    ("finding", "row", "more", "reason"),
    [
        (found("entry-lost", 7, lacking=["a:1", "b:1"]), PAIR, {}, "no-copy"),
        (found("below-ack-quorum", 7, sure=False, lacking=["a:1"]), PAIR, {}, "not-confirmed"),
        (found("below-ack-quorum", 7, scope=4, lacking=["a:1"]), PAIR, {}, "shell-refuses"),
        (found("below-ack-quorum", 7, lacking=["a:1"]), WIDE, {}, "no-spare"),
        (found("below-ack-quorum", 7, lacking=["a:1"]), ledger(7, "b:1", "c:1"), {}, "not-confirmed"),
        (
            found("mark-stuck", 7, unrecoverable=False, replicas=["a:1"]),
            ledger(7, "a:1", "b:1", state="OPEN"), {"marks": OLD}, "live-writer",
        ),
        (
            found("mark-stuck", 7, unrecoverable=True, replicas=["a:1"]), ledger(7, "a:1", quorum=1),
            {"marks": OLD}, "no-copy",
        ),
        (
            found("below-ack-quorum", 7, lacking=["a:1"]), PAIR,
            {"marks": [lock(7)], "cluster": []}, "held-by-worker",
        ),
    ],
)  # fmt: skip
def test_what_recover_must_not_do(finding: Any, row: Any, more: Any, reason: str, tmp_path: Path) -> None:
    run = run_of(tmp_path, [finding], ledgers=[row], **more)
    assert steps_of(run, ActionKind.RECOVER) == []
    assert refusals_of(run)[f"recover: {reason}"].ledgers == ("7",)


@pytest.mark.parametrize("marks", [[mark(7, "a:1")], [mark(7, "a:1", age=3 * DAY), lock(7)]])
def test_what_autorecovery_is_about_to_do_is_left_to_it(marks: Any, tmp_path: Path) -> None:
    finding = found("below-ack-quorum", 7, lacking=["a:1"])
    run = run_of(tmp_path, [finding], ledgers=[PAIR], marks=marks)
    [step] = make_plan(run).steps
    assert (step.kind, step.expires) == (ActionKind.WAIT, NOW + HOUR)
    assert [each.ledger_id for each in step.ledgers] == ["7"]
    assert step.done_when == (Condition(Fact.MARKED, "", "no"),)


def test_an_old_mark_that_nobody_holds_is_copied_by_hand(tmp_path: Path) -> None:
    finding = found("mark-stuck", 7, unrecoverable=False, replicas=["a:1"])
    marks = [mark(7, "a:1", age=2 * DAY), lock(1)]
    run = run_of(tmp_path, [finding], ledgers=[PAIR], marks=marks)
    [step] = make_plan(run).steps
    assert (step.kind, step.findings) == (
        ActionKind.RECOVER, (PlanFinding("mark-stuck", 1, (finding.fingerprint,)),),
    )  # fmt: skip


# bookies that are lost

LOST = {"a:1": {"registered": None, "read": "unread"}}
ON_LOST = found("on-unregistered-bookie", None, "a:1", severity=Severity.WARNING, depending=2)
FORGOTTEN = found("mark-missing", None, "a:1", severity=Severity.NOTE, unmarked=2, sample=["7"])


def test_marked_ledgers_of_a_lost_bookie_are_one_step_that_waits(tmp_path: Path) -> None:
    findings = [ON_LOST, found("below-write-quorum", 7, lacking=["a:1"])]
    ledgers = [PAIR, ledger(9, "a:1", "c:1")]
    run = run_of(tmp_path, findings, LOST, ledgers=ledgers, marks=[mark(7, "a:1"), mark(9, "a:1")])
    [step] = make_plan(run).steps
    assert (step.kind, step.bookie_id, step.ledger_count) == (ActionKind.WAIT, "a:1", 2)
    assert [each.id for each in step.findings] == ["on-unregistered-bookie", "below-write-quorum"]


def test_what_the_auditor_forgot_is_queued_again(tmp_path: Path) -> None:
    ledgers = [PAIR, ledger(9, "a:1", "c:1", state="OPEN"), ledger(8, "b:1", "c:1")]
    run = run_of(tmp_path, [ON_LOST, FORGOTTEN], LOST, ledgers=ledgers, marks=[mark(11, "d:1")])
    [step] = make_plan(run).steps
    assert step.kind is ActionKind.RECOVER
    assert typed(step) == [
        "look: bookkeeper shell lostbookierecoverydelay -g", "do: bookkeeper shell triggeraudit",
    ]  # fmt: skip
    assert [each.ledger_id for each in step.ledgers] == ["7", "9"]
    assert Condition(Fact.REGISTERED, "a:1", "no") in step.requires
    assert step.done_when == (Condition(Fact.MARKED_OR_DONE, "a:1", "yes"),)


def test_forgotten_marks_that_are_suspected_only_are_not_asked_for(tmp_path: Path) -> None:
    doubted = replace(FORGOTTEN, confidence=Confidence.SUSPECT)
    run = run_of(tmp_path, [ON_LOST, doubted], LOST, ledgers=[PAIR])
    assert make_plan(run).steps == ()
    assert list(refusals_of(run)) == ["recover: not-confirmed"]


def test_without_autorecovery_a_lost_bookie_is_recovered_from(tmp_path: Path) -> None:
    ledgers = [
        PAIR, ledger(9, "a:1", "c:1", state="OPEN"), ledger(8, "b:1", "c:1"),
        ledger(10, "a:1", quorum=1), ledger(11, "a:1", "b:1", "c:1", "d:1"),
    ]  # fmt: skip
    run = run_of(tmp_path, [ON_LOST, FORGOTTEN], LOST, ledgers=ledgers, cluster=[])
    plan = make_plan(run)
    [step] = plan.steps
    assert typed(step) == [
        "look: bookkeeper shell recover -dr -sk -sku a:1", "do: bookkeeper shell recover -sk -sku a:1",
    ]  # fmt: skip
    assert step.risk.startswith("danger")
    assert {f"{each.reason}: {each.ledger_count}" for each in plan.refused} == {
        "no-copy: 1", "no-spare: 1", "live-writer: 1",
    }  # fmt: skip
    assert [each.ledger_id for each in step.ledgers] == ["7"]  # each of the others is refused


def test_nothing_is_recovered_where_somebody_switched_replication_off(tmp_path: Path) -> None:
    cluster = [*WORKING, {"fact": "replication-disabled", "value": "true"}]
    run = run_of(tmp_path, [ON_LOST], LOST, ledgers=[PAIR], cluster=cluster)
    assert make_plan(run).steps == ()
    assert "then enable it" in refusals_of(run)["recover: replication-off"].way_out


def test_unread_marks_leave_it_open(tmp_path: Path) -> None:
    run = run_of(tmp_path, [ON_LOST], LOST, {"marks_listed": False}, ledgers=[PAIR], marks=[])
    assert make_plan(run).steps == ()
    assert list(refusals_of(run)) == ["recover: input-not-known"]


# bookies


@pytest.mark.parametrize(
    ("finding", "settings", "starts"),
    [
        (found("gc-would-delete-live", None, "a:1", reasons=["in-its-ensembles"]), VERIFY, True),
        (found("gc-would-delete-live", None, "a:1", reasons=["last-copy"]), KEEP_FOREIGN, True),
        (found("gc-would-delete-live", None, "a:1", reasons=["not-indexed"]), None, False),
        (found("alias-gc-danger", None, "a:1", ids="old:1"), KEEP_FOREIGN, True),
        (found("metadata-suspect", None, "a:1", rules=["orphan-share"]), None, False),
    ],
)  # fmt: skip
def test_a_collector_is_stopped(finding: Any, settings: str | None, starts: bool, tmp_path: Path) -> None:
    [step] = steps_of(run_of(tmp_path, [finding]), ActionKind.STOP)
    said = [f"by hand: set {settings} in its configuration"] if settings else []
    assert typed(step) == ["by hand: stop the bookie a:1", *said, *(["by hand: start a:1"] if starts else [])]
    assert step.requires == (Condition(Fact.FINDING, f"{finding.id} {finding.fingerprint}", "there"),)


def test_a_bookie_that_is_down_is_not_stopped_first(tmp_path: Path) -> None:
    finding = found("alias-gc-danger", None, "a:1", ids="old:1")
    [step] = steps_of(run_of(tmp_path, [finding], {"a:1": {"registered": None}}), ActionKind.STOP)
    assert typed(step)[0].startswith("by hand: set ")


@pytest.mark.parametrize("id", ["metadata-suspect", "ledger-not-indexed"])
def test_a_bookie_that_serves_what_its_disk_lacks_is_not_stopped(id: str, tmp_path: Path) -> None:
    finding = found(
        id, 7 if id == "ledger-not-indexed" else None, "a:1", path="/x/current/locations", state="ok"
    )
    run = run_of(tmp_path, [finding, found("index-incomplete", None, "a:1")])
    assert [each.partition(": ")[2] for each in refusals_of(run)] == ["last-copy"]
    assert make_plan(run).steps == ()


def test_a_suspected_danger_stops_nobody(tmp_path: Path) -> None:
    run = run_of(tmp_path, [found("metadata-suspect", None, "a:1", sure=False)])
    assert list(refusals_of(run)) == ["stop: not-confirmed"]


def test_a_cookie_is_made_as_version_says(tmp_path: Path) -> None:
    dirs = {"owner": "a:1", "journal_dirs": "/j1,/j2", "ledger_dirs": ["/l1", "/l2"], "index_dirs": ["/i 1"]}
    run = run_of(tmp_path, [found("cookie-missing", None, "a:1")], directories=[dirs, dirs])
    [step] = steps_of(run, ActionKind.MAKE_COOKIE)
    instance = run.report.cluster.instance_id
    assert typed(step) == [
        f"look: bookkeeper shell cookie_generate -j /j1,/j2 -l /l1,/l2 -i {instance} -o a_1.cookie a:1 "
        "-ix '/i 1'",
        "do: bookkeeper shell cookie_create -cf a_1.cookie a:1",
    ]
    assert step.requires[0] == Condition(Fact.COOKIE, "a:1", "none")


@pytest.mark.parametrize(
    ("bookie", "rows", "reason"),
    [
        ("a:1", [], "input-not-known"),
        ("a:1", [ONE, OTHER], "input-not-known"),
        ("named", [ONE], "shell-refuses"),
    ],
)  # fmt: skip
def test_a_cookie_that_is_not_made(bookie: str, rows: Any, reason: str, tmp_path: Path) -> None:
    directories = [{"owner": bookie, **row} for row in rows]
    run = run_of(tmp_path, [found("cookie-missing", None, bookie)], {bookie: {}}, directories=directories)
    assert list(refusals_of(run)) == [f"make-cookie: {reason}"]


@pytest.mark.parametrize(
    ("finding", "commands", "ledgers"),
    [
        (
            found("ledger-not-indexed", 7, "a:1", path="/x/current/locations/1.sst", reason="-"),
            LEDGERS_INDEX, 0,
        ),
        (
            found("index-unreadable", None, "a:1", path="/x/current/locations/1.sst", state="damaged"),
            ["do: bookkeeper shell rebuild-db-ledger-locations-index"], 0,
        ),
        (
            found("index-unreadable", None, "a:1", path="/x/current/ledgers", state="damaged"),
            LEDGERS_INDEX, 0,
        ),
        (
            found("index-unreadable", 7, "a:1", path="/x/current/0/0/7.idx", state="cut"),
            [
                "look: bookkeeper shell regenerate-interleaved-storage-index-file -l 7 -password ANY -dryRun",
                "do: bookkeeper shell regenerate-interleaved-storage-index-file -l 7 -password PASSWORD",
            ], 1,
        ),
    ],
)  # fmt: skip
def test_an_index_is_rebuilt_as_its_storage_wants(
    finding: Any, commands: list[str], ledgers: int, tmp_path: Path
) -> None:
    [step] = steps_of(run_of(tmp_path, [finding], ledgers=[PAIR]), ActionKind.REBUILD_INDEX)
    assert typed(step) == ["by hand: stop the bookie a:1", *commands, "by hand: start a:1"]
    assert step.ledger_count == ledgers


def test_a_misplaced_index_file_is_not_rebuilt(tmp_path: Path) -> None:
    finding = found("index-unreadable", 7, "a:1", path="/x/current/0/0/7.idx", state="misplaced")
    plan = make_plan(run_of(tmp_path, [finding]))
    assert (plan.steps, plan.without_step) == ((), (UnplannedCount("index-unreadable", 1),))


UNUSED = found("cookie-unused", None, "e:1", severity=Severity.NOTE)
RETIRED = {"e:1": {"named": False, "registered": None, "found": False, "read": "unread"}}


def test_a_cookie_that_nobody_needs_is_deleted(tmp_path: Path) -> None:
    [step] = steps_of(run_of(tmp_path, [UNUSED], RETIRED, cookies=[COOKIE]), ActionKind.DELETE_COOKIE)
    assert typed(step) == [
        "save: bookkeeper shell cookie_get e:1",
        "do: bookkeeper shell cookie_delete e:1",
        "undo: bookkeeper shell cookie_create -cf e_1.cookie e:1",
    ]
    assert [each.fact for each in step.requires] == [Fact.COOKIE, Fact.REGISTERED, Fact.IN_ANY_LEDGER]


@pytest.mark.parametrize(
    ("findings", "bookies", "tables", "reason"),
    [
        ([UNUSED, found("entry-lost", 7, lacking=["a:1"])], RETIRED, {}, "last-copy"),
        (
            [UNUSED], {"e:1": {**RETIRED["e:1"], "read": "read"}},
            {"gc_foresight": [{"bookie_id": "e:1", "scope_id": 0, "ledger_id": 7, "reason": "last-copy"}]},
            "last-copy",
        ),
        ([UNUSED], {"e:1": {**RETIRED["e:1"], "marked": True}}, {}, "not-confirmed"),
        ([found("bookie-down", None, "e:1")], {"e:1": {"registered": None}}, {}, "named-by-metadata"),
    ],
)  # fmt: skip
def test_a_cookie_that_must_stay(
    findings: Any, bookies: Any, tables: Any, reason: str, tmp_path: Path
) -> None:
    run = run_of(tmp_path, findings, bookies, cookies=[COOKIE], ledgers=[PAIR], **tables)
    assert steps_of(run, ActionKind.DELETE_COOKIE) == []
    assert f"delete-cookie: {reason}" in refusals_of(run)


# metadata of ledgers


def test_metadata_that_an_owner_names_is_put_back_before_the_collection(tmp_path: Path) -> None:
    findings = [
        found("owner-dangling", 7), found("owner-dangling", 8), found("owner-dangling", 9, sure=False),
        found("owner-dangling", 10, severity=Severity.WARNING),
        *(found("orphan-ledger", id, "a:1", severity=Severity.NOTE) for id in (7, 9, 11)),
    ]  # fmt: skip
    plan = make_plan(run_of(tmp_path, findings))
    [step] = plan.steps
    assert typed(step) == [
        "look: bookkeeper shell ledgermetadata -l 7",
        "do: bookkeeper shell ledgermetadata -l 7 -restorefromfile 7.metadata",
    ]
    assert "before garbage collection on a:1 deletes them" in step.about
    assert {(each.reason, each.ledgers) for each in plan.refused} == {
        ("no-copy", ("8",)),
        ("not-confirmed", ("9",)),
    }
    assert plan.without_step == (UnplannedCount("owner-dangling", 1), UnplannedCount("orphan-ledger", 1))


def test_ledgers_that_nobody_owns_are_deleted_one_by_one_after_two_runs(tmp_path: Path) -> None:
    def unowned(
        id: int, state: str = "CLOSED", seen: bool = True, sure: bool = True, complete: bool = True
    ) -> Any:
        return found(
            "ledger-unowned", id, severity=Severity.NOTE, sure=sure, state=state, seen_before=seen,
            owners_complete=complete,
        )  # fmt: skip

    findings = [unowned(7), unowned(8), unowned(9, "OPEN"), unowned(10, seen=False, sure=False)]
    plan = make_plan(run_of(tmp_path, findings, ledgers=[PAIR, ledger(8, "a:1", "b:1")]))
    [step] = plan.steps
    assert typed(step) == [
        "look: bookkeeper shell ledgermetadata -l ID",
        "save: bookkeeper shell ledgermetadata -l ID -dumptofile ID.metadata",
        "do: bookkeeper shell deleteledger -l ID",
        "undo: bookkeeper shell ledgermetadata -l ID -restorefromfile ID.metadata",
    ]
    assert not any("-f" in each.text.split() for each in step.commands)
    assert [each.ledger_id for each in step.ledgers] == ["7", "8"]
    assert {(each.reason, each.ledgers) for each in plan.refused} == {
        ("live-writer", ("9",)), ("not-confirmed", ("10",)),
    }  # fmt: skip


@pytest.mark.parametrize("evidence", [{}, {"owners_complete": False}], ids=["old run", "not proved"])
def test_no_ledger_is_deleted_unless_every_owner_was_read(evidence: dict[str, Any], tmp_path: Path) -> None:
    finding = found("ledger-unowned", 7, severity=Severity.NOTE, state="CLOSED", seen_before=True, **evidence)
    plan = make_plan(run_of(tmp_path, [finding], ledgers=[PAIR]))
    assert plan.steps == ()
    [refused] = plan.refused
    assert (refused.reason, refused.ledgers) == ("not-confirmed", ("7",))
    assert "not every owner was read" in refused.why


# the plan


def everything(path: Path) -> RepairPlan:
    findings = [
        found("metadata-suspect", None, "a:1", severity=Severity.CRITICAL),
        found("owner-dangling", 30), found("orphan-ledger", 30, "b:1", severity=Severity.NOTE),
        found("ledger-not-indexed", 7, "b:1", path="/x/current/locations", reason="-"),
        found("below-ack-quorum", 7, lacking=["c:1"]), found("below-ack-quorum", 8, lacking=["c:1"]),
        UNUSED, found("ledger-unowned", 8, severity=Severity.NOTE, state="CLOSED", seen_before=True,
              owners_complete=True),
        found("stray-file", None, "a:1", severity=Severity.NOTE),
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


def test_steps_come_in_order_and_what_has_no_step_is_counted(tmp_path: Path) -> None:
    plan = everything(tmp_path)
    assert [step.number for step in plan.steps] == [1, 2, 3, 4, 5, 6]
    assert [str(step.kind) for step in plan.steps] == [
        "stop", "restore-metadata", "recover", "wait", "rebuild-index", "delete-ledger",
    ]  # fmt: skip
    # owner-dangling stands for metadata that e:1 could be the last to hold entries of
    assert [each.reason for each in plan.refused] == ["last-copy"]
    assert plan.without_step == (UnplannedCount("stray-file", 1),)


def test_what_a_suppression_accepts_gets_no_step_and_is_counted(tmp_path: Path) -> None:
    known = [
        found("below-ack-quorum", 9, lacking=["a:1"]), found("cookie-missing", None, "b:1"),
        found("entry-lost", 8, lacking=["a:1", "b:1"]),
    ]  # fmt: skip
    asks = found("below-ack-quorum", 7, lacking=["a:1"])
    ledgers = [PAIR, ledger(8, "a:1", "b:1"), ledger(9, "a:1", "b:1")]
    plan = make_plan(run_of(tmp_path, [asks], accepted=known, ledgers=ledgers))
    [step] = plan.steps
    assert [each.ledger_id for each in step.ledgers] == ["7"]
    assert step.findings == (PlanFinding("below-ack-quorum", 1, (asks.fingerprint,)),)
    assert (plan.refused, plan.without_step) == ((), ())
    assert {each.id: each.count for each in plan.accepted} == {
        "below-ack-quorum": 1, "cookie-missing": 1, "entry-lost": 1,
    }  # fmt: skip
    said = "accepted   by suppressions: 1 below-ack-quorum, 1 cookie-missing, 1 entry-lost"
    assert said in plan_text(plan)


def test_what_is_accepted_stays_true_where_a_step_rests_on_it(tmp_path: Path) -> None:
    incomplete, orphan = found("index-incomplete", None, "a:1"), found("orphan-ledger", 7, "b:1")
    findings = [found("metadata-suspect", None, "a:1"), found("owner-dangling", 7)]
    plan = make_plan(run_of(tmp_path, findings, accepted=[incomplete, orphan]))
    assert [str(each.reason) for each in plan.refused] == ["last-copy"]
    assert [each.kind for each in plan.steps] == [ActionKind.RESTORE_METADATA]
    assert "before garbage collection on b:1 deletes them" in plan.steps[0].about
