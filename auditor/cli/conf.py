"""``bkaudit conf``: the examples, schemas, jobs and documents that come with the program."""

from __future__ import annotations

from pathlib import Path

import click

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
    """Show examples of configuration, schemas, jobs and documents, or say where they are."""


@conf.command(name="list")
def list_() -> None:
    """List their names."""
    for name in shipped_files():
        click.echo(name)


@conf.command()
@click.argument("name")
def show(name: str) -> None:
    """Show the file NAME."""
    click.echo(_file(name).read_text("utf-8"), nl=False)


@conf.command()
@click.argument("name")
def path(name: str) -> None:
    """Say where the file NAME is, for spark-submit and for other tools."""
    click.echo(_file(name))


def _file(name: str) -> Path:
    files = shipped_files()
    if name not in files:
        raise UsageError(f"{name!r} is not one of {', '.join(files)}")
    return files[name]
