"""Destinations of reports: standard output, the run directory, and files of the user."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from auditor.audit import audit as audit_module
from auditor.cli import main
from auditor.cli.output import outputs
from auditor.errors import RunError, UsageError
from auditor.reports.forms import FORMS, Form
from auditor.runs.whole_file import write_whole
from auditor.tables.run_tables import TABLES
from tests.notebook.test_run import write
from tests.reports.hostile import HOSTILE
from tests.reports.samples import BELOW, LOST, ORPHAN, report
from tests.runs.test_figures import write_tables
from tests.runs.test_gather_html import tables_of


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Return a finished run with four findings."""
    run = tmp_path / "run"
    write(run / "findings" / "part-00000.parquet", LOST, BELOW, HOSTILE, ORPHAN)
    write_tables(run, tables_of(LOST, BELOW), sorted(set(TABLES) - {"changes"}))
    (run / "report.json").write_text(report().to_json())
    return run


def bkaudit(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments], prog_name="bkaudit")


@pytest.mark.parametrize("form", [name for name in FORMS if name != "parquet"])
def test_each_single_form_is_written_to_standard_output(run: Path, form: str) -> None:
    outcome = bkaudit("report", run, "--format", form)
    assert outcome.exit_code == 0, outcome.stderr
    assert "entry-lost" in outcome.stdout
    assert outcome.stdout.endswith("\n")
    assert sorted(path.name for path in run.iterdir()) == ["findings", "report.json", "tables"]


def test_additional_forms_are_written_into_the_run(run: Path) -> None:
    forms = [argument for name in FORMS for argument in ("--format", name)]
    outcome = bkaudit("report", run, *forms)
    assert outcome.exit_code == 0, outcome.stderr
    assert outcome.stdout == bkaudit("report", run).stdout
    file_names = {path.name for path in run.iterdir()}
    assert file_names == {
        "findings",
        "tables",
        *(f"report.{form.ending}" for name, form in FORMS.items() if name != "text"),
    }
    assert pq.read_table(run / "report.parquet").num_rows == 4
    for name, form in FORMS.items():
        if name not in ("text", "parquet"):
            shown = bkaudit("report", run, "--format", name).stdout
            assert (run / f"report.{form.ending}").read_text("utf-8") == shown, name


def test_report_of_the_run_is_never_overwritten(run: Path) -> None:
    run_report = run / "report.json"
    # Not the whole of `stat`: to read the report, which both do, moves its time of access.
    before = (run_report.stat().st_ino, run_report.stat().st_mtime_ns, run_report.read_bytes())
    bkaudit("report", run, "--format", "text", "--format", "json")
    assert (run_report.stat().st_ino, run_report.stat().st_mtime_ns, run_report.read_bytes()) == before
    outcome = bkaudit("report", run, "--format", f"text={run}/report.json")
    assert outcome.exit_code == 2
    assert "the run's own report has this path. Choose another file" in outcome.stderr


def test_form_with_a_file_is_not_written_to_standard_output(run: Path, tmp_path: Path) -> None:
    outcome = bkaudit("report", run, "--format", f"json={tmp_path}/a.json", "--format", "jsonl")
    assert json.loads((tmp_path / "a.json").read_text()) == json.loads(report().to_json())
    assert len(outcome.stdout.splitlines()) == 4
    assert bkaudit("report", run, "--format", f"csv={tmp_path}/a=b.csv").stdout == ""
    assert (tmp_path / "a=b.csv").exists()


@pytest.mark.parametrize(
    ("form", "message"),
    [
        ("pdf", "Forms: text, json, jsonl, csv"),
        ("", "Forms: text, json, jsonl, csv"),
        ("TEXT", "Forms: text, json, jsonl, csv"),
        ("csv=", "write a file name after '='"),
        ("csv=.", "write a file name after '='"),
        ("csv=nowhere/a.csv", "no such directory"),
        ("csv=file/a.csv", "no such directory"),
    ],
)
def test_invalid_form_is_refused_before_the_audit(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, form: str, message: str
) -> None:
    def no_audit(*_: Any) -> None:
        raise AssertionError("the audit has begun")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(audit_module, "Audit", no_audit)
    (tmp_path / "file").touch()
    outcome = bkaudit("audit", "--metadata", "dump:///a", "--bookies", "/b", "--format", form)
    assert outcome.exit_code == 2
    assert f"--format {form}: " in outcome.stderr
    assert message in outcome.stderr


def test_unwritable_directory_is_refused_before_the_audit(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # As root everything may be written: what the system would answer others.
    monkeypatch.setattr(os, "access", lambda path, mode: not mode & os.W_OK)
    with pytest.raises(UsageError, match="is not writable"):
        outputs([f"csv={tmp_path}/a.csv"], "run")


def test_output_file_in_a_future_run_needs_no_directory_yet(tmp_path: Path) -> None:
    assert outputs([f"csv={tmp_path}/run/a.csv"], str(tmp_path / "run"))[0].file == f"{tmp_path}/run/a.csv"


def test_two_forms_do_not_share_a_file(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "a")
    with pytest.raises(UsageError, match="was given twice"):
        outputs([f"csv={tmp_path}/a", f"junit={tmp_path}/link"], "run")
    with pytest.raises(UsageError, match="was given twice"):
        outputs(["text", "csv", "csv"], "run")


def test_unwritable_form_does_not_stop_the_other_forms(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    def broken(*_: object) -> None:
        raise RunError("a table is broken")

    monkeypatch.setitem(FORMS, "csv", Form("csv", full))
    monkeypatch.setitem(FORMS, "jsonl", Form("jsonl", broken))
    forms = (f"--format={form}={tmp_path}/{form}" for form in ("csv", "jsonl", "junit"))
    outcome = bkaudit("report", run, *forms)
    assert outcome.exit_code == 4
    assert (
        f"not written: {tmp_path}/csv: No space left on device; {tmp_path}/jsonl: a table" in outcome.stderr
    )
    assert (tmp_path / "junit").exists()
    damaged = bkaudit("report", run, f"--format=jsonl={tmp_path}/jsonl")
    assert damaged.exit_code == RunError.exit_code


def test_a_file_is_replaced_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    file = tmp_path / "a.prom"
    file.write_text("before\n")

    def half(out: BinaryIO) -> None:
        out.write(b"half a")
        out.flush()
        assert file.read_text() == "before\n"
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space") as raised:
        write_whole(str(file), half)
    assert raised.value.filename == str(file)
    assert file.read_text() == "before\n"
    write_whole(str(file), lambda out: out.write(b"after\n"))
    assert file.read_text() == "after\n"
    assert [path.name for path in tmp_path.iterdir()] == ["a.prom"]


def test_new_file_has_the_default_permissions(tmp_path: Path) -> None:
    (tmp_path / "other").touch()
    write_whole(str(tmp_path / "a.prom"), lambda out: None)
    assert (tmp_path / "a.prom").stat().st_mode == (tmp_path / "other").stat().st_mode


def test_a_link_stays_a_link_and_a_pipe_a_pipe(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "target")
    write_whole(str(tmp_path / "link"), lambda out: out.write(b"x"))
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_bytes() == b"x"
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_whole(str(tmp_path / "pipe"), lambda out: out.write(b"y"))
        assert os.read(reader, 10) == b"y"
    finally:
        os.close(reader)
    assert (tmp_path / "pipe").is_fifo()


def test_run_given_as_a_uri_gets_its_reports_inside_it(run: Path, tmp_path: Path) -> None:
    outcome = bkaudit("report", f"file://{run}", "--format", "text", "--format", "csv")
    assert outcome.exit_code == 0, outcome.stderr
    assert (run / "report.csv").read_text().count("\n") == 5
    assert not (run / "report.csv.part").exists()


def test_each_written_file_is_named(run: Path, tmp_path: Path) -> None:
    outcome = bkaudit("report", run, "--format", "parquet", "--format", f"csv={tmp_path}/a.csv")
    assert outcome.stdout == ""
    assert outcome.stderr == f"bkaudit: wrote {run}/report.parquet\nbkaudit: wrote {tmp_path}/a.csv\n"


def test_reports_page_names_every_form() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reports.md").read_text("utf-8")
    forms = page.partition("## Forms")[2].partition("\n## ")[0]
    assert re.findall(r"^\| `(\w+)` \|", forms, re.MULTILINE) == list(FORMS)
