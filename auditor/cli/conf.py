"""``bkaudit conf``: the examples, schemas, jobs and documents that come with the program."""

from __future__ import annotations

from pathlib import Path

import click

from auditor.cli import completion
from auditor.cli.project_files import project_files
from auditor.errors import UsageError


@click.group()
def conf() -> None:
    """Show the examples of configuration, schemas, jobs and documents that come with the program."""


@conf.command(name="list")
def list_() -> None:
    """List their names."""
    _list()


@conf.command()
@click.argument("name", required=False, shell_complete=completion.project_files)
def show(name: str | None) -> None:
    """Show the file NAME; without a name, the list of all."""
    if name is None:
        _list()
        return
    click.echo(_file(name).read_text("utf-8"), nl=False)


@conf.command()
@click.argument("name", required=False, shell_complete=completion.project_files)
def path(name: str | None) -> None:
    """Say where the file NAME is, for spark-submit and for other tools."""
    click.echo(_file(name))


def _list() -> None:
    for name in project_files():
        click.echo(name)


def _file(name: str | None) -> Path:
    files = project_files()
    if name is None:
        raise UsageError(f"name one of {', '.join(files)}")
    if name not in files:
        raise UsageError(f"{name!r} is not one of {', '.join(files)}")
    return files[name]
