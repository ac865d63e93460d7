"""Ctrl-C in an audit: one line, with the command that goes on from what was read."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager

import click

ARGUMENTS = "auditor.arguments"
"""Where the context of the whole command keeps what it was called with."""


class Interruption(KeyboardInterrupt):
    """An interruption, with the command that takes the work up again."""

    def __init__(self, command: str) -> None:
        super().__init__(command)
        self.command = command


@contextmanager
def takes_up(out: str) -> Iterator[None]:
    """Name the run directory ``out`` to whoever interrupts the block: the same command goes on there.

    Raises:
        Interrupted: instead of KeyboardInterrupt.
    """
    try:
        yield
    except KeyboardInterrupt as interruption:
        context = click.get_current_context().find_root()
        arguments = list(context.meta.get(ARGUMENTS, ()))
        if not any(each == "--out" or each.startswith("--out=") for each in arguments):
            arguments += ["--out", out]
        raise Interruption(shlex.join(["bkaudit", *arguments])) from interruption
