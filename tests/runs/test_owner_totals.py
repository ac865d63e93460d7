"""Tests of totals by owner, against a count by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from auditor.errors import RunError
from auditor.model.finding import Confidence, Finding, Severity
from auditor.model.report_source import NOBODY, OwnerLevel, OwnerTotal
from auditor.runs.owners import OwnerTotals
from auditor.runs.reader import RunReader
from tests.cli.test_doors import bkaudit
from tests.made_runs import made_run

Row = dict[str, Any]


def row(ledger_id: int, standing: str, topic: str | None, **fields: Any) -> Row:
    names = dict(zip(("tenant", "namespace", "topic"), topic.split("/"), strict=True)) if topic else {}
    return {"scope_id": 0, "ledger_id": ledger_id, "standing": standing, "borrowed": False, **names, **fields}


ROWS = [
    row(1, "owned", "a/x/one", length=100, last_entry_id=9),
    row(2, "owned", "a/x/two", length=50),
    row(1, "owned", "a/x/two", length=100, borrowed=True),
    row(3, "owned", "b/y/one", length=-1, last_entry_id=-1),
    row(4, "dangling", "a/x/one"),
    row(5, "unowned", None, length=7, last_entry_id=2),
    row(6, "unnamed", None, length=9),
    row(8, "unowned", None, length=4, claim="/east/managed-ledgers/c/z/persistent/gone/sub"),
    row(9, "unowned", None, length=1, last_entry_id=0, claim="/east/schemas/c/z/gone"),
]


def finding(severity: Severity, topic: str | None, ledger: int) -> Finding:
    names = dict(zip(("tenant", "namespace", "topic"), topic.split("/"), strict=True)) if topic else None
    evidence = {"owner": names} if names else {}
    return Finding("entry-lost", severity, Confidence.CONFIRMED, 0, ledger, evidence=evidence)


FINDINGS = [
    finding(Severity.CRITICAL, "b/y/one", 3),
    finding(Severity.NOTE, "a/x/one", 1),
    finding(Severity.NOTE, "a/x/two", 2),
    finding(Severity.NOTE, None, 6),
]
NO_OWNER_TOTAL = OwnerTotal(NOBODY, unowned=1, leaked_bytes=7, leaked_entries=3)


@pytest.mark.parametrize(
    ("level", "totals"),
    [
        (
            "tenant",
            [
                OwnerTotal("b", 1, 0, findings={"critical": 1}),
                OwnerTotal("a", 2, 150, 1, entries=10, findings={"note": 2}),
                NO_OWNER_TOTAL,
                OwnerTotal("c", unowned=2, leaked_bytes=5, leaked_entries=1),
            ],
        ),
        (
            "topic",
            [
                OwnerTotal("b/y/one", 1, 0, findings={"critical": 1}),
                OwnerTotal("a/x/one", 1, 100, 1, entries=10, findings={"note": 1}),
                OwnerTotal("a/x/two", 1, 50, findings={"note": 1}),
                NO_OWNER_TOTAL,
                OwnerTotal("c/z/gone", unowned=2, leaked_bytes=5, leaked_entries=1),
            ],
        ),
    ],
)
def test_owner_totals_add_up_ledgers_bytes_leaks_and_findings(
    level: OwnerLevel, totals: list[OwnerTotal], tmp_path: Path
) -> None:
    made_run(tmp_path, FINDINGS, ownership=ROWS)
    assert OwnerTotals(RunReader(tmp_path)).totals_of(level) == totals


def test_report_by_namespace_prints_the_totals(tmp_path: Path) -> None:
    made_run(tmp_path, FINDINGS, ownership=ROWS)
    outcome = bkaudit("report", str(tmp_path), "--by", "namespace")
    assert outcome.exit_code == 0, outcome.output
    lines = outcome.stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["namespace", "b/y", "a/x", "(no", "c/z"]
    assert bkaudit("report", str(tmp_path), "--by", "namespace", "--format", "json").exit_code == 2


def test_run_without_owners_says_so(tmp_path: Path) -> None:
    made_run(tmp_path)
    (tmp_path / "tables" / "ownership").rename(tmp_path / "tables" / "other")
    with pytest.raises(RunError, match="no owners of ledgers were read"):
        OwnerTotals(RunReader(tmp_path))
