"""The ``bkaudit`` command.

Each command is a module of its own, loaded when it is called for: ``bkaudit --help`` answers at once. Errors
of the package become one line and an exit code here, and nowhere else.
"""

from __future__ import annotations

import importlib
import traceback
from typing import Any

import click

from auditor.errors import AuditorError

INTERRUPTED = 130
"""As a shell has it: 128 and SIGINT's number."""

BUG = 70
"""An error that nobody foresaw. Python's own 1 would say that findings were found."""

COMMANDS = {
    "demo": "An embedded ZooKeeper and a sample cluster, audited end to end.",
    "doctor": "Say whether everything is there that an audit needs.",
    "audit": "Compare metadata and bookies' indexes, and say what is wrong.",
    "scan": "Read metadata into tables, and nothing else.",
    "collect": "Write bookies' directories as tables, to be audited elsewhere.",
    "report": "Show the report of a finished run again.",
    "diff": "Say what is new, worse, better or fixed between two runs.",
    "history": "List the runs of a directory, and what changed from each to the next.",
    "explain": "Explain one ledger or bookie of a run, or one check.",
    "ledger": "Show or list ledgers' metadata.",
    "decode": "Decode a file of any format this program knows, to JSON.",
}


class LazyGroup(click.Group):
    """Loads a command's module when the command is called; its name and help are known before."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The commands in the order of the README."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command ``auditor.cli.<name>.<name>``."""
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"auditor.cli.{cmd_name}")
        command: click.Command = getattr(module, cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list in --help, without loading any of them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; the one place where errors become a message and an exit code."""
        try:
            return super().invoke(ctx)
        except AuditorError as error:
            click.echo(f"bkaudit: {error}", err=True)
            ctx.exit(error.exit_code)
        except KeyboardInterrupt:
            click.echo("bkaudit: interrupted", err=True)
            ctx.exit(INTERRUPTED)
        except (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError):
            raise
        except Exception:
            traceback.print_exc()
            click.echo("bkaudit: this is a bug of the program; nothing was decided", err=True)
            ctx.exit(BUG)


@click.group(cls=LazyGroup)
@click.version_option(package_name="bookkeeper-auditor", prog_name="bkaudit")
def main() -> None:
    """Audit Apache BookKeeper clusters from what they wrote. It only reads."""
