"""``bkaudit conf``: prints the text files that come with the program.

In a wheel, these files are in auditor/shipped.
"""

from pathlib import Path

import click

from auditor.errors import UsageError

SHIPPED_FOLDERS = ("conf", "schemas", "jobs", "docs", "notebooks")

_PACKAGE_DIRECTORY = Path(__file__).parents[1]


def project_files() -> dict[str, Path]:
    """Return the path of every text file that comes with the program, by name.

    The name of a file in conf/ is its path below conf/. Other names begin with the folder, as in jobs/NAME.
    """
    paths_by_name = {}
    for folder_name in SHIPPED_FOLDERS:
        candidate_folders = [
            _PACKAGE_DIRECTORY / "shipped" / folder_name,
            _PACKAGE_DIRECTORY.parent / folder_name,
        ]
        folder_path = next(
            (candidate_path for candidate_path in candidate_folders if candidate_path.is_dir()), None
        )
        if folder_path is None:
            continue
        for file_path in sorted(folder_path.rglob("*")):
            if file_path.is_file() and "__pycache__" not in file_path.parts and file_path.suffix != ".png":
                name = file_path.relative_to(folder_path).as_posix()
                paths_by_name[name if folder_name == "conf" else f"{folder_name}/{name}"] = file_path
    return paths_by_name


def _complete_file_names(_: click.Context, __: click.Parameter, word_start: str) -> list[str]:
    return [name for name in project_files() if name.startswith(word_start)]


@click.group()
def conf() -> None:
    """Show examples of configuration, schemas, jobs, documents and notebooks that come with the program."""


@conf.command(name="list")
def list_() -> None:
    """List the names of the files."""
    _print_file_names()


@conf.command()
@click.argument("name", required=False, shell_complete=_complete_file_names)
def show(name: str | None) -> None:
    """Show the file NAME. Without NAME, list all files."""
    if name is None:
        _print_file_names()
        return
    click.echo(_path_of_file(name).read_text("utf-8"), nl=False)


@conf.command()
@click.argument("name", required=False, shell_complete=_complete_file_names)
def path(name: str | None) -> None:
    """Print the path of the file NAME, for spark-submit and other tools."""
    click.echo(_path_of_file(name))


def _print_file_names() -> None:
    for name in project_files():
        click.echo(name)


def _path_of_file(name: str | None) -> Path:
    paths_by_name = project_files()
    if name is None:
        raise UsageError(f"NAME: missing. It must be one of {', '.join(paths_by_name)}")
    if name not in paths_by_name:
        raise UsageError(f"{name!r}: no such file. It must be one of {', '.join(paths_by_name)}")
    return paths_by_name[name]
