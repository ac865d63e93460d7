"""Every finding as SARIF 2.1.0 (OASIS), a format for tools that collect the results of many checkers.

Each check becomes a rule, with the check's manual page as the rule's help. Each finding becomes a result,
with the ledger and the bookie as logical locations. The same finding has the same fingerprint in every run.
Suppressions of this program become suppressions in SARIF.
"""

import json
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

from auditor.checks import ALL_CHECKS, CHECK_BY_ID, GROUP_BY_ID
from auditor.model.finding import ChangeStatus, Finding, Severity, StatusLookup, no_change_status
from auditor.model.report import Report
from auditor.model.states import Change
from auditor.reports.blind_spots import find_blind_spots, skip_sentence
from auditor.reports.coverage import checked_extents
from auditor.reports.finding_text import class_entries_text, missing_text, positions_text
from auditor.reports.plain_text import printable

SARIF_VERSION = "2.1.0"
SARIF_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
FINGERPRINT_KEY = "bookkeeperAuditor/v1"

_MAX_BOOKIES_SHOWN = 20
_LEVEL_BY_SEVERITY = {
    Severity.CRITICAL: "error",
    Severity.ERROR: "error",
    Severity.WARNING: "warning",
    Severity.NOTE: "note",
}
_BASELINE_STATES: dict[str, str] = {
    Change.NEW: "new",
    Change.SAME: "unchanged",
    Change.WORSE: "updated",
    Change.BETTER: "updated",
}
_RULE_NUMBERS = {check.id: number for number, check in enumerate(ALL_CHECKS)}


def render(
    report: Report, findings: Iterable[Finding], change_statuses: StatusLookup = no_change_status
) -> Iterator[str]:
    """Yield the SARIF file in parts: the text before the results, a result for each finding, and the end."""
    document_head = json.dumps(
        {"$schema": SARIF_SCHEMA, "version": SARIF_VERSION, "runs": [_run_object(report)]}, ensure_ascii=False
    )
    # The results are the last property of the run, so that they can be added one by one.
    yield document_head.removesuffix("}]}") + ', "results": ['
    separator = "\n"
    for finding in findings:
        yield separator + json.dumps(
            _finding_result(finding, change_statuses(finding.fingerprint)), ensure_ascii=False
        )
        separator = ",\n"
    yield "\n]}]}\n"


def _run_object(report: Report) -> dict[str, Any]:
    run = report.run
    return {
        "tool": {
            "driver": {
                "name": "bookkeeper-auditor",
                "version": run.version,
                "shortDescription": {"text": "A metadata checker and auditor for Apache BookKeeper."},
                "rules": [_check_rule(check.id) for check in ALL_CHECKS],
            }
        },
        "automationDetails": {"id": f"bookkeeper-auditor/{printable(report.cluster.instance_id or '')}/"},
        "columnKind": "unicodeCodePoints",
        "invocations": [
            {
                # True: the audit ended normally. Its notifications name the objects that were not read.
                "executionSuccessful": True,
                "startTimeUtc": _time_text(run.started),
                "endTimeUtc": _time_text(run.finished),
                "toolExecutionNotifications": [
                    *(
                        {"level": "warning", "message": _message_object(text)}
                        for text in _unchecked_texts(report)
                    ),
                    # If a check lacked input, the absence of results does not mean that all is well.
                    *(
                        {
                            "level": "note",
                            "message": _message_object(f"{id} {skip_sentence(blind_spot)}"),
                            "associatedRule": {"id": id, "index": _RULE_NUMBERS[id]},
                        }
                        for id, blind_spot in find_blind_spots(report).items()
                    ),
                ],
            }
        ],
        "properties": {"verdict": report.verdict, "complete": report.complete, "counts": dict(report.counts)},
    }


def _unchecked_texts(report: Report) -> list[str]:
    parts = [f"not read: {metadata_gap}" for metadata_gap in report.run.gaps]
    for extent in checked_extents(report):
        if extent.undecided_count:
            parts.append(f"{extent.undecided_count:,} of {extent.total:,} {extent.name} unknown")
    return parts


def _check_rule(id: str) -> dict[str, Any]:
    check = CHECK_BY_ID[id]
    manual_text = "\n\n".join(f"{heading}\n{text}" for heading, text in check.sections.items())
    return {
        "id": check.id,
        **({"deprecatedIds": list(check.aliases)} if check.aliases else {}),
        "shortDescription": {"text": check.title},
        "fullDescription": {"text": check.sections["What it finds"]},
        "help": {"text": manual_text},
        "defaultConfiguration": {"level": _LEVEL_BY_SEVERITY[check.severity]},
        "properties": {"tags": [GROUP_BY_ID[check.id]], "severity": str(check.severity)},
    }


def _finding_result(finding: Finding, change_status: ChangeStatus | None) -> dict[str, Any]:
    rule = CHECK_BY_ID.get(finding.id)
    sarif_result: dict[str, Any] = {
        "ruleId": finding.id,
        **({"ruleIndex": _RULE_NUMBERS[rule.id]} if rule else {}),
        "level": _LEVEL_BY_SEVERITY[finding.severity],
        "message": _message_object(finding.message or finding.id),
        "fingerprints": {FINGERPRINT_KEY: finding.fingerprint},
        "properties": {
            "severity": str(finding.severity),
            "confidence": str(finding.confidence),
            "entries": printable(class_entries_text(finding)),
            "positions": printable(positions_text(finding)),
            "missing": printable(missing_text(finding, _MAX_BOOKIES_SHOWN)),
            "missingEntries": sum(part.count for part in finding.missing),
            "evidence": finding.evidence,
        },
    }
    if locations := _logical_locations(finding):
        sarif_result["locations"] = [{"logicalLocations": locations}]
    if change_status is not None:
        if change_status.change:  # a first run has no baseline
            sarif_result["baselineState"] = _BASELINE_STATES[change_status.change]
        sarif_result["provenance"] = {"firstDetectionTimeUtc": _time_text(change_status.first_seen)}
        sarif_result["suppressions"] = []
        if change_status.suppressed is not None:
            sarif_result["suppressions"] = [
                {
                    "kind": "external",
                    "status": "accepted",
                    "justification": printable(change_status.suppressed),
                }
            ]
    return sarif_result


def _logical_locations(finding: Finding) -> list[dict[str, Any]]:
    """Return the ledger and the bookie of a finding as logical locations."""
    locations: list[dict[str, Any]] = []
    if finding.ledger_id is not None:
        scope_prefix = f"scope/{finding.scope_id}/" if finding.scope_id else ""
        name = str(finding.ledger_id)
        locations.append(
            {"name": name, "fullyQualifiedName": f"{scope_prefix}ledger/{name}", "kind": "ledger"}
        )
    if finding.bookie_id is not None:
        name = printable(finding.bookie_id)
        locations.append({"name": name, "fullyQualifiedName": f"bookie/{name}", "kind": "bookie"})
    return locations


def _message_object(text: str) -> dict[str, str]:
    """Return a message in which texts from the cluster form neither a link nor a placeholder.

    >>> _message_object("see [this](http://x) {0}")
    {'text': 'see [this] (http://x) {{0}}'}
    """
    plain_text = printable(text).replace("](", "] (")
    return {"text": plain_text.replace("{", "{{").replace("}", "}}")}


def _time_text(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
