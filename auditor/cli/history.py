"""``bkaudit history``: the runs of a directory, one per line."""

from __future__ import annotations

from pathlib import Path

import click

from auditor.cli import completion
from auditor.cli.defaults import runs_directory
from auditor.cli.options import format_option, runs_options


@click.command()
@click.argument("directory", metavar="[DIR]", required=False, shell_complete=completion.paths)
@runs_options
@format_option("text", "json", "csv")
def history(directory: str | None, cluster: str | None, conf: Path | None, form: str) -> None:
    """List the finished runs below DIR (./runs), the oldest first, with what each found and what changed."""
    from auditor.reports import history as report
    from auditor.runs import history as of_runs
    from auditor.runs.newest import check_runs_directory

    directory = directory or runs_directory(cluster, conf)
    if "://" not in directory:
        check_runs_directory(Path(directory))
    found = of_runs.history(directory)
    found.require_runs()
    for reason in found.unreadable:
        click.echo(f"bkaudit: left out: {reason}", err=True)
    if not found.runs and form == "text":
        click.echo(f"no finished run is in {directory}; bkaudit audit --out {directory}/NAME makes one")
        return
    render = {"text": report.text, "json": report.to_json, "csv": report.to_csv}[form]
    click.echo(render(found.runs))
