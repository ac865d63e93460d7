"""``bkaudit audit``, the whole audit, and ``bkaudit scan``, which reads only the metadata."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from auditor.cli.defaults import sources
from auditor.cli.options import (
    BOOKIES_HELP,
    SCAN_OPTIONS,
    GroupedCommand,
    bookies_option,
    option_flags,
    options_from_flags,
    out_option,
    run_to_make,
    source_options,
    tuning_options,
)
from auditor.cli.output import TextChoice, flat_option, outputs, outputs_option, show
from auditor.cli.progress import shown_progress
from auditor.cli.verbosity import resumable, say, verbosity_options
from auditor.model.report import exit_code
from auditor.spark.types import SparkSession


@click.command(cls=GroupedCommand)
@source_options
@bookies_option(f"{BOOKIES_HELP} Without it only metadata is checked, and the exit code is 3 at best.")
@out_option
@outputs_option
@flat_option
@verbosity_options
@tuning_options
@click.pass_obj
def audit(
    session: Callable[[], SparkSession] | None,
    /,
    metadata: str | None,
    cluster: str | None,
    bookies: tuple[str, ...],
    out: str | None,
    forms: tuple[str, ...],
    flat: bool,
    conf: Path | None,
    **flags: Any,
) -> None:
    """Compare a cluster's metadata with its bookies' indexes, and say what is wrong.

    Exit codes: 0 clean and everything was checked; 1 confirmed findings at or above --fail-on; 2 wrong usage;
    3 only unconfirmed findings, or not everything was checked; 4 the metadata could not be read; 5 the
    metadata is too damaged to judge.
    """
    options = options_from_flags(conf, flags)
    inputs = sources(metadata, bookies, cluster, conf)
    from auditor.audit.audit import Audit
    from auditor.notebook.run import open_run
    from auditor.sources.metadata.uri import parse_metadata_uri

    parse_metadata_uri(inputs.metadata)  # said before a session is started

    out = out or run_to_make("audit", inputs, options)
    report_outputs = outputs(forms, out)
    with resumable(out), shown_progress() as progress:
        report = Audit(inputs.metadata, inputs.bookies, out, options).run(
            session() if session else None, progress
        )
    say(f"the run is in {out}")
    show(open_run(out), report_outputs, TextChoice(flat=flat))
    raise click.exceptions.Exit(exit_code(report, options.fail_on, options.fail_on_suspect))


@click.command(cls=GroupedCommand)
@source_options
@out_option
@verbosity_options
@option_flags(*SCAN_OPTIONS)
@click.pass_obj
def scan(
    session: Callable[[], SparkSession] | None,
    /,
    metadata: str | None,
    cluster: str | None,
    out: str | None,
    conf: Path | None,
    **flags: Any,
) -> None:
    """Read a cluster's metadata into tables, without comparing or judging it."""
    options = options_from_flags(conf, flags)
    inputs = sources(metadata, (), cluster, conf)
    from auditor.audit.audit import Audit
    from auditor.sources.metadata.uri import parse_metadata_uri

    parse_metadata_uri(inputs.metadata)  # said before a session is started

    out = out or run_to_make("scan", inputs, options)
    with resumable(out), shown_progress() as progress:
        rows = Audit(inputs.metadata, (), out, options).scan(session() if session else None, progress)
    for name, count in rows.items():
        click.echo(f"{count:>12,}  {name}")
    say(f"the tables are in {out}/tables")
