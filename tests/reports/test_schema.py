"""Tests that the published schemas match the code that they describe."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from auditor.model.finding import Finding, finding_to_json
from auditor.model.run_facts import RunFacts
from auditor.reports.forms import json_line
from auditor.reports.schema import (
    comparison_schema,
    decommission_schema,
    diff_schema,
    finding_schema,
    plan_check_schema,
    plan_schema,
    report_schema,
    simulation_schema,
)
from tests.findings.fingerprint import fingerprint
from tests.reports.samples import LOST, UNREAD, coverage, report

SCHEMAS = Path(__file__).parents[2] / "schemas"


def read_schema(name: str) -> Any:
    return json.loads((SCHEMAS / name).read_text("utf-8"))


def finding_json(finding: Finding) -> dict[str, Any]:
    subject = (finding.scope_id, finding.ledger_id, finding.bookie_id)
    return {**finding_to_json(finding), "fingerprint": fingerprint(finding.id, "x", *subject)}


def test_published_schemas_match_the_code() -> None:
    assert read_schema("finding.schema.json") == finding_schema()
    assert read_schema("report.schema.json") == report_schema()
    assert read_schema("diff.schema.json") == diff_schema()
    assert read_schema("comparison.schema.json") == comparison_schema()
    assert read_schema("simulation.schema.json") == simulation_schema()
    assert read_schema("decommission.schema.json") == decommission_schema()
    assert read_schema("plan.schema.json") == plan_schema()
    assert read_schema("plan-check.schema.json") == plan_check_schema()


def test_schemas_are_valid_json_schemas() -> None:
    jsonschema.Draft202012Validator.check_schema(finding_schema())
    jsonschema.Draft202012Validator.check_schema(report_schema())


def test_a_report_and_its_findings_follow_their_schemas() -> None:
    value = json.loads(report(findings=(), coverage=coverage(False)).to_json())
    value["findings"] = [finding_json(LOST), finding_json(UNREAD)]
    jsonschema.validate(value, read_schema("report.schema.json"))
    for line in [json_line(LOST)]:
        value = json.loads(line)
        jsonschema.validate(value, read_schema("finding.schema.json"))


def test_the_schemas_name_every_key_that_the_code_has() -> None:
    keys = {field.name for field in fields(Finding)}
    assert (
        set(finding_schema()["properties"]) == {*keys, "ledger_qualified_name"} == set(finding_to_json(LOST))
    )
    assert finding_to_json(LOST)["ledger_qualified_name"] == LOST.ledger_qualified_name
    assert set(report_schema()["properties"]["run"]["properties"]) == set(RunFacts.__annotations__)


@pytest.mark.parametrize(
    "change",
    [
        {"ledger_id": 7},
        {"ledger_id": "007"},
        {"ledger_qualified_name": "7"},
        {"severity": "info"},
        {"missing": [{"bookie_id": "a", "groups": [[1, 2, 3]], "count": 1}]},
        {"more": 1},
        {"fingerprint": ""},
    ],
)
def test_invalid_finding_is_rejected_by_the_schema(change: dict[str, Any]) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**finding_json(LOST), **change}, read_schema("finding.schema.json"))
