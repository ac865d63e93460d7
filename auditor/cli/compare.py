"""``bkaudit compare``: compares two metadata stores, record by record."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from auditor.cli import completion
from auditor.cli.options import STORE_OPTIONS, URI_FORMS, format_option, option_flags, options_from_flags
from auditor.cli.progress import shown_progress
from auditor.cli.terminal import fold_width
from auditor.cli.verbosity import say, verbosity_options
from auditor.spark.types import SparkSession

_HELP = f"""Check whether the metadata store COPY has all that SOURCE has: ledgers, cookies, layout, owners.

Contents are compared byte by byte; versions and times are not compared. jsonl lists every difference, one
per line. SOURCE and COPY are metadata URIs, in one of these forms:

{URI_FORMS}

Exit codes: 0 the same, and everything was compared; 1 differences; 2 wrong usage; 3 no certain difference,
but not everything could be read, or something changed during the comparison; 4 a store could not be read."""


@click.command(help=_HELP)
@click.argument("source", metavar="SOURCE")
@click.argument("copy", metavar="COPY")
@click.option(
    "--owners",
    metavar="URI URI",
    nargs=2,
    help="Owners of each store, such as pulsar:zk://HOST:2181.  [default: owners next to BookKeeper's root]",
)
@click.option(
    "--out",
    metavar="DIR",
    shell_complete=completion.paths,
    help="A new directory for the tables read and all differences, as Parquet.  [default: none]",
)
@format_option("text", "json", "jsonl")
@verbosity_options
@option_flags(*STORE_OPTIONS, "parts_per_core", "master", "driver_memory")
@click.pass_obj
def compare(
    session: Callable[[], SparkSession] | None,
    /,
    source: str,
    copy: str,
    owners: tuple[str, str] | None,
    out: str | None,
    form: str,
    conf: Path | None,
    **flags: Any,
) -> None:
    """Compare two metadata stores. The text of the command's help is `_HELP`."""
    options = options_from_flags(conf, flags)
    from auditor.compare.stores import all_differences, compare_stores, first_differences
    from auditor.reports import comparison as report
    from auditor.sources.metadata.uri import parse_metadata_uri

    for uri in (source, copy):
        parse_metadata_uri(uri)  # fail before a Spark session starts
    spark = session() if session else None
    with (
        shown_progress() as progress,
        compare_stores(source, copy, owners, out, options, spark, progress) as (comparison, differences),
    ):
        if form == "jsonl":
            for line in report.comparison_lines(all_differences(differences)):
                click.echo(line)
            say(report.comparison_verdict(comparison))
        else:
            shown_differences = first_differences(differences, report.MAX_DIFFERENCES_SHOWN)
            if form == "json":
                click.echo(report.comparison_json(comparison, shown_differences))
            else:
                click.echo(
                    report.comparison_text(comparison, shown_differences, fold_width() or report.WIDTH)
                )
    if out is not None:
        say(f"the tables are in {out}")
    raise click.exceptions.Exit(comparison.exit_code)
