"""``bkaudit report``: output for a pipe, output for a terminal, and selected findings."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from auditor.cli import main
from auditor.errors import UsageError
from auditor.findings.suppress import read_suppressions
from auditor.model.acceptance import last_acceptance_day, missing_digest
from auditor.model.finding import Finding
from auditor.model.report import Report
from auditor.model.run_facts import CauseCount, FindingCause
from auditor.reports import text
from auditor.reports.forms import FORMS
from tests.made_runs import change_row, made_run
from tests.reports.samples import BELOW, LOST, ORPHAN, UNREAD, report

SECOND = replace(
    ORPHAN,
    ledger_id=37,
    fingerprint="5" * 16,
    evidence={"owner": {"tenant": "a", "namespace": "b", "topic": "c"}},
    bookie_id="b c",
)
FINDINGS = tuple(
    replace(sample, fingerprint=sample.fingerprint or f"{number:016x}")
    for number, sample in enumerate((LOST, BELOW, UNREAD, ORPHAN, SECOND))
)

# Both are known, and no finding is of either.
BOOKIES: list[dict[str, object]] = [{"bookie_id": "bk-idle:3181"}]
TOPICS: list[dict[str, object]] = [{"tenant": "a", "namespace": "b", "topic": "d"}]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a run with five findings, of which one is suppressed and one is new."""
    path = (
        tmp_path_factory.mktemp("report")
        / "a long directory name that is never broken, whatever it costs"
        / "r"
    )
    cells: list[dict[str, object]] = [{}, {"change": "new"}, {}, {"suppressed": "known"}, {}]
    rows = [change_row(case, 1_795_000_000_000, **extra) for case, extra in zip(FINDINGS, cells, strict=True)]  # type: ignore[arg-type]  # values of any type
    made_run(path, FINDINGS, _report(FINDINGS), changes=rows, bookies=BOOKIES, ownership=TOPICS)
    return path


def _report(findings: tuple[Finding, ...]) -> Report:
    return report(findings=findings)


def bkaudit(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments], prog_name="bkaudit")


def heads(outcome: Result) -> list[str]:
    """Return SEVERITY, check and object of each line of a finding."""
    assert outcome.exit_code == 0, outcome.stderr
    above = outcome.stdout.split("\ncluster ")[0].split("\n\n")[0]
    return [line.split(":")[0] for line in above.splitlines() if not line.endswith("shows them")]


def test_pipe_gets_one_line_per_finding_worst_last_and_then_the_screen(run: Path) -> None:
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
        "10-11, 13-14, ... 2998-2999 (1,995 entries); bk-b:3181 lacks 1,2,4-8 (7 entries) "
        "[confirmed, since 2026-11-18]" in lines
    )
    assert "4 suppressed findings hidden: --show-suppressed shows them" in lines
    assert f"all actions    bkaudit explain run '{run}'" in lines
    [verdict] = [
        n for n, line in enumerate(lines) if line.startswith("NOT HEALTHY: 1 critical, 3 error, 12 note")
    ]
    assert [line[:6] for line in lines[verdict + 1 :] if line[0] != " "] == ["first ", "all ac"]


def test_suppressed_findings_are_shown_on_request(run: Path) -> None:
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
        (["--all"], ["36", "37", "none", "7", "9223372036854770002"]),
        (["--ledger", "7", "--severity", "critical"], []),
    ],
)
def test_selection_options_choose_findings(run: Path, options: list[str], ledgers: list[str]) -> None:
    head_words = [head.split(" ") for head in heads(bkaudit("report", run, *options))]
    assert [words[3] if words[2:3] == ["ledger"] else "none" for words in head_words] == ledgers


def test_empty_selection_is_reported(run: Path) -> None:
    nothing = bkaudit("report", run, "--topic", "a/b/d*")
    assert (heads(nothing), nothing.stderr) == ([], "bkaudit: no findings match the selection\n")
    nothing = bkaudit("report", run, "--bookie", "bk-idle:3181")
    assert (heads(nothing), nothing.stderr) == ([], "bkaudit: no findings match the selection\n")
    assert bkaudit("report", run, "--ledger", "7").stderr == ""


@pytest.mark.parametrize(
    ("option", "name", "why"),
    [
        ("--topic", "a/b/nowhere", "the run has no such topic"),
        ("--topic", "a/b/dd", "the run has no such topic; did you mean a/b/d?"),
        ("--bookie", "bk-idle", "the run has no such bookie; did you mean bk-idle:3181?"),
        ("--bookie", "x*", "the run has no such bookie; the bookies of this run are bk-idle:3181"),
    ],
)
def test_selection_of_an_unknown_name_is_refused(run: Path, option: str, name: str, why: str) -> None:
    refused = bkaudit("report", run, option, name)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert refused.stderr == f"bkaudit: {option} {name}: {why}\n"


def test_selection_works_only_for_forms_that_list_findings(run: Path) -> None:
    outcome = bkaudit("report", run, "--format", "csv", "--severity", "error")
    assert [line.split('"')[1] for line in outcome.stdout.splitlines()] == ["id", "below-ack-quorum"]
    refused = bkaudit("report", run, "--format", "html", "--severity", "error")
    assert (refused.exit_code, "--format html: always shows the whole run" in refused.stderr) == (2, True)
    unknown = bkaudit("report", run, "--check", "entry-lots")
    assert (unknown.exit_code, "--check entry-lots: no check has that id" in unknown.stderr) == (2, True)


def terminal_output(monkeypatch: pytest.MonkeyPatch, run: Path, *options: str) -> str:
    from auditor.cli import output
    from auditor.cli.report import report as command

    shown: list[str] = []

    class Terminal:
        def isatty(self) -> bool:
            return True

        def flush(self) -> None:
            """Do nothing, because this stream has no buffer."""

        def write(self, part: str) -> int:
            shown.append(part)
            return len(part)

    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(output, "terminal_columns", lambda: 80)
    monkeypatch.setattr(sys, "stdout", Terminal())
    command.main([str(run), *options], standalone_mode=False)
    monkeypatch.undo()
    return "".join(shown)


def test_terminal_gets_one_screen_and_findings_on_request(
    monkeypatch: pytest.MonkeyPatch, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    screen = terminal_output(monkeypatch, run)
    assert screen.startswith("cluster ")
    assert "could be checked\nfirst action " in screen
    assert f"for all findings: bkaudit report '{run}' --all" in capsys.readouterr().err
    chosen = terminal_output(monkeypatch, run, "--severity", "critical")
    assert chosen.startswith("entry-lost (critical; 1)\n  A closed ledger has an entry with no copy left.\n")
    assert "could be checked\nfirst action " in chosen
    sections = terminal_output(monkeypatch, run, "--all").split("\n\n")
    assert [section.split(" ")[0] for section in sections[:4]] == [
        "orphan-ledger",
        "bookie-unread",
        "below-ack-quorum",
        "entry-lost",
    ]


@pytest.fixture(scope="module")
def grouped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a run with six findings: one cause explains four, and one of the others is suppressed."""
    path = tmp_path_factory.mktemp("grouped") / "run"
    unread = [replace(UNREAD, bookie_id=f"bk-{n}", fingerprint=f"{n:016x}", cause=1) for n in range(10, 14)]
    findings = (FINDINGS[0], *unread, FINDINGS[3])
    cause = FindingCause(
        number=1,
        kind="not-read",
        bookies=["bk-10"],
        sentence="bk-10 was not read",
        count=4,
        findings=[CauseCount(id="bookie-unread", urgency="unseen", severity="note", count=4)],
        evidence=[],
    )
    shown = report(findings=findings)
    shown = replace(shown, run=replace(shown.run, causes=[cause]))
    rows = [
        change_row(finding, 1_795_000_000_000, suppressed="known" if finding is FINDINGS[3] else None)
        for finding in findings
    ]
    made_run(path, findings, shown, changes=rows, bookies=BOOKIES)
    return path


def fingerprints(outcome: Result) -> int:
    """Return the number of findings in the JSON lines that a command printed."""
    assert outcome.exit_code == 0, outcome.stderr
    return len({json.loads(line)["fingerprint"] for line in outcome.stdout.splitlines()})


def test_all_option_lists_explained_and_suppressed_findings(
    grouped: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    all_heads = heads(bkaudit("report", grouped, "--all"))
    assert len(all_heads) == fingerprints(bkaudit("report", grouped, "--format", "jsonl")) == 6
    assert [head for head in all_heads if "orphan-ledger" in head] != []
    sections = terminal_output(monkeypatch, grouped, "--all")
    assert [f"bk-{number}" in sections for number in range(10, 14)] == [True] * 4
    assert "ledger 36" in sections
    assert "hidden" not in sections


def test_text_file_has_the_text_of_standard_output(grouped: Path, tmp_path: Path) -> None:
    for options in ([], ["--all"], ["--flat"], ["--severity", "critical"], ["--show-suppressed"]):
        file = tmp_path / "report.txt"
        done = bkaudit("report", grouped, *options, "--format", f"text={file}")
        assert done.exit_code == 0, done.stderr
        assert file.read_text("utf-8") == bkaudit("report", grouped, *options).stdout


@pytest.mark.parametrize("form", sorted(FORMS))
def test_all_option_is_refused_for_forms_with_samples_or_counts(
    grouped: Path, tmp_path: Path, form: str
) -> None:
    file = tmp_path / "report"
    done = bkaudit("report", grouped, "--all", "--format", f"{form}={file}")
    complete = form in ("text", "jsonl", "csv", "sarif", "parquet", "html")
    assert (done.exit_code, file.exists()) == ((0, True) if complete else (2, False))
    if not complete:
        assert done.stderr == (
            f"bkaudit: --all: --format {form} does not list every finding; "
            "text, jsonl, csv, html, sarif and parquet do\n"
        )


def test_control_characters_in_names_break_no_line(run: Path) -> None:
    hostile = replace(LOST, message="a\nb\x1b[31m\u2028c", bookie_id="bk\r\n:3181", missing=())
    [line] = text.pipe_lines(report(), text.make_findings_lookup(report(findings=(hostile,))))
    assert line.isprintable()


def test_accept_prints_an_entry_that_is_valid_with_a_reason(run: Path, tmp_path: Path) -> None:
    printed = bkaudit("report", run, "--accept", LOST.fingerprint)
    assert printed.exit_code == 0, printed.stderr
    assert printed.stdout.startswith("# critical entry-lost: entry 4 has no copy left\n[[suppress]]\n")
    file = tmp_path / "suppressions.toml"
    file.write_text(printed.stdout)
    with pytest.raises(UsageError, match="reason: '' is empty, or not a string"):
        read_suppressions(file)
    file.write_text(printed.stdout.replace('reason = ""', 'reason = "known"'))
    [entry] = read_suppressions(file)
    assert entry.column_values == {"fingerprint": LOST.fingerprint}
    assert entry.missing_digest == missing_digest(LOST.missing)
    assert entry.until == last_acceptance_day(datetime.now(UTC).date())
    unknown = bkaudit("report", run, "--accept", "f" * 16)
    assert unknown.exit_code == 2
    assert "--accept ffffffffffffffff: the run has no finding with this fingerprint" in unknown.stderr
