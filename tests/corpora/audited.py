"""One audit's results, in forms that tests compare."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow.parquet as pq

from auditor import Audit
from auditor.checks.configuration import CheckConfiguration
from auditor.model.audit_stage import AuditStage
from auditor.model.options import AuditOptions
from auditor.model.progress import Progress
from tests.corpora.plain_readers import groups_entries

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from auditor.audit.metadata_scan import MetadataSource
    from auditor.tables import Tables

Row = dict[str, Any]


class FindingKey(NamedTuple):
    """The fields of a finding that tables of expectations have."""

    id: str
    ledger: int | None
    bookie: str | None
    severity: str
    confidence: str


class TableKeepingAudit(Audit):
    """An audit that keeps the tables that its checks queried, so that tests can read them."""

    tables: Tables

    def _run_stages_until(
        self, source: MetadataSource, started: int, configuration: CheckConfiguration, last: AuditStage
    ) -> dict[str, Any]:
        values = super()._run_stages_until(source, started, configuration, last)
        self.tables = values["tables"]
        return values


@dataclass(frozen=True)
class FinishedRun:
    """A finished run."""

    report: Any
    out: Path

    def table(self, name: str) -> list[Row]:
        rows: list[Row] = pq.read_table(self.out / "tables" / name).to_pylist()
        return rows

    def findings(self) -> list[Row]:
        rows: list[Row] = pq.read_table(self.out / "findings").to_pylist()
        return rows

    def finding_keys(self) -> list[FindingKey]:
        return [
            FindingKey(row["id"], row["ledger_id"], row["bookie_id"], row["severity"], row["confidence"])
            for row in self.findings()
        ]

    def findings_of(self, id: str) -> list[Row]:
        return [row for row in self.findings() if row["id"] == id]

    def verdicts(self) -> dict[int, Row]:
        return {row["ledger_id"]: row for row in self.table("verdicts")}


@dataclass(frozen=True)
class RunWithTables(FinishedRun):
    """A finished run, and the tables that its checks queried."""

    tables: Tables


def audit(
    spark: SparkSession,
    metadata: str,
    bookies: Path,
    out: Path,
    *,
    progress: Progress | None = None,
    **options: Any,
) -> RunWithTables:
    """Audit into the new directory ``out``."""
    audit_run = TableKeepingAudit(metadata, [str(bookies)], str(out), AuditOptions(**options))
    return RunWithTables(audit_run.run(spark, progress), out, audit_run.tables)


def entries(groups: bytes) -> frozenset[int]:
    """Return the entries in a table's 24-byte groups."""
    from struct import iter_unpack

    return frozenset(groups_entries(list(iter_unpack(">qqii", groups))))


def missing(finding: Row) -> dict[str, frozenset[int]]:
    """Return a finding's missing entries by bookie, and assert that its counts match the groups."""
    entries_by_bookie = {}
    for part in finding["missing"]:
        entries_by_bookie[part["bookie_id"]] = entries(part["groups"])
        assert len(entries_by_bookie[part["bookie_id"]]) == part["count"]
    assert list(entries_by_bookie) == sorted(entries_by_bookie)
    return entries_by_bookie


def in_class(finding: Row) -> frozenset[int]:
    """Return the entries that give a finding's ledger its class; their count must match the groups."""
    listed = json.loads(finding["evidence"])["class_entries"]
    class_entries = frozenset(groups_entries([tuple(group) for group in listed["groups"]]))
    assert len(class_entries) == listed["count"]
    return class_entries


def extra_of(audited: FinishedRun, column: str) -> dict[tuple[int, str], set[int]]:
    """Return the held entries in a column of the ``judged`` table, by ledger and bookie."""
    return {
        (row["ledger_id"], extra["bookie_id"]): set(entries(extra["groups"]))
        for row in audited.table("judged")
        for extra in row[column]
    }


def assert_extra(
    audited: FinishedRun, id: str, column: str, expected: Mapping[tuple[int, str], set[int]]
) -> None:
    """Assert that the table has exactly these entries, and that the findings, one per bookie, count them."""
    assert extra_of(audited, column) == expected
    counts: dict[str, tuple[int, int]] = {}
    for (_, bookie), extra in expected.items():
        ledgers, count = counts.get(bookie, (0, 0))
        counts[bookie] = ledgers + 1, count + len(extra)
    counts_by_bookie = {}
    for row in audited.findings_of(id):
        evidence = json.loads(row["evidence"])
        counts_by_bookie[row["bookie_id"]] = (
            evidence["ledgers"] + evidence["doubted_ledgers"],
            evidence["entries"] + evidence["doubted_entries"],
        )
        assert row["ledger_id"] is None
        assert (row["confidence"] == "confirmed") == (evidence["ledgers"] > 0)
    assert counts_by_bookie == counts
