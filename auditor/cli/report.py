"""``bkaudit report``: the report of a finished run."""

from __future__ import annotations

import click

from auditor.cli.output import outputs, outputs_option, show


@click.command()
@click.argument("run")
@outputs_option
def report(run: str, forms: tuple[str, ...]) -> None:
    """Show the report of the finished run RUN again, in any form.

    jsonl, csv, sarif and parquet have every finding, the others a bounded sample of each check's.
    """
    from auditor.notebook.run import open_run

    wanted = outputs(forms, run)
    show(open_run(run), wanted)
