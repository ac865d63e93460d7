"""Reports to standard output; everything else goes to standard error."""

from __future__ import annotations

import re
import sys

import click

from auditor.model.report import Report

FORMATS = ("text", "json", "jsonl")

_COLOURS = {"critical": "bright_red", "error": "red", "warning": "yellow", "note": "cyan"}
_SEVERITY = re.compile(
    r"^(critical|error|warning|note)(?= )|(?<=\()(critical|error|warning|note)(?=;)", re.MULTILINE
)
_VERDICT = re.compile(r"^(HEALTHY|NOT-HEALTHY|INCOMPLETE)(?=:)", re.MULTILINE)


def show(report: Report, run: str, form: str) -> None:
    """Print a report; ``jsonl`` prints every finding of the run, not only the samples."""
    if form == "json":
        from auditor.reports import json

        click.echo(json.render(report))
    elif form == "jsonl":
        from auditor.reports import jsonl
        from auditor.runs import open_run

        for line in jsonl.render(open_run(run).findings):
            click.echo(line)
    else:
        from auditor.reports import text

        shown = text.render(report)
        click.echo(coloured(shown) if sys.stdout.isatty() else shown)


def coloured(text: str) -> str:
    """The same text with severities and verdict in colour; nothing is said by colour alone.

    >>> coloured("HEALTHY: no finding")
    '\\x1b[1mHEALTHY\\x1b[0m: no finding'
    """
    text = _SEVERITY.sub(lambda found: click.style(found[0], fg=_COLOURS[found[0]]), text)
    return _VERDICT.sub(lambda found: click.style(found[0], bold=True), text)
