"""``bkaudit scan``: the metadata half of an audit."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from auditor.cli.defaults import sources
from auditor.cli.options import (
    SCAN_OPTIONS,
    GroupedCommand,
    option_flags,
    options_from_flags,
    out_option,
    run_to_make,
    source_options,
)
from auditor.cli.progress import shown_progress
from auditor.cli.verbosity import say, takes_up, verbosity_options
from auditor.spark.types import SparkSession


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
    """Read a cluster's metadata into tables; nothing is compared and nothing judged."""
    options = options_from_flags(conf, flags)
    of = sources(metadata, (), cluster, conf)
    from auditor.audit.audit import Audit
    from auditor.sources.metadata.uri import parse_metadata_uri

    parse_metadata_uri(of.metadata)  # said before a session is started

    out = out or run_to_make("scan", of, options)
    with takes_up(out), shown_progress() as progress:
        rows = Audit(of.metadata, (), out, options).scan(session() if session else None, progress)
    for name, count in rows.items():
        click.echo(f"{count:>12,}  {name}")
    say(f"the tables are in {out}/tables")
