"""The examples of docs/adding.md work: its check reports, its table is written, and its form writes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from textwrap import indent
from typing import Any, get_args

import pytest
from pyspark.sql import SparkSession

from auditor.audit.derived_tables import with_declared_tables
from auditor.audit.run_store import RunStore
from auditor.audit.table_cache import TableCache
from auditor.checks import Basis, Need, TableCheck
from auditor.checks.check import DataKind
from auditor.findings.table import ask_table_checks
from auditor.model.progress import SilentProgress
from auditor.notebook.run import open_run
from auditor.reports.forms import FORMS
from auditor.reports.reference_pages import tables_page
from auditor.runs.directory import RunDirectory
from auditor.spark.execution import Execution
from auditor.tables.run_tables import OPTIONAL_TABLES, TABLES, Table, to_json
from tests.checks.tables_builder import ledger, tables
from tests.made_runs import made_run

SOURCES = Path(__file__).parents[1] / "auditor"
PAGE = (Path(__file__).parents[1] / "docs" / "adding.md").read_text("utf-8")


def run_page_code(name: str) -> dict[str, Any]:
    """Run the page's code of this name, and return the names that it defines."""
    defined: dict[str, Any] = {}
    exec(compile(code_of(name), "docs/adding.md", "exec"), defined)
    return defined


def test_check_of_the_page_reports_only_unreplicated_ledger(spark: SparkSession) -> None:
    check = run_page_code("check")["ledger_unreplicated"]
    assert isinstance(check, TableCheck)
    audit_tables = tables(
        spark,
        ledgers=[ledger(1, "bk1", write_quorum=1, ack_quorum=1), ledger(2, "bk1", "bk2", write_quorum=2)],
    )
    rows = ask_table_checks([check], audit_tables).collect()
    assert [(row["id"], row["ledger_id"], row["severity"]) for row in rows] == [
        ("ledger-unreplicated", 1, "note")
    ]


def test_table_of_the_page_is_written_to_a_run(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = eval(code_of("table row"), {"Table": Table, **run_page_code("table")})
    run = made_run(tmp_path / "run")
    monkeypatch.setitem(TABLES, row.name, row)
    cache = TableCache(Execution(spark), RunStore(RunDirectory(run.path)), SilentProgress())
    single = [ledger(1, "bk1", write_quorum=1, ensemble_size=1), ledger(2, "bk1", "bk2", write_quorum=2)]
    audit_tables = with_declared_tables(cache, tables(spark, ledgers=single))
    rows = [{"scope_id": 0, "ledger_id": 1, "ensemble_size": 1}]
    assert [record.asDict() for record in audit_tables.single_copies.collect()] == rows
    assert run.table(row.name).to_pylist() == rows
    assert run.views(spark, "page_")[f"page_{row.name}"] == row.row_meaning
    comments = {
        record["col_name"]: record["comment"] for record in spark.sql("DESCRIBE page_single_copies").collect()
    }
    assert comments == {name: record["comment"] for name, record in json.loads(to_json())[row.name].items()}
    assert f"- `{row.name}`: {row.row_meaning}" in tables_page()


def test_table_of_the_page_without_rows_is_known_as_empty(spark: SparkSession, tmp_path: Path) -> None:
    row = eval(code_of("table row"), {"Table": Table, **run_page_code("table")})
    cache = TableCache(Execution(spark), RunStore(RunDirectory(str(tmp_path))), SilentProgress())
    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(TABLES, row.name, row)
        assert row.name in with_declared_tables(cache, tables(spark)).empty_table_names


def code_of(name: str) -> str:
    [code] = re.findall(rf"<!-- {name} -->\n```python\n(.*?)```", PAGE, re.DOTALL)
    return str(code)


def test_every_basis_has_a_data_kind_and_an_optional_table() -> None:
    assert f"    {code_of('basis')}" in (SOURCES / "checks" / "check.py").read_text("utf-8")
    for basis in Basis:
        assert basis.data_kind in get_args(DataKind)
        if basis.table is not None:
            assert basis.table in OPTIONAL_TABLES, basis


def test_every_need_is_in_the_needs_module() -> None:
    text = (SOURCES / "checks" / "needs.py").read_text("utf-8")
    assert indent(code_of("need"), "    ") in text
    for need in Need:
        assert f"Need.{need.name}" in text, f"{need} is never lacking"


def test_report_form_of_the_page_can_be_written_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("auditor.reports.forms.FORMS", dict(FORMS))
    run_page_code("form")
    run = open_run(made_run(tmp_path / "run").path)
    run.write("ids", tmp_path / "file")
    lines = (tmp_path / "file").read_text("utf-8").splitlines()
    assert lines == [f"{finding.id} {finding.fingerprint}" for finding in run.findings]
    assert "ids" not in FORMS
