"""``bkaudit diff``: what changed between two runs."""

from __future__ import annotations

import click

from auditor.cli import completion
from auditor.cli.options import format_option


@click.command()
@click.argument("old", shell_complete=completion.runs)
@click.argument("new", shell_complete=completion.runs)
@format_option("text", "json", "jsonl", "markdown")
def diff(old: str, new: str, form: str) -> None:
    """Say what is new, worse, better or fixed in the finished run NEW, beside the run OLD.

    What was not looked at in NEW is not fixed: it is listed apart. jsonl gives every changed finding, one a
    line.
    """
    from auditor.reports import diff as report
    from auditor.runs.damage import damage_named
    from auditor.runs.history import RunDifference

    with damage_named(old, new):
        difference = RunDifference(old, new)
        if form == "jsonl":
            for line in report.jsonl(difference.changes()):
                click.echo(line)
            for warning in difference.summary.warnings:
                click.echo(f"bkaudit: {warning}", err=True)
            return
        shown = report.samples(difference.changes())
        render = {"text": report.text, "json": report.to_json, "markdown": report.markdown}[form]
        click.echo(render(difference.summary, shown))
