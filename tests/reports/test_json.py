"""Tests of findings as JSON lines, for programs."""

from __future__ import annotations

import json

from auditor.reports.forms import json_line
from tests.reports.samples import report


def test_each_jsonl_line_is_one_finding_as_in_report_json() -> None:
    lines = [json_line(finding) for finding in report().findings]
    assert [json.loads(line) for line in lines] == json.loads(report().to_json())["findings"]
    assert not any("\n" in line for line in lines)
