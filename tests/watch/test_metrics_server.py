"""The metrics page for Prometheus: Prometheus's own parsers accept it, and it describes the rounds."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from prometheus_client import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as untyped
from prometheus_client.parser import text_string_to_metric_families as older_families

from auditor.errors import StoreError, UsageError
from auditor.watch.rounds import METRICS, MetricsPage, Round, metrics_server, parse_listen_address
from tests.made_runs import made_run
from tests.reports.samples import report

_families: Callable[[str], Iterable[Metric]] = untyped
ROOT = Path(__file__).parents[2]
DONE = Round(1, "runs/a", 12.5, report(), None, 3600.0)
FAILED = Round(2, "runs/b", 0.5, None, StoreError("away"), 30.0)


def samples(text: str) -> dict[str, float]:
    """Return, by name, the metrics that the rounds add, and check that each names the cluster."""
    new_samples = [sample for family in _families(text) for sample in family.samples]
    assert len({sample.labels["cluster"] for sample in new_samples}) == 1
    older = [sample for family in older_families(text) for sample in family.samples]
    assert {(sample.name, sample.value) for sample in older} == {
        (new_sample.name, new_sample.value) for new_sample in new_samples
    }
    return {sample.name: sample.value for sample in new_samples if sample.name in METRICS}


def test_metrics_page_has_round_counts_with_and_without_a_run(tmp_path: Path) -> None:
    page = MetricsPage("zk://h1/ledgers")
    assert samples(page.text()) == {"bkaudit_watch_rounds": 0, "bkaudit_watch_rounds_failed": 0}
    run = made_run(tmp_path / "run")
    page.update(DONE, run)
    values = samples(page.text())
    assert values["bkaudit_watch_rounds"] == 1
    assert values["bkaudit_watch_round_duration_seconds"] == 12.5
    assert values.keys() == METRICS.keys()
    assert f'bkaudit_watch_rounds{{cluster="{run.report.cluster.name}"}} 1' in page.text()
    assert "bkaudit_findings{" in page.text()
    for failed in (1, 2):
        page.update(FAILED, None)
        assert samples(page.text())["bkaudit_watch_rounds_failed"] == failed
    assert "bkaudit_findings{" in page.text()
    page.update(DONE, run)
    assert samples(page.text())["bkaudit_watch_rounds_failed"] == 0


def test_metrics_page_is_served_only_at_metrics_path() -> None:
    page = MetricsPage("zk://h1/ledgers")
    with metrics_server("127.0.0.1:0", page) as port:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
            assert answer.headers["Server"] == "bkaudit"
            assert answer.read().decode() == page.text()
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(f"http://127.0.0.1:{port}/runs", timeout=10)
        with pytest.raises(UsageError, match=f"--listen 127.0.0.1:{port}: Address already in use"):
            metrics_server(f"127.0.0.1:{port}", page).__enter__()


@pytest.mark.parametrize("text", ["9418", "host", "host:", ":x", "::1:9418", "h:65536", ""])
def test_invalid_listen_address_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="not of the form HOST:PORT"):
        parse_listen_address(text)


def test_operation_page_describes_every_metric() -> None:
    page = (ROOT / "docs" / "operate.md").read_text("utf-8")
    assert all(f"| `{name}` | {help} |" in page for name, help in METRICS.items())
