"""``bkaudit report``: the report of a finished run."""

from __future__ import annotations

import click

from auditor.cli.options import format_option
from auditor.cli.output import FORMATS, show


@click.command()
@click.argument("run")
@format_option(*FORMATS)
def report(run: str, form: str) -> None:
    """Show the report of the finished run RUN again; jsonl gives every finding, one a line."""
    from auditor.runs import open_run

    show(open_run(run).report, run, form)
