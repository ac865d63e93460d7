"""Tests of the report at a terminal."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from math import ceil

import pytest

from auditor.checks import ALL_CHECKS
from auditor.model.finding import (
    URGENCY_LABELS,
    ChangeStatus,
    Confidence,
    Finding,
    Missing,
    Severity,
)
from auditor.model.report import BookiesRead
from auditor.model.run_facts import FindingCause, RemarkKind, remark, sentence_of
from auditor.model.views import RunView
from auditor.reports import first_screen, text
from auditor.reports import run as explained
from auditor.reports.plain_text import columns_of
from tests.reports.samples import BELOW, LOST, ORPHAN, coverage, report, tally

SUSPECT = Confidence.SUSPECT


def terminal_lines(lines: Iterable[str], width: int) -> int:
    """Return how many lines of a terminal these fill. It has 80 columns if ``width`` is unlimited."""
    columns = width if width <= 100 else 80
    return sum(max(1, ceil(columns_of(line) / columns)) for line in lines)


RUN = "runs/20261121T050749Z"
FIRST_SCREEN = """\
cluster    6c1a2a5e-1c1f-4f0e-8a51-1b8a2f7a6f51, 2026-11-21 05:07:49 UTC
metadata   zk://h1:2181;h2:2181/ledgers, layout hierarchical
checked    118 of 120 ledgers, 2 unknown; 340 of 360 ledger copies
bookies    2 of 3 read; not read: bk-c:3181
repair     auditor on bk-a:3181, 2 AutoRecovery processes; no ledgers queued

data lost                    1   entry-lost 1; on 1 ledger of 4.2 GB
below ack quorum             3   below-ack-quorum 3 (1 suspect, 1 new, 1 worse);
                                 on 3 ledgers of 1.0 kB
notes                       12   orphan-ledger 12 (4 suppressed);
                                 on 12 ledgers of 0 B
changed    1 new, 1 worse, 2 fixed, 0 better, 14 unchanged, since 2026-11-20
           05:07:49 UTC; 3 not checked again
suppressed 4: bk-b is being emptied (until 2026-12-31); expired

NOT HEALTHY: 1 critical, 3 error, 12 note; 4 note accepted; the rest are not;
not everything could be checked
first action   find the disks that held ledger 9223372036854770002, and keep all
               entry logs
               bkaudit explain ledger 9223372036854770002 --run runs/20261121T050749Z
all actions    bkaudit explain run runs/20261121T050749Z"""


def test_first_screen_is_complete_and_ends_the_report() -> None:
    assert first_screen.render(report(), RUN) == FIRST_SCREEN
    assert text.render(report(), RUN).endswith(f"\n\n{FIRST_SCREEN}")


def test_sample_findings_precede_the_first_screen_by_check_with_ranges() -> None:
    assert text.render(report(), RUN).split("\n\n")[3:1:-1] == [
        """\
entry-lost (critical; 1)
  A closed ledger has an entry with no copy left.
  ledger 9223372036854770002: entry 4 has no copy left
      bk-a:3181 lacks 4; 10-11, 13-14, ... 2998-2999 (1,995 entries)
      bk-b:3181 lacks 1,2,4-8 (7 entries)
  bkaudit explain check entry-lost
  bkaudit explain ledger 9223372036854770002 --run runs/20261121T050749Z""",
        """\
below-ack-quorum (error; 1 of 3 shown)
  A ledger has an entry with fewer copies than its ack quorum.
  ledger 7 [suspect]: 1 of 2 acknowledged copies is left
      bk-a:3181 lacks 0 (1 entry)
      unknown on bk-c:3181
  bkaudit explain check below-ack-quorum
  bkaudit explain ledger 7 --run runs/20261121T050749Z""",
    ]


def test_verdict_ends_the_report() -> None:
    whole = text.render(report(), RUN)
    verdict = first_screen.render(report(), RUN).split("\n\n")[-1]
    assert whole.endswith(f"\n\n{verdict}")
    assert whole.count(verdict) == 1
    assert verdict.startswith("NOT HEALTHY: ")


def test_clean_cluster_report_ends_in_a_few_lines() -> None:
    clean = report([], findings=(), coverage=coverage(True), changes=None, suppressions=[], impact=[])
    assert text.render(clean).splitlines()[-5:] == [
        "",
        "nothing found",
        "changed    no earlier run to compare with",
        "",
        "HEALTHY: no finding",
    ]


def test_incomplete_run_names_the_command_that_explains_it() -> None:
    shown = text.render(report([], findings=(), suppressions=[], impact=[]), RUN)
    assert shown.endswith(
        "INCOMPLETE: no finding; not everything could be checked\n"
        "all actions    bkaudit explain run runs/20261121T050749Z"
    )


def _urgency(severity: Severity) -> str | None:
    return None if severity.at_least(Severity.ERROR) else "rest"


NAMES = tuple(f"bookie-{number}.a-very-long-name.data-centre.example:3181" for number in range(1000))
LARGE_REPORT = report(
    [
        tally(check.id, str(severity), 12_345_678, confidence, 1_000_000, 1_000, 10_000, _urgency(severity))
        for check in ALL_CHECKS
        for severity in Severity
        for confidence in ("confirmed", "suspect")
    ],
    findings=(replace(LOST, scope_id=-1),),
    coverage=replace(coverage(), bookies=BookiesRead(1000, 0, NAMES)),
    gaps=["/ledgers/00: " + "x" * 200],
    notes=["a note " * 40] * 9,
    impact=[{"severity": str(level), "ledgers": 10**9, "bytes": 10**18} for level in Severity],
    suppressions=[{"reason": "because " * 30, "until": "2027-01-01", "count": 7, "expired": False}] * 50,
)


@pytest.mark.parametrize("width", [60, 80, 100, text.UNLIMITED_WIDTH])
def test_first_screen_fits_a_terminal_for_any_run(width: int) -> None:
    """The run has every id at every severity and long names. Every count and the actions are still shown."""
    lines = first_screen.render(LARGE_REPORT, RUN, width).splitlines()
    assert all(columns_of(line) <= width for line in lines if "bkaudit explain" not in line)
    assert terminal_lines(lines, width) <= 24
    # Warnings and notes are not urgent: there are no others.
    heads = [*URGENCY_LABELS.values(), "other critical findings", "other errors", "warnings", "notes"]
    assert [head for line in lines for head in heads if re.match(rf"{head} +\d", line)] == heads
    shown = " ".join(" ".join(lines).split())
    assert "changed 1 new, 1 worse, 2 fixed, 3 not checked, since 2026-11-20 05:07:49 UTC" in shown
    assert re.search(rf"notes {len(ALL_CHECKS) * 24_691_356:,}:? {len(ALL_CHECKS)} checks", shown)
    assert any(line.startswith("NOT HEALTHY") for line in lines[-9:])


FAULTS = [
    *(tally(f"check-{letter}", "error", 3) for letter in "abcdefghijklmnopqrstuvwxyz"),
    tally("entry-lost", "critical", 3),
    tally("instance-mismatch", "critical"),
    *(tally(f"mild-{letter}", "note", 2) for letter in "abcdefghijklmnopqrstuvwxyz"),
]


def test_less_urgent_checks_are_summed_before_urgent_checks() -> None:
    shown = " ".join(first_screen.render(report(FAULTS, impact=[]), RUN).split())
    assert "data about to be deleted 1 instance-mismatch 1 data lost 3 entry-lost 3 errors 78 check" in shown
    assert shown.count("check-") > 3 * shown.count("mild-")  # errors have their lines before notes
    cut = re.search(r"notes 52 (.*?), (\d+) more checks", shown)
    assert cut is not None
    assert cut[1].count("mild-") + int(cut[2]) == 26


def test_reason_for_no_comparison_is_complete_where_there_is_room() -> None:
    why = f"runs/a/report.json: {'x ' * 120}end"
    reason = remark(RemarkKind.NOT_COMPARED, "not compared with a run in the same directory", why)
    base = report([], findings=(), changes=None, remarks=[reason], suppressions=[])
    assert f"changed {sentence_of(reason)}" in " ".join(first_screen.render(base, RUN).split())
    run = LARGE_REPORT.run
    crowded = replace(LARGE_REPORT, run=replace(run, changes=None, remarks=[*run.remarks, reason]))
    lines = first_screen.render(crowded, RUN).splitlines()
    assert "changed    not compared with a run in the same directory: runs/a/report.json" in lines
    combined = " ".join(
        first_screen.render(replace(base, run=replace(base.run, changes=run.changes)), RUN).split()
    )
    assert f"; 3 not checked again {sentence_of(reason)}" in combined


@pytest.mark.parametrize("width", [80, text.UNLIMITED_WIDTH])
def test_many_remarks_and_causes_are_cut_to_fit_the_first_screen(width: int) -> None:
    causes = [
        FindingCause(
            number=number,
            kind="not-read",
            bookies=[name],
            sentence=f"{name} was not read, because {'its disk ' * 9}is gone",
            count=9,
            findings=[],
            evidence=[],
        )
        for number, name in enumerate((f"bk-{n}:3181" for n in range(7)), 1)
    ]
    many = report(FAULTS, impact=[], notes=[f"bk-{n}:3181 did not answer: {'why ' * 99}" for n in range(99)])
    lines = first_screen.render(replace(many, run=replace(many.run, causes=causes)), RUN, width).splitlines()
    assert terminal_lines(lines, width) <= first_screen.MAX_LINES
    assert "cause      bk-0:3181 was not read (6 more)" in lines
    assert any(line.startswith("notice     bk-0:3181 did not answer") for line in lines)
    assert re.search(r" did not answer \(9[78] more\)", "\n".join(lines))
    assert any(line.startswith("first action ") for line in lines)


@pytest.mark.parametrize("width", [1, 60, 80, 200, 10_000])
def test_report_text_keeps_the_terminal_width(width: int) -> None:
    hostile = "bk\x1b[31m\u202e台帳" + "台" * 120
    finding = replace(
        BELOW, bookie_id=hostile, unknown=(hostile,), missing=(Missing(hostile, ((0, 0, 1, 0),), 1),)
    )
    base = report(findings=(finding, LOST))
    odd = replace(base, cluster=replace(base.cluster, metadata_uri=f"zk://{hostile}/ledgers"))
    shown = text.render(odd, RUN, width)
    assert shown.replace("\n", "").isprintable()
    room = max(text.MIN_WIDTH, min(width, text.MAX_WIDTH))
    assert all(columns_of(line) <= room for line in shown.splitlines() if "bkaudit explain" not in line)


def test_names_are_quoted_in_shell_commands() -> None:
    evil = replace(BELOW, ledger_id=None, scope_id=None, bookie_id="$(reboot);`x`", missing=())
    shown = text.render(report(findings=(evil,)), "runs/a b")
    assert "bkaudit explain bookie '$(reboot);`x`' --run 'runs/a b'" in shown


def test_finding_shows_its_first_date_change_and_suppression() -> None:
    statuses = {
        LOST.fingerprint: ChangeStatus("same", 1_795_000_000_000),
        "new": ChangeStatus("new", 1_795_237_689_000),
        "known": ChangeStatus("worse", 1_795_000_000_000, "bk-b is being emptied"),
    }
    new, worse = replace(ORPHAN, fingerprint="new"), replace(ORPHAN, fingerprint="known", confidence=SUSPECT)
    shown = text.render(report(findings=(LOST, new, worse)), RUN, 100, statuses.get)
    assert "ledger 9223372036854770002 [since 2026-11-18]: entry 4" in shown
    assert "ledger 36, bk-b:3181 [new]: 5 entries" in shown
    assert "[suspect, worse, since 2026-11-18, suppressed: bk-b is being emptied]" in shown


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
    assert "bx0004:3181 and 495 more" in " ".join(shown.split())
    assert len(shown) < 3000


def test_time_out_of_range_is_shown_in_milliseconds() -> None:
    base = report()
    odd = replace(base, run=replace(base.run, scan_time=2**63 - 1))
    assert "9223372036854775807 ms" in first_screen.render(odd)


def test_findings_of_one_id_and_two_severities_have_two_sections() -> None:
    ghost = Finding("ghost-bookie", Severity.ERROR, BELOW.confidence, bookie_id="bk-z:3181", message="gone")
    idle = replace(ghost, severity=Severity.NOTE)
    shown = text.render(
        report([tally("ghost-bookie", "error"), tally("ghost-bookie", "note", 4)], findings=(ghost, idle))
    )
    assert "ghost-bookie (error; 1)" in shown
    assert "ghost-bookie (note; 1 of 4 shown)" in shown


def test_subject_is_not_repeated_if_the_message_names_it() -> None:
    whole = replace(BELOW, message="ledger 7 has too few copies of an entry")
    assert "  ledger 7 has too few copies of an entry [suspect]" in text.render(report(findings=(whole,)))
    other_ledger = replace(BELOW, message="ledger 70 is another")
    assert "  ledger 7 [suspect]: ledger 70 is another" in text.render(report(findings=(other_ledger,)))


def test_ledger_of_another_scope_is_named_with_its_scope() -> None:
    scoped = replace(BELOW, scope_id=-1, message="ledger 7 has too few copies of an entry")
    shown = text.render(report(findings=(scoped,)))
    assert "  scope -1, ledger 7 [suspect]: ledger 7 has too few copies of an entry" in shown
    name = "ffffffffffffffff0000000000000007"
    command = f"bkaudit explain ledger --ledger-qualified-name {name} --run RUN"
    only = report([tally("below-ack-quorum", "error")], findings=(scoped,))
    assert f"           {command}\n" in first_screen.render(only)


def test_screen_with_room_cuts_no_text() -> None:
    assert " ..." not in first_screen.render(report(), RUN)
    assert " ...\n" in first_screen.render(report(notes=["x" * 200]), RUN)


def test_first_screen_shows_only_remarks_that_ask_for_action() -> None:
    remarks = [remark(kind, f"of {kind}", "why") for kind in RemarkKind]
    screen = [
        first_screen.render(report([], remarks=[row], suppressions=[], changes=None), RUN) for row in remarks
    ]
    shown = {row["kind"] for row, text in zip(remarks, screen, strict=True) if f"of {row['kind']}" in text}
    assert shown == {kind for kind in RemarkKind if kind.asks_for_action}
    explanation = explained.render(RunView(RUN, report(remarks=remarks), 0), 80)
    assert all(f"  notice: of {kind}\n    why\n" in explanation for kind in RemarkKind)


def test_remark_label_differs_from_severity_labels() -> None:
    lines = first_screen.render(report(notes=["the journals were not read"]), RUN).splitlines()
    assert [line for line in lines if "journals" in line] == ["notice     the journals were not read"]
    assert [line.split()[:3] for line in lines if line.startswith("note")] == [
        ["notes", "12", "orphan-ledger"]
    ]


def test_finding_without_ledger_and_bookie_begins_with_its_message() -> None:
    finding = Finding("owner-unreadable", Severity.ERROR, Confidence.CONFIRMED, message="/topics/a: cut")
    assert text._finding_lines(finding, 80, None) == ["  /topics/a: cut"]
