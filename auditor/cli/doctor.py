"""``bkaudit doctor``: a diagnosis before a first run."""

import json
from pathlib import Path
from typing import Any

import click

from auditor.cli import completion
from auditor.cli.defaults import defaults
from auditor.cli.options import (
    DOCTOR_OPTIONS,
    GroupedCommand,
    bookies_option,
    format_option,
    option_flags,
    options_from_flags,
    source_options,
)
from auditor.cli.terminal import page_width


@click.command(cls=GroupedCommand)
@source_options
@bookies_option()
@click.option(
    "--out", metavar="RUN", shell_complete=completion.paths, help="The run directory to be created."
)
@click.option("--spark", "start_spark", is_flag=True, help="Also start a Spark session and a Python worker.")
@format_option("text", "json")
@option_flags(*DOCTOR_OPTIONS)
def doctor(
    metadata: str | None,
    cluster: str | None,
    bookies: tuple[str, ...],
    out: str | None,
    start_spark: bool,
    form: str,
    conf: Path | None,
    **flags: Any,
) -> None:
    """Check whether everything that an audit needs is there, and say what the audit will not see.

    The command reads little and writes nothing. No option is required. A source is not checked if neither a
    flag nor a default names it.

    The exit code is the best exit code with which an audit could end: 0 the audit would be complete; 2 it
    would be refused; 3 it would be incomplete; 4 it would end without a result.
    """
    options = options_from_flags(conf, flags)
    from auditor.doctor import examine, parse_sources
    from auditor.reports.doctor import render

    default_sources = defaults(metadata, bookies, cluster, conf)
    sources = parse_sources(default_sources.metadata or None, default_sources.bookies, options)
    diagnosis = examine(sources, out, options, start_spark)
    click.echo(
        json.dumps(diagnosis.to_json(), indent=2) if form == "json" else render(diagnosis, page_width())
    )
    raise click.exceptions.Exit(diagnosis.exit_code)
