"""The alerting rules that the project ships, checked with Prometheus's own tool."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from auditor.checks import ALL_CHECKS
from auditor.model.finding import Severity, Urgency
from auditor.reports import openmetrics
from tests.conf.selectors import metrics, unanswered

ROOT = Path(__file__).parents[2]
ALERTS = ROOT / "conf" / "alerts.yml"
VALUES = ROOT / "conf" / "chart" / "values.yaml"
CASES = Path(__file__).parent / "alerts_test.yml"


def promtool(*arguments: str | Path) -> str:
    if shutil.which("promtool") is None:
        pytest.skip("needs promtool")
    outcome = subprocess.run(["promtool", *arguments], capture_output=True, text=True, check=False)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    return outcome.stdout


def alerts() -> list[str]:
    return re.findall(r"^ *- alert: (\w+)$", ALERTS.read_text("utf-8"), re.MULTILINE)


def test_prometheus_accepts_the_rules() -> None:
    assert f"{len(alerts())} rules found" in promtool("check", "rules", "--lint-fatal", ALERTS)


def test_each_alert_passes_its_promtool_cases() -> None:
    assert "SUCCESS" in promtool("test", "rules", CASES)


def test_every_alert_has_a_case_in_which_it_fires() -> None:
    text = CASES.read_text("utf-8")
    assert len(alerts()) > 10
    fired = {name for name, value in re.findall(r"alertname: (\w+)\n +exp_alerts:(.*)", text) if not value}
    assert fired == set(alerts())


def runbooks() -> dict[str, str]:
    """Return the runbook URL of each alert."""
    rules = [rule for group in yaml.safe_load(ALERTS.read_text("utf-8"))["groups"] for rule in group["rules"]]
    return {rule["alert"]: rule["annotations"]["runbook_url"] for rule in rules}


def test_every_alert_links_to_an_existing_page_section() -> None:
    base = yaml.safe_load(VALUES.read_text("utf-8"))["monitoring"]["docs"]
    assert runbooks().keys() == set(alerts())
    for url in runbooks().values():
        page, _, anchor = url.removeprefix(f"{base}/").partition("#")
        text = (ROOT / "docs" / page).read_text("utf-8")
        ids = [check.id for check in ALL_CHECKS] if anchor == "{{ $labels.id }}" else [anchor]
        headings = {re.sub("[^a-z0-9 -]", "", line.lower()).replace(" ", "-") for line in headed(text)}
        assert all(f'<a id="{id}">' in text or id in headings for id in ids)


def headed(text: str) -> list[str]:
    return re.findall("(?m)^#+ (.*)$", text)


def test_critical_alerts_select_only_confirmed_findings() -> None:
    rules = [rule for group in yaml.safe_load(ALERTS.read_text("utf-8"))["groups"] for rule in group["rules"]]
    waking = {rule["alert"]: rule["expr"] for rule in rules if rule["labels"]["severity"] == "critical"}
    assert waking.keys() == {"BookKeeperDataLostOrAboutToBe", "BookKeeperNewFindings"}
    for expression in waking.values():
        selectors = re.findall(r"bkaudit_\w+\{([^}]*)\}", expression)
        assert len(selectors) == 2
        assert all('confidence="confirmed"' in selector for selector in selectors)


def test_urgent_findings_alert_without_a_delay() -> None:
    rules = [rule for group in yaml.safe_load(ALERTS.read_text("utf-8"))["groups"] for rule in group["rules"]]
    at_once = " ".join(rule["expr"] for rule in rules if "for" not in rule)
    for check in ALL_CHECKS:
        if check.urgency in (Urgency.NOT_URGENT, Urgency.UNCHECKED) or check.severity == Severity.NOTE:
            continue
        selectors = (f'urgency="{check.urgency}"', f'severity="{check.severity}"')
        assert any(selector in at_once for selector in selectors), check.id
    assert 'urgency="near-loss"' in at_once  # which findings milder than their check can be


def test_alerts_select_only_samples_that_a_report_has() -> None:
    text = ALERTS.read_text("utf-8")
    assert len(metrics(text)) > 8
    assert unanswered(text) == []


def test_report_page_describes_every_metric() -> None:
    page = (ROOT / "docs" / "reports.md").read_text("utf-8")
    rows = re.findall(r"^\| `(bkaudit_\w+)` \|.*\| (.*) \|$", page, re.MULTILINE)
    assert rows == list(openmetrics.METRICS.items())
    assert unanswered(page) == []
