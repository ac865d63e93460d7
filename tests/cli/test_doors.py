"""The commands, as a person calls them, without Spark."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from auditor.audit import audit as audit_module
from auditor.checks import ALL_CHECKS
from auditor.cli import BUG_EXIT_CODE, COMMAND_HELP_TEXTS, main
from auditor.cli.defaults import new_run, newest_run
from auditor.cli.options import options_from_flags
from auditor.errors import AuditorError, JavaMissingError, StoreError, UsageError
from auditor.model.option_values import TextValues
from auditor.model.options import AuditOptions, option_types
from auditor.model.report import Report
from tests.made_runs import made_run
from tests.reports.samples import CHANGES, coverage, report, tally

AUDIT = ("audit", "--metadata", "dump:///nowhere/metadata.jsonl", "--bookies", "/nowhere/bookies")


def bkaudit(*arguments: str, input: bytes | None = None) -> Result:
    return CliRunner().invoke(main, arguments, input=input, prog_name="bkaudit")


class AuditStub:
    """A stub of an audit that returns a report or fails."""

    def __init__(self, outcome: Report | Exception) -> None:
        self.outcome = outcome
        self.calls: list[tuple[Any, ...]] = []

    def __call__(self, *arguments: Any) -> AuditStub:
        self.calls.append(arguments)
        return self

    def run(self, *_: Any) -> Report:
        if isinstance(self.outcome, Exception):
            raise self.outcome
        run = Path(self.calls[-1][2])
        (run / "tables").mkdir(parents=True, exist_ok=True)
        (run / "report.json").write_text(self.outcome.to_json(), "utf-8")
        return self.outcome


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    monkeypatch.chdir(tmp_path)

    def make(outcome: Report | Exception) -> AuditStub:
        stub = AuditStub(outcome)
        monkeypatch.setattr(audit_module, "Audit", stub)
        return stub

    return make


def test_help_lists_every_command() -> None:
    shown = bkaudit("--help").output
    assert all(f"  {command} " in shown for command in COMMAND_HELP_TEXTS)


@pytest.mark.parametrize("command", COMMAND_HELP_TEXTS)
def test_every_command_has_help(command: str) -> None:
    assert bkaudit(command, "--help").exit_code == 0


def test_every_configuration_option_is_a_flag_of_audit() -> None:
    shown = bkaudit("audit", "--help").output
    assert all(f"--{name.replace('_', '-')} " in shown for name in option_types())


@pytest.mark.parametrize(
    ("outcome", "code"),
    [
        (report([], coverage=coverage(True)), 0),
        (report(), 1),
        (report([tally("a", "warning")], coverage=coverage(True)), 0),
        (UsageError("no"), 2),
        (report([], coverage=coverage(False)), 3),
        (StoreError("no"), 4),
        (JavaMissingError("no"), 4),
        (report([tally("metadata-unreadable", "error", 100)], coverage=coverage(True)), 5),
        (ZeroDivisionError("oh"), BUG_EXIT_CODE),
    ],
)
def test_exit_code_follows_from_the_outcome(done: Any, outcome: Report | Exception, code: int) -> None:
    done(outcome)
    assert bkaudit(*AUDIT).exit_code == code


def test_an_error_is_one_line_on_standard_error(done: Any) -> None:
    done(StoreError("cannot connect to zk1:2181"))
    outcome = bkaudit(*AUDIT)
    assert (outcome.stdout, outcome.stderr) == ("", "bkaudit: cannot connect to zk1:2181\n")


def test_fail_on_option_sets_the_failing_severity(done: Any) -> None:
    done(report([tally("a", "warning")], coverage=coverage(True)))
    assert bkaudit(*AUDIT, "--fail-on", "warning").exit_code == 1


def test_suspect_finding_is_undecided_unless_fail_on_suspect_is_set(done: Any, tmp_path: Path) -> None:
    done(report([tally("a", "error", confidence="suspect")], coverage=coverage(True)))
    (tmp_path / "audit.toml").write_text("fail_on_suspect = true\n")
    assert bkaudit(*AUDIT).exit_code == 3
    assert bkaudit(*AUDIT, "--fail-on-suspect").exit_code == 1
    assert bkaudit(*AUDIT, "--conf", "audit.toml").exit_code == 1
    assert bkaudit(*AUDIT, "--conf", "audit.toml", "--no-fail-on-suspect").exit_code == 3


@pytest.mark.parametrize(("new", "code"), [(0, 0), (1, 1)])
def test_fail_on_new_counts_only_findings_that_are_new(done: Any, new: int, code: int) -> None:
    done(report([tally("a", "error", 3, new=new)], coverage=coverage(True), changes=CHANGES))
    assert bkaudit(*AUDIT, "--fail-on", "new").exit_code == code


def test_a_flag_overrides_the_file_and_the_file_the_default(done: Any, tmp_path: Path) -> None:
    (tmp_path / "audit.toml").write_text('samples = 3\nthreads = 8\nfail_on = "note"\n')
    stub = done(report())
    bkaudit(*AUDIT, "--conf", "audit.toml", "--samples", "7", "--out", "there")
    [(metadata, bookies, out, options)] = stub.calls
    assert (metadata, bookies, out) == (AUDIT[2], (AUDIT[4],), "there")
    assert options == AuditOptions(samples=7, threads=8, fail_on="note")  # type: ignore[arg-type]


def test_a_repeated_flag_is_a_list_and_overrides_the_files(done: Any, tmp_path: Path) -> None:
    (tmp_path / "audit.toml").write_text(
        'owners = ["pulsar:zk://a", "pulsar:zk://a/east"]\nowners_complete = "pulsar:zk://a"\n'
    )
    stub = done(report())
    flags = ("--owners", "pulsar:zk://b", "--owners", "pulsar:zk://c")
    bkaudit(*AUDIT, "--conf", "audit.toml", "--out", "1")
    bkaudit(*AUDIT, "--conf", "audit.toml", *flags, "--out", "2")
    owner_options = [(options.owners, options.owners_complete) for *_, options in stub.calls]
    declared = ("pulsar:zk://a",)
    assert owner_options == [
        (("pulsar:zk://a", "pulsar:zk://a/east"), declared),
        (("pulsar:zk://b", "pulsar:zk://c"), declared),
    ]


@pytest.mark.parametrize(
    ("text", "message"), [("7", "neither a string nor a list"), ("['']", "is empty or not a string")]
)
def test_wrong_list_in_the_file_is_wrong_usage(text: str, message: str, done: Any, tmp_path: Path) -> None:
    (tmp_path / "audit.toml").write_text(f"owners = {text}\n")
    done(report())
    outcome = bkaudit(*AUDIT, "--conf", "audit.toml")
    assert (outcome.exit_code, message in outcome.stderr) == (2, True)


def test_every_flag_overrides_the_default(tmp_path: Path) -> None:
    (tmp_path / "checks.toml").touch()
    values: dict[str, Any] = {
        "fail_on": "note", "witness": "no", "driver_memory": "3g", "checks": ("entry-lost", "bookie-down"),
        "skip_checks": ("stray-file", "mark-stuck"), "check_settings": str(tmp_path / "checks.toml"),
    }  # fmt: skip
    for name, (kind, _) in option_types().items():
        value: Any = {str: "other", str | None: "other", float: 7.0, bool: True}.get(kind, 7)
        value = ("a", "b") if kind == TextValues else value
        value = values.get(name, value)
        flags = dict.fromkeys(option_types()) | ({"entry_logs": True} if name == "deep" else {})
        options = options_from_flags(None, {**flags, name: value})
        assert getattr(options, name) == value


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--samples", "many"), "'many'"),
        (("--samples", "-1"), "samples: -1 is below 0"),
        (("--fail-on", "fatal"), "'fatal'"),
        (("--conf", "none.toml"), "none.toml: No such file"),
        (("--sample", "3"), "--samples"),
    ],
)
def test_wrong_options_are_usage(done: Any, arguments: tuple[str, ...], message: str) -> None:
    done(report())
    outcome = bkaudit(*AUDIT, *arguments)
    assert outcome.exit_code == 2
    assert message in outcome.stderr


def test_a_wrong_key_in_the_file_is_usage(done: Any, tmp_path: Path) -> None:
    (tmp_path / "audit.toml").write_text("sample = 3\n")
    done(report())
    outcome = bkaudit(*AUDIT, "--conf", "audit.toml")
    assert (outcome.exit_code, "audit.toml: sample: no such option" in outcome.stderr) == (2, True)


def test_report_is_the_only_output_on_standard_output(done: Any) -> None:
    done(report())
    outcome = bkaudit(*AUDIT, "--format", "json", "--out", "there")
    assert json.loads(outcome.stdout)["schema"] == "bookkeeper-auditor/report/8"
    assert outcome.stderr == "bkaudit: the run is in there\n"


def test_run_without_a_name_is_named_after_the_time(done: Any) -> None:
    stub = done(report())
    bkaudit(*AUDIT)
    assert stub.calls[0][2].startswith("runs/2")
    assert new_run().startswith("runs/2")


def test_newest_finished_run_is_the_default(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="runs: no such directory"):
        newest_run()
    for name in ("20260101T000000Z", "20260102T000000Z", "20260103T000000Z"):
        (tmp_path / "runs" / name).mkdir(parents=True)
    for name in ("20260101T000000Z", "20260102T000000Z"):
        (tmp_path / "runs" / name / "report.json").touch()
    assert newest_run() == "runs/20260102T000000Z"
    (tmp_path / "runs" / "a-name-that-comes-first").mkdir()
    later = tmp_path / "runs" / "0-by-name" / "report.json"
    later.parent.mkdir()
    later.touch()
    os.utime(later, (4e9, 4e9))
    assert newest_run() == "runs/0-by-name"


@pytest.mark.parametrize("check", ALL_CHECKS, ids=lambda check: check.id)
def test_every_check_has_a_manual_page(check: Any) -> None:
    outcome = bkaudit("explain", "check", check.id)
    assert outcome.exit_code == 0
    assert check.title in " ".join(outcome.output.split())
    assert "\nWhat to do\n    " in outcome.output


def test_all_checks_are_listed() -> None:
    lines = bkaudit("explain", "check").output.splitlines()
    assert [line.split()[0] for line in lines] == [check.id for check in ALL_CHECKS]


def test_unknown_check_is_answered_with_a_similar_check() -> None:
    outcome = bkaudit("explain", "check", "orphan-ledgr")
    assert (outcome.exit_code, outcome.stderr) == (
        2,
        "bkaudit: 'orphan-ledgr' is not a check; did you mean orphan-ledger?\n",
    )


def test_unexpected_exception_is_reported_as_a_bug(done: Any) -> None:
    done(RuntimeError("surprise"))
    outcome = bkaudit(*AUDIT)
    assert "RuntimeError: surprise" in outcome.stderr
    assert "internal error (this is a bug)" in outcome.stderr


def test_errors_have_their_exit_codes() -> None:
    codes = {kind.__name__: kind.exit_code for kind in AuditorError.__subclasses__()}
    assert codes == {
        "UsageError": 2,
        "RunError": 5,
        "StoreError": 4,
        "JavaMissingError": 4,
        "SparkError": 4,
        "DiskFullError": 4,
        "OutputError": 4,
        "FileSystemError": 4,
        "UnreadError": 3,
        "CoverageLimitError": 3,
        "DecodeError": 5,
        "RuleError": 5,
    }


def test_damaged_run_is_not_wrong_usage_and_a_missing_run_is(tmp_path: Path) -> None:
    run = made_run(tmp_path / "run")
    assert bkaudit("report", run.path).exit_code == 0
    Path(run.path, "report.json").write_text('{"schema": ')
    outcome = bkaudit("report", run.path)
    assert outcome.exit_code == 5
    assert outcome.stderr.startswith(f"bkaudit: {run.path}/report.json is damaged (")
    assert outcome.stderr.endswith("): restore a complete copy of it, or audit again\n")
    outcome = bkaudit("report", f"{run.path}2")
    assert (outcome.exit_code, outcome.stderr) == (
        2,
        f"bkaudit: {run.path}2: contains no finished run (no report.json)\n",
    )
    made_run(tmp_path / "runs" / "1")
    runs = bkaudit("report", str(tmp_path / "runs")).stderr
    assert runs.endswith(f"(no report.json); the newest run below it is {tmp_path / 'runs' / '1'}\n")


def test_colour_changes_no_text() -> None:
    from auditor.cli.terminal import colour_words
    from auditor.reports import text

    shown = text.render(report())
    assert colour_words(shown) != shown
    assert click.unstyle(colour_words(shown)) == shown
