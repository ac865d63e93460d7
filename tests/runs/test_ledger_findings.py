"""Tests of the findings of one ledger, read from the tables of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from auditor.model.finding import ChangeStatus, no_change_status
from auditor.notebook.run import Run, open_run
from auditor.runs.change_status import statuses_of, statuses_of_report
from auditor.runs.directory import RunDirectory
from auditor.runs.load_ledger import MAX_FINDINGS, findings_for_ledger
from tests.reports.samples import LOST, report

FINDING: dict[str, Any] = {
    "id": "entry-lost",
    "severity": "critical",
    "confidence": "confirmed",
    "scope_id": 0,
    "ledger_id": 42,
    "bookie_id": None,
    "missing": [{"bookie_id": "bk-a:3181", "groups": bytes(20) + b"\0\0\0\1", "count": 1}],
    "unknown": [],
    "message": "it is lost",
    "evidence": "{}",
    "fingerprint": "f0",
}
MISSING = pa.list_(pa.struct({"bookie_id": pa.string(), "groups": pa.binary(), "count": pa.int64()}))


def write(below: Path, rows: list[dict[str, Any]], schema: pa.Schema | None = None) -> None:
    below.mkdir(parents=True)
    if schema is None:
        kinds = {
            "scope_id": pa.int64(),
            "ledger_id": pa.int64(),
            "missing": MISSING,
            "unknown": pa.list_(pa.string()),
        }
        schema = pa.schema([(name, kinds.get(name, pa.string())) for name in FINDING])
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), below / "part-0.parquet")


@pytest.fixture
def run(tmp_path: Path) -> Run:
    (tmp_path / "report.json").write_text(report().to_json())
    (tmp_path / "tables").mkdir()
    other_findings = [
        FINDING | {"ledger_id": 43, "fingerprint": "f1"},
        FINDING | {"scope_id": 7, "fingerprint": "f2"},
        FINDING | {"ledger_id": None, "scope_id": None, "fingerprint": "f3"},
    ]
    orphans = [
        FINDING | {"id": "orphan-ledger", "severity": "note", "fingerprint": f"o{n}"} for n in range(200)
    ]
    write(tmp_path / "findings", [FINDING, *other_findings, *orphans])
    return open_run(tmp_path)


def test_ledger_has_only_its_own_findings_up_to_a_limit(run: Run) -> None:
    views = findings_for_ledger(run, 42)
    assert [view.finding.fingerprint for view in views] == ["f0", *(f"o{n}" for n in range(MAX_FINDINGS - 1))]
    assert views[0].finding.missing[0].count == 1
    assert {view.change_status for view in views} == {None}
    assert [view.finding.fingerprint for view in findings_for_ledger(run, 42, 7)] == ["f2"]
    assert findings_for_ledger(run, 9) == ()


def test_change_status_comes_from_the_table_of_changes(run: Run) -> None:
    rows = [
        {"fingerprint": "f0", "change": "same", "first_seen": 7, "suppressed": None},
        {"fingerprint": "gone", "change": "fixed", "first_seen": 1, "suppressed": None},
        {"fingerprint": "o0", "change": "new", "first_seen": 8, "suppressed": "being emptied"},
    ]
    schema = pa.schema(
        [(name, pa.int64() if name == "first_seen" else pa.string()) for name in rows[0]],
    )
    write(Path(run.path) / "tables" / "changes", rows, schema)
    findings = findings_for_ledger(run, 42)
    assert findings[0].change_status == ChangeStatus("same", 7)
    assert findings[1].change_status == ChangeStatus("new", 8, "being emptied")
    assert findings[2].change_status is None
    assert statuses_of(RunDirectory(run.path), run.report, []) == {}


def test_change_statuses_of_a_report_are_read_only_if_it_has_changes(run: Run, tmp_path: Path) -> None:
    rows = [{"fingerprint": LOST.fingerprint, "change": "same", "first_seen": 7, "suppressed": None}]
    schema = pa.schema(
        [(name, pa.int64() if name == "first_seen" else pa.string()) for name in rows[0]],
    )
    write(Path(run.path) / "tables" / "changes", rows, schema)
    assert statuses_of_report(run.path, report())(LOST.fingerprint) == ChangeStatus("same", 7)
    assert statuses_of_report(run.path, report())("other") is None
    first = report(changes=None, suppressions=[])
    assert statuses_of_report(str(tmp_path / "nowhere"), first) is no_change_status
