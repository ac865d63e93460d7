"""``bkaudit help``, which prints the texts of ``--help`` or the manual page, and ``bkaudit version``."""

from importlib.metadata import version as installed_version

import click

from auditor.errors import UsageError


def _complete_commands(context: click.Context, _parameter: click.Parameter, word_start: str) -> list[str]:
    """Return completions of the next word after ``bkaudit help``: commands, or the subcommands of a group."""
    try:
        group, _ = _find_command(context.find_root(), tuple(context.params.get("words") or ()))
    except click.UsageError:
        return []
    subcommand_names = group.list_commands(context) if isinstance(group, click.Group) else []
    return [name for name in subcommand_names if name.startswith(word_start)]


@click.command()
@click.argument("words", metavar="[COMMAND]...", nargs=-1, shell_complete=_complete_commands)
@click.option(
    "--man", "roff", is_flag=True, help="Print the whole manual page in the format that man -l - reads."
)
@click.pass_context
def help(context: click.Context, words: tuple[str, ...], roff: bool) -> None:
    """Show the help of the program or of COMMAND. With --man, show the manual page of the whole program."""
    if roff:
        if words:
            raise UsageError("help --man: prints the manual page of the whole program. Omit COMMAND")
        from auditor.cli.man_page import man_page

        click.echo(man_page(), nl=False)
        return
    command, command_context = _find_command(context.find_root(), words)
    click.echo(command.get_help(command_context))


def _find_command(root_context: click.Context, words: tuple[str, ...]) -> tuple[click.Command, click.Context]:
    """Return the command that ``words`` name, and its context.

    Raises:
        click.UsageError: there is no such command.
    """
    command, context = root_context.command, root_context
    for command_word in words:
        if not isinstance(command, click.Group):
            raise click.UsageError(f"{context.command_path} has no subcommand {command_word!r}.", context)
        _, subcommand, _ = command.resolve_command(context, [command_word])
        if subcommand is None:  # during shell completion, click does not raise an error
            raise click.NoSuchCommand(command_word, ctx=context)
        command, context = subcommand, click.Context(subcommand, context, info_name=command_word)
    return command, context


@click.command()
def version() -> None:
    """Print the version of the program."""
    click.echo(f"bkaudit, version {installed_version('bookkeeper-auditor')}")
