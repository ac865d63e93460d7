"""``bkaudit collect``: writes bookies' directories as tables, for an audit on another machine."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from auditor.cli import completion
from auditor.cli.defaults import BOOKIES_VARIABLE, defaults
from auditor.cli.options import bookies_option, cluster_option, option_flags, options_from_flags
from auditor.cli.progress import shown_progress
from auditor.cli.verbosity import say, verbosity_options
from auditor.errors import UsageError
from auditor.model.report import EXIT_CLEAN, EXIT_NOT_COVERED
from auditor.spark.types import SparkSession


@click.command()
@bookies_option("Bookies' directories: one sub-directory per bookie, or an inventory file. May be repeated.")
@cluster_option
@click.option(
    "--out",
    metavar="DIR",
    required=True,
    shell_complete=completion.paths,
    help="The directory to create: a path, or a URI such as s3://bucket/collected/bk-a.",
)
@click.option(
    "--spark",
    "in_spark",
    is_flag=True,
    help="Read with Spark, for many bookies whose disks all tasks can access.",
)
@verbosity_options
@option_flags("entry_logs", "threads", "parts_per_core", "master", "driver_memory")
@click.pass_obj
def collect(
    session: Callable[[], SparkSession] | None,
    /,
    bookies: tuple[str, ...],
    cluster: str | None,
    out: str,
    in_spark: bool,
    conf: Path | None,
    **flags: Any,
) -> None:
    """Write the contents of bookies' directories as tables, which `bkaudit audit` accepts as --bookies.

    Run this command beside a bookie. It only reads the directories. Unless --spark is given, it needs no
    Spark and little memory. Standard error and the tables list everything that could not be read.

    With --entry-logs, the indexes are read twice. The second pass reads where each entry is in the entry
    logs. With these locations, an audit can attribute the bytes of the logs to ledgers.

    Exit codes: 0 everything was read; 2 wrong usage, or --out exists already; 3 the collection was made,
    but not everything could be read.
    """
    options = options_from_flags(conf, flags)
    bookies = defaults(None, bookies, cluster, conf).bookies
    for name in ("parts_per_core", "master", "driver_memory"):
        if flags[name] is not None and session is None and not in_spark:
            raise UsageError(f"--{name.replace('_', '-')}: only valid with --spark")
    if not bookies:
        raise UsageError(f"--bookies: missing. Pass it or --cluster NAME, or set {BOOKIES_VARIABLE}")
    from auditor.collect.collect import check_target
    from auditor.collect.collect import collect as collect_directories

    check_target(bookies, out)  # fail before a Spark session starts
    spark = session() if session else None
    if spark is None and in_spark:
        from auditor.spark.session import build_session

        spark = build_session(options.master, driver_memory=options.driver_memory)
    with shown_progress() as progress:
        collection = collect_directories(bookies, out, options, spark, progress)
    for name in collection.manifest.tables:
        click.echo(f"{collection.manifest.rows(name):>12,}  {name}")
    for unread_line in collection.unread_lines:
        click.echo(f"bkaudit: not read: {unread_line}", err=True)
    if collection.unread_count > len(collection.unread_lines):
        click.echo(f"bkaudit: and {collection.unread_count - len(collection.unread_lines):,} more", err=True)
    say(f"the collection is in {collection.path}")
    raise click.exceptions.Exit(EXIT_NOT_COVERED if collection.unread_count else EXIT_CLEAN)
