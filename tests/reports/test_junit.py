"""Tests of the JUnit report for build servers, read by a library that others read such files with."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from junitparser import Failure, JUnitXml, Skipped
from junitparser.junitparser import TestCase as Case

from auditor.checks import ALL_CHECKS, CHECK_BY_ID
from auditor.model.finding import ChangeStatus
from auditor.model.report import Report
from auditor.reports import junit
from auditor.reports.blind_spots import find_blind_spots
from tests.reports.hostile import HOSTILE
from tests.reports.samples import LOST, coverage, report, tally


def cases(report: Report) -> dict[str, Case]:
    [suite] = JUnitXml.fromstring(junit.render(report).encode())
    return {case.name: case for case in suite}


def kinds(case: Case) -> list[type]:
    return [type(result) for result in case.result]


def test_every_check_has_a_junit_test_case() -> None:
    shown = cases(report())
    assert sorted(shown) == sorted(check.id for check in ALL_CHECKS)
    assert shown["entry-lost"].classname == "bookkeeper.replication"


def test_junit_case_fails_with_the_findings_of_its_check() -> None:
    shown = cases(report())
    assert kinds(shown["entry-lost"]) == [Failure]
    [failure] = shown["below-ack-quorum"].result
    assert failure.message == f"3 findings: {CHECK_BY_ID['below-ack-quorum'].title}"
    assert failure.type == "error"
    assert "1 error, suspect" in failure.text
    assert (
        "ledger 7: 1 of 2 acknowledged copies is left (suspect); bk-a:3181 lacks 0 (1 entry)" in failure.text
    )
    assert "bkaudit explain check below-ack-quorum" in failure.text


def test_note_findings_do_not_fail_their_case_and_are_shown() -> None:
    case = cases(report(coverage=coverage(True)))["orphan-ledger"]
    assert kinds(case) == []
    assert "12 note, confirmed; 4 suppressed" in case.system_out


def test_suppressed_findings_do_not_fail_their_case() -> None:
    suppressed_tally = tally("entry-lost", "critical", 2, suppressed=2)
    case = cases(report([suppressed_tally], coverage=coverage(True)))["entry-lost"]
    assert kinds(case) == []
    partly = tally("entry-lost", "critical", 2, suppressed=1)
    [failure] = cases(report([partly], coverage=coverage(True)))["entry-lost"].result
    assert failure.message.startswith("1 finding: ")


def test_check_without_finding_is_skipped_where_its_input_is_incomplete() -> None:
    unread = cases(report())
    assert kinds(unread["surplus-entries"]) == [Skipped]
    assert kinds(unread["segment-gap"]) == []
    holes = cases(report(gaps=["/ledgers/00: no children"]))
    assert kinds(holes["segment-gap"]) == kinds(holes["surplus-entries"]) == [Skipped]
    complete = cases(report(coverage=coverage(True)))
    assert kinds(complete["segment-gap"]) == kinds(complete["surplus-entries"]) == []
    base = report(coverage=coverage(True))
    etcd = cases(replace(base, run=replace(base.run, keeps_marks=False, keeps_times=False)))
    assert kinds(etcd["mark-stuck"]) == kinds(etcd["recovery-stuck"]) == [Skipped]
    unread = cases(report(coverage=coverage(True), entry_logs=False))
    assert kinds(unread["entry-log-missing"]) == [Skipped]
    assert kinds(complete["entry-log-missing"]) == []
    shallow = cases(report(coverage=coverage(True), deep=False))
    assert kinds(shallow["replica-mismatch"]) == [Skipped]
    assert kinds(shallow["entry-log-missing"]) == kinds(complete["replica-mismatch"]) == []


def test_owner_and_offload_checks_are_skipped_without_their_listings() -> None:
    whole = coverage(True)
    unlisted = cases(report(coverage=whole, offload_listing=False))
    for id in ("object-orphan", "offload-object-missing"):
        [skipped] = unlisted[id].result
        assert isinstance(skipped, Skipped)
        assert "--offload-listing" in skipped.message
    assert kinds(unlisted["ledger-unowned"]) == []
    nobody = cases(report(coverage=whole, owners=False, offload_listing=False))
    assert kinds(nobody["ledger-unowned"]) == kinds(nobody["object-orphan"]) == [Skipped]
    looked = cases(report(coverage=whole))
    assert kinds(looked["ledger-unowned"]) == kinds(looked["object-orphan"]) == []


def test_junit_failure_text_has_change_and_suppression_of_a_finding() -> None:
    change_status = ChangeStatus("new", 1_795_237_669_000, "known")
    text = junit.render(report(), {LOST.fingerprint: change_status}.get)
    assert "entry 4 has no copy left (new, suppressed: known)" in text


def test_suite_totals_equal_the_sums_of_its_cases() -> None:
    whole: Any = JUnitXml.fromstring(junit.render(report()).encode())
    totals = (whole.tests, whole.failures, whole.skipped, whole.errors, whole.time)
    whole.update_statistics()
    assert totals[:4] == (whole.tests, whole.failures, whole.skipped, whole.errors)
    assert totals[0] == len(ALL_CHECKS)
    assert (totals[1], totals[3], totals[4]) == (2, 0, 20.0)
    assert totals[2] == len({*find_blind_spots(report())} - {"entry-lost", "below-ack-quorum"}) > 30


def test_hostile_text_stays_text_in_junit() -> None:
    [failure] = cases(report([tally("ghost-bookie", "error")], findings=(HOSTILE,)))["ghost-bookie"].result
    assert "</failure>]]><script>" in failure.text
    assert all(line.isprintable() for line in failure.text.splitlines())


def test_note_of_a_skipped_check_is_shown_in_system_out() -> None:
    case = cases(report())["orphan-ledger"]
    assert kinds(case) == [Skipped]
    assert "12 note, confirmed" in case.system_out


def test_junit_document_size_is_bounded() -> None:
    many = tuple([HOSTILE] * 10_000)
    tallies = [tally(check.id, "error", 10_000) for check in ALL_CHECKS]
    assert len(junit.render(report(tallies, findings=many))) < 200_000
