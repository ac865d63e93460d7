"""Tests that every report for people names what was not read again, and why something was."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest

from auditor.model.report import Report
from auditor.model.report_source import Figures
from auditor.model.run_facts import Reuse
from auditor.model.views import RunView
from auditor.reports import html, markdown, run, text
from tests.reports.samples import report

REUSED: Reuse = {
    "run": "monday",
    "indexes": {"reused": 29_700, "read": 300},
    "ledgers": {"reused": 0, "read": 10_000},
    "notes": ["bk-c:3181 was read again: that run did not read this bookie"],
}
REUSE_TEXT = "29,700 of 30,000 indexes and 0 of 10,000 ledgers from monday"


def explained(full_report: Report) -> str:
    return run.render(RunView("runs/2", full_report, 6), 100)


def page(full_report: Report) -> str:
    return "".join(html.render(full_report, Figures()))


@pytest.mark.parametrize("render", [text.render, markdown.render, page, explained])
def test_every_report_has_the_reused_counts(render: Callable[[Report], str]) -> None:
    # Without suppressions: the first screen has room for the whole sentence.
    assert REUSE_TEXT in " ".join(render(report(reused=REUSED, suppressions=[])).split())
    assert "reused" not in render(report()).lower()
    assert "not read again" not in render(report()).lower()


@pytest.mark.parametrize("render", [page, explained])
def test_long_report_has_the_reason_for_reading_again(render: Callable[[Report], str]) -> None:
    assert "bk-c:3181 was read again: that run did not read this bookie" in render(report(reused=REUSED))


def test_report_schema_requires_the_reuse_notes() -> None:
    schema = json.loads((Path(__file__).parents[2] / "schemas/report.schema.json").read_text())
    value = json.loads(report(findings=(), reused=REUSED).to_json())
    jsonschema.validate(value, schema)
    del value["run"]["reused"]["notes"]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(value, schema)
