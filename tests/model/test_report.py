"""A report: its JSON, its verdict, and the resulting exit code."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from auditor.errors import RunError
from auditor.model.action_facts import HoldFacts
from auditor.model.finding import Severity
from auditor.model.option_values import FailOn
from auditor.model.report import Report, exit_code
from auditor.model.report_source import Figures
from auditor.model.run_facts import AcceptedGaps, RemarkKind, Tally, remark
from auditor.model.views import RunView
from auditor.reports import first_screen, html, markdown
from auditor.reports.coverage import verdict
from auditor.reports.history import status_line
from auditor.reports.run import render as explain
from tests.reports.samples import CHANGES, coverage, report, tally


def test_report_is_read_back_from_json() -> None:
    assert Report.from_json(report().to_json()) == report()


def test_ids_of_ledgers_and_scopes_are_decimal_strings() -> None:
    findings = json.loads(report().to_json())["findings"]
    assert findings[0]["ledger_id"] == "9223372036854770002"
    assert findings[0]["scope_id"] == "0"
    assert findings[-1]["ledger_id"] is None


def test_counts_are_sorted_by_severity() -> None:
    assert list(report().counts) == ["entry-lost", "below-ack-quorum", "orphan-ledger"]


@pytest.mark.parametrize(
    ("severity", "complete", "verdict"),
    [
        ("critical", True, "not-healthy"),
        ("warning", False, "not-healthy"),
        ("note", True, "healthy"),
        ("note", False, "incomplete"),
    ],
)
def test_the_verdict_follows_findings_and_coverage(severity: str, complete: bool, verdict: str) -> None:
    tallies = [tally("some-check", severity, confidence="unknown")]
    assert report(tallies, coverage=coverage(complete)).verdict == verdict


def test_a_gap_in_the_metadata_makes_a_run_incomplete() -> None:
    assert report([], coverage=coverage(True), gaps=["/ledgers/00: no children"]).verdict == "incomplete"


@pytest.mark.parametrize(
    ("findings", "complete", "fail_on", "code"),
    [
        ([], True, "error", 0),
        ([], False, "error", 3),
        ([tally("a", "warning")], True, "error", 0),
        ([tally("a", "warning")], False, "error", 3),
        ([tally("a", "warning")], False, "warning", 1),
        ([tally("a", "error", confidence="unknown")], True, "error", 3),
        ([tally("a", "critical", confidence="suspect")], True, "error", 3),
        ([tally("a", "critical", confidence="suspect"), tally("b", "error")], True, "error", 1),
        ([tally("a", "warning", confidence="suspect")], True, "error", 0),
        ([tally("a", "critical")], True, "note", 1),
        ([tally("metadata-unreadable", "error", 100)], True, "error", 5),
        ([tally("metadata-unreadable", "error", 99)], True, "error", 1),
    ],
)
def test_exit_codes_go_by_precedence(
    findings: list[dict[str, object]], complete: bool, fail_on: str, code: int
) -> None:
    assert exit_code(report(findings, coverage=coverage(complete)), Severity(fail_on)) == code


@pytest.mark.parametrize(
    ("finding_tally", "fail_on", "compared", "code"),
    [
        (tally("a", "error", 3, suppressed=3), "error", True, 0),
        (tally("a", "error", 3, suppressed=2), "error", True, 1),
        (tally("a", "error", 3), "new", True, 0),
        (tally("a", "error", 3, new=1), "new", True, 1),
        (tally("a", "critical", 3, worse=1), "new", True, 1),
        (tally("a", "warning", 3, new=3), "new", True, 0),
        (tally("a", "error", 3, "suspect", new=1), "new", True, 3),
        (tally("a", "error", 3, "suspect"), "new", True, 0),
        (tally("a", "error", 3, "suspect", suppressed=3), "error", True, 0),
        # With no run before, all is new.
        (tally("a", "error", 3), "new", False, 1),
        (tally("a", "error", 3, suppressed=3), "new", False, 0),
        (tally("metadata-unreadable", "error", 100, suppressed=100), "new", True, 5),
    ],
)
def test_exit_code_ignores_suppressed_and_known_findings(
    finding_tally: Tally, fail_on: FailOn, compared: bool, code: int
) -> None:
    changes = CHANGES if compared else None
    assert exit_code(report([finding_tally], coverage=coverage(True), changes=changes), fail_on) == code


@pytest.mark.parametrize("urgency", ["destroys-data", "lost"])
@pytest.mark.parametrize("fail_on", ["critical", "error", "new"])
@pytest.mark.parametrize(
    ("confidence", "suppressed", "code"),
    [("confirmed", 0, 1), ("confirmed", 2, 1), ("suspect", 0, 3), ("unknown", 2, 3), ("confirmed", 3, 0)],
)
def test_loss_that_is_not_fully_accepted_never_exits_with_0(
    urgency: str, fail_on: FailOn, confidence: str, suppressed: int, code: int
) -> None:
    finding_tally = tally("a", "error", 3, confidence, suppressed=suppressed, urgency=urgency)
    built_report = report([finding_tally], coverage=coverage(True), changes=CHANGES)
    assert exit_code(built_report, fail_on) == code


@pytest.mark.parametrize(
    ("tallies", "words"),
    [
        ([tally("a", "critical", 7)], "7 critical"),
        ([tally("a", "critical", 7, suppressed=7)], "7 critical; all accepted"),
        (
            [
                tally("a", "critical", 7, suppressed=4),
                tally("b", "error", 3),
                tally("c", "note", 2, suppressed=2),
            ],
            "7 critical, 3 error, 2 note; 4 critical, 2 note accepted; the rest are not",
        ),
    ],
)
def test_verdict_names_accepted_and_unaccepted_counts(tallies: list[Tally], words: str) -> None:
    assert verdict(report(tallies, coverage=coverage(True))) == f"NOT HEALTHY: {words}"


def html_text(built_report: Report) -> str:
    return "".join(html.render(built_report, Figures()))


def with_urgent_holds(built_report: Report, urgent: int) -> Report:
    holds = HoldFacts(total=3, urgent=urgent, carried=urgent, earlier_run="before")
    return replace(built_report, run=replace(built_report.run, holds=holds))


@pytest.mark.parametrize(
    ("tallies", "urgent", "words"),
    [
        ([], 1, "1 hold on data that is lost or about to be deleted is not accepted"),
        (
            [tally("a", "critical", 7, suppressed=7)],
            2,
            "2 holds on data that is lost or about to be deleted are not accepted",
        ),
        ([tally("a", "critical", 7, suppressed=7)], 0, None),
        ([tally("a", "critical", 7, urgency="lost")], 2, None),
    ],
)
def test_the_verdict_names_holds_that_alone_keep_the_exit_code_above_0(
    tallies: list[Tally], urgent: int, words: str | None
) -> None:
    built_report = report(tallies, coverage=coverage(True))
    report_with_holds = with_urgent_holds(built_report, urgent)
    assert verdict(report_with_holds) == (
        f"{verdict(built_report)}; {words}" if words else verdict(built_report)
    )
    assert (exit_code(report_with_holds, Severity.CRITICAL) == 0) == (urgent == 0)
    if words:
        assert words in " ".join(html_text(report_with_holds).split())
        assert f"; {words}." in markdown.render(report_with_holds)
        assert "urgent hold" in status_line(report_with_holds, "runs/a", 0)
        explained = " ".join(
            explain(RunView("runs/a", report_with_holds, 6, fail_on=Severity.CRITICAL), 80).split()
        )
        assert "exit code 3, with --fail-on critical" in explained
        assert "A hold on data that is lost or about to be deleted is not accepted" in explained


def test_report_of_the_previous_version_keeps_its_remarks() -> None:
    built_report = report(remarks=[remark(RemarkKind.JOURNAL_INCOMPLETE, "a journal is cut")])
    earlier = built_report.to_json().replace("report/8", "report/7")
    assert Report.from_json(earlier) == built_report


@pytest.mark.parametrize(
    ("accepted", "code"),
    [
        ({"bookies": ["bk-c:3181"], "ledgers": 2, "replicas": 20}, 0),
        ({"bookies": ["bk-b:3181"], "ledgers": 2, "replicas": 20}, 3),
        ({"bookies": ["bk-c:3181"], "ledgers": 1, "replicas": 20}, 3),
        ({"bookies": ["bk-c:3181"], "ledgers": 2, "replicas": 19}, 3),
    ],
)
def test_only_fully_accepted_gaps_exit_with_0(accepted: AcceptedGaps, code: int) -> None:
    accepted_report = report([tally("bookie-unread", "note", suppressed=1)], accepted=accepted)
    assert exit_code(accepted_report, Severity.ERROR) == code
    assert accepted_report.verdict == "incomplete"
    assert not accepted_report.complete
    shown = first_screen.render(accepted_report)
    assert "accepted   by suppressions: not read: bk-" in shown
    assert ("; all unchecked objects are accepted" in " ".join(shown.split())) is (code == 0)
    gap = report([], accepted=accepted, gaps=["/ledgers/00: no children"])
    assert exit_code(gap, Severity.ERROR) == 3


@pytest.mark.parametrize("confidence", ["suspect", "unknown"])
def test_suspected_findings_fail_with_fail_on_suspect(confidence: str) -> None:
    suspect_report = report([tally("a", "error", confidence=confidence)], coverage=coverage(True))
    assert exit_code(suspect_report, Severity.ERROR, fail_on_suspect=True) == 1
    assert exit_code(suspect_report, Severity.CRITICAL, fail_on_suspect=True) == 0


def test_damaged_records_among_very_many_ledgers_exit_as_findings() -> None:
    large_coverage = coverage(True)
    large_coverage = replace(
        large_coverage, ledgers=replace(large_coverage.ledgers, total=1000, decided=1000)
    )
    assert (
        exit_code(
            report([tally("metadata-unreadable", "error", 100)], coverage=large_coverage), Severity.ERROR
        )
        == 1
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"schema": "bookkeeper-auditor/report/4"}',
        '{"schema": "bookkeeper-auditor/report/8"}',
        '{"schema": "bookkeeper-auditor/report/4", "coverage": 3}',
        "[" * 100_000,
    ],
)
def test_a_broken_report_is_refused(text: str) -> None:
    with pytest.raises(RunError):
        Report.from_json(text)


@pytest.mark.parametrize(
    ("part", "message"),
    [("impact", r"run\.impact"), ("changes", r"run\.changes"), ("tally", r"run\.tally\.new, .*suppressed")],
)
def test_report_of_an_older_version_with_fewer_fields_is_refused(part: str, message: str) -> None:
    value = json.loads(report().to_json())
    if part == "tally":
        for tally_row in value["run"]["tally"]:
            for key in ("new", "worse", "suppressed"):
                del tally_row[key]
    else:
        del value["run"][part]
    with pytest.raises(RunError, match=f"another version of this program .*0.1.0.*{message}.*audit again"):
        Report.from_json(json.dumps(value))


def test_report_with_an_invalid_finding_is_refused() -> None:
    value = json.loads(report().to_json())
    value["findings"][0]["severity"] = "dreadful"
    with pytest.raises(RunError, match="dreadful"):
        Report.from_json(json.dumps(value))
