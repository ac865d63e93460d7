"""The dashboard that the project ships, read with Grafana's own types and Prometheus's own tool."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from grafana_foundation_sdk.cog import plugins
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard

from auditor.reports import openmetrics
from tests.conf.selectors import metrics, unanswered

ROOT = Path(__file__).parents[2]
DASHBOARD = ROOT / "conf" / "grafana-dashboard.json"
COLUMNS = 24


def dashboard() -> Any:
    return json.loads(DASHBOARD.read_text("utf-8"))


def queries() -> list[str]:
    return [target["expr"] for panel in dashboard()["panels"] for target in panel["targets"]]


def changed_fields(original: Any, converted: Any, path: str = "") -> Iterator[str]:
    """Yield the paths of the values that the conversion changed."""
    if isinstance(original, dict) and isinstance(converted, dict):
        for key, value in original.items():
            yield from changed_fields(value, converted.get(key), f"{path}.{key}")
    elif isinstance(original, list) and isinstance(converted, list) and len(original) == len(converted):
        for number, pair in enumerate(zip(original, converted, strict=True)):
            yield from changed_fields(*pair, f"{path}[{number}]")
    elif original != converted:
        yield path


def through_grafana(value: Any) -> Any:
    """Convert a value to Grafana's types and back: they keep only the fields that they know."""
    plugins.register_default_plugins()
    return json.loads(json.dumps(Dashboard.from_json(value), cls=JSONEncoder))


def test_grafana_types_keep_every_field() -> None:
    value = dashboard()
    assert list(changed_fields(value, through_grafana(value))) == []


@pytest.mark.parametrize("part", ["", "options", "targets", "gridPos"])
def test_unknown_grafana_field_is_reported(part: str) -> None:
    value = dashboard()
    panel = value["panels"][0]
    place = panel[part] if part else panel
    (place[0] if isinstance(place, list) else place)["titel"] = "x"
    assert [path.rpartition(".")[2] for path in changed_fields(value, through_grafana(value))] == ["titel"]


def test_prometheus_parses_every_query(tmp_path: Path) -> None:
    if shutil.which("promtool") is None:
        pytest.skip("needs promtool")
    rules = [
        {"record": f"panel:query:{number}", "expr": query.replace("$cluster", ".+")}
        for number, query in enumerate(queries())
    ]
    file = tmp_path / "rules.yml"  # JSON is YAML
    file.write_text(json.dumps({"groups": [{"name": "panels", "rules": rules}]}))
    outcome = subprocess.run(
        ["promtool", "check", "rules", "--lint-fatal", file], capture_output=True, text=True, check=False
    )
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    assert f"{len(rules)} rules found" in outcome.stdout


def test_queries_select_existing_samples_of_the_chosen_clusters() -> None:
    assert unanswered("\n".join(queries())) == []
    assert all(query.count("bkaudit_") == query.count('cluster=~"$cluster"') for query in queries())


def test_every_metric_is_on_the_dashboard() -> None:
    assert metrics(DASHBOARD.read_text("utf-8")) == set(openmetrics.METRICS)


def test_panels_have_titles_descriptions_and_separate_cells() -> None:
    used_cells: set[tuple[int, int]] = set()
    panels = dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    for panel in panels:
        assert panel["title"]
        assert panel["description"].endswith(".")
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert place["x"] + place["w"] <= COLUMNS
        assert not cells & used_cells, panel["title"]
        used_cells |= cells


def test_dashboard_is_tied_to_no_grafana_instance() -> None:
    assert {panel["datasource"]["uid"] for panel in dashboard()["panels"]} == {"${datasource}"}
    assert "id" not in dashboard()


@pytest.mark.parametrize(("verdict", "mapped_value"), [("healthy", 0), ("incomplete", 1), ("not-healthy", 2)])
def test_the_first_panel_shows_the_verdict(tmp_path: Path, verdict: str, mapped_value: int) -> None:
    if shutil.which("promtool") is None:
        pytest.skip("needs promtool")
    panel = dashboard()["panels"][0]
    series = [
        {"series": f'bkaudit_verdict{{cluster="a", verdict="{name}"}}', "values": str(int(name == verdict))}
        for name in ("healthy", "incomplete", "not-healthy")
    ]
    sample = {"labels": '{cluster="a"}', "value": mapped_value}
    query = panel["targets"][0]["expr"].replace("$cluster", ".+")
    case = {"input_series": series, "promql_expr_test": [{"expr": query, "exp_samples": [sample]}]}
    file = tmp_path / "case.yml"
    file.write_text(json.dumps({"tests": [case]}))
    outcome = subprocess.run(["promtool", "test", "rules", file], capture_output=True, text=True, check=False)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    [mapping] = panel["fieldConfig"]["defaults"]["mappings"]
    assert mapping["options"][str(mapped_value)]["text"] == verdict.replace("-", " ")
