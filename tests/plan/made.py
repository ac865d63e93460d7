"""Finished runs of a small cluster with chosen findings, as input for plans."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from auditor.checks import CHECK_BY_ID
from auditor.model.finding import Confidence, Finding, Missing, Severity, Urgency
from auditor.model.holds import ActionKind
from auditor.model.plan import PlanStep, RefusedStep
from auditor.model.report import Report
from auditor.plan.plan_file import make_plan
from auditor.runs.reader import RunReader
from tests.findings.fingerprint import fingerprint
from tests.made_runs import change_row, made_run
from tests.reports.samples import coverage, report, tally

NOW_MS = 1_795_237_669_000
BOOKIES = ("a:1", "b:1", "c:1", "d:1")
HOUR = 3_600_000


def make_finding(
    id: str,
    ledger: int | None = None,
    bookie: str | None = None,
    *,
    severity: Severity = Severity.ERROR,
    sure: bool = True,
    lacking: Sequence[str] = (),
    scope: int | None = None,
    **evidence: Any,
) -> Finding:
    """Return a finding with its own fingerprint, and with the urgency that its check declares."""
    is_severe = id in CHECK_BY_ID and severity.at_least(CHECK_BY_ID[id].severity)
    return Finding(
        id,
        severity,
        Confidence.CONFIRMED if sure else Confidence.SUSPECT,
        (0 if ledger is not None else None) if scope is None else scope,
        ledger,
        bookie,
        missing=tuple(Missing(name, ((0, 0, 1, 0),), 1) for name in lacking),
        evidence=evidence,
        urgency=CHECK_BY_ID[id].urgency if is_severe else Urgency.NOT_URGENT,
        fingerprint=fingerprint(id, "made", scope, ledger, bookie),
    )


def ledger(
    id: int, *ensemble: str, state: str = "CLOSED", version: int = 3, quorum: int = 2
) -> dict[str, Any]:
    """Return a row of the table ledgers: ten entries of 12 bytes, on every bookie of its ensemble."""
    return {
        "scope_id": 0, "ledger_id": id, "version": version, "status": "ok", "state": state,
        "ensemble_size": len(ensemble), "write_quorum": quorum, "ack_quorum": quorum,
        "last_entry_id": 9 if state == "CLOSED" else -1, "length": 120 if state == "CLOSED" else None,
        "undecidable": False, "digest_type": "CRC32C",
        "segments": [{"first_entry_id": 0, "ensemble": list(ensemble)}],
    }  # fmt: skip


def bookie(id: str, **columns: Any) -> dict[str, Any]:
    """Return a row of the table bookies: a writable bookie that was read."""
    plain = {
        "bookie_id": id, "named": True, "ledgers": 1, "depending": 1, "registered": "writable",
        "has_cookie": True, "marked": False, "found": True, "read": "read",
    }  # fmt: skip
    return plain | columns


def mark(id: int, *replicas: str, age: int = HOUR) -> dict[str, Any]:
    return {
        "kind": "mark",
        "ledger_id": id,
        "replicas": list(replicas),
        "ctime": NOW_MS - age,
        "misplaced": False,
    }


def lock(id: int) -> dict[str, Any]:
    return {"kind": "lock", "ledger_id": id, "owner": "worker"}


WORKING = ({"fact": "auditor", "value": "elsewhere:1"}, {"fact": "auditor-candidate", "value": "other:1"})


def run_of(
    path: Path,
    findings: Sequence[Finding],
    bookies: Mapping[str, Mapping[str, Any]] | None = None,
    facts: Mapping[str, Any] | None = None,
    accepted: Sequence[Finding] = (),
    **tables: Any,
) -> RunReader:
    """Return a run of four bookies. ``bookies`` has different columns for some, or more bookies.

    The findings in ``accepted`` come in addition, with a suppression that names them.
    """
    ordered = sorted(
        [*findings, *accepted], key=lambda record: (record.severity.rank, record.id, record.ledger_id or 0)
    )
    sums = Counter((record.id, str(record.severity), str(record.confidence)) for record in ordered)
    accepted_sums = Counter((record.id, str(record.severity), str(record.confidence)) for record in accepted)
    changes = [
        change_row(record, NOW_MS, suppressed="known" if record in accepted else None) for record in ordered
    ]
    sample = report()
    default_facts = {
        "scan_time": NOW_MS, "gaps": [], "in_doubt": None, "keeps_marks": True, "marks_listed": True,
        "bookies_listed": {"hidden": None, "unclear": []}, "blind": [], "live": False,
        "bookie_sources": ["disks"],
        "holds": {"total": 0, "urgent": 0, "carried": 0, "earlier_run": "before"},
        "tally": [
            tally(*kind[:2], number, kind[2], suppressed=accepted_sums[kind]) for kind, number in sums.items()
        ],
    }  # fmt: skip
    facts_ = replace(sample.run, **{**default_facts, **(facts or {})})
    rows = {name: bookie(name) for name in BOOKIES} | {
        name: bookie(name, **record) for name, record in (bookies or {}).items()
    }
    built_report = Report.make(facts_, sample.cluster, coverage(), tuple(ordered[:3]))
    made_run(
        path,
        ordered,
        built_report,
        bookies=list(rows.values()),
        **{"cluster": list(WORKING), "changes": changes, **tables},
    )
    run = RunReader(path)
    run.holds.now_ms = NOW_MS + HOUR
    return run


def hold(
    key: str, *forbids: ActionKind, reason: str = "last-known-copy", object: str = "bookie"
) -> dict[str, Any]:
    """Return a row of the table holds. The key of a ledger is its id."""
    ledger = int(key) if object == "ledger" else None
    return {
        "object": object, "key": f"0/{key}" if object == "ledger" else key,
        "scope_id": None if ledger is None else 0, "ledger_id": ledger,
        "forbids": [str(kind) for kind in forbids], "reason": reason, "certain": True, "urgency": "rest",
        "count": 1, "accepted": False, "first_seen": NOW_MS, "lift": "fact-gone", "carried": False,
        "message": f"{object} {key} is needed",
    }  # fmt: skip


def steps_of(run: RunReader, kind: ActionKind) -> list[PlanStep]:
    return [step for step in make_plan(run).steps if step.kind is kind]


def refusals_of(run: RunReader) -> dict[str, RefusedStep]:
    """Return the steps that the plan of a run refuses, by kind and reason."""
    return {f"{refusal.kind}: {refusal.reason}": refusal for refusal in make_plan(run).refused}


def typed_commands(step: PlanStep) -> list[str]:
    return [f"{command.role}: {command.text}" for command in step.commands]
