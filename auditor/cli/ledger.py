"""``bkaudit ledger``: metadata of ledgers, read directly from a store."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from auditor.cli.defaults import sources
from auditor.cli.options import (
    conf_option,
    credentials_option,
    ledger_options,
    options_from_flags,
    scope_id_of,
    source_options,
)
from auditor.errors import UsageError
from auditor.model.amounts import plural
from auditor.model.ledger_id import LedgerId

if TYPE_CHECKING:
    from auditor.sources.metadata.ledgers import StoredLedger
    from auditor.sources.metadata.store import StoreOptions


@click.group()
def ledger() -> None:
    """Show or list ledgers' metadata."""


@ledger.command()
@ledger_options
@source_options
@conf_option
@credentials_option
def show(
    ledger_id: LedgerId, metadata: str | None, cluster: str | None, conf: Path | None, credentials: str | None
) -> None:
    """Show the metadata of a ledger as JSON.

    ID is the ledger's id, or all 128 bits (scope and id) in 32 hexadecimal digits.
    """
    store_sources = sources(metadata, (), cluster, conf)
    from auditor.sources.metadata.ledgers import find_ledger

    ledger_metadata = find_ledger(store_sources.metadata, ledger_id, _store_options(conf, credentials))
    click.echo(json.dumps(_ledger_json(ledger_metadata), indent=2, ensure_ascii=False))


@ledger.command(name="list")
@click.argument("scope", metavar="[SCOPE]", type=int, required=False)
@source_options
@conf_option
@click.option("--ledger-scope-id", type=int, help="List the ledgers of this BP-35 scope.  [default: 0]")
@credentials_option
def list_(
    scope: int | None,
    metadata: str | None,
    cluster: str | None,
    conf: Path | None,
    ledger_scope_id: int | None,
    credentials: str | None,
) -> None:
    """List the ledgers of SCOPE (upper 64 bits of ids, by default 0) as JSON objects, one on each line.

    Parts of the store that could not be listed are reported on standard error. The exit code is then 3.
    """
    if None not in (scope, ledger_scope_id) and scope != ledger_scope_id:
        raise UsageError(
            f"--ledger-scope-id {ledger_scope_id}: the argument has scope {scope}. Omit the option"
        )
    scope_id = scope_id_of(ledger_scope_id if scope is None else scope)
    store_sources = sources(metadata, (), cluster, conf)
    from auditor.errors import UnreadError
    from auditor.sources.metadata.ledgers import list_ledgers

    gap_count = 0
    for ledger_or_gap in list_ledgers(store_sources.metadata, scope_id, _store_options(conf, credentials)):
        if isinstance(ledger_or_gap, tuple):
            gap_count += 1
            click.echo(f"bkaudit: {ledger_or_gap[0]}: {ledger_or_gap[1]}", err=True)
        else:
            click.echo(json.dumps(_ledger_json(ledger_or_gap), ensure_ascii=False, separators=(",", ":")))
    if gap_count:
        raise UnreadError("the list is incomplete", f"{plural(gap_count, 'path')} could not be listed")


def _store_options(conf: Path | None, credentials: str | None) -> StoreOptions:
    from auditor.sources.metadata.stores import store_options

    return store_options(options_from_flags(conf, {"credentials": credentials}))


def _ledger_json(stored_ledger: StoredLedger) -> dict[str, Any]:
    from auditor.cli.decode import to_json_value

    return {
        "scope_id": str(stored_ledger.ledger.scope),
        "ledger_id": str(stored_ledger.ledger.id),
        "ledger_qualified_name": stored_ledger.ledger.qualified_name,
        "path": stored_ledger.path,
        "version": stored_ledger.version,
        "ctime": stored_ledger.ctime,
        "mtime": stored_ledger.mtime,
        "metadata": to_json_value(stored_ledger.metadata),
        "damage": stored_ledger.damage,
        "rules": list(stored_ledger.rules),
    }
