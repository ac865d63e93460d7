"""Tests of the tables in docs that the program generates."""

from __future__ import annotations

from pathlib import Path

from auditor.model.options import option_types
from auditor.reports import openmetrics
from auditor.reports.reference_pages import main, metrics_table, options_page, tables_page
from tests.reports.samples import NAMESPACES, NEAR_LOSSES, report, space_gauges

DOCS = Path(__file__).parents[2] / "docs"
COMMAND = "python -m auditor.reports.reference_pages"


def test_options_page_matches_the_program() -> None:
    assert (DOCS / "options.md").read_text("utf-8") == options_page(), COMMAND


def test_tables_page_matches_the_program() -> None:
    assert (DOCS / "tables.md").read_text("utf-8") == tables_page(), COMMAND


def test_metrics_table_in_docs_matches_the_program() -> None:
    page = (DOCS / "reports.md").read_text("utf-8")
    # An empty line, or the end of the page, follows the table.
    assert f"<!-- metrics -->\n\n{metrics_table()}" in f"{page}\n", COMMAND


def test_command_writes_all_reference_pages(tmp_path: Path) -> None:
    (tmp_path / "reports.md").write_text("# Reports\n\n<!-- metrics -->\n\n| old |\n\nMore.\n")
    main(tmp_path)
    assert (tmp_path / "options.md").read_text("utf-8") == options_page()
    assert (tmp_path / "tables.md").read_text("utf-8") == tables_page()
    written = (tmp_path / "reports.md").read_text("utf-8")
    assert written == f"# Reports\n\n<!-- metrics -->\n\n{metrics_table()}\nMore.\n"


def test_every_option_and_metric_has_its_row() -> None:
    assert [line.split("`")[1] for line in options_page().splitlines() if line.startswith("| `")] == [
        *option_types()
    ]
    assert [line.split("`")[1] for line in metrics_table().splitlines() if line.startswith("| `")] == [
        *openmetrics.METRICS
    ]


def test_samples_have_the_labels_declared_for_their_metric() -> None:
    samples = list(openmetrics._report_samples(report(), 1, space_gauges(), NAMESPACES))
    samples += openmetrics.near_loss_samples(NEAR_LOSSES)
    assert {sample.metric for sample in samples} == {*openmetrics.METRICS}
    for sample in samples:
        assert tuple(sample.labels) == openmetrics.METRIC_LABELS.get(sample.metric, ()), sample.metric
