"""``bkaudit report``: the report of a finished run."""

from __future__ import annotations

import click

from auditor.cli.output import outputs, outputs_option, show
from auditor.errors import UsageError
from auditor.model.owner_total import LEVELS, Level


@click.command()
@click.argument("run")
@outputs_option
@click.option("--by", type=click.Choice(LEVELS), help="Add up ledgers, bytes, leaks and findings by owner.")
def report(run: str, forms: tuple[str, ...], by: Level | None) -> None:
    """Show the report of the finished run RUN again, in any form.

    jsonl, csv, sarif and parquet have every finding, the others a bounded sample of each check's.
    """
    if by is not None:
        if forms:
            raise UsageError("--by: it is a table of its own; leave --format out")
        from auditor.reports import owner_totals as telling
        from auditor.runs.owner_totals import owner_totals
        from auditor.runs.reader import RunReader

        click.echo(telling.render(owner_totals(RunReader(run), by), by))
        return
    from auditor.notebook.run import open_run

    wanted = outputs(forms, run)
    show(open_run(run), wanted)
