"""The forms that a report can be shown in, each with the ending of its files and what writes it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO

from auditor.model.report import Report

Write = Callable[[Report, str, BinaryIO], None]
"""Writes the report of the run at a path; forms with every finding read them from the run, as they go."""


@dataclass(frozen=True)
class Form:
    """One form of a report: the ending of its file below a run, and what writes it."""

    ending: str
    write: Write
    binary: bool = False


def _text(report: Report, run: str, out: BinaryIO) -> None:
    from auditor.reports import text
    from auditor.told import standings_of_report

    _put(out, [text.render(report, run, standings=standings_of_report(run, report)), "\n"])


def _json(report: Report, run: str, out: BinaryIO) -> None:
    from auditor.reports import json

    _put(out, [json.render(report), "\n"])


def _jsonl(report: Report, run: str, out: BinaryIO) -> None:
    from auditor.reports import jsonl
    from auditor.runs import open_run

    _put(out, _lines(jsonl.render(open_run(run).findings)))


def _csv(report: Report, run: str, out: BinaryIO) -> None:
    from auditor.reports import csv
    from auditor.runs import open_run
    from auditor.standings import standings_in_order

    _put(out, csv.render(open_run(run).findings, standings_in_order(run)))


def _markdown(report: Report, run: str, out: BinaryIO) -> None:
    from auditor.reports import markdown
    from auditor.told import standings_of_report

    _put(out, [markdown.render(report, standings_of_report(run, report)), "\n"])


def _html(report: Report, run: str, out: BinaryIO) -> None:
    from auditor.html_page import page_of
    from auditor.runs import open_run

    _put(out, [page_of(open_run(run))])


def _sarif(report: Report, run: str, out: BinaryIO) -> None:
    from auditor.reports import sarif
    from auditor.runs import open_run
    from auditor.standings import standings_in_order

    _put(out, sarif.render(report, open_run(run).findings, standings_in_order(run)))


def _junit(report: Report, run: str, out: BinaryIO) -> None:
    from auditor.reports import junit
    from auditor.told import standings_of_report

    _put(out, [junit.render(report, standings_of_report(run, report))])


def _openmetrics(report: Report, run: str, out: BinaryIO) -> None:
    from auditor.last_complete import last_complete
    from auditor.reports import openmetrics

    _put(out, [openmetrics.render(report, last_complete(run, report))])


def _parquet(report: Report, run: str, out: BinaryIO) -> None:
    from auditor.reports import parquet
    from auditor.runs import open_run
    from auditor.standings import standings_in_order

    parquet.write(open_run(run).findings, out, standings_in_order(run))


FORMS = {
    "text": Form("txt", _text),
    "json": Form("json", _json),
    "jsonl": Form("jsonl", _jsonl),
    "csv": Form("csv", _csv),
    "markdown": Form("md", _markdown),
    "html": Form("html", _html),
    "sarif": Form("sarif", _sarif),
    "junit": Form("xml", _junit),
    "openmetrics": Form("prom", _openmetrics),
    "parquet": Form("parquet", _parquet, binary=True),
}
"""By the name that ``--format`` takes."""


def _put(out: BinaryIO, parts: Iterable[str]) -> None:
    for part in parts:
        # A surrogate that stands alone, which evidence may have, is written as JSON has it.
        out.write(part.encode("utf-8", "backslashreplace"))


def _lines(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        yield f"{line}\n"
