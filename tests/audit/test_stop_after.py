"""``bkaudit audit --stop-after STAGE`` ends after each stage, and the same command continues the run."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from auditor.cli import main
from auditor.model.audit_stage import AuditStage
from tests.corpora.cluster import Cluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MADE_BY = {
    AuditStage.METADATA: "tables/ledgers",
    AuditStage.INDEXES: "tables/availability",
    AuditStage.COMPARE_COPIES: "tables/unequal",
    AuditStage.JUDGE_LEDGERS: "tables/judged",
    AuditStage.SECOND_SCAN: "tables/marks",
    AuditStage.BUILD_CHECK_TABLES: "tables/verdicts",
    AuditStage.RUN_CHECKS: "tables/checks",
    AuditStage.CONFIRM_SUSPECTS: "findings",
    AuditStage.FIND_CHANGES: "tables/changes",
    AuditStage.MAKE_HOLDS: "tables/holds",
    AuditStage.WRITE_REPORT: "report.json",
}
"""A path in the run that a stage makes, and no stage before it."""


def audit(root: Path, out: str, *flags: str) -> Result:
    sources = ["--metadata", f"dump://{root}/metadata.jsonl", "--bookies", str(root / "bookies")]
    return CliRunner().invoke(main, ["audit", *sources, "--out", str(root / out), *flags])


class Stop(NamedTuple):
    """The result of one command, and the paths of `MADE_BY` that its run then had."""

    result: Result
    made: set[str]


class Stops(NamedTuple):
    root: Path
    whole: Result
    stops: dict[AuditStage, Stop]
    first_written: float


@pytest.fixture(scope="module")
def stopped(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Stops:
    """Audit a cluster with a lost copy in one go, and stage by stage in another directory."""
    cluster = Cluster()
    bookies = [cluster.bookie(f"bk{number}.example:3181") for number in (1, 2, 3)]
    for ledger in range(5):
        cluster.ledger(ledger, {0: bookies}, (2, 2), 19)
    root = cluster.write(tmp_path_factory.mktemp("stops"))
    (root / "bookies" / "bk1.example_3181" / "ledgers0/current/0/3/3.idx").unlink()
    whole = audit(root, "apart/whole", "--format", "json")
    stops: dict[AuditStage, Stop] = {}
    first_written = 0.0
    for stage in AuditStage:
        result = audit(root, "stopped", "--stop-after", str(stage), "--format", "json")
        assert (result.exit_code == 3) == (stage is not AuditStage.WRITE_REPORT), result.stderr
        paths = {path for path in MADE_BY.values() if (root / "stopped" / path).exists()}
        stops[stage] = Stop(result, paths)
        first_written = first_written or first_table_mtime(root / "stopped")
    return Stops(root, whole, stops, first_written)


def first_table_mtime(run: Path) -> float:
    """Return the time at which the first table of a run was written."""
    return max(path.stat().st_mtime for path in (run / "tables" / "ledgers").iterdir())


@pytest.mark.parametrize("number", range(1, len(AuditStage)))
def test_a_stopped_run_has_the_tables_of_its_stages_and_no_report(stopped: Stops, number: int) -> None:
    stage = list(AuditStage)[number - 1]
    result, paths = stopped.stops[stage]
    assert (result.exit_code, result.stdout) == (3, ""), result.stderr
    path = re.escape(str(stopped.root / "stopped"))
    line = (
        rf"bkaudit: stopped after {stage}, stage {number} of 15: [0-9]+ tables? (?:is|are) in {path}/tables; "
        r"there is no report\. The same command without --stop-after continues the run\n"
    )
    assert re.fullmatch(line, result.stderr.splitlines(keepends=True)[-1])
    done = list(AuditStage)[:number]
    assert paths == {path for stage, path in MADE_BY.items() if stage in done}


def test_next_command_reports_the_stage_it_continues_with(stopped: Stops) -> None:
    resume_note = "bkaudit: reusing the tables of an interrupted run; continuing with stage"
    assert resume_note not in stopped.stops[AuditStage.METADATA].result.stderr
    assert f"{resume_note} 2 of 15: owners\n" in stopped.stops[AuditStage.OWNERS].result.stderr
    assert f"{resume_note} 15 of 15: report\n" in stopped.stops[AuditStage.WRITE_REPORT].result.stderr


def test_run_stopped_after_each_stage_ends_like_an_uninterrupted_run(stopped: Stops) -> None:
    end = stopped.stops[AuditStage.WRITE_REPORT].result
    assert (end.exit_code, stopped.whole.exit_code) == (1, 1)
    ended, whole = json.loads(end.stdout), json.loads(stopped.whole.stdout)
    assert ended["counts"] == whole["counts"]
    assert ended["coverage"] == whole["coverage"]
    assert ended["run"]["actions"] == whole["run"]["actions"]
    assert ended["run"]["resumed"] is not None
    findings, findings_in_one_go = (
        pq.read_table(stopped.root / out / "findings").to_pylist() for out in ("stopped", "apart/whole")
    )
    assert findings == findings_in_one_go != []
    tables, tables_in_one_go = (
        sorted(path.name for path in (stopped.root / out / "tables").iterdir())
        for out in ("stopped", "apart/whole")
    )
    assert tables == tables_in_one_go
    assert "checks" not in tables


def test_a_finished_stage_is_not_run_again(stopped: Stops) -> None:
    assert first_table_mtime(stopped.root / "stopped") == stopped.first_written


def test_a_stage_that_does_not_exist_is_wrong_usage(tmp_path: Path) -> None:
    result = audit(tmp_path, "run", "--stop-after", "join")
    assert result.exit_code == 2
    assert "'join' is not one of 'metadata', 'owners', 'indexes', 'entry-logs', " in result.stderr
    assert not (tmp_path / "run").exists()
