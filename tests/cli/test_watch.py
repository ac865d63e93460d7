"""``bkaudit watch`` with real audits in the tests' own session: rounds, reports, pruning, a signal."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result

from auditor.audit.run_store import unfinished_run
from auditor.cli import main
from auditor.errors import StoreError
from auditor.model.report import EXIT_FOUND, EXIT_UNREACHABLE, EXIT_USAGE
from auditor.notebook.run import open_run
from auditor.runs.directory import RunDirectory
from tests.corpora.corpora import unpack
from tests.made_runs import made_run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROUND_S = 300
"""No round takes so long, on the busiest of machines."""


def watch(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["watch", *map(str, arguments)], prog_name="bkaudit")


def end_after_third_run(runs: Path) -> threading.Thread:
    """Start a thread that ends this process once a third run has a table."""

    def tell() -> None:
        deadline = time.monotonic() + ROUND_S
        while len(run_names) < 3 and time.monotonic() < deadline:
            run_names.update(path.parts[-4] for path in runs.glob("*/tables/ledgers/_SUCCESS"))
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGTERM)

    run_names: set[str] = set()
    thread = threading.Thread(target=tell)
    thread.start()
    return thread


def test_signal_ends_the_rounds_between_tables_and_leaves_a_resumable_run(
    spark: SparkSession, tmp_path: Path
) -> None:
    assert spark is not None  # which the command takes, for it is there
    corpus, runs, metrics = unpack("flat-v1", tmp_path), tmp_path / "runs", tmp_path / "bkaudit.prom"
    before = signal.getsignal(signal.SIGTERM)
    thread = end_after_third_run(runs)
    sources = ("--metadata", f"dump://{corpus.dump}", "--bookies", corpus.bookies)
    ended = watch(
        runs, *sources, "--interval", "1s", "--keep", "1", "--listen", "127.0.0.1:0",
        "--format", f"openmetrics={metrics}",
    )  # fmt: skip
    thread.join()
    assert ended.exit_code == 0, ended.output
    first, second = ended.stdout.splitlines()
    assert " round 1, " in first
    assert " round 2, " in second
    assert "no earlier run" in first
    assert "0 new, 0 worse, 0 fixed" in second
    assert ended.stderr.endswith("stopped; repeat the command within --resume-within to resume this round\n")
    assert signal.getsignal(signal.SIGTERM) is before
    # Of the two that were finished one is kept; the third is there to be gone on with.
    [finished] = runs.glob("*/report.json")
    [unfinished] = {path.parent for path in runs.glob("*/manifest.json")} - {finished.parent}
    assert second.endswith(f"; {finished.parent}")
    assert open_run(finished.parent).report.run.reused is not None
    identity = (RunDirectory(str(unfinished)).read_json("manifest.json") or {})["identity"]
    assert unfinished_run(str(runs), identity, 900) == str(unfinished)
    text = metrics.read_text("utf-8")
    assert text.startswith("# HELP bkaudit_run_info")
    assert text.endswith("# EOF\n")


@pytest.fixture
def _no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("auditor.spark.session.build_session", lambda *_, **__: None)


@pytest.mark.usefixtures("_no_session")
def test_unreachable_store_is_reported_in_a_line_and_by_the_exit_code(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def away(*_: Any) -> None:
        raise StoreError("zk://h1/ledgers: nobody\nanswers")

    monkeypatch.setattr("auditor.audit.audit.Audit.run", away)
    arguments = ("--metadata", "zk://h1/ledgers", "--interval", "1s", "--rounds", "2", "--keep", "3")
    ended = watch(tmp_path / "runs", *arguments)
    assert ended.exit_code == EXIT_UNREACHABLE
    lines = [line.partition(" UTC ")[2] for line in ended.stdout.splitlines()]
    failed = "a second: failed, exit code 4: zk://h1/ledgers: nobody?answers"
    # No round comes after the last one.
    assert lines == [f"round 1, {failed}; next round in 1 s", f"round 2, {failed}"]


@pytest.mark.usefixtures("_no_session")
def test_failed_round_after_a_signal_announces_no_further_round(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def away(*_: Any) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        raise StoreError("zk://h1/ledgers: nobody answers")

    monkeypatch.setattr("auditor.audit.audit.Audit.run", away)
    ended = watch(tmp_path / "runs", "--metadata", "zk://h1/ledgers", "--interval", "1s")
    assert ended.exit_code == 0
    assert ended.stdout.endswith("failed, exit code 4: zk://h1/ledgers: nobody answers\n")


@pytest.mark.usefixtures("_no_session")
def test_unwritable_report_is_reported_and_the_rounds_continue(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def done(audit: Any, *_: Any) -> Any:
        if target.is_dir():
            target.rmdir()
        return made_run(Path(audit.out)).report

    monkeypatch.setattr("auditor.audit.audit.Audit.run", done)
    target = tmp_path / "gone"
    target.mkdir()
    out = f"csv={target / 'a.csv'}"
    arguments = ("--metadata", "zk://h1/ledgers", "--interval", "1s", "--rounds", "2", "--format", out)
    ended = watch(tmp_path / "runs", *arguments)
    assert ended.exit_code == EXIT_FOUND
    assert ended.stderr.count(f"bkaudit: --format {out}: no such directory: {target}\n") == 2


@pytest.mark.usefixtures("_no_session")
def test_rounds_and_retention_work_with_a_file_uri(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def done(audit: Any, *_: Any) -> Any:
        return made_run(Path(audit.out.removeprefix("file://"))).report

    names = iter(["1", "2", "3"])
    monkeypatch.setattr("auditor.cli.options.new_run", lambda runs: f"{runs}/{next(names)}")
    monkeypatch.setattr("auditor.audit.audit.Audit.run", done)
    monkeypatch.setenv("BKAUDIT_RUNS", f"file://{tmp_path}/runs")
    ended = watch("--metadata", "zk://h1/ledgers", "--interval", "1s", "--rounds", "3", "--keep", "1")
    assert ended.exit_code == EXIT_FOUND, ended.output
    assert ended.stdout.splitlines()[-1].endswith(f"; file://{tmp_path}/runs/3")
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["3"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--interval", "0"), "'0' is not a time of at least one second"),
        (("--interval", "5 min"), "'5 min' is not a time"),
        (("--listen", "9418"), "--listen 9418: not of the form HOST:PORT"),
        (("--format", "pdf"), "--format pdf: no such form"),
        (("--keep", "0"), "0 is not in the range"),
        (("nothing://bucket/runs",), "nothing://bucket/runs: no file system found"),
    ],
)
@pytest.mark.usefixtures("_no_session")
def test_invalid_option_is_refused_before_the_first_round(arguments: tuple[str, ...], message: str) -> None:
    ended = watch("--metadata", "zk://h1/ledgers", *arguments)
    assert ended.exit_code == EXIT_USAGE
    assert message in ended.stderr
