"""Command lines that documents, examples and schedules show: the program takes them."""

from __future__ import annotations

from collections.abc import Sequence

import click

from auditor.cli import main


def program_context() -> click.Context:
    """The program's context as a call has it: click keeps the names of --help of a command's first."""
    return click.Context(main, info_name="bkaudit", **main.context_settings)


def parse_command_line(arguments: Sequence[str]) -> None:
    """Words after ``bkaudit`` that name a command and only options of it; nothing is called or opened."""
    command: click.Command = main
    context, words = program_context(), list(arguments)
    while isinstance(command, click.Group):
        subcommand = command.get_command(context, words.pop(0))
        assert subcommand is not None, arguments
        command, context = subcommand, click.Context(subcommand, context)
    command.make_parser(context).parse_args(words)
