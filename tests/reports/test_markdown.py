"""Tests of the report for mails and issue trackers, read by a CommonMark parser."""

from __future__ import annotations

from dataclasses import replace

from markdown_it import MarkdownIt
from markdown_it.token import Token

from auditor.checks import ALL_CHECKS
from auditor.model.finding import ChangeStatus, Finding, Severity
from auditor.model.report import Cluster
from auditor.reports import markdown
from tests.reports.hostile import BOOKIE, HOSTILE
from tests.reports.samples import LOST, coverage, report, tally


def tokens(text: str) -> list[Token]:
    """Return all tokens, including those inside lines."""
    parser = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    return [part for token in parser.parse(text) for part in (token, *(token.children or ()))]


def words(text: str) -> str:
    return "".join(token.content for token in tokens(text) if token.type == "text")


def test_markdown_begins_with_the_verdict() -> None:
    lines = markdown.render(report()).splitlines()
    assert lines[0] == "## BookKeeper audit: NOT HEALTHY"
    assert lines[2] == (
        "1 critical, 3 error, 12 note; 4 note accepted; the rest are not; not everything could be checked."
    )
    assert lines[4] == (
        "Since 2026-11-20 05:07:49 UTC: 1 new, 1 worse, 0 better, 2 fixed, 14 unchanged; 3 not checked again."
    )
    assert lines[6] == "1 suppression has expired, such as: known since the move"


def test_finding_counts_are_a_table_with_the_worst_first() -> None:
    text = markdown.render(report())
    assert "| critical | entry-lost | 1 | 0 | 0 | 0 | 0 |" in text
    assert "| error | below-ack-quorum | 3 | 1 | 1 | 1 | 0 |" in text
    assert "| note | orphan-ledger | 12 | 0 | 0 | 0 | 4 |" in text
    assert "| critical | 1 | 4,200,000,000 |" in text
    assert text.index("| critical | entry-lost") < text.index("| note | orphan-ledger")
    assert sum(token.type == "table_open" for token in tokens(text)) == 3


def test_sample_findings_are_grouped_by_check() -> None:
    text = markdown.render(report())
    assert "### below-ack-quorum (error; 1 of 3 shown)" in text
    assert (
        "- **ledger 7**: 1 of 2 acknowledged copies is left (suspect)\n  - bk-a:3181 lacks 0 (1 entry)"
        in text
    )


def test_markdown_finding_has_first_date_and_suppression() -> None:
    change_status = ChangeStatus("same", 1_795_237_669_000, "*known*")
    text = markdown.render(report(), {LOST.fingerprint: change_status}.get)
    assert "entry 4 has no copy left (since 2026-11-21, suppressed: \\*known\\*)" in text


def test_clean_cluster_report_is_short() -> None:
    text = markdown.render(report([], (), coverage(True), changes=None, impact=[], suppressions=[]))
    assert text.splitlines()[:3] == ["## BookKeeper audit: HEALTHY", "", "Nothing was found."]
    assert text.endswith("| bookies | 3 of 3 read |")


def test_subject_is_not_repeated_if_the_message_names_it() -> None:
    whole = replace(LOST, ledger_id=7, message="ledger 7 has an entry with no copy left")
    assert "\n- ledger 7 has an entry with no copy left\n" in markdown.render(report(findings=(whole,)))
    other_ledger = replace(whole, message="ledger 70 has an entry with no copy left")
    assert "\n- **ledger 7**: ledger 70 has" in markdown.render(report(findings=(other_ledger,)))
    number = replace(whole, message="1. ledger 7 has an entry with no copy left")
    assert "\n- **ledger 7**: 1. ledger 7 has" in markdown.render(report(findings=(number,)))


def test_hostile_text_stays_text_in_markdown() -> None:
    hostile = replace(
        report([tally("ghost-bookie", "error")], (HOSTILE,), gaps=[f"/ledgers/{BOOKIE}"], notes=[BOOKIE]),
        cluster=Cluster(BOOKIE, f"zk://{BOOKIE}", "flat"),
    )
    hostile = replace(
        hostile,
        coverage=replace(
            hostile.coverage,
            bookies=replace(hostile.coverage.bookies, unread=(BOOKIE,) * 2, expected=4, read=2),
        ),
    )
    clean = report(
        [tally("ghost-bookie", "error")], (replace(HOSTILE, message="m", bookie_id="b", missing=()),)
    )
    text = markdown.render(hostile)
    token_types = {token.type for token in tokens(text)}
    assert token_types <= {token.type for token in tokens(markdown.render(report(notes=["a note"])))} | {
        "text_special"
    }
    assert not token_types & {"html_inline", "html_block", "link_open", "image", "fence"}
    commands = {token.content for token in tokens(text) if token.type == "code_inline"}
    assert all(command.startswith("bkaudit ") for command in commands)
    assert "<script>alert(1)</script>" in words(text)
    assert "@" not in text
    assert "http:" not in text
    assert "https:" not in text
    assert "www." not in text
    assert sum(token.type == "heading_open" for token in tokens(text)) == sum(
        token.type == "heading_open" for token in tokens(markdown.render(clean))
    )
    rows = [len(line.replace("\\|", "").split("|")) for line in text.splitlines() if line.startswith("| ")]
    assert set(rows) == {4, 5, 9}


def test_markdown_report_fits_the_issue_size_limit() -> None:
    long = "x" * 100_000
    findings: list[Finding] = [
        replace(LOST, id=check.id, severity=severity, message=long, bookie_id=long)
        for severity in Severity
        for check in ALL_CHECKS
        for _ in range(20)
    ]
    tallies = [
        tally(check.id, str(severity), 10**9, new=10**9) for check in ALL_CHECKS for severity in Severity
    ]
    text = markdown.render(report(tallies, tuple(findings), gaps=[long], notes=[long] * 100))
    # It ends before a section of findings that would not fit whole.
    section = max(map(len, text.split("\n### ")[1:]))
    assert markdown.MAX_CHARACTERS - section - 500 < len(text) <= markdown.MAX_CHARACTERS
    assert text.endswith("`bkaudit report RUN` shows everything.\n")
