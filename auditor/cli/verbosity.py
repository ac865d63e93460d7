"""Options -q, -v and --log-level for messages on standard error, and the message after Ctrl-C."""

import logging
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])

LOG_LEVELS = ("debug", "info", "warning", "error")
_VERBOSITY_KEY = "auditor.verbosity"


class Verbosity(Enum):
    """Level of messages. QUIET has only errors. NORMAL adds progress and hints. VERBOSE adds table names."""

    QUIET = -1
    NORMAL = 0
    VERBOSE = 1


def verbosity() -> Verbosity:
    """Return the message level of the running command. It is NORMAL if no command runs."""
    context = click.get_current_context(silent=True)
    level: Verbosity = context.meta.get(_VERBOSITY_KEY, Verbosity.NORMAL) if context else Verbosity.NORMAL
    return level


def say(message: str) -> None:
    """Print a line on standard error, unless -q is given."""
    if verbosity() is not Verbosity.QUIET:
        click.echo(f"bkaudit: {message}", err=True)


def verbosity_options(command: Command) -> Command:
    """Add -q, -v and --log-level, for long commands that make tables."""
    return _quiet_option(_verbose_option(_log_level_option(command)))


def quietness_options(command: Command) -> Command:
    """Add -q and --log-level, for long commands."""
    return _quiet_option(_log_level_option(command))


def _verbosity_flag(
    short_flag: str, long_flag: str, level: Verbosity, help: str
) -> Callable[[Command], Command]:
    def callback(context: click.Context, _: click.Parameter, is_given: bool) -> None:
        if is_given:
            context.meta[_VERBOSITY_KEY] = level

    return click.option(short_flag, long_flag, is_flag=True, expose_value=False, callback=callback, help=help)


def _set_log_level(_: click.Context, __: click.Parameter, level: str | None) -> None:
    if level is not None:
        if level == "debug":
            # Its debug lines contain the functions sent to tasks, and with them secrets.
            logging.getLogger("py4j").setLevel(logging.INFO)
        logging.basicConfig(level=level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s")


_log_level_option = click.option(
    "--log-level",
    type=click.Choice(LOG_LEVELS),
    expose_value=False,
    callback=_set_log_level,
    help="Log level of Python libraries on standard error.  [default: warning]",
)
_verbose_option = _verbosity_flag(
    "-v", "--verbose", Verbosity.VERBOSE, "Print the name of each table when it is created."
)
_quiet_option = _verbosity_flag("-q", "--quiet", Verbosity.QUIET, "Print only errors on standard error.")


ARGUMENTS_KEY = "auditor.arguments"
"""Key under which the context of the program keeps the original command line arguments."""


GATEWAY_MESSAGES = ("KeyboardInterrupt while sending command.", "Exception while sending command.")
"""Messages that py4j logs with a stack trace before it raises an error.

They are dropped, because the command reports the same error in one line.
"""


@contextmanager
def silence_gateway() -> Iterator[None]:
    """Suppress the stack traces that py4j logs (`GATEWAY_MESSAGES`), while the block runs.

    Otherwise the root logger would print them on standard error.
    """

    def is_unknown_message(log_record: logging.LogRecord) -> bool:
        return log_record.msg not in GATEWAY_MESSAGES

    root_logger = logging.getLogger()
    root_logger.addFilter(is_unknown_message)
    try:
        yield
    finally:
        root_logger.removeFilter(is_unknown_message)


class Interruption(KeyboardInterrupt):
    """KeyboardInterrupt that carries the command line with which a user resumes the work."""

    def __init__(self, command: str) -> None:
        super().__init__(command)
        self.command = command


@contextmanager
def catch_interrupts(out: str) -> Iterator[None]:
    """Convert a KeyboardInterrupt in the block into an `Interruption`.

    The `Interruption` has the command that resumes the run in the directory ``out``.

    Raises:
        Interruption: a KeyboardInterrupt was raised in the block.
    """
    try:
        yield
    except KeyboardInterrupt as interruption:
        context = click.get_current_context().find_root()
        arguments = list(context.meta.get(ARGUMENTS_KEY, ()))
        if not any(argument == "--out" or argument.startswith("--out=") for argument in arguments):
            arguments += ["--out", out]
        raise Interruption(shlex.join(["bkaudit", *arguments])) from interruption
