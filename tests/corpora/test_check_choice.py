"""Audits without some checks: a skipped check is never clean, and actions it could forbid are refused."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from auditor.actions.gate import permit
from auditor.actions.objects import bookie
from auditor.audit.run_store import run_identity
from auditor.errors import UsageError
from auditor.model.finding import Severity
from auditor.model.holds import ActionKind
from auditor.model.options import AuditOptions
from auditor.model.permission import Allowed, Refused, UnfitRunReason
from auditor.model.report import exit_code
from auditor.model.report_source import Figures
from auditor.notebook.run import open_run
from auditor.reports import first_screen, html, markdown
from tests.corpora.audited import FinishedRun, audit
from tests.corpora.cluster import DAY, HOUR, NOW_MS, Cluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

A, B, C = (f"10.0.0.{number}:3181" for number in (1, 2, 3))
CLASSES = ("entry-lost", "below-ack-quorum", "below-write-quorum")


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """Write a cluster with a lost entry, a ledger that lacks a copy, and one open for 40 days."""
    place = tmp_path_factory.mktemp("choice")
    cluster = Cluster()
    for name in (A, B, C):
        cluster.bookie(name)
    cluster.ledger(1, {0: [A, B, C]}, (3, 2), 9, without={A: [4], B: [4], C: [4]})
    cluster.ledger(2, {0: [A, B, C]}, (3, 2), 9, without={A: [3]})
    cluster.ledger(3, {0: [A, B, C]}, (3, 2), 9)
    cluster.ledger(4, {0: [A, B, C]}, (3, 2), None, state="OPEN", written=5, time=NOW_MS - 40 * DAY - HOUR)
    cluster.write_indexes(place / "bookies")
    cluster.write_dump(place / "metadata.jsonl")
    return f"dump://{place}/metadata.jsonl", place / "bookies"


@pytest.fixture
def run(spark: SparkSession, sources: tuple[str, Path], tmp_path: Path) -> Any:
    metadata, bookies = sources
    return lambda name, **options: audit(spark, metadata, bookies, tmp_path / name, **options)


@pytest.fixture(scope="module")
def audited_once(
    spark: SparkSession, sources: tuple[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """Return the audit with all checks and unmodified constants."""
    metadata, bookies = sources
    return audit(spark, metadata, bookies, tmp_path_factory.mktemp("once") / "a").out


@pytest.fixture
def whole(audited_once: Path, tmp_path: Path) -> FinishedRun:
    """Return that audit as run ``a``, the run before those of a test."""
    out = Path(shutil.copytree(audited_once, tmp_path / "a"))
    return FinishedRun(open_run(out).report, out)


def _changes(audited_run: FinishedRun) -> dict[str, str]:
    return {row["id"]: row["change"] for row in audited_run.table("changes") if row["id"] in CLASSES}


def test_skipped_check_is_reported_as_not_run_and_its_finding_not_as_fixed(
    run: Any, whole: FinishedRun
) -> None:
    assert {row.id for row in whole.finding_keys()} >= {"entry-lost", "below-write-quorum"}
    assert whole.report.run.checks_not_run == ()
    part = run("b", skip_checks="entry-lost")
    assert not part.findings_of("entry-lost")
    assert part.findings_of("below-write-quorum") == whole.findings_of("below-write-quorum")
    report = part.report
    assert report.run.checks_not_run == ("entry-lost",)
    assert "entry-lost" in (report.run.blind or ())
    assert not report.complete
    assert exit_code(report, Severity.CRITICAL) == 3
    # All stages of one trouble are in doubt without one of them.
    assert _changes(part) == {"entry-lost": "unseen", "below-write-quorum": "same"}
    page = "".join(html.render(report, Figures()))
    for text in (first_screen.render(report), markdown.render(report), page):
        assert "not run" in text
        assert "entry-lost" in text


@pytest.mark.usefixtures("whole")
def test_action_that_a_skipped_check_could_forbid_is_refused(run: Any) -> None:
    opened = open_run(run("b", skip_checks="metadata-suspect").out)
    refused = permit(opened, ActionKind.COLLECT, [bookie(A)])
    assert isinstance(refused, Refused)
    assert refused.unfit_reason is UnfitRunReason.CHECKS_NOT_RUN
    assert "metadata-suspect" in refused.reason
    assert isinstance(permit(opened, ActionKind.WAIT, []), Allowed)
    # Its holds are not those of all checks, so that the next run has no earlier run to rest on.
    assert run("c").report.run.holds["earlier_run"] is None
    assert run("d").report.run.holds["earlier_run"] == "c"


def test_less_careful_constant_refuses_the_action(run: Any, tmp_path: Path) -> None:
    file = tmp_path / "checks.toml"
    file.write_text("[constants]\nleast_orphans = 1000\nstuck_hours = 48\n")
    lax_run = run("a", check_settings=str(file))
    assert lax_run.report.run.checks_not_run == ()
    assert lax_run.report.run.checks_with_missing_holds == ("metadata-suspect",)
    values = {row["name"]: (row["value"], row["default"]) for row in lax_run.report.run.checks["constants"]}
    assert (values["least_orphans"], values["stuck_hours"]) == ((1000, 100), (48, 24))
    assert isinstance(permit(open_run(lax_run.out), ActionKind.START, [bookie(A)]), Refused)
    assert "stuck_hours 48 hours (default 24)" in markdown.render(lax_run.report)


def test_only_chosen_checks_run(run: Any) -> None:
    chosen_run = run("a", checks="below-write-quorum")
    assert {row.id for row in chosen_run.finding_keys()} == {"below-write-quorum"}
    assert len(chosen_run.report.run.checks_not_run) > 90


def test_changed_check_configuration_changes_the_run_identity(tmp_path: Path) -> None:
    def identity(**options: Any) -> dict[str, Any]:
        return run_identity("audit", "zk://h1/ledgers", [], AuditOptions(**options))

    file = tmp_path / "checks.toml"
    file.write_text("[constants]\nstuck_hours = 48\n")
    before = identity(check_settings=str(file))
    assert before == identity(check_settings=str(file))
    file.write_text("[constants]\nstuck_hours = 49\n")
    assert before != identity(check_settings=str(file))
    assert identity() != identity(skip_checks="mark-stuck")
    with pytest.raises(UsageError):
        identity(skip_checks="mark-stack")


def test_ledger_open_longer_than_the_limit_is_reported(run: Any, whole: FinishedRun, tmp_path: Path) -> None:
    [finding] = whole.findings_of("ledger-open-long")
    assert (finding["ledger_id"], finding["severity"], finding["confidence"]) == (4, "note", "confirmed")
    assert finding["message"].startswith("no application: 1 ledger has been open without a change")
    file = tmp_path / "checks.toml"
    file.write_text("[constants]\nopen_days = 41\n")
    assert not run("b", check_settings=str(file)).findings_of("ledger-open-long")
