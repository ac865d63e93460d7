"""``bkaudit ledger``: metadata of ledgers, straight from a store."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from auditor.cli.options import ledger_options, metadata_option, named_ledger

if TYPE_CHECKING:
    from auditor.ledgers import StoredLedger


@click.group()
def ledger() -> None:
    """Show or list ledgers' metadata."""


@ledger.command()
@metadata_option
@ledger_options
def show(
    metadata: str, ledger_id: int | None, ledger_scope_id: int | None, ledger_qualified_name: str | None
) -> None:
    """Show the metadata of one ledger, as JSON."""
    named = named_ledger(ledger_id, ledger_scope_id, ledger_qualified_name)
    from auditor.ledgers import find_ledger

    click.echo(json.dumps(_shown(find_ledger(metadata, named)), indent=2, ensure_ascii=False))


@ledger.command(name="list")
@metadata_option
def list_(metadata: str) -> None:
    """List all ledgers, one JSON object a line; what could not be listed goes to standard error."""
    from auditor.errors import UnreadError
    from auditor.ledgers import list_ledgers

    gaps = 0
    for each in list_ledgers(metadata):
        if isinstance(each, tuple):
            gaps += 1
            click.echo(f"bkaudit: {each[0]}: {each[1]}", err=True)
        else:
            click.echo(json.dumps(_shown(each), ensure_ascii=False, separators=(",", ":")))
    if gaps:
        raise UnreadError("the list is not complete", f"{gaps} places are not in it")


def _shown(stored: StoredLedger) -> dict[str, Any]:
    from auditor.cli.plain import plain

    return {
        "scope_id": str(stored.ledger.scope),
        "ledger_id": str(stored.ledger.id),
        "ledger_qualified_name": stored.ledger.qualified_name,
        "path": stored.path,
        "version": stored.version,
        "ctime": stored.ctime,
        "mtime": stored.mtime,
        "metadata": plain(stored.metadata),
        "damage": stored.damage,
        "rules": list(stored.rules),
    }
