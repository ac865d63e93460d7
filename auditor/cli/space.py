"""``bkaudit space``: what fills the disks of a finished run, and what frees most."""

from __future__ import annotations

from pathlib import Path

import click

from auditor.cli import completion
from auditor.cli.defaults import newest_run, runs_directory
from auditor.cli.options import format_option, runs_options
from auditor.model.space import SPACE_BY, SpaceBy


@click.command()
@click.argument("run", metavar="[RUN]", required=False, shell_complete=completion.runs)
@runs_options
@click.option(
    "--by",
    type=click.Choice(SPACE_BY),
    default="bookie",
    show_default=True,
    help="Whose bytes are added up; application: as custom metadata names it.",
)
@click.option(
    "--top",
    type=click.IntRange(1, 100_000),
    default=20,
    show_default=True,
    help="So many ledgers or applications are named, the largest; the others are one line.",
)
@format_option("text", "json", "csv")
def space(run: str | None, cluster: str | None, conf: Path | None, by: SpaceBy, top: int, form: str) -> None:
    """Say what fills each bookie's entry logs, and what frees most of them, with its command and risk.

    RUN is a finished audit with --entry-logs, by default the newest run. Nothing is asked of the
    cluster, and nothing is freed.
    """
    from auditor.reports import space as report
    from auditor.runs.damage import damage_named
    from auditor.runs.load_space import space_view
    from auditor.runs.reader import RunReader

    render = {"text": report.text, "json": report.to_json, "csv": report.to_csv}[form]
    path = run or newest_run(runs_directory(cluster, conf))
    with damage_named(path):
        click.echo(render(space_view(RunReader(path), by, top)))
