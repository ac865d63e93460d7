"""``bkaudit ledger``: metadata of ledgers, straight from a store."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from auditor.cli.options import (
    credentials_option,
    ledger_options,
    metadata_option,
    named_ledger,
    named_scope,
)
from auditor.errors import UsageError

if TYPE_CHECKING:
    from auditor.sources.metadata.ledgers import StoredLedger


@click.group()
def ledger() -> None:
    """Show or list ledgers' metadata."""


@ledger.command()
@click.argument("id", type=int, required=False)
@metadata_option
@ledger_options
@credentials_option
def show(
    id: int | None,
    metadata: str,
    ledger_id: int | None,
    ledger_scope_id: int | None,
    ledger_qualified_name: str | None,
    credentials: str | None,
) -> None:
    """Show the metadata of the ledger ID, as JSON."""
    if id is not None and ledger_id not in (None, id):
        raise UsageError(f"--ledger-id {ledger_id}: the argument says ledger {id}")
    named = named_ledger(id if ledger_id is None else ledger_id, ledger_scope_id, ledger_qualified_name)
    from auditor.sources.metadata.ledgers import find_ledger
    from auditor.sources.metadata.store import StoreOptions

    found = find_ledger(metadata, named, StoreOptions(credentials=credentials))
    click.echo(json.dumps(_ledger_json(found), indent=2, ensure_ascii=False))


@ledger.command(name="list")
@metadata_option
@click.option("--ledger-scope-id", type=int, help="The scope whose ledgers to list.  [default: 0]")
@credentials_option
def list_(metadata: str, ledger_scope_id: int | None, credentials: str | None) -> None:
    """List the ledgers of one scope, one JSON object a line.

    What could not be listed goes to standard error, and the exit code is 3 then.
    """
    scope_id = named_scope(ledger_scope_id)
    from auditor.errors import UnreadError
    from auditor.sources.metadata.ledgers import list_ledgers
    from auditor.sources.metadata.store import StoreOptions

    gaps = 0
    for each in list_ledgers(metadata, scope_id, StoreOptions(credentials=credentials)):
        if isinstance(each, tuple):
            gaps += 1
            click.echo(f"bkaudit: {each[0]}: {each[1]}", err=True)
        else:
            click.echo(json.dumps(_ledger_json(each), ensure_ascii=False, separators=(",", ":")))
    if gaps:
        raise UnreadError("the list is not complete", f"{gaps} places are not in it")


def _ledger_json(stored: StoredLedger) -> dict[str, Any]:
    from auditor.cli.plain import jsonable

    return {
        "scope_id": str(stored.ledger.scope),
        "ledger_id": str(stored.ledger.id),
        "ledger_qualified_name": stored.ledger.qualified_name,
        "path": stored.path,
        "version": stored.version,
        "ctime": stored.ctime,
        "mtime": stored.mtime,
        "metadata": jsonable(stored.metadata),
        "damage": stored.damage,
        "rules": list(stored.rules),
    }
