"""Command lines that documents, examples and schedules show: the program takes them."""

from __future__ import annotations

from collections.abc import Sequence

import click

from auditor.cli import main


def whole_context() -> click.Context:
    """The program's context as a call has it: click keeps the names of --help of a command's first."""
    return click.Context(main, info_name="bkaudit", **main.context_settings)


def taken(arguments: Sequence[str]) -> None:
    """Words after ``bkaudit`` that name a command and only options of it; nothing is called or opened."""
    command: click.Command = main
    context, left = whole_context(), list(arguments)
    while isinstance(command, click.Group):
        found = command.get_command(context, left.pop(0))
        assert found is not None, arguments
        command, context = found, click.Context(found, context)
    command.make_parser(context).parse_args(left)
