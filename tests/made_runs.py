"""Runs with handwritten tables: every table exists, and those that are not named are empty."""

from __future__ import annotations

import json
import pickle
import struct
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from auditor.findings.table import FINDINGS_SCHEMA
from auditor.model.finding import Finding
from auditor.model.report import Report
from auditor.notebook.run import Run, open_run
from auditor.tables.run_tables import TABLES
from tests.reports.samples import report as sample_report

Rows = list[dict[str, Any]]


def made_run(
    path: Path, findings: Sequence[Finding] = (), report: Report | None = None, **tables: Rows
) -> Run:
    """Write a finished run with these findings, one per file, and these table rows; open and return it."""
    write(path / "findings", [], FINDINGS_SCHEMA)
    for number, finding in enumerate(findings, 1):
        write(path / "findings", [finding_row(finding)], FINDINGS_SCHEMA, number)
    write_tables(path, **{name: tables.get(name, []) for name in TABLES})
    options = {"fail_on": "error", "fail_on_suspect": False}
    (path / "manifest.json").write_text(json.dumps({"identity": {"options": options}}))
    (path / "report.json").write_text(_json_of(pickle.dumps(report or sample_report())), "utf-8")
    return open_run(path)


@cache
def _json_of(pickled_report: bytes) -> str:
    """Return a report as JSON. Many runs share a report, and writing it costs more than comparing it."""
    report: Report = pickle.loads(pickled_report)
    return report.to_json()


def write_tables(path: Path, **tables: Rows) -> None:
    """Replace the rows of these tables of a run. Each example of a property has its own rows."""
    for name, rows in tables.items():
        directory = path / "tables" / name
        if rows:
            write(directory, rows, TABLES[name].columns)
        else:
            directory.mkdir(parents=True, exist_ok=True)
            (directory / "part-00000.parquet").write_bytes(_empty(name))


def write(directory: Path, rows: Rows, schema: pa.Schema, number: int = 0) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    table, file = pa.Table.from_pylist(rows, schema=schema), directory / f"part-{number:05}.parquet"
    pq.write_table(table, file, write_page_checksum=True)


@cache
def _empty(name: str) -> bytes:
    """Return the file of an empty table, made once. Nearly all tables of these runs are empty."""
    packed = pa.BufferOutputStream()
    pq.write_table(TABLES[name].columns.empty_table(), packed, write_page_checksum=True)
    data: bytes = packed.getvalue().to_pybytes()
    return data


def finding_row(finding: Finding) -> dict[str, Any]:
    """Return a finding as a row of the findings table."""
    return {
        **{name: getattr(finding, name) for name in FINDINGS_SCHEMA.names},
        "urgency": str(finding.urgency),
        "severity": str(finding.severity),
        "confidence": str(finding.confidence),
        "missing": [
            {
                "bookie_id": part.bookie_id,
                "groups": b"".join(struct.pack(">qqii", *group) for group in part.groups),
                "count": part.count,
            }
            for part in finding.missing
        ],
        "evidence": json.dumps(finding.evidence),
    }


def change_row(finding: Finding, first_seen: int, change: str = "same", **columns: Any) -> dict[str, Any]:
    """Return a finding's row of the table changes."""
    return {
        "fingerprint": finding.fingerprint,
        "id": finding.id,
        "severity": str(finding.severity),
        "change": change,
        "first_seen": first_seen,
        **columns,
    }


def numbered(finding: Finding, number: int) -> Finding:
    """Return another finding of the same kind, about another ledger."""
    return replace(finding, ledger_id=number, fingerprint=f"{number:016x}")
