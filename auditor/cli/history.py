"""``bkaudit history``: the runs of a directory, one a line."""

from __future__ import annotations

import click

from auditor.cli.options import RUNS, format_option


@click.command()
@click.argument("directory", metavar="[DIR]", default=str(RUNS))
@format_option("text", "json", "csv")
def history(directory: str, form: str) -> None:
    """List the finished runs below DIR (./runs), the oldest first, with what each found and what changed."""
    from auditor.reports import history as report
    from auditor.runs import history as runs

    found = runs.history(directory)
    for reason in runs.refused(directory):
        click.echo(f"bkaudit: left out: {reason}", err=True)
    render = {"text": report.text, "json": report.to_json, "csv": report.to_csv}[form]
    click.echo(render(found))
