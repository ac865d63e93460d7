"""``bkaudit explain``: one ledger of a run, drawn; one of its bookies; or a check's manual page."""

from __future__ import annotations

import difflib

import click

from auditor.cli.options import ledger_options, named_ledger, newest_run
from auditor.cli.terminal import columns, takes_unicode
from auditor.errors import UsageError


@click.group()
def explain() -> None:
    """Explain one ledger or one bookie of a run, or one check."""


@explain.command()
@click.argument("id", type=int, required=False)
@click.option("--run", metavar="RUN", help="A finished run.  [default: the newest in ./runs]")
@click.option("--ascii", is_flag=True, help="Draw with ASCII characters only.")
@ledger_options
def ledger(
    id: int | None,
    run: str | None,
    ascii: bool,
    ledger_id: int | None,
    ledger_scope_id: int | None,
    ledger_qualified_name: str | None,
) -> None:
    """Draw who should hold which entries of the ledger ID, who does, and what is missing."""
    if id is not None and ledger_id not in (None, id):
        raise UsageError(f"--ledger-id {ledger_id}: the argument says ledger {id}")
    named = named_ledger(id if ledger_id is None else ledger_id, ledger_scope_id, ledger_qualified_name)
    from auditor.reports import ledger as drawing
    from auditor.runs import open_run

    view = open_run(run or newest_run()).ledger(named.id, named.scope)
    click.echo(drawing.render(view, unicode=not ascii and takes_unicode()))


@explain.command()
@click.argument("id")
@click.option("--run", metavar="RUN", help="A finished run.  [default: the newest in ./runs]")
def bookie(id: str, run: str | None) -> None:
    """Tell who the bookie ID is: cookie, disks, registration, ledgers, and what is wrong with it."""
    from auditor.bookie_view import bookie_view
    from auditor.reports import bookie as telling
    from auditor.runs import open_run

    click.echo(telling.render(bookie_view(open_run(run or newest_run()), id)))


@explain.command()
@click.argument("name", required=False)
def check(name: str | None) -> None:
    """Show the manual page of the check NAME; without a name, the list of all."""
    from auditor.checks import ALL, BY_ID

    if name is None:
        width = max(len(each.id) for each in ALL)
        for each in ALL:
            click.echo(f"{each.id:<{width}}  {each.severity:<8}  {each.title}")
        return
    found = BY_ID.get(name)
    if found is None:
        near = difflib.get_close_matches(name, BY_ID, n=1)
        hint = f"; did you mean {near[0]}?" if near else "; bkaudit explain check lists them"
        raise UsageError(f"{name!r} is no check{hint}")
    from auditor.reports.check_pages import page

    click.echo(page(found, max(40, min(columns(), 100))))
