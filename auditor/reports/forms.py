"""Forms in which a report can be written, with the file ending and the writer of each form.

To add a form, add a module to this package and a row to `FORMS`. The command line and a notebook's
``run.write`` then accept the name of the form. The module of a form is loaded on first use.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import BinaryIO

from auditor.model.finding import Finding, finding_to_json
from auditor.model.report_source import ReportSource


@dataclass(frozen=True, slots=True)
class Form:
    """File ending and writer of one form of a report.

    If ``is_binary`` is True, the form is written only to files, never to standard output. If
    ``is_complete`` is True, the form can list every finding. Otherwise it has only samples or counts of
    findings.
    """

    ending: str
    write: Callable[[ReportSource, BinaryIO], None]
    is_binary: bool = False
    is_complete: bool = False

    @classmethod
    def of_text(
        cls, ending: str, parts_of_report: Callable[[ReportSource], Iterable[str]], is_complete: bool = False
    ) -> Form:
        """Return a form that consists of text.

        ``parts_of_report`` yields the report of a run as pieces of text.
        """
        return cls(
            ending,
            lambda run, output_stream: write_parts(output_stream, parts_of_report(run)),
            is_complete=is_complete,
        )


def _text_parts(run: ReportSource) -> Iterable[str]:
    from auditor.reports import first_screen, text

    for line in text.pipe_lines(run.report, text.make_findings_lookup(run.report, run.statuses())):
        yield f"{line}\n"
    yield f"\n{first_screen.render(run.report, run.path, text.UNLIMITED_WIDTH)}\n"


def _csv_parts(run: ReportSource) -> Iterable[str]:
    from auditor.reports import csv

    return csv.render(run.findings, run.statuses_in_order())


def _markdown_parts(run: ReportSource) -> Iterable[str]:
    from auditor.reports import markdown

    return markdown.render(run.report, run.statuses()), "\n"


def _sarif_parts(run: ReportSource) -> Iterable[str]:
    from auditor.reports import sarif

    return sarif.render(run.report, run.findings, run.statuses_in_order())


def _junit_parts(run: ReportSource) -> Iterable[str]:
    from auditor.reports import junit

    return junit.render(run.report, run.statuses()), "\n"


def _openmetrics_parts(run: ReportSource) -> Iterable[str]:
    from auditor.reports import openmetrics

    text = openmetrics.render(
        run.report, run.last_complete(), run.space_gauges(), run.namespaces(), run.near_losses()
    )
    return (text,)


def _plain_parts(run: ReportSource) -> Iterable[str]:
    from auditor.reports import pager

    return pager.plain_message(run.report, run.changes_since_complete(), run.path), "\n"


def _slack_parts(run: ReportSource) -> Iterable[str]:
    from auditor.reports import pager

    return pager.slack_message(run.report, run.changes_since_complete(), run.path), "\n"


def _write_parquet_form(run: ReportSource, output_stream: BinaryIO) -> None:
    from auditor.reports import csv

    csv.write_findings_parquet(run.findings, output_stream, run.statuses_in_order())


def json_line(finding: Finding) -> str:
    """Return a finding as one line of JSON that is valid against ``schemas/finding.schema.json``.

    >>> from auditor.model.finding import Confidence, Severity
    >>> json_line(Finding("bookie-down", Severity.WARNING, Confidence.CONFIRMED))[:51]
    '{"id":"bookie-down","urgency":"rest","severity":"wa'
    """
    return json.dumps(finding_to_json(finding), ensure_ascii=False, separators=(",", ":"))


FORMS = {
    "text": Form.of_text("txt", _text_parts, is_complete=True),
    "json": Form.of_text("json", lambda run: (run.report.to_json(),)),
    "jsonl": Form.of_text(
        "jsonl", lambda run: (f"{json_line(finding)}\n" for finding in run.findings), is_complete=True
    ),
    "csv": Form.of_text("csv", _csv_parts, is_complete=True),
    "markdown": Form.of_text("md", _markdown_parts),
    "html": Form.of_text("html", lambda run: run.html_page(), is_complete=True),
    "sarif": Form.of_text("sarif", _sarif_parts, is_complete=True),
    "junit": Form.of_text("xml", _junit_parts),
    "openmetrics": Form.of_text("prom", _openmetrics_parts),
    "plain": Form.of_text("plain.txt", _plain_parts),
    "slack": Form.of_text("slack.json", _slack_parts),
    "parquet": Form("parquet", _write_parquet_form, is_binary=True, is_complete=True),
}
"""Forms by their names, the values of ``--format``."""


def write_parts(output_stream: BinaryIO, parts: Iterable[str]) -> None:
    """Write text as UTF-8, part by part."""
    for part in parts:
        # Evidence may have a lone surrogate, which UTF-8 cannot encode. It is written as an escape of JSON.
        output_stream.write(part.encode("utf-8", "backslashreplace"))
