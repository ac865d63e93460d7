"""Ctrl-C in an audit: one line, with the command that goes on from what was read."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Iterator
from contextlib import contextmanager

import click

ARGUMENTS = "auditor.arguments"
"""Where the context of the whole command keeps what it was called with."""


OF_THE_GATEWAY = ("KeyboardInterrupt while sending command.", "Exception while sending command.")
"""What py4j logs, with its stack, before it raises what a command then says in a line."""


@contextmanager
def quiet_gateway() -> Iterator[None]:
    """Keep py4j's stacks off standard error while the block runs: it writes them to the root logger."""

    def other(record: logging.LogRecord) -> bool:
        return record.msg not in OF_THE_GATEWAY

    root = logging.getLogger()
    root.addFilter(other)
    try:
        yield
    finally:
        root.removeFilter(other)


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
