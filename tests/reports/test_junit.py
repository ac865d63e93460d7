"""A report for build servers, read by a library that others read such files with."""

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
    return [type(each) for each in case.result]


def test_there_is_a_case_for_every_check() -> None:
    shown = cases(report())
    assert sorted(shown) == sorted(check.id for check in ALL_CHECKS)
    assert shown["entry-lost"].classname == "bookkeeper.replication"


def test_a_check_fails_with_what_makes_a_verdict_not_healthy() -> None:
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


def test_notes_do_not_fail_and_are_shown() -> None:
    case = cases(report(coverage=coverage(True)))["orphan-ledger"]
    assert kinds(case) == []
    assert "12 note, confirmed; 4 suppressed" in case.system_out


def test_what_is_suppressed_does_not_fail() -> None:
    known = tally("entry-lost", "critical", 2, suppressed=2)
    case = cases(report([known], coverage=coverage(True)))["entry-lost"]
    assert kinds(case) == []
    partly = tally("entry-lost", "critical", 2, suppressed=1)
    [failure] = cases(report([partly], coverage=coverage(True)))["entry-lost"].result
    assert failure.message.startswith("1 finding: ")


def test_what_was_not_found_is_skipped_where_not_all_was_looked_at() -> None:
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


def test_what_nobody_owns_and_what_a_bucket_has_is_skipped_where_it_was_not_looked_at() -> None:
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


def test_what_is_known_and_since_when_is_said() -> None:
    change_status = ChangeStatus("new", 1_795_237_669_000, "known")
    text = junit.render(report(), {LOST.fingerprint: change_status}.get)
    assert "entry 4 has no copy left (new, suppressed: known)" in text


def test_the_totals_are_those_of_the_cases() -> None:
    whole: Any = JUnitXml.fromstring(junit.render(report()).encode())
    told = (whole.tests, whole.failures, whole.skipped, whole.errors, whole.time)
    whole.update_statistics()
    assert told[:4] == (whole.tests, whole.failures, whole.skipped, whole.errors)
    assert told[0] == len(ALL_CHECKS)
    assert (told[1], told[3], told[4]) == (2, 0, 20.0)
    assert told[2] == len({*find_blind_spots(report())} - {"entry-lost", "below-ack-quorum"}) > 30


def test_hostile_text_is_text() -> None:
    [failure] = cases(report([tally("ghost-bookie", "error")], findings=(HOSTILE,)))["ghost-bookie"].result
    assert "</failure>]]><script>" in failure.text
    assert all(line.isprintable() for line in failure.text.splitlines())


def test_system_out_is_where_a_skipped_note_is_shown() -> None:
    case = cases(report())["orphan-ledger"]
    assert kinds(case) == [Skipped]
    assert "12 note, confirmed" in case.system_out


def test_the_document_is_bounded() -> None:
    many = tuple([HOSTILE] * 10_000)
    tallies = [tally(check.id, "error", 10_000) for check in ALL_CHECKS]
    assert len(junit.render(report(tallies, findings=many))) < 200_000
