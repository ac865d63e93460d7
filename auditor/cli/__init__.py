"""The ``bkaudit`` command.

The module of a command is imported only when the command is called, so that ``bkaudit --help`` answers at
once. Only this module converts the package's exceptions into a one-line message and an exit code.
"""

import errno
import importlib
import sys
import traceback
from typing import Any, NoReturn

import click

from auditor.cli.examples import epilog, with_examples
from auditor.cli.interrupts import repeat_interrupts
from auditor.cli.streams import flush_output, guard_streams
from auditor.cli.verbosity import ARGUMENTS_KEY, Interruption, silence_gateway
from auditor.errors import AuditorError, OutputError, system_error_text

INTERRUPTED_EXIT_CODE = 130
"""Exit code of an interrupted command, as shells define it: 128 plus the number of SIGINT."""

BUG_EXIT_CODE = 70
"""Exit code of an unforeseen error. Python's own exit code, 1, would claim that the audit found faults."""

PROGRAM_ERRNOS = frozenset((errno.EPIPE, errno.EBADF))
"""Error numbers of the operating system that count as bugs: a wrong use of a pipe or descriptor.

All other errors come from the environment, where a traceback does not help: network file systems raise errors
that no list foresees (ESTALE, ENOTCONN, ETIMEDOUT). Standard streams handle their own errors
(`auditor.cli.streams`).
"""

PIP_PACKAGES = {
    "google_crc32c": "google-crc32c",
    "google": "protobuf",
    "grpc": "grpcio",
    "etcd3": "python3-etcd3",
    "puresasl": "pure-sasl",
    "py4j": "pyspark",
    "pyrex_rocksdb": "pyrex-rocksdb",
    "tomli_w": "tomli-w",
}
"""Name of the pip package for each module whose package has another name than the module."""

COMMAND_HELP_TEXTS = {
    "demo": "Audit a sample cluster on an embedded ZooKeeper, end to end.",
    "doctor": "Check whether everything that an audit needs is available.",
    "audit": "Compare metadata with bookies' indexes, and report faults.",
    "watch": "Audit repeatedly, with one line and metrics for each round.",
    "scan": "Read only the metadata, and write it as tables.",
    "collect": "Write bookies' directories as tables that can be audited elsewhere.",
    "dump": "Save a running store's metadata in a file that can be audited elsewhere.",
    "status": "Print one line on the result of the newest run.",
    "report": "Show the report of a finished run again.",
    "diff": "List what is new, worse, better or fixed between two runs.",
    "compare": "Check whether one metadata store has everything that another has.",
    "history": "List the runs in a directory, and the changes between them.",
    "decommission": "Show whether bookies can be decommissioned, and what must be copied.",
    "plan": "Plan the repair of a run's findings. bkaudit never applies a plan.",
    "space": "Show what fills the bookies' disks, and which steps free the most space.",
    "simulate": "Show what would be lost if bookies, racks or regions failed.",
    "prune": "Remove old runs from a directory; without --yes, only list them.",
    "explain": "Explain a run, one of its ledgers, bookies or topics, or a check.",
    "ledger": "Show or list ledgers' metadata.",
    "conf": "Show the examples, schemas, jobs and documents that come with the program.",
    "decode": "Decode a file of a known format to JSON.",
    "encode": "Encode entry ids as bookies list them (BP-34).",
    "help": "Show the help of the program or of a command, or the manual page.",
    "version": "Print the version of the program.",
}


COMMAND_MODULES = {
    "scan": "audit",
    "status": "history",
    "diff": "history",
    "decommission": "simulate",
    "space": "report",
    "version": "help",
}
"""Module of each command whose module has another name than the command."""


class LazyGroup(click.Group):
    """Group that lists its commands and their help without importing them.

    The module of a command is imported only when the command is needed.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands in the order of the README."""
        return list(COMMAND_HELP_TEXTS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return the command ``cmd_name``. None if there is no such command."""
        if cmd_name not in COMMAND_HELP_TEXTS:
            return None
        module = importlib.import_module(f"auditor.cli.{COMMAND_MODULES.get(cmd_name, cmd_name)}")
        command: click.Command = getattr(module, cmd_name)
        return with_examples(command, cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Split ``args`` into the name of a command, the command, and its arguments.

        If there is no such command, raise an error that suggests similar names. The suggestions come from
        the list of names, so that no module is imported for them.
        """
        try:
            return super().resolve_command(ctx, args)
        except click.NoSuchCommand as error:
            raise click.NoSuchCommand(error.command_name, possibilities=COMMAND_HELP_TEXTS, ctx=ctx) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands for --help without loading the module of any command."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMAND_HELP_TEXTS.items()))

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **click_settings: Any,
    ) -> click.Context:
        """Return the context of the program, which also stores the original arguments.

        `Interruption` later needs these arguments to tell the user how to resume the command.
        """
        arguments = list(args)
        try:
            context = super().make_context(info_name, args, parent, **click_settings)
        except KeyboardInterrupt:  # without this, click ends with 1
            click.echo("bkaudit: interrupted", err=True)
            raise click.exceptions.Exit(INTERRUPTED_EXIT_CODE) from None
        context.meta[ARGUMENTS_KEY] = arguments
        return context

    def main(self, *args: Any, **click_settings: Any) -> Any:
        """Run the program. Closed streams and broken pipes do not change its exit code."""
        try:
            with repeat_interrupts(), guard_streams():
                try:
                    return super().main(*args, **click_settings)
                except OutputError as error:  # from --help and --version, which click prints itself
                    click.echo(f"bkaudit: {error}", err=True)
                    sys.exit(error.exit_code)
        except KeyboardInterrupt:  # before a command began, or after it ended
            click.echo("bkaudit: interrupted", err=True)
            sys.exit(INTERRUPTED_EXIT_CODE)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command, and convert its errors into a message and an exit code."""
        try:
            with flush_output(), silence_gateway():
                return super().invoke(ctx)
        except AuditorError as error:
            click.echo(f"bkaudit: {error}", err=True)
            ctx.exit(error.exit_code)
        except KeyboardInterrupt as interruption:
            resume_note = (
                f"; to resume: {interruption.command}" if isinstance(interruption, Interruption) else ""
            )
            click.echo(f"bkaudit: interrupted{resume_note}", err=True)
            ctx.exit(INTERRUPTED_EXIT_CODE)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except OSError as error:
            if error.errno in PROGRAM_ERRNOS:
                self._bug(ctx)
            click.echo(f"bkaudit: {system_error_text(error)}", err=True)
            ctx.exit(AuditorError.exit_code)
        except ModuleNotFoundError as error:
            package_name = (error.name or "auditor").partition(".")[0]
            if package_name == "auditor":
                self._bug(ctx)
            install_command = (
                f"{sys.executable} -m pip install {PIP_PACKAGES.get(package_name, package_name)}"
            )
            click.echo(
                f"bkaudit: {package_name}: this Python package is not installed. Run: {install_command}",
                err=True,
            )
            ctx.exit(AuditorError.exit_code)
        except Exception:
            self._bug(ctx)

    def _bug(self, ctx: click.Context) -> NoReturn:
        traceback.print_exc()
        click.echo("bkaudit: internal error (this is a bug); the command has no result", err=True)
        ctx.exit(BUG_EXIT_CODE)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="bookkeeper-auditor", prog_name="bkaudit")
def main() -> None:
    """Audit Apache BookKeeper clusters from their metadata and disks. bkaudit only reads them."""


main.epilog = epilog("")
