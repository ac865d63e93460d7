"""``bkaudit dump``: saves the metadata of a running store in a file."""

import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import click

from auditor.cli import completion
from auditor.cli.defaults import sources
from auditor.cli.options import STORE_OPTIONS, cluster_option, option_flags, options_from_flags
from auditor.cli.progress import PERIOD_S
from auditor.cli.verbosity import quietness_options, say
from auditor.errors import UsageError
from auditor.model.amounts import plural, size
from auditor.model.report import EXIT_CLEAN, EXIT_NOT_COVERED


@click.command()
@click.argument("names", metavar="[URI] FILE", nargs=-1, required=True, shell_complete=completion.paths)
@cluster_option
@click.option("--without-secrets", is_flag=True, help="Leave out the passwords in ledger metadata.")
@click.option(
    "--without-owners",
    is_flag=True,
    help="Leave out the ledgers' owners (Pulsar topics) next to BookKeeper's root.",
)
@quietness_options
@option_flags(*STORE_OPTIONS)
def dump(
    names: tuple[str, ...],
    cluster: str | None,
    without_secrets: bool,
    without_owners: bool,
    conf: Path | None,
    **flags: Any,
) -> None:
    """Save the metadata of the running store at URI in FILE. An audit elsewhere can read dump:///FILE.

    URI is zk://HOST:2181;HOST:2181/ledgers, etcd://HOST:2379/SCOPE or
    metadata-store:oxia://HOST:6648/NAMESPACE. The default is the store that --cluster or BKAUDIT_METADATA
    names. If FILE is -, the dump goes to standard output. FILE is compressed if its name ends with .gz or
    .zst.

    Metadata contains the passwords of ledgers in clear text. FILE is therefore readable only by its owner.

    Exit codes: 0 everything was read; 2 wrong usage, or FILE exists already; 3 the dump was made, but parts
    of the store could not be read (FILE lists these parts); 4 the store cannot be read.
    """
    if len(names) > 2:
        raise UsageError(f"{names[2]}: too many arguments. Pass one URI and one FILE")
    uri, file = names if len(names) == 2 else (None, names[0])
    store_sources = sources(uri, (), cluster, conf)
    from auditor.sources.metadata.dump.save import SaveRequest, new_file, save
    from auditor.sources.metadata.stores import store_options
    from auditor.sources.metadata.uri import parse_metadata_uri
    from auditor.sources.owners.applications import APPLICATIONS
    from auditor.sources.racks import PULSAR_MAPPING

    owner_trees = [tree for application in APPLICATIONS.values() for tree in application.trees]
    extra_trees = (PULSAR_MAPPING, *(() if without_owners else owner_trees))
    options = store_options(options_from_flags(conf, flags))
    request = SaveRequest(
        parse_metadata_uri(store_sources.metadata), extra_trees, not without_secrets, options
    )
    output_file = nullcontext(sys.stdout.buffer) if file == "-" else new_file(Path(file))
    with output_file as out:
        summary = save(request, out, _throttled_progress())
    file_text = "standard output" if file == "-" else f"{file}, {size(Path(file).stat().st_size)}"
    say(f"{plural(summary.records, 'record')} in {file_text}")
    for gap_path, gap_reason in summary.gaps:
        click.echo(f"bkaudit: not read: {gap_path}: {gap_reason}", err=True)
    if summary.unread_count > len(summary.gaps):
        click.echo(f"bkaudit: and {summary.unread_count - len(summary.gaps):,} more", err=True)
    raise click.exceptions.Exit(EXIT_NOT_COVERED if summary.unread_count else EXIT_CLEAN)


def _throttled_progress() -> Callable[[int], None]:
    """Return a function that takes the number of saved records and prints it at most twice a minute."""
    last_print = time.monotonic()

    def progress(records: int) -> None:
        nonlocal last_print
        if time.monotonic() - last_print >= PERIOD_S:
            last_print = time.monotonic()
            say(f"{plural(records, 'record')} so far")

    return progress
