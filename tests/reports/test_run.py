"""Tests of the text that explains a run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from auditor.checks import ALL_CHECKS
from auditor.model.action_facts import ForbiddenAction
from auditor.model.finding import ChangeStatus, Confidence, Finding, Severity, Urgency
from auditor.model.views import RunView, UnreadBookie
from auditor.reports.plain_text import columns_of
from auditor.reports.run import MAX_DOUBTS_SHOWN, MAX_EXAMPLES_SHOWN, render
from tests.reports.samples import BELOW, LOST, action_list, counts_of, coverage, report, tally

URGENT = (
    "metadata-suspect",
    "gc-would-delete-live",
    "entry-log-header-wrong",
    "bookie-alias",
    "alias-gc-danger",
    "instance-mismatch",
    "disk-version-missing",
    "disk-shared",
    "disk-content-mismatch",
)
"""What deletes or overwrites data by itself, in order."""

RUN = RunView(
    "runs/20261121T050749Z",
    report(),
    directories=6,
    unread_bookies=(UnreadBookie("bk-c:3181", "unread", "no source covers this bookie", 20),),
    fail_on=Severity.ERROR,
    statuses={LOST.fingerprint: ChangeStatus("same", 1_795_000_000_000)},
    storages={"bk-a:3181": "idx", "bk-b:3181": "rocksdb"},
)
TOP = """\
run        runs/20261121T050749Z, ended 2026-11-21 05:08:09 UTC, took 20 s
verdict    NOT HEALTHY: 1 critical, 3 error, 12 note; 4 note accepted; the rest
           are not; not everything could be checked
why        there are findings of severity warning or higher, 3 of them
           confirmed; unconfirmed and suppressed findings also count
exit code  1, with --fail-on error: there is a finding at or above that level,
           or data is lost or about to be deleted. Accepted findings do not
           count

checked
  metadata zk://h1:2181;h2:2181/ledgers: a running store, hierarchical, at zxid
           0x16f and 0x171
  ledgers  118 of 120 checked, 2 unknown
  copies   340 of 360 checked, 20 unknown
  bookies  2 of 3 read completely, in 6 directories
  repair   auditor on bk-a:3181, 2 AutoRecovery processes; no ledgers queued
  reads    99 entries read whole, 210 getChildren, 3 multiRead, 340 open

not checked
  bk-c:3181, not read: no source covers this bookie; at most 20 replicas unknown

skipped checks
  for bk-c:3181: entries outside readable indexes are unknown; checks:
    entry-lost, below-ack-quorum, below-write-quorum, replication-undecided,
    copy-lagging, mark-stale, orphan-ledger and 35 more

unconfirmed
  below-ack-quorum, 1 suspect: """
ACTIONS = """\
actions, in this order
  1. find the disks that held ledger 9223372036854770002, and keep all entry
     logs [entry-lost, 1 finding]
     bkaudit explain ledger 9223372036854770002 --run runs/20261121T050749Z
     for example: entry 4 has no copy left (since: 2026-11-18 11:06:40 UTC)
"""
LAST_LINES = """\

  also found, not urgent: orphan-ledger 8
  suppressed: orphan-ledger 4"""
UNREAD = "bookie-unread"


def test_run_text_goes_from_verdict_to_actions() -> None:
    text = render(RUN, 80)
    assert text.startswith(TOP)
    assert ACTIONS in text
    assert text.endswith(LAST_LINES)


def test_forbidden_actions_follow_the_actions() -> None:
    refusal = ForbiddenAction(
        kind="start", objects="bk-a:3181", why="its disk is not mounted", way_out="audit again", checks=[]
    )
    facts = replace(RUN.report.run, forbidden=[refusal])
    text = render(replace(RUN, report=replace(RUN.report, run=facts)), 80)
    assert "\ndo not\n  do not start bk-a:3181: its disk is not mounted\n    until: audit again\n" in text


def test_run_of_an_earlier_version_has_no_actions() -> None:
    facts = replace(RUN.report.run, actions=None, forbidden=None, holds=None)
    text = render(replace(RUN, report=replace(RUN.report, run=facts)), 80)
    assert text.endswith("an earlier version of bkaudit made this run; audit again to get actions")
    assert "entry-lost, 1 finding" not in text


def test_healthy_run_needs_no_action() -> None:
    clean = report([], (), coverage(True), changes=None, suppressions=[], impact=[])
    text = render(RunView("runs/1", clean, 6, fail_on=Severity.WARNING), 80)
    assert "why        everything was checked, and no finding is more severe than a note" in text
    assert "exit code  0, with --fail-on warning: " in text
    assert text.endswith("\n\nno action is needed")
    for heading in ("not checked", "skipped checks", "unconfirmed"):
        assert heading not in text


def test_incomplete_run_lists_the_unread_bookie() -> None:
    partly = report([tally(UNREAD, "note", 1, "unknown")], (), suppressions=[], impact=[])
    text = render(replace(RUN, report=partly), 80)
    assert "but not everything was checked" in " ".join(text.split())
    assert "exit code  3, " in text
    assert "not urgent: bookie-unread 1" in text


def test_findings_that_destroy_data_precede_other_actions() -> None:
    counts = counts_of([tally(check.id, str(check.severity)) for check in ALL_CHECKS], ())
    tallies = [count._replace(bookie_id=f"bk-{place}", ledger_id=place) for place, count in enumerate(counts)]
    actions = action_list(tallies).actions
    urgencies = [Urgency(action["urgency"]).rank for action in actions]
    assert urgencies == sorted(urgencies)
    destroying = {id for action in actions if action["urgency"] == "destroys-data" for id in action["checks"]}
    # Of a bookie that goes by two ids, the holds name the other one: here there are none.
    assert destroying == {*URGENT} - {"bookie-alias"}
    assert {*URGENT} == {check.id for check in ALL_CHECKS if check.urgency == Urgency.DESTROYS_DATA}


def test_only_the_first_actions_have_an_example() -> None:
    findings = tuple(
        Finding(check.id, check.severity, Confidence.SUSPECT, 0, place, f"bk-{place}", message="it is so",
                urgency=check.urgency)
        for place, check in enumerate(ALL_CHECKS)
    )  # fmt: skip
    tallies = [tally(check.id, str(check.severity), 10**9, "suspect") for check in ALL_CHECKS]
    text = render(replace(RUN, report=report(tallies, findings)), 80)
    assert text.count("for example: ") == MAX_EXAMPLES_SHOWN
    assert len(text.splitlines()) < 600


def test_suppressed_findings_are_not_an_action() -> None:
    text = render(
        replace(RUN, report=report([tally("entry-lost", "critical", 3, suppressed=3)], (LOST,))), 80
    )
    assert "  1. " not in text
    assert text.endswith("actions, in this order\n  suppressed: entry-lost 3")


def test_each_doubt_is_shown_once_and_doubts_are_bounded() -> None:
    doubtful = [
        replace(BELOW, ledger_id=n, evidence={"doubts": ["the ledger is not closed", f"doubt {n}"]})
        for n in range(9)
    ]
    text = " ".join(render(replace(RUN, report=report(findings=tuple(doubtful))), 80).split())
    assert text.count("the ledger is not closed") == 1
    assert "; doubt 0; doubt 1 (and 7 other reasons)" in text
    assert MAX_DOUBTS_SHOWN == 3


@pytest.mark.parametrize("width", [40, 60, 80])
def test_run_text_lines_fit_the_width_except_commands(width: int) -> None:
    evil = Finding(
        "ghost-bookie", Severity.ERROR, Confidence.SUSPECT, bookie_id="\x1b]0;x\x07台" * 30, message="台" * 99
    )
    odd = report([tally("ghost-bookie", "error", 1, "suspect")], (evil,), gaps=["台" * 200] * 20)
    unread = tuple(UnreadBookie("b" * 99, "partial", "台" * 50, 3) for _ in range(10))
    text = render(replace(RUN, path="/runs/" + "r" * 200, report=odd, unread_bookies=unread), width)
    assert text.replace("\n", "").isprintable()
    lines = [line for line in text.splitlines() if "bookkeeper shell" not in line and "bkaudit" not in line]
    assert all(columns_of(line) <= width for line in lines)
