"""``bkaudit decode``: one file of any known format, to JSON."""

from __future__ import annotations

import json
import textwrap
from typing import Any, BinaryIO

import click

from auditor.cli.kinds import KINDS, LIMIT
from auditor.cli.plain import jsonable
from auditor.errors import DecodeError, RuleError, UsageError

# Whole words: what a shell is to be given cannot be folded at a hyphen.
_KINDS = textwrap.fill(", ".join(KINDS), 74, break_on_hyphens=False)
_HELP = f"""Decode FILE, which is of KIND, to JSON; - reads standard input.

\b
Kinds:
{textwrap.indent(_KINDS, "  ")}

Exit code 5, and the byte where it goes wrong, for bytes that do not follow their format. What follows its
format and breaks a rule is printed all the same, and exits with 5 too. No password or key is ever shown."""


@click.command(help=_HELP)
@click.argument("kind", metavar="KIND", type=click.Choice(list(KINDS)))
@click.argument("file", type=click.File("rb"))
@click.option("--java", is_flag=True, help="availability: accept and answer what the server's class does.")
@click.option(
    "--bookie-id", help="service-info: the id it was registered under, which stands in for no data."
)
@click.option("--entries", is_flag=True, help="availability, index, bookie-frame, journal: list the entries.")
def decode(kind: str, file: BinaryIO, **settings: Any) -> None:
    """Decode a file; what `_HELP` says."""
    decoder = KINDS[kind]
    for name, value in settings.items():
        if value and name not in decoder.settings:
            raise UsageError(f"--{name.replace('_', '-')}: it means nothing for {kind}")
    source = file if decoder.by_parts else _whole(kind, file)
    try:
        value = decoder.decode(source, **{name: settings[name] for name in decoder.settings})
    except RuleError as error:
        click.echo(json.dumps(jsonable(error.value), indent=2, ensure_ascii=False))
        raise
    click.echo(json.dumps(jsonable(value), indent=2, ensure_ascii=False))


def _whole(kind: str, file: BinaryIO) -> bytes:
    data = file.read(LIMIT + 1)
    if len(data) > LIMIT:
        raise DecodeError(kind, LIMIT, f"more than {LIMIT} bytes: take an audit for files of this size")
    return data
