"""Tests of the advice that is printed with a finding."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from auditor.actions.commands import fill_placeholders
from auditor.checks import ALL_CHECKS, CHECK_BY_ID, Check
from auditor.model.acceptance import missing_digest
from auditor.model.finding import (
    ChangeStatus,
    Confidence,
    Finding,
    FindingWithHistory,
    Missing,
    Severity,
)
from auditor.reports.advice import (
    advice,
    advice_lines,
    describe_confidence,
    first_seen_text,
    placeholders_of,
)
from auditor.reports.finding_text import command_for
from tests.actions.test_gate import HOLD, Run
from tests.reports.samples import BELOW, LOST, ORPHAN

every_check = pytest.mark.parametrize("each", ALL_CHECKS, ids=lambda each: each.id)
SHORT = replace(
    LOST,
    ledger_id=43,
    missing=(
        Missing("bk-a:3181", ((4, 10, 2, 3), (20, 20, 1, 0)), 7),
        Missing("bk-b:3181", ((4, 4, 1, 0),), 1),
    ),
)

COMMANDS = ("bookkeeper shell", "bkaudit report")


def test_finding_text_has_reason_confidence_first_seen_and_action() -> None:
    text = "\n".join(advice_lines([FindingWithHistory(SHORT, ChangeStatus("same", 1_795_000_000_000))], 80))
    assert text.startswith(
        "entry-lost: A closed ledger has an entry with no copy left.\n"
        "  critical: entry 4 has no copy left\n"
        "    since  2026-11-18 11:06:40 UTC\n"
        f"    accept fingerprint 0123456789abcdef, missing {missing_digest(SHORT.missing)}\n"
        "           bkaudit report --accept 0123456789abcdef\n"
        "  sure   Confirmed if the ledger's metadata had the same version in every scan.\n"
    )
    assert "\n  why    Readers fail at the entry." in text
    assert "\n  do     First stop everything that deletes data on the ledger's bookies" in text
    assert (
        "\n         bookkeeper shell readledger -l 43 -fe 4 -le 21 -b bk-a:3181\n"
        "             Asks one bookie for the entries from -fe to the one before -le.\n"
    ) in text
    assert "\n             Risk: load; it reads from the bookie." in text


IN_CLASS = {"class_entries": {"groups": [[4, 13, 2, 3], [20, 20, 1, 0]], "count": 9}}


def test_each_shown_entry_range_has_its_command() -> None:
    class_finding = replace(SHORT, evidence=IN_CLASS)
    lines = advice_lines([FindingWithHistory(class_finding)], 80)
    assert lines[2] == "    no copy left: 4-5, 7-8, ... 13-14; 20 (9 entries)"
    text_lines = [line.strip() for line in lines]
    start = text_lines.index("bookkeeper shell readledger -l 43 -fe 4 -le 5")
    assert text_lines[start + 1 : start + 4] == [
        "bookkeeper shell readledger -l 43 -fe 7 -le 8",
        "bookkeeper shell readledger -l 43 -fe 10 -le 11",
        "repeat the command for 2 more ranges of entries",
    ]
    few = replace(class_finding, evidence={"class_entries": {"groups": [[4, 4, 2, 0]], "count": 2}})
    assert not any("more runs" in line for line in advice_lines([FindingWithHistory(few)], 80))


def test_findings_of_one_check_share_its_text() -> None:
    orphans = [
        FindingWithHistory(replace(ORPHAN, bookie_id=f"bk-{name}:3181", message=f"on {name}"))
        for name in "abc"
    ]
    text = "\n".join(advice_lines([FindingWithHistory(SHORT), *orphans], 80))
    assert text.count("\n\norphan-ledger: ") == 1
    assert [text.count(f"  note: on {name}\n") for name in "abc"] == [1, 1, 1]
    assert text.count("The bookie's garbage collector deletes unlisted ledgers") == 1


def test_equal_confidence_of_findings_is_printed_once() -> None:
    lost_findings = [replace(SHORT, ledger_id=number, message=f"ledger {number}") for number in (1, 2)]
    text = "\n".join(advice_lines([FindingWithHistory(finding) for finding in lost_findings], 80))
    assert text.count("Confirmed if the ledger's metadata had the same version") == 1
    doubted = replace(lost_findings[1], confidence=Confidence.SUSPECT, evidence={"doubts": ["it is new"]})
    lines = advice_lines([FindingWithHistory(lost_findings[0]), FindingWithHistory(doubted)], 80)
    assert lines[lines.index("  critical: ledger 2") + 1] == "    sure   suspect: it is new"
    assert lines[lines.index("  critical: ledger 1") + 1].startswith("    sure   Confirmed if")


def test_no_findings_give_no_advice() -> None:
    assert advice_lines([], 80) == []


@every_check
def test_every_command_of_a_check_has_its_effect_and_risk(each: Check) -> None:
    text = " ".join(" ".join(advice(each, {}, 80)).split())
    for command in each.commands:
        assert f"{command.text} {command.effect[0].upper()}{command.effect[1:]}." in text
        assert f"Risk: {command.risk}" in text


@every_check
def test_a_name_from_the_cluster_stays_one_word_of_a_command(each: Check) -> None:
    evil = "x; rm -rf / #$(y) 'z'"
    for command in each.commands:
        words = shlex.split(fill_placeholders(command.text, {"BOOKIE": evil, "ID": "42"}))
        assert words == [{"BOOKIE": evil, "ID": "42"}.get(word, word) for word in command.text.split()]


def test_a_name_that_cannot_be_shown_is_not_put_into_a_command() -> None:
    assert fill_placeholders("bookkeeper shell recover -q BOOKIE", {"BOOKIE": "bk\x1b[31m"}).endswith(
        " BOOKIE"
    )


def test_missing_values_of_a_finding_leave_placeholders_open() -> None:
    assert placeholders_of(replace(BELOW, ledger_id=None, missing=(), unknown=())) == {}
    assert placeholders_of(BELOW, "a77a8e0d")["INSTANCE"] == "a77a8e0d"
    assert placeholders_of(replace(BELOW, missing=()))["BOOKIE"] == "bk-c:3181"


def test_entry_placeholders_are_those_that_the_bookie_lacks() -> None:
    other_finding = replace(SHORT, bookie_id="bk-b:3181")
    assert (placeholders_of(other_finding)["FIRST"], placeholders_of(other_finding)["NEXT"]) == ("4", "5")
    assert "FIRST" not in placeholders_of(replace(SHORT, bookie_id="bk-z:3181"))


def test_ledger_commands_for_another_scope_are_replaced_by_a_notice() -> None:
    kinds = {"bk-a:3181": "idx", "bk-b:3181": "rocksdb"}
    text = "\n".join(advice_lines([FindingWithHistory(replace(SHORT, scope_id=7))], 80, storages=kinds))
    assert "-l 43" not in text
    assert "-l ID" not in text
    assert "bookkeeper shell rebuild-db-ledger-locations-index" in text
    assert "No released shell accepts a ledger of scope 7." in text


def test_doubts_of_a_finding_replace_those_of_its_check() -> None:
    check = CHECK_BY_ID["below-ack-quorum"]
    own = replace(BELOW, evidence={"doubts": ["the ledger is not closed"]})
    assert describe_confidence(check, own) == "suspect: the ledger is not closed"
    assert describe_confidence(check, BELOW).startswith(
        "suspect: suspect if the ledger changed during the audit or is not closed"
    )
    orphan = replace(ORPHAN, confidence=Confidence.SUSPECT, evidence={"doubts": ["newer-than-scan"]})
    assert describe_confidence(CHECK_BY_ID["orphan-ledger"], orphan) == (
        "suspect: the index may be newer than the metadata"
    )


def test_finding_confirmed_by_two_runs_names_the_first_run() -> None:
    evidence = {
        "doubts": ["a did not respond"],
        "earlier_run": {"name": "monday", "finished": 1_795_237_669_000},
    }
    check, sure = (
        CHECK_BY_ID["below-ack-quorum"],
        replace(BELOW, confidence=Confidence.CONFIRMED, evidence=evidence),
    )
    expected = "Confirmed by two runs. The first run was monday, which ended at 2026-11-21 05:07:49 UTC."
    assert describe_confidence(check, sure) == expected
    # The index is not new enough yet.
    assert describe_confidence(check, replace(BELOW, evidence=evidence)) == "suspect: a did not respond"


@every_check
def test_every_check_describes_every_confidence(each: Check) -> None:
    for confidence in Confidence:
        finding = Finding(each.id, each.severity, confidence)
        assert len(describe_confidence(each, finding).split()) > 3


@pytest.mark.parametrize(
    ("standing", "expected"),
    [
        (None, None),
        (ChangeStatus("new", 1), "new in this run"),
        (ChangeStatus("same", 1_795_000_000_000), "2026-11-18 11:06:40 UTC"),
        (ChangeStatus("worse", 1_795_000_000_000), "2026-11-18 11:06:40 UTC; worse than in the previous run"),
        (ChangeStatus("new", 1, "known"), "new in this run; suppressed: known"),
    ],
)
def test_first_seen_text_has_time_change_and_suppression(
    standing: ChangeStatus | None, expected: str | None
) -> None:
    assert first_seen_text(standing) == expected


@pytest.mark.parametrize("width", [40, 60, 100])
def test_advice_keeps_to_its_width_but_for_commands(width: int) -> None:
    evil = replace(SHORT, bookie_id="b" * 200, message="\x1b[31m台帳 " * 50)
    lines = advice_lines([FindingWithHistory(evil, ChangeStatus("same", 1, "\x07 because"))], width)
    assert all(line.isprintable() for line in lines)
    assert all(len(line) <= width for line in lines if not line.strip().startswith(COMMANDS))


def test_no_command_names_a_ledger_id_below_0() -> None:
    page = CHECK_BY_ID["orphan-ledger"]
    typed = "\n".join(advice(page, {"ID": "-5"}, 80, scope_id=0))
    assert "ledgermetadata" not in typed
    assert "whatisinstanceid" in typed
    assert "No released shell accepts a ledger id below 0." in typed
    assert "ledgermetadata -l 5" in "\n".join(advice(page, {"ID": "5"}, 80, scope_id=0))
    shown = command_for(replace(ORPHAN, ledger_id=-5), "run")
    assert (
        shown == "bkaudit explain ledger --ledger-qualified-name 0000000000000000fffffffffffffffb --run run"
    )


MARKED = Finding(
    "mark-stuck", Severity.WARNING, Confidence.CONFIRMED, 0, 42, "bk1:3181", message="ledger 42 is marked"
)


def shown_with(*rows: dict[str, Any], path: Path, unowned: Sequence[int] = (42,)) -> str:
    lines = advice_lines([FindingWithHistory(MARKED)], 80, run=Run(path, *rows, unowned=unowned))
    return " ".join(" ".join(lines).split())


def test_deletion_command_has_the_ledger_id_only_if_a_run_permits_it(tmp_path: Path) -> None:
    assert "bookkeeper shell deleteledger -l 42 Deletes" in shown_with(path=tmp_path)
    without = " ".join("\n".join(advice_lines([FindingWithHistory(MARKED)], 80)).split())
    assert "bookkeeper shell deleteledger -l ID Deletes" in without


def test_no_page_deletes_a_ledger_that_is_not_proved_unowned(tmp_path: Path) -> None:
    text = shown_with(path=tmp_path, unowned=())
    assert "deleteledger" not in text
    assert "Do not: delete ledger 42: no confirmed finding of the check ledger-unowned proves that" in text


@pytest.mark.parametrize("reason", ["copies-on-down-bookies", "entry-lost"])
def test_held_ledger_has_a_refusal_instead_of_a_command(reason: str, tmp_path: Path) -> None:
    hold_row = HOLD | {"object": "ledger", "key": "0/42", "scope_id": 0, "ledger_id": 42, "reason": reason}
    hold_row |= {"forbids": ["delete-ledger"], "message": "a stopped bookie has every entry"}
    text = shown_with(hold_row, path=tmp_path)
    assert "deleteledger" not in text
    assert "Risk: danger" not in text
    assert f"Do not: delete ledger 42: a stopped bookie has every entry ({reason})" in text


def test_a_start_that_a_hold_forbids_is_not_advised(tmp_path: Path) -> None:
    down = Finding(
        "bookie-down", Severity.WARNING, Confidence.CONFIRMED, bookie_id="bk1:3181", message="down"
    )
    refused = {"forbids": ["start"], "reason": "start-refused", "message": "bk1:3181: a bad journal record"}
    free, held_text = (
        "\n".join(advice_lines([FindingWithHistory(down)], 200, run=run))
        for run in (Run(tmp_path / "free"), Run(tmp_path / "held", HOLD | refused))
    )
    assert "  do     Restart the bookie." in free
    assert "Restart the bookie" not in held_text
    assert "  do     Do not: start bk1:3181: a bad journal record (start-refused)\n" in held_text
