"""Handwritten runs for comparisons: a report and the tables changes, verdicts and bookies."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from auditor.model.report import Cluster, Report
from auditor.tables.run_tables import TABLES
from tests.findings.fingerprint import fingerprint
from tests.reports.samples import coverage, report

INSTANCE = "6c1a2a5e-1c1f-4f0e-8a51-1b8a2f7a6f51"
STAGES = ("below-write-quorum", "below-ack-quorum", "entry-lost")
SEVERITIES = {
    "entry-lost": "critical", "below-ack-quorum": "error", "below-write-quorum": "warning",
    "index-unreadable": "error", "bookie-down": "warning", "mark-stuck": "warning",
    "metadata-unreadable": "error",
}  # fmt: skip

Row = dict[str, Any]


def row(
    id: str,
    ledger: int | None = None,
    bookie: str | None = None,
    missing: int = 0,
    scope: int | None = None,
    **columns: Any,
) -> Row:
    """Return a row of the table changes, as a first run has it."""
    scope = 0 if scope is None and ledger is not None else scope
    subject = (INSTANCE, scope, ledger, bookie)
    severity = SEVERITIES.get(id, "note")
    return {
        "fingerprint": fingerprint(id, *subject),
        "trouble": fingerprint(STAGES[0] if id in STAGES else id, *subject),
        "id": id,
        "urgency": "rest",
        "severity": severity,
        "confidence": "confirmed",
        "scope_id": scope,
        "ledger_id": ledger,
        "bookie_id": bookie,
        "missing": missing,
        "change": "new",
        "known_severity": severity,
        "known_missing": missing,
        "known_confidence": columns.get("confidence", "confirmed"),
        "first_seen": 1_795_000_000_000,
        "last_seen": 1_795_000_000_000,
        **columns,
    }


def write_run(
    where: Path,
    rows: Iterable[Row],
    *,
    classes: Iterable[tuple[int, str, str]] = (),
    bookies: Iterable[tuple[str, str]] = (),
    files: int = 1,
    logs: bool = False,
    unread_logs: Collection[str] = (),
    unread_records: Collection[str] = (),
    **changes: Any,
) -> Report:
    """Write a run and return its report.

    ``classes`` are ledger, class and potential class. ``bookies`` are ids and how far each was read.
    ``changes`` replace fields of the report. Its ``run`` replaces fields of the report's run, and its
    ``instance_id`` is the cluster's. The rows go to ``files`` Parquet files. ``logs``: it read entry logs.
    ``unread_logs``: bookies with an entry log that the run could not read. ``unread_records``: bookies with a
    copy of a ledger that has an undecodable record.
    """
    rows = list(rows)
    unread = tuple(name for name, read in bookies if read != "read")
    report_coverage = coverage(True)
    report_coverage = replace(report_coverage, bookies=replace(report_coverage.bookies, unread=unread))
    run_report = report([], (), report_coverage, changes=None, suppressions=[], impact=[])
    run_report = replace(run_report, run=replace(run_report.run, **changes.pop("run", {})))
    cluster = Cluster(changes.pop("instance_id", INSTANCE), "zk://h1/ledgers", "flat")
    counts = dict.fromkeys((finding["id"] for finding in rows), 1)
    run_report = replace(run_report, cluster=cluster, counts=counts, **changes)
    tables: dict[str, Sequence[Row]] = {
        "changes": rows,
        "verdicts": [
            {"scope_id": 0, "ledger_id": ledger, "class": class_name, "potential_class": potential}
            for ledger, class_name, potential in classes
        ],
        "bookies": [
            {"bookie_id": name, "named": True, "found": read != "unread", "read": read}
            for name, read in bookies
        ],
    }
    tables["ledgers"] = [
        {"scope_id": 0, "ledger_id": ledger, "undecidable": ledger == 99 and bool(unread_records)}
        for ledger in (1, 99)
    ]
    tables["availability"] = [
        {"scope_id": 0, "ledger_id": ledger, "bookie_id": name}
        for ledger, names in ((1, [name for name, _ in bookies]), (99, unread_records))
        for name in names
    ]
    if logs:
        tables["entry_logs"] = [
            {
                "bookie_id": name,
                "path": f"/{name}/0.log",
                "state": "unreadable" if name in unread_logs else "ok",
            }
            for name, _ in bookies
        ]
    for name, content in tables.items():
        (where / "tables" / name).mkdir(parents=True)
        count = files if name == "changes" else 1
        for number in range(count):
            table = pa.Table.from_pylist(list(content)[number::count], schema=TABLES[name].columns)
            pq.write_table(table, where / "tables" / name / f"part-{number:05}.parquet")
        (where / "tables" / name / "_SUCCESS").touch()
    (where / "report.json").write_text(run_report.to_json())
    return run_report
