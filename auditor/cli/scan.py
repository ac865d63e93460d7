"""``bkaudit scan``: the metadata half of an audit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from auditor.cli.interruption import takes_up
from auditor.cli.options import SCAN_OPTIONS, chosen, metadata_option, option_flags, run_to_make
from auditor.cli.progress import shown_progress
from auditor.cli.verbosity import say, verbosity_options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@click.command()
@metadata_option
@click.option("--out", metavar="RUN", help="The run directory to make.  [default: ./runs/<time>]")
@verbosity_options
@option_flags(*SCAN_OPTIONS)
@click.pass_obj
def scan(
    session: Callable[[], SparkSession] | None,
    /,
    metadata: str,
    out: str | None,
    conf: Path | None,
    **flags: Any,
) -> None:
    """Read a cluster's metadata into tables; nothing is compared and nothing judged."""
    options = chosen(conf, flags)
    from auditor.audit.audit import Audit
    from auditor.sources.metadata.uri import parse_metadata_uri

    parse_metadata_uri(metadata)  # said before a session is started

    out = out or run_to_make("scan", metadata, (), options)
    with takes_up(out), shown_progress() as progress:
        rows = Audit(metadata, (), out, options).scan(session() if session else None, progress)
    for name, count in rows.items():
        click.echo(f"{count:>12,}  {name}")
    say(f"the tables are in {out}/tables")
