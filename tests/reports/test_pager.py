"""Tests of the message for the engineer on call: short, with complete counts, and harmless in Slack."""

from __future__ import annotations

import json
import re

from auditor.model.history import ChangedFinding, ChangeGroup, ChangesSince, RunSummary
from auditor.reports import pager
from tests.reports.hostile import BOOKIE
from tests.reports.samples import coverage, report, tally

BEFORE = RunSummary.from_report("runs/before", report(coverage=coverage(True)))


def changed_finding(change: str, id: str, ledger: int | None, bookie: str | None = None) -> ChangedFinding:
    return ChangedFinding(
        change, id, "error", None, "confirmed", None, 0, ledger, bookie, 0, None, 1, 2, None, "0" * 16
    )


def group(
    change: str,
    id: str,
    count: int,
    severity: str = "error",
    confidence: str = "confirmed",
    bookie: str | None = None,
) -> ChangeGroup:
    first = tuple(changed_finding(change, id, 40 + number, bookie) for number in range(min(count, 3)))
    return ChangeGroup(change, id, severity, confidence, count, first)


SINCE = ChangesSince(
    BEFORE,
    (
        group("new", "entry-lost", 1, "critical"),
        group("new", "below-ack-quorum", 5, confidence="suspect"),
        group("worse", "below-write-quorum", 2, "warning"),
        group("better", "mark-stuck", 1, "warning"),
        group("fixed", "orphan-ledger", 12, "note"),
        group("fixed", "below-write-quorum", 3, "warning"),
        group("unseen", "stray-file", 2, "note"),
    ),
    ("bk-c:3181 was not read in the newer run: earlier findings there are unseen, not fixed",),
)


def test_message_lists_changes_in_the_order_of_findings() -> None:
    assert pager.plain_message(report(), SINCE, "runs/a b").splitlines() == [
        "BookKeeper audit: NOT HEALTHY",
        "first action   find the disks that held ledger 9223372036854770002, and keep all entry logs",
        "               bkaudit explain ledger 9223372036854770002 --run 'runs/a b'",
        "cluster    6c1a2a5e-1c1f-4f0e-8a51-1b8a2f7a6f51, 2026-11-21 05:07:49 UTC",
        "found      1 critical, 3 error, 8 note",
        "checked    118 of 120 ledgers, 2 unknown; 340 of 360 replicas, 20 unknown; 2 of 3 bookies",
        "since      2026-11-21 05:08:09 UTC: 6 new, 2 worse, 1 better, 15 fixed, 2 not checked again",
        "warning    bk-c:3181 was not read in the newer run: earlier findings there are unseen, not fixed",
        "new        critical entry-lost 1: ledger 40",
        "new        error below-ack-quorum 5 (suspect): ledger 40, ledger 41, ledger 42 and 2 more",
        "worse      warning below-write-quorum 2: ledger 40, ledger 41",
        "fixed      orphan-ledger 12, below-write-quorum 3",
        "unchecked  stray-file 2",
        "next       bkaudit explain run 'runs/a b'",
    ]


def test_message_of_a_run_without_changes_is_short() -> None:
    text = pager.plain_message(report([], (), coverage(True)), ChangesSince(BEFORE), "runs/a")
    assert text.splitlines() == [
        "BookKeeper audit: HEALTHY",
        "cluster    6c1a2a5e-1c1f-4f0e-8a51-1b8a2f7a6f51, 2026-11-21 05:07:49 UTC",
        "found      nothing",
        "since      2026-11-21 05:08:09 UTC: nothing changed",
        "next       bkaudit explain run runs/a",
    ]


def test_message_without_earlier_run_lists_all_findings_and_none_as_new() -> None:
    lines = pager.plain_message(report(), ChangesSince(None), "runs/a").splitlines()
    assert "since      there is no earlier run" in lines
    assert lines[-4:] == [
        "           critical entry-lost 1",
        "           error below-ack-quorum 3 (1 unconfirmed)",
        "           note orphan-ledger 8",
        "next       bkaudit explain run runs/a",
    ]
    assert "new" not in "".join(lines)
    lines = pager.plain_message(
        report(), ChangesSince(None, (), ("not compared: it is damaged",)), "runs/a"
    ).splitlines()
    assert "since      not compared: it is damaged" in lines


def many_changes(name: str) -> ChangesSince:
    groups = tuple(group("new", f"check-{number}", 10**6, bookie=name) for number in range(90))
    return ChangesSince(BEFORE, groups, (name,))


def test_message_has_fewer_than_twenty_lines() -> None:
    tallies = [tally(f"check-{letter}", "error", 3) for letter in "abcdefghijklmnopqrstuvwxyz"]
    for since, group_total in ((many_changes("bk1:3181"), 90), (ChangesSince(None), 26)):
        lines = pager.plain_message(report(tallies), since, "runs/a").splitlines()
        assert len(lines) == pager.MAX_LINES < 20
        shown = sum("check-" in line for line in lines)
        assert lines[-2] == f"           and {group_total - shown} lines more like these"
        assert max(map(len, lines)) <= pager.WIDTH + 11


def unescaped(text: str) -> str:
    """Return the text as Slack shows it, which decodes three entities and nothing else."""
    assert set(re.findall(r"&\w*;?", text)) <= {"&amp;", "&lt;", "&gt;"}
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def test_slack_message_is_plain_text_without_markup() -> None:
    payload = json.loads(pager.slack_message(report(), SINCE, "runs/a & b"))
    headline, block = payload.pop("text").split("\n```\n")
    assert payload == {"unfurl_links": False, "unfurl_media": False}
    assert headline == "*BookKeeper audit: NOT HEALTHY*"
    assert block.endswith("\n```")
    assert (
        unescaped(block[:-4]).splitlines()
        == pager.plain_message(report(), SINCE, "runs/a & b").splitlines()[1:]
    )


def test_no_name_becomes_a_slack_link_or_mention_or_ends_the_code_block() -> None:
    for name in (BOOKIE, "<!channel>", "<https://evil.example|bk1>", "``` *b*", "@here", "&" * 500, "\ud800"):
        text = json.loads(pager.slack_message(report(), many_changes(name), f"runs/{name}"))["text"]
        assert len(text) <= pager.MAX_SLACK_CHARACTERS
        assert "<" not in text
        assert ">" not in text
        assert text.count("`") == 6
        assert len(text.splitlines()) <= pager.MAX_LINES + 2
