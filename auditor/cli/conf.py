"""``bkaudit conf``: the examples, schemas, jobs and documents that come with the program."""

from __future__ import annotations

from pathlib import Path

import click

from auditor.cli import completion
from auditor.errors import UsageError

FOLDERS = ("conf", "schemas", "jobs", "docs")
"""Of the project: a wheel has them below ``auditor/shipped``, a checkout beside the package."""

_PACKAGE = Path(__file__).parents[1]


def shipped_files() -> dict[str, Path]:
    """Every file by name: those of conf/ by their own, others with their folder in front."""
    found = {}
    for folder in FOLDERS:
        places = [_PACKAGE / "shipped" / folder, _PACKAGE.parent / folder]
        place = next((each for each in places if each.is_dir()), None)
        for file in sorted(place.iterdir()) if place is not None else []:
            if file.is_file():
                found[file.name if folder == "conf" else f"{folder}/{file.name}"] = file
    return found


@click.group()
def conf() -> None:
    """Show the examples of configuration, schemas, jobs and documents that come with the program."""


@conf.command(name="list")
def list_() -> None:
    """List their names."""
    _list()


@conf.command()
@click.argument("name", required=False, shell_complete=completion.shipped)
def show(name: str | None) -> None:
    """Show the file NAME; without a name, the list of all."""
    if name is None:
        _list()
        return
    click.echo(_file(name).read_text("utf-8"), nl=False)


@conf.command()
@click.argument("name", required=False, shell_complete=completion.shipped)
def path(name: str | None) -> None:
    """Say where the file NAME is, for spark-submit and for other tools."""
    click.echo(_file(name))


def _list() -> None:
    for name in shipped_files():
        click.echo(name)


def _file(name: str | None) -> Path:
    files = shipped_files()
    if name is None:
        raise UsageError(f"name one of {', '.join(files)}")
    if name not in files:
        raise UsageError(f"{name!r} is not one of {', '.join(files)}")
    return files[name]
