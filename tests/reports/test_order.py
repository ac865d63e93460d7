"""Tests of one run in all forms: each form lists the findings of its checks in the same order."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree as ET

import pyarrow.parquet as pq
import pytest

from auditor.checks import CHECK_BY_ID
from auditor.model.finding import Confidence, Finding
from auditor.model.history import ChangeGroup, ChangesSince
from auditor.model.views import RunView
from auditor.notebook.run import Run, open_run
from auditor.reports import first_screen, pager
from auditor.reports import run as explained
from auditor.reports.forms import FORMS
from auditor.reports.history import status_line
from auditor.runs.history import RunDifference
from tests.made_runs import change_row, made_run
from tests.reports.samples import report, tally

ORDER = [
    "gc-would-delete-live",
    "disk-content-mismatch",
    "entry-lost",
    "placement-at-risk",
    "below-ack-quorum",
    "bookie-unread",
    "start-refused",
    "bookie-down",
    "orphan-ledger",
]
"""Neither the alphabet nor severity: an error is the second, a note before an error."""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    findings = [
        Finding(
            id,
            CHECK_BY_ID[id].severity,
            Confidence.CONFIRMED,
            bookie_id="bk-a:3181",
            message="x",
            fingerprint=f"{n:016x}",
            urgency=CHECK_BY_ID[id].urgency,
        )
        for n, id in enumerate(ORDER)
    ]
    tallies = [tally(finding.id, str(finding.severity)) for finding in reversed(findings)]
    run_report = report(tallies, tuple(findings), impact=[])
    rows = [
        {
            "urgency": str(finding.urgency),
            "trouble": finding.fingerprint,
            "confidence": "confirmed",
            "bookie_id": finding.bookie_id,
            **change_row(finding, 1),
        }
        for finding in findings
    ]
    path = tmp_path_factory.mktemp("run")
    made_run(path, findings, run_report, changes=rows)
    (path / "tables/changes/_SUCCESS").touch()
    return open_run(path)


def text_ids(form: bytes) -> list[str]:
    return [line.split()[1] for line in form.decode().split("\n\n")[0].splitlines()][::-1]


def html_ids(form: bytes) -> list[str]:
    """Return the check ids of the initial rows of the page. Here a finding's fingerprint is its number."""
    return [ORDER[int(number, 16)] for number in re.findall(r"fingerprint ([0-9a-f]{16})", form.decode())]


def junit_ids(form: bytes) -> list[str]:
    """Return the ids of the checks with findings, which precede those of checks without findings."""
    return [case.get("name", "") for case in ET.fromstring(form).iter("testcase")][: len(ORDER)]


def openmetrics_ids(form: bytes) -> list[str]:
    """Return the ids of the checks with findings. A check without findings has the value 0."""
    return re.findall(r'(?m)^bkaudit_findings\{.*\bid="([^"]+)".*\} 1$', form.decode())


def csv_ids(form: bytes) -> list[str]:
    return [row["id"] for row in csv.DictReader(io.StringIO(form.decode()))]


READERS: dict[str, Callable[[bytes], list[str]]] = {
    "text": text_ids,
    "json": lambda form: [result["id"] for result in json.loads(form)["findings"]],
    "jsonl": lambda form: [json.loads(line)["id"] for line in form.splitlines()],
    "csv": csv_ids,
    "markdown": lambda form: re.findall(r"(?m)^### ([a-z-]+) \(", form.decode()),
    "sarif": lambda form: [each["ruleId"] for each in json.loads(form)["runs"][0]["results"]],
    "html": html_ids,
    "junit": junit_ids,
    "openmetrics": openmetrics_ids,
    "parquet": lambda form: pq.read_table(io.BytesIO(form))["id"].to_pylist(),
}


@pytest.mark.parametrize("form", READERS)
def test_every_form_lists_findings_in_the_same_order(run: Run, form: str) -> None:
    out = io.BytesIO()
    FORMS[form].write(run, out)
    assert READERS[form](out.getvalue()) == ORDER


def test_counts_steps_and_first_screen_use_the_finding_order(run: Run) -> None:
    assert list(run.report.counts) == ORDER
    assert list(run.frames.by_id().index) == ORDER
    assert [step["id"] for step in run.report.run.steps or ()] == ORDER
    screen = first_screen.render(run.report, "R", 200)
    assert re.findall(r"^[a-z].* \d+   (\S.*)", screen.partition("changed")[0], re.MULTILINE) == [
        "gc-would-delete-live 1, disk-content-mismatch 1", *(f"{id} 1" for id in ORDER[2:])
    ]  # fmt: skip
    text = explained.render(RunView("R", run.report, 0), 80)
    acting = [id for action in run.report.run.actions or () for id in action["checks"]]
    assert re.findall(r"\[([a-z-]+), 1\s+finding\]", text) == acting
    assert [id for id in ORDER if id in acting] == acting


def test_messages_status_and_differences_use_the_finding_order(run: Run, tmp_path: Path) -> None:
    message = pager.plain_message(run.report, ChangesSince(None), "R")
    assert re.findall(r"(?m)^ {11}[a-z]+ ([a-z-]+) 1", message) == ORDER
    slack = json.loads(pager.slack_message(run.report, ChangesSince(None), "R"))["text"]
    assert re.findall(r"(?m)^ {11}[a-z]+ ([a-z-]+) 1", slack) == ORDER
    actions = run.report.run.actions or []
    assert f"; first action: {actions[0]['text']}; " in status_line(run.report, "R", 0)

    before = made_run(tmp_path / "before", report=report([], findings=(), impact=[]))
    (tmp_path / "before/tables/changes/_SUCCESS").touch()
    difference = RunDifference(before.path, run.path)
    assert [row.id for row in difference.summary.tally] == ORDER
    assert [row.id for row in difference.changes()] == ORDER
    groups = tuple(
        ChangeGroup(row.change, row.id, row.severity, row.confidence, 1, (row,))
        for row in difference.changes()
    )
    since = ChangesSince(difference.summary.old, groups)
    assert re.findall(r"(?m)^new +[a-z]+ ([a-z-]+) 1", pager.plain_message(run.report, since, "R")) == ORDER


def test_the_first_action_follows_the_verdict(run: Run) -> None:
    lines = first_screen.render(run.report, "R", 100).splitlines()
    [verdict] = [number for number, line in enumerate(lines) if line.startswith("NOT HEALTHY")]
    command = "bkaudit explain bookie bk-a:3181 --run R"
    assert lines[verdict + 1 :] == [
        "first action   stop bk-a:3181: the next garbage collection deletes data that is still needed",
        f"               {command}",
        "all actions    bkaudit explain run R",
    ]
