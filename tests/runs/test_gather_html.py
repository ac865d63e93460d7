"""Tests of the page of a finished run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from auditor.errors import RunError
from auditor.findings.table import FINDINGS_SCHEMA as FINDINGS_TABLE
from auditor.model.finding import Confidence, Finding, Severity
from auditor.notebook.run import open_run
from auditor.runs.gather_html import page_of, worst_ledgers
from auditor.runs.reader import RunReader
from auditor.tables.run_tables import TABLES
from tests.made_runs import change_row, finding_row, made_run, write
from tests.reports.samples import BELOW, LOST, ORPHAN, report
from tests.runs.test_figures import Rows, bookie, write_tables
from tests.runs.test_owner_totals import FINDINGS, ROWS

LEDGER = 9223372036854770002


def tables_of(*findings: Finding) -> dict[str, Rows]:
    """Return two bookies and the ledgers of these findings: closed, with all their five entries missing."""
    ledgers: Rows = [
        {
            "scope_id": finding.scope_id,
            "ledger_id": finding.ledger_id,
            "status": "ok",
            "state": "CLOSED",
            "last_entry_id": 4,
            "undecidable": False,
            "segments": [{"first_entry_id": 0, "ensemble": ["bk-a:3181", "bk-b:3181"]}],
            "replicas": [{"bookie_id": "bk-a:3181", "groups": bytes(19) + b"\x05" + bytes(4)}],
        }
        for finding in findings
    ]
    changes = [change_row(finding, 1) for finding in (*findings, ORPHAN)]
    return {
        "changes": changes,
        "ledgers": ledgers,
        "bookies": [bookie("bk-a:3181", 2), bookie("bk-b:3181", 2)],
    }


def run_in(directory: Path, finished: int = 0, instance_id: str = "one") -> Path:
    base = report(findings=(LOST, BELOW, ORPHAN), gaps=[f"/a gap of {directory.name}"])
    run_report = replace(base, cluster=replace(base.cluster, instance_id=instance_id))
    run_report = replace(run_report, run=replace(run_report.run, finished=run_report.run.finished + finished))
    directory.mkdir(parents=True)
    (directory / "report.json").write_text(run_report.to_json())
    write_tables(directory, tables_of(LOST, BELOW), {*TABLES} - {"ownership"})
    write(directory / "findings", list(map(finding_row, run_report.findings)), FINDINGS_TABLE)
    return directory


def page_text(run: RunReader) -> str:
    return "".join(page_of(run))


def test_run_page_draws_ledgers_and_lists_sibling_runs(tmp_path: Path) -> None:
    run_in(tmp_path / "earlier", -1)
    run_in(tmp_path / "other-cluster", instance_id="two")
    (tmp_path / "unfinished").mkdir()
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "report.json").write_text("{")
    page = page_text(open_run(run_in(tmp_path / "now")))
    assert f"<h3>Ledger {LEDGER}" in page
    assert "<h3>Ledger 7" in page
    assert "lacks 0-4 (5 entries)" in page
    assert "<bdi>earlier</bdi>" in page
    assert '<bdi>now</bdi> <span class="tag">this run</span>' in page
    assert "other-cluster" not in page
    assert f"not in the history: {tmp_path}/broken/report.json" in page
    assert f"bkaudit explain ledger {LEDGER} --run {tmp_path}/now" in page


def test_run_opened_twice_gives_the_same_page(tmp_path: Path) -> None:
    run = run_in(tmp_path / "now")
    assert page_text(open_run(run)) == page_text(open_run(run))


def test_page_has_owners_and_leaks_where_they_were_read(tmp_path: Path) -> None:
    evidence = {"claim": "/managed-ledgers/a/x/persistent/gone", "made": 0, "state": "CLOSED", "length": 7}
    leak = Finding("ledger-unowned", Severity.NOTE, Confidence.CONFIRMED, 0, 5, evidence=evidence)
    run_report = report(findings=(), changes=None, suppressions=[])
    made_run(tmp_path / "owned", [*FINDINGS, leak], run_report, ownership=ROWS)
    page = page_text(open_run(tmp_path / "owned"))
    assert '<h2 id="owners">' in page
    for name in ("a", "b", "a/x", "b/y", "a/x/one", "(no known owner)"):
        assert f'<th role="rowheader" scope="row" class="id"><bdi>{name}</bdi></th>' in page
    assert "<bdi>topic a/x/gone</bdi>" in page
    assert "1 ledger of 7 B without an owner, 1 of 7 B confirmed" in page
    assert '<h2 id="owners">' not in page_text(open_run(run_in(tmp_path / "nobodys")))


def test_run_without_a_table_has_no_page(tmp_path: Path) -> None:
    run = run_in(tmp_path / "now")
    (run / "tables" / "judged" / "part-00000.parquet").unlink()
    with pytest.raises(RunError, match="tables/judged"):
        page_text(open_run(run))


def finding_of(id: str, ledger_id: int) -> Finding:
    return replace(LOST, id=id, ledger_id=ledger_id)


def test_each_check_has_a_ledger_drawn_before_any_check_has_a_second() -> None:
    findings = [
        finding_of("entry-lost", 1),
        finding_of("entry-lost", 2),
        finding_of("entry-lost", 3),
        finding_of("below-ack-quorum", 4),
        finding_of("below-ack-quorum", 1),
        replace(ORPHAN, ledger_id=9),
        finding_of("below-write-quorum", 5),
    ]
    assert worst_ledgers(findings, 4) == [(1, 0), (2, 0), (4, 0), (5, 0)]
    assert worst_ledgers(findings, 99) == [(1, 0), (2, 0), (3, 0), (4, 0), (5, 0)]
    assert worst_ledgers([ORPHAN], 4) == []
