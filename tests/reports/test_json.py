"""Reports for programs."""

from __future__ import annotations

import json as plain_json

from auditor.reports import json, jsonl
from tests.reports.samples import report


def test_json_is_report_json() -> None:
    assert json.render(report()) + "\n" == report().to_json()


def test_jsonl_is_one_finding_a_line_as_in_report_json() -> None:
    lines = list(jsonl.render(report().findings))
    assert [plain_json.loads(line) for line in lines] == plain_json.loads(report().to_json())["findings"]
    assert not any("\n" in line for line in lines)
