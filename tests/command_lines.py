"""Command lines in documents, examples and schedules: helpers that check that the program accepts them."""

from __future__ import annotations

from collections.abc import Sequence

import click

from auditor.cli import main


def program_context() -> click.Context:
    """Return the context of a program call: click takes a command's --help names from its first context."""
    return click.Context(main, info_name="bkaudit", **main.context_settings)


def parse_command_line(arguments: Sequence[str]) -> None:
    """Parse the words after ``bkaudit`` as a command and its own options, without a call or an open file."""
    command: click.Command = main
    context, words = program_context(), list(arguments)
    while isinstance(command, click.Group):
        subcommand = command.get_command(context, words.pop(0))
        assert subcommand is not None, arguments
        command, context = subcommand, click.Context(subcommand, context)
    command.make_parser(context).parse_args(words)
