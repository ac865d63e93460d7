"""Every finding as SARIF 2.1.0 (OASIS), a format for tools that collect the results of many checkers.

A check is a rule, and its manual page is the rule's help. A finding is a result, whose ledger and bookie are
logical locations. A finding has the same fingerprint in every run. A suppression of this program is a
suppression in SARIF.
"""

import json
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

from auditor.checks import ALL, BY_ID, GROUP_OF
from auditor.model.finding import Finding, Severity, Standing, Standings, no_standing
from auditor.model.report import Report
from auditor.model.states import Change
from auditor.reports.blind_spots import blind_checks, skip_sentence
from auditor.reports.coverage import extents
from auditor.reports.finding_text import class_text, missing_text, positions_text
from auditor.reports.plain_text import printable

VERSION = "2.1.0"
SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
FINGERPRINT = "bookkeeperAuditor/v1"

_BOOKIES_SHOWN = 20
_LEVEL = {
    Severity.CRITICAL: "error",
    Severity.ERROR: "error",
    Severity.WARNING: "warning",
    Severity.NOTE: "note",
}
_BASELINE: dict[str, str] = {
    Change.NEW: "new",
    Change.SAME: "unchanged",
    Change.WORSE: "updated",
    Change.BETTER: "updated",
}
_RULES = {check.id: number for number, check in enumerate(ALL)}


def render(report: Report, findings: Iterable[Finding], standings: Standings = no_standing) -> Iterator[str]:
    """Yield the SARIF file in parts: the text before the results, a result for each finding, and the end."""
    head = json.dumps(
        {"$schema": SCHEMA, "version": VERSION, "runs": [_run_object(report)]}, ensure_ascii=False
    )
    # The run's results are its last property, and come one by one.
    yield head.removesuffix("}]}") + ', "results": ['
    separator = "\n"
    for finding in findings:
        yield separator + json.dumps(_result(finding, standings(finding.fingerprint)), ensure_ascii=False)
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
                "rules": [_rule(check.id) for check in ALL],
            }
        },
        "automationDetails": {"id": f"bookkeeper-auditor/{printable(report.cluster.instance_id or '')}/"},
        "columnKind": "unicodeCodePoints",
        "invocations": [
            {
                # Whether it came to its end. What it could not look at is a notification.
                "executionSuccessful": True,
                "startTimeUtc": _time(run.started),
                "endTimeUtc": _time(run.finished),
                "toolExecutionNotifications": [
                    *({"level": "warning", "message": _message(text)} for text in _not_seen(report)),
                    # Of a check that did not see all it looks at, having no result means nothing.
                    *(
                        {
                            "level": "note",
                            "message": _message(f"{id} {skip_sentence(spot)}"),
                            "associatedRule": {"id": id, "index": _RULES[id]},
                        }
                        for id, spot in blind_checks(report).items()
                    ),
                ],
            }
        ],
        "properties": {"verdict": report.verdict, "complete": report.complete, "counts": dict(report.counts)},
    }


def _not_seen(report: Report) -> list[str]:
    parts = [f"not read: {gap}" for gap in report.run.gaps]
    for extent in extents(report):
        if extent.undecided:
            parts.append(f"{extent.undecided:,} of {extent.total:,} {extent.name} unknown")
    return parts


def _rule(id: str) -> dict[str, Any]:
    check = BY_ID[id]
    manual = "\n\n".join(f"{heading}\n{text}" for heading, text in check.sections.items())
    return {
        "id": check.id,
        **({"deprecatedIds": list(check.aliases)} if check.aliases else {}),
        "shortDescription": {"text": check.title},
        "fullDescription": {"text": check.sections["What it finds"]},
        "help": {"text": manual},
        "defaultConfiguration": {"level": _LEVEL[check.severity]},
        "properties": {"tags": [GROUP_OF[check.id]], "severity": str(check.severity)},
    }


def _result(finding: Finding, standing: Standing | None) -> dict[str, Any]:
    rule = BY_ID.get(finding.id)
    result: dict[str, Any] = {
        "ruleId": finding.id,
        **({"ruleIndex": _RULES[rule.id]} if rule else {}),
        "level": _LEVEL[finding.severity],
        "message": _message(finding.message or finding.id),
        "fingerprints": {FINGERPRINT: finding.fingerprint},
        "properties": {
            "severity": str(finding.severity),
            "confidence": str(finding.confidence),
            "entries": printable(class_text(finding)),
            "positions": printable(positions_text(finding)),
            "missing": printable(missing_text(finding, _BOOKIES_SHOWN)),
            "missingEntries": sum(part.count for part in finding.missing),
            "evidence": finding.evidence,
        },
    }
    if places := _places(finding):
        result["locations"] = [{"logicalLocations": places}]
    if standing is not None:
        if standing.change:  # a first run has no baseline
            result["baselineState"] = _BASELINE[standing.change]
        result["provenance"] = {"firstDetectionTimeUtc": _time(standing.first_seen)}
        result["suppressions"] = []
        if standing.suppressed is not None:
            result["suppressions"] = [
                {"kind": "external", "status": "accepted", "justification": printable(standing.suppressed)}
            ]
    return result


def _places(finding: Finding) -> list[dict[str, Any]]:
    """Return the ledger and the bookie of a finding as logical locations."""
    places: list[dict[str, Any]] = []
    if finding.ledger_id is not None:
        scope = f"scope/{finding.scope_id}/" if finding.scope_id else ""
        name = str(finding.ledger_id)
        places.append({"name": name, "fullyQualifiedName": f"{scope}ledger/{name}", "kind": "ledger"})
    if finding.bookie_id is not None:
        name = printable(finding.bookie_id)
        places.append({"name": name, "fullyQualifiedName": f"bookie/{name}", "kind": "bookie"})
    return places


def _message(text: str) -> dict[str, str]:
    """Return a message in which texts from the cluster form neither a link nor a placeholder.

    >>> _message("see [this](http://x) {0}")
    {'text': 'see [this] (http://x) {{0}}'}
    """
    plain = printable(text).replace("](", "] (")
    return {"text": plain.replace("{", "{{").replace("}", "}}")}


def _time(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
