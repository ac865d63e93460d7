"""The alerting rules that the project ships, held to Prometheus's own tool."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from auditor.reports import openmetrics
from tests.conf.selectors import metrics, unanswered

ROOT = Path(__file__).parents[2]
ALERTS = ROOT / "conf" / "alerts.yml"
CASES = Path(__file__).parent / "alerts_test.yml"


def promtool(*arguments: str | Path) -> str:
    if shutil.which("promtool") is None:
        pytest.skip("needs promtool")
    outcome = subprocess.run(["promtool", *arguments], capture_output=True, text=True, check=False)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    return outcome.stdout


def alerts() -> list[str]:
    return re.findall(r"^ *- alert: (\w+)$", ALERTS.read_text("utf-8"), re.MULTILINE)


def test_prometheus_takes_the_rules() -> None:
    assert f"{len(alerts())} rules found" in promtool("check", "rules", "--lint-fatal", ALERTS)


def test_each_alert_fires_when_it_should_and_only_then() -> None:
    assert "SUCCESS" in promtool("test", "rules", CASES)


def test_every_alert_has_a_case() -> None:
    text = CASES.read_text("utf-8")
    assert len(alerts()) > 10
    fired = {name for name, rest in re.findall(r"alertname: (\w+)\n +exp_alerts:(.*)", text) if not rest}
    assert fired == set(alerts())


def test_alerts_ask_for_samples_that_a_report_has() -> None:
    text = ALERTS.read_text("utf-8")
    assert len(metrics(text)) > 8
    assert unanswered(text) == []


def test_the_page_of_reports_says_what_each_metric_is() -> None:
    page = (ROOT / "docs" / "reports.md").read_text("utf-8")
    rows = re.findall(r"^\| `(bkaudit_\w+)` \|.*\| (.*) \|$", page, re.MULTILINE)
    assert rows == list(openmetrics.METRICS.items())
    assert unanswered(page) == []
