"""Finished runs are opened without Spark."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from auditor.errors import RunError, UsageError
from auditor.findings.table import FINDINGS_SCHEMA
from auditor.model.finding import Finding
from auditor.model.ledger_id import LedgerId
from auditor.notebook.run import open_run
from auditor.reports.forms import FORMS
from auditor.reports.ledger import render
from auditor.tables.run_tables import TABLES
from tests.made_runs import finding_row, made_run
from tests.reports.samples import BELOW, LOST, ORPHAN, UNREAD, report
from tests.tables.rows import pack


def write(path: Path, *findings: Finding) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(
        pa.Table.from_pylist([finding_row(finding) for finding in findings], schema=FINDINGS_SCHEMA), path
    )


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Return the directory of a handwritten run: two files of findings, one small table."""
    write(tmp_path / "findings" / "part-00000-x.snappy.parquet", LOST, BELOW)
    # A null ledger comes first, and numbers go by size, not by their digits.
    later = [replace(ORPHAN, ledger_id=ledger_id) for ledger_id in (9, 10, 2**60)]
    write(tmp_path / "findings" / "part-00001-x.snappy.parquet", UNREAD, *later)
    (tmp_path / "findings" / "_SUCCESS").touch()
    (tmp_path / "tables" / "marks").mkdir(parents=True)
    table = pa.table({"ledger_id": [1, 2], "version": [0, 5]})
    pq.write_table(table, tmp_path / "tables" / "marks" / "part-00000.parquet")
    (tmp_path / "report.json").write_text(report().to_json())
    return tmp_path


def test_the_report_is_read_back(run: Path) -> None:
    assert open_run(run).report == report()


def test_findings_are_iterated_in_order(run: Path) -> None:
    findings = open_run(str(run)).findings
    read_findings = list(findings)
    assert list(findings) == read_findings
    assert read_findings[:3] == [LOST, BELOW, UNREAD]
    assert [finding.ledger_id for finding in read_findings[3:]] == [9, 10, 2**60]


def test_findings_of_a_bookie_are_those_that_name_the_bookie(run: Path) -> None:
    rows_by_bookie = {
        name: [(row["id"], row["confidence"]) for row in open_run(run).findings_of(name)]
        for name in ("bk-a:3181", "bk-b:3181", "bk-c:3181", "bk-d:3181")
    }
    lost, below, unread = (LOST.id, "confirmed"), (BELOW.id, "suspect"), (UNREAD.id, "unknown")
    orphan = (ORPHAN.id, "confirmed")
    assert rows_by_bookie == {
        "bk-a:3181": [lost, below],
        "bk-b:3181": [lost, orphan, orphan, orphan],
        "bk-c:3181": [below, unread],
        "bk-d:3181": [],
    }


def test_findings_out_of_order_are_refused(run: Path) -> None:
    first = run / "findings" / "part-00000-x.snappy.parquet"
    first.rename(run / "findings" / "part-00002-x.snappy.parquet")
    with pytest.raises(RunError, match="out of order"):
        list(open_run(run).findings)


def test_table_is_read_by_selected_columns_and_filter(run: Path) -> None:
    marks = open_run(run).table("marks", ["version"], ds.field("ledger_id") == 2)
    assert marks.to_pylist() == [{"version": 5}]


def test_a_directory_without_a_report_is_no_run(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "nothing"):
        with pytest.raises(RunError, match="contains no finished run"):
            open_run(path)


def test_unknown_uri_scheme_is_no_run() -> None:
    with pytest.raises(RunError, match="nowhere"):
        open_run("nowhere://x/run")


def test_broken_parts_of_a_run_are_named_in_errors(run: Path) -> None:
    (run / "findings" / "part-00000-x.snappy.parquet").write_bytes(b"no Parquet")
    with pytest.raises(RunError, match="findings"):
        list(open_run(run).findings)
    shutil.rmtree(run / "tables" / "marks")
    with pytest.raises(RunError, match="marks"):
        open_run(run).table("marks")
    (run / "report.json").write_text("{")
    with pytest.raises(RunError, match=r"report\.json"):
        open_run(run)


def test_truncated_table_file_is_named_in_the_error(run: Path) -> None:
    (run / "tables" / "marks" / "part-00001.parquet").write_bytes(b"PAR1")
    with pytest.raises(RunError, match="marks"):
        open_run(run).table("marks")


def test_a_ledger_is_found_by_scope_and_id(run: Path) -> None:
    ends: dict[str, object] = {"bookie_id": "bk1", "groups": pack({0, 1})}
    metadata = {
        "ledger_id": 2, "status": "ok", "undecidable": False, "state": "CLOSED", "ensemble_size": 1,
        "write_quorum": 1, "ack_quorum": 1, "last_entry_id": 1, "version": 2**40,
        "segments": [{"first_entry_id": 0, "ensemble": ["bk1"]}], "replicas": [ends | {"depends": True}],
    }  # fmt: skip
    index = {"ledger_id": 2, "bookie_id": "bk1", "groups": pack({0}), "storage": "rocksdb"}
    tables: dict[str, list[dict[str, object]]] = {
        "ledgers": [metadata | {"scope_id": scope} for scope in (0, 1)],
        "availability": [
            index | {"scope_id": 0, "state": "limbo", "reason": "in limbo"},
            index | {"scope_id": 1, "state": "not-indexed"},
            index | {"scope_id": 2, "state": "ok"},
        ],
        "bookies": [{"bookie_id": "bk1", "read": "read", "foreign_instance": False}],
        "verdicts": [{"scope_id": 1, "ledger_id": 2, "class": "healthy", "potential_class": "entry-lost"}],
    }
    for name in ("ledgers", "availability", "bookies", "verdicts", "judged", "unequal", "marks"):
        table = pa.Table.from_pylist(tables.get(name, []), schema=TABLES[name].columns)
        shutil.rmtree(run / "tables" / name, ignore_errors=True)
        (run / "tables" / name).mkdir()
        pq.write_table(table, run / "tables" / name / "part-00000.parquet")

    stock, scoped, deleted = (open_run(run).ledger(2, scope) for scope in (0, 1, 2))
    assert (stock.judged_class, scoped.judged_class, scoped.potential_class) == (
        None,
        "healthy",
        "entry-lost",
    )
    replica_states = [
        [(copy.state, copy.known, copy.held_entries) for copy in view.replicas]
        for view in (stock, scoped, deleted)
    ]
    # What a bookie does not serve is not held there; what one in limbo has not yet, it may still get.
    assert replica_states == [
        [("limbo", False, pack({0}))],
        [("not-indexed", False, b"")],
        [("ok", True, pack({0}))],
    ]
    assert deleted.status == "gone"
    assert (
        "ledger 2 of scope 1: 1 ensemble member down; no copy known to be missing (could\n  be entry-lost)"
    ) in render(scoped)
    assert "bk1 is limbo: in limbo" in render(stock)
    assert open_run(run).ledger(LedgerId(2, scope=1)) == scoped
    with pytest.raises(
        RunError, match="neither the metadata nor a bookie of this run has ledger 2 of scope 3"
    ):
        open_run(run).ledger(2, 3)


@pytest.mark.parametrize("arguments", [(LedgerId(2, scope=1), 7), ("2",), (2**63,), (2, -(2**64)), (2.5,)])
def test_invalid_ledger_argument_is_a_usage_error(tmp_path: Path, arguments: tuple[Any, ...]) -> None:
    with pytest.raises(UsageError, match="scope"):
        made_run(tmp_path / "run").ledger(*arguments)


def test_custom_metadata_is_part_of_a_ledger(tmp_path: Path) -> None:
    custom = [("application", b"pulsar"), ("raw", b"\xff\0")]
    row = {
        "scope_id": 0,
        "ledger_id": 7,
        "status": "ok",
        "segments": [],
        "rules": [],
        "custom_metadata": custom,
    }
    run = made_run(tmp_path / "run", ledgers=[row])
    assert run.ledger(7).custom_metadata == (("application", "pulsar"), ("raw", "ff00"))


# This run has no ledger to draw on a page; that of tests/corpora/test_forms.py has.
@pytest.mark.parametrize("form", [form for form in FORMS if form != "html"])
def test_a_run_writes_its_report_in_every_form(form: str, run: Path, tmp_path: Path) -> None:
    open_run(run).write(form, tmp_path / "file")
    assert (tmp_path / "file").stat().st_size > 0


def test_unknown_report_format_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"pdf: no such format\. Valid formats: text, json"):
        made_run(tmp_path / "run").write("pdf", tmp_path / "file")
