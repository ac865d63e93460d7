"""Findings for programs."""

from __future__ import annotations

import json

from auditor.reports.forms import json_line
from tests.reports.samples import report


def test_jsonl_is_one_finding_a_line_as_in_report_json() -> None:
    lines = [json_line(each) for each in report().findings]
    assert [json.loads(line) for line in lines] == json.loads(report().to_json())["findings"]
    assert not any("\n" in line for line in lines)
