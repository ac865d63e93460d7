"""``bkaudit report``: what a pipe gets, what a terminal gets, and findings that were chosen."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from auditor.cli import main
from auditor.model.finding import Finding
from auditor.model.report import Report
from auditor.reports import text
from tests.made_runs import change_row, made_run
from tests.reports.samples import BELOW, LOST, ORPHAN, UNREAD, report

SECOND = replace(
    ORPHAN,
    ledger_id=37,
    fingerprint="5" * 16,
    evidence={"owner": {"tenant": "a", "namespace": "b", "topic": "c"}},
    bookie_id="b c",
)
FOUND = tuple(
    replace(each, fingerprint=each.fingerprint or f"{number:016x}")
    for number, each in enumerate((LOST, BELOW, UNREAD, ORPHAN, SECOND))
)

# Both are known, and no finding is of either.
BOOKIES: list[dict[str, object]] = [{"bookie_id": "bk-idle:3181"}]
TOPICS: list[dict[str, object]] = [{"tenant": "a", "namespace": "b", "topic": "d"}]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with five findings, of which one is suppressed and one new."""
    path = (
        tmp_path_factory.mktemp("report")
        / "a long directory name that is never broken, whatever it costs"
        / "r"
    )
    more: list[dict[str, object]] = [{}, {"change": "new"}, {}, {"suppressed": "known"}, {}]
    rows = [change_row(each, 1_795_000_000_000, **extra) for each, extra in zip(FOUND, more, strict=True)]  # type: ignore[arg-type]
    made_run(path, FOUND, _report(FOUND), changes=rows, bookies=BOOKIES, ownership=TOPICS)
    return path


def _report(found: tuple[Finding, ...]) -> Report:
    return report(findings=found)


def bkaudit(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(each) for each in arguments], prog_name="bkaudit")


def heads(outcome: Result) -> list[str]:
    """SEVERITY, check and object of each line of a finding."""
    assert outcome.exit_code == 0, outcome.stderr
    above = outcome.stdout.split("\ncluster ")[0].split("\n\n")[0]
    return [line.split(":")[0] for line in above.splitlines() if not line.endswith("shows them")]


def test_a_pipe_gets_a_line_a_finding_the_worst_last_and_then_the_screen(run: Path) -> None:
    outcome = bkaudit("report", run)
    assert heads(outcome) == [
        "note orphan-ledger ledger 37 bookie b c",
        "note bookie-unread bookie bk-c",
        "error below-ack-quorum ledger 7",
        "critical entry-lost ledger 9223372036854770002",
    ]
    lines = outcome.stdout.splitlines()
    assert (
        "critical entry-lost ledger 9223372036854770002: entry 4 has no copy left; bk-a:3181 lacks 4; "
        "10-2999 every 3, 2 long (1,995 entries); bk-b:3181 lacks 1,2,4-8 (7 entries) "
        "[confirmed, since 2026-11-18]" in lines
    )
    assert "4 suppressed findings hidden: --show-suppressed shows them" in lines
    assert f"next       bkaudit explain run '{run}'" in lines
    [verdict] = [
        n for n, line in enumerate(lines) if line.startswith("NOT-HEALTHY: 1 critical, 3 error, 12 note")
    ]
    assert [line[:6] for line in lines[verdict + 1 :]] == ["do now", "next  "]


def test_suppressed_findings_are_shown_where_that_is_asked_for(run: Path) -> None:
    outcome = bkaudit("report", run, "--show-suppressed")
    assert "note orphan-ledger ledger 36 bookie bk-b" in heads(outcome)
    assert "[confirmed, since 2026-11-18, suppressed: known]" in outcome.stdout
    assert "hidden" not in outcome.stdout


@pytest.mark.parametrize(
    ("options", "ledgers"),
    [
        (["--severity", "critical", "--severity", "error"], ["7", "9223372036854770002"]),
        (["--check", "entry-*"], ["9223372036854770002"]),
        (["--bookie", "bk-c:3181"], ["none", "7"]),
        (["--bookie", "bk-?:3181", "--severity", "critical"], ["9223372036854770002"]),
        (["--ledger", "7"], ["7"]),
        (["--ledger", f"{0:016x}{7:016x}"], ["7"]),
        (["--topic", "a/b/*"], ["37"]),
        (["--change", "new"], ["7"]),
        (["--all"], ["37", "none", "7", "9223372036854770002"]),
        (["--ledger", "7", "--severity", "critical"], []),
    ],
)
def test_findings_can_be_chosen(run: Path, options: list[str], ledgers: list[str]) -> None:
    found = [each.split(" ") for each in heads(bkaudit("report", run, *options))]
    assert [words[3] if words[2:3] == ["ledger"] else "none" for words in found] == ledgers


def test_a_choice_of_nothing_is_said(run: Path) -> None:
    nothing = bkaudit("report", run, "--topic", "a/b/d*")
    assert (heads(nothing), nothing.stderr) == ([], "bkaudit: no finding is of this choice\n")
    nothing = bkaudit("report", run, "--bookie", "bk-idle:3181")
    assert (heads(nothing), nothing.stderr) == ([], "bkaudit: no finding is of this choice\n")
    assert bkaudit("report", run, "--ledger", "7").stderr == ""


@pytest.mark.parametrize(
    ("option", "name", "why"),
    [
        ("--topic", "a/b/nowhere", "the run knows no such topic"),
        ("--topic", "a/b/dd", "the run knows no such topic; did you mean a/b/d?"),
        ("--bookie", "bk-idle", "the run knows no such bookie; did you mean bk-idle:3181?"),
        ("--bookie", "x*", "the run knows no such bookie; the run has bk-idle:3181"),
    ],
)
def test_a_choice_of_what_the_run_does_not_know_is_refused(
    run: Path, option: str, name: str, why: str
) -> None:
    refused = bkaudit("report", run, option, name)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert refused.stderr == f"bkaudit: {option} {name}: {why}\n"


def test_a_choice_is_for_forms_that_list_findings(run: Path) -> None:
    outcome = bkaudit("report", run, "--format", "csv", "--severity", "error")
    assert [line.split('"')[1] for line in outcome.stdout.splitlines()] == ["id", "below-ack-quorum"]
    refused = bkaudit("report", run, "--format", "html", "--severity", "error")
    assert (refused.exit_code, "--format html: it is of the whole run" in refused.stderr) == (2, True)
    unknown = bkaudit("report", run, "--check", "entry-lots")
    assert (unknown.exit_code, "--check entry-lots: no check has that id" in unknown.stderr) == (2, True)


def at_a_terminal(monkeypatch: pytest.MonkeyPatch, run: Path, *options: str) -> str:
    from auditor.cli import output
    from auditor.cli.report import report as command

    shown: list[str] = []

    class Terminal:
        def isatty(self) -> bool:
            return True

        def flush(self) -> None:
            """Nothing is held."""

        def write(self, part: str) -> int:
            shown.append(part)
            return len(part)

    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(output, "columns", lambda: 80)
    monkeypatch.setattr(sys, "stdout", Terminal())
    command.main([str(run), *options], standalone_mode=False)
    monkeypatch.undo()
    return "".join(shown)


def test_a_terminal_gets_one_screen_and_findings_where_they_are_asked_for(
    monkeypatch: pytest.MonkeyPatch, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    screen = at_a_terminal(monkeypatch, run)
    assert screen.startswith("cluster ")
    assert "could be decided\ndo now     " in screen
    assert f"every finding: bkaudit report '{run}' --all" in capsys.readouterr().err
    chosen = at_a_terminal(monkeypatch, run, "--severity", "critical")
    assert chosen.startswith("entry-lost (critical; 1)\n  A closed ledger has an entry with no copy left.\n")
    assert "could be decided\ndo now     " in chosen
    sections = at_a_terminal(monkeypatch, run, "--all").split("\n\n")
    assert [each.split(" ")[0] for each in sections[:4]] == [
        "orphan-ledger",
        "bookie-unread",
        "below-ack-quorum",
        "entry-lost",
    ]


def test_hostile_names_break_no_line(run: Path) -> None:
    hostile = replace(LOST, message="a\nb\x1b[31m\u2028c", bookie_id="bk\r\n:3181", missing=())
    [line] = text.for_pipe(report(), text.samples(report(findings=(hostile,))))
    assert line.isprintable()
