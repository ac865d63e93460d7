"""The report at a terminal."""

from __future__ import annotations

from dataclasses import replace

from auditor.checks import ALL
from auditor.model.finding import Finding, Missing, Severity
from auditor.model.report import BookiesRead
from auditor.reports import text
from tests.reports.samples import BELOW, LOST, coverage, report, tally

FIRST_SCREEN = """\
cluster    6c1a2a5e-1c1f-4f0e-8a51-1b8a2f7a6f51, layout hierarchical
metadata   zk://h1:2181;h2:2181/ledgers
moment     2026-11-21 05:07:49 UTC; two live scans, at 0x16f and 0x171
ledgers    118 of 120 decided
replicas   340 of 360 decided
bookies    2 of 3 read; not read: bk-c:3181
read only  210 getChildren, 3 multiRead, 340 open

critical   entry-lost 1
error      below-ack-quorum 3 (1 suspect)
note       orphan-ledger 12

NOT-HEALTHY: 1 critical, 3 error, 12 note; not everything could be decided
More: bkaudit explain ledger 9223372036854770002 --run RUN; explain check ID"""


def test_the_first_screen_says_it_all() -> None:
    assert text.summary(report()) == FIRST_SCREEN


def test_samples_follow_by_check_with_their_entries_as_ranges() -> None:
    assert text.render(report()).split("\n\n")[3:5] == [
        """\
entry-lost (critical; 1)
  ledger 9223372036854770002: entry 4 has no copy left
      bk-a:3181 lacks 4; 10-2999 every 3, 2 long (1,995 entries)
      bk-b:3181 lacks 1,2,4-8 (7 entries)""",
        """\
below-ack-quorum (error; 1 of 3 shown)
  ledger 7 [suspect]: 1 of 2 acknowledged copies is left
      bk-a:3181 lacks 0 (1 entry)
      unknown on bk-c:3181""",
    ]


def test_a_clean_cluster_is_told_in_a_few_lines() -> None:
    clean = text.render(report([], findings=(), coverage=coverage(True)))
    assert clean.splitlines()[-4:] == ["nothing found", "", "HEALTHY: no finding", "More: RUN/tables"]


def test_the_first_screen_is_under_25_lines_whatever_was_found() -> None:
    """Every id at every severity, long names everywhere."""
    tallies = [
        tally(check.id, str(severity), 123_456, confidence)
        for check in ALL
        for severity in Severity
        for confidence in ("confirmed", "suspect")
    ]
    names = tuple(f"bookie-{number}.a-very-long-name.data-centre.example:3181" for number in range(1000))
    unread = replace(coverage(), bookies=BookiesRead(1000, 0, names))
    lines = text.summary(
        report(tallies, coverage=unread, gaps=["/ledgers/00: " + "x" * 200], notes=["a note " * 40] * 9)
    ).splitlines()
    assert len(lines) <= text.FIRST_SCREEN
    assert max(len(line) for line in lines) <= 80
    assert lines[-3].startswith("NOT-HEALTHY")


def test_a_finding_with_very_many_bookies_and_holes_stays_short() -> None:
    holes = tuple((7 * number, 7 * number, 1, 0) for number in range(1000))
    many = replace(
        LOST,
        missing=tuple(Missing(f"bk{n:04}:3181", holes, 1000) for n in range(500)),
        unknown=tuple(f"bx{n:04}:3181" for n in range(500)),
    )
    shown = text.render(report(findings=(many,)))
    assert "and 992 more ranges (1,000 entries)" in " ".join(shown.split())
    assert "and 495 more bookies" in shown
    assert "bx0004:3181 and 495 more" in shown
    assert len(shown) < 3000


def test_no_time_is_too_odd_to_show() -> None:
    base = report()
    assert "9223372036854775807 ms" in text.summary(replace(base, run={**base.run, "scan_time": 2**63 - 1}))


def test_findings_of_one_id_and_two_severities_are_told_apart() -> None:
    ghost = Finding("ghost-bookie", Severity.ERROR, BELOW.confidence, bookie_id="bk-z:3181", message="gone")
    idle = replace(ghost, severity=Severity.NOTE)
    shown = text.render(
        report([tally("ghost-bookie", "error"), tally("ghost-bookie", "note", 4)], findings=(ghost, idle))
    )
    assert "ghost-bookie (error; 1)" in shown
    assert "ghost-bookie (note; 1 of 4 shown)" in shown


def test_a_message_that_names_its_subject_is_not_told_it_again() -> None:
    whole = replace(BELOW, message="ledger 7 has too few copies of an entry")
    assert "  ledger 7 has too few copies of an entry [suspect]" in text.render(report(findings=(whole,)))
    other = replace(BELOW, message="ledger 70 is another")
    assert "  ledger 7 [suspect]: ledger 70 is another" in text.render(report(findings=(other,)))


def test_a_ledger_of_another_scope_is_named_with_it() -> None:
    scoped = replace(BELOW, scope_id=-1, message="ledger 7 has too few copies of an entry")
    shown = text.render(report(findings=(scoped,)))
    assert "  scope -1, ledger 7 [suspect]: ledger 7 has too few copies of an entry" in shown
    assert text.summary(report(findings=(scoped,))).splitlines()[-2:] == [
        "More: bkaudit explain ledger --ledger-qualified-name",
        "      ffffffffffffffff0000000000000007 --run RUN; explain check ID",
    ]


def test_every_severity_keeps_a_line_on_a_full_screen() -> None:
    tallies = [tally(f"{check.id}", str(severity), 5) for check in ALL for severity in Severity]
    shown = text.summary(report(tallies))
    assert all(f"\n{severity} " in shown for severity in Severity)
    assert " ...\n" in shown
