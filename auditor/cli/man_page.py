"""The manual page ``bkaudit(1)`` as roff source, with the texts of ``--help``.

``python -m auditor.cli.man_page`` writes docs/bkaudit.1, which a wheel installs below share/man/man1.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import click

from auditor.cli import COMMAND_HELP_TEXTS, main

EXIT_CODE_TEXTS = {
    0: (
        "No finding is at or above --fail-on, and everything was checked, except gaps that suppressions "
        "accept."
    ),
    1: "Confirmed findings at or above --fail-on (error by default), or data is lost or about to be "
    "deleted. For decommission: the bookies cannot be removed now.",
    2: "Wrong usage.",
    3: "There are only unconfirmed findings at or above --fail-on, or not everything was checked.",
    4: "A problem in the environment: the metadata store, a file system or Spark.",
    5: "A run is damaged, or metadata is too damaged for a verdict.",
    70: "A bug in the program.",
    130: "An interruption.",
}

VARIABLE_TEXTS = {
    "BKAUDIT_METADATA": "Default of --metadata.",
    "BKAUDIT_BOOKIES": "Default of --bookies.",
    "BKAUDIT_RUNS": "The directory of runs, instead of ./runs.",
    "BKAUDIT_CONF": "Default of --conf.",
    "BKAUDIT_CREDENTIALS": "Default of --credentials.",
    "NO_COLOR": "Turns colour off.",
    "PAGER": "The pager for long pages on a terminal, instead of less(1).",
}


def man_page() -> str:
    """Return the whole page as roff source."""
    context = click.Context(main, info_name="bkaudit", **main.context_settings)
    lines = [
        '.\\" Written by python -m auditor.cli.man_page.',
        '.TH BKAUDIT 1 "" "bookkeeper-auditor" "User Commands"',
        ".SH NAME",
        f"bkaudit {_NAME_SEPARATOR} audit Apache BookKeeper clusters from their metadata and disks",
        ".SH SYNOPSIS",
        *_usage_lines(main, context),
        ".SH DESCRIPTION",
        *_paragraph_lines(main.help or ""),
        ".PP",
        *_text_lines("bkaudit help COMMAND prints the arguments of a command."),
        ".SH COMMANDS",
    ]
    for name in COMMAND_HELP_TEXTS:
        command = main.get_command(context, name)
        assert command is not None
        lines += _command_lines(command, click.Context(command, context, info_name=name))
    lines += [
        ".SH EXIT STATUS",
        *_term_lines({str(code): meaning for code, meaning in EXIT_CODE_TEXTS.items()}),
    ]
    lines += [".SH ENVIRONMENT", *_term_lines(VARIABLE_TEXTS)]
    lines += [".SH EXAMPLES", *_paragraph_lines((main.epilog or "").replace("Examples:\n", ""))]
    return "\n".join(lines) + "\n"


_NAME_SEPARATOR = r"\-"
"""Separator between a page's name and its description, as whatis(1) expects it."""


def _command_lines(command: click.Command, context: click.Context) -> Iterator[str]:
    """Yield the lines of a command's section, then of the sections of its subcommands."""
    yield f".SS {_escape_roff(context.command_path)}"
    yield from _usage_lines(command, context)
    yield from _paragraph_lines(command.help or "")
    option_helps = [parameter.get_help_record(context) for parameter in command.get_params(context)]
    yield from _term_lines(dict(filter(None, option_helps)))
    yield from _paragraph_lines(command.epilog or "")
    if isinstance(command, click.Group):
        for name, subcommand in command.commands.items():
            yield from _command_lines(subcommand, click.Context(subcommand, context, info_name=name))


def _usage_lines(command: click.Command, context: click.Context) -> Iterator[str]:
    """Yield the synopsis of a command, with the words of the command in bold."""
    yield f".B {_escape_roff(context.command_path)}"
    if usage_words := command.collect_usage_pieces(context):
        yield from _text_lines(" ".join(usage_words))


def _paragraph_lines(help_text: str) -> Iterator[str]:
    """Yield the paragraphs of a help text as roff.

    A paragraph that begins with a backspace, click's mark for unfolded text, keeps its lines.
    """
    for paragraph in re.split(r"\n\s*\n", help_text.strip()):
        if not paragraph:
            continue
        yield ".PP"
        if paragraph.startswith("\b"):
            lines = [line for line in paragraph.removeprefix("\b").split("\n") if line]
            yield from (".nf", *(_roff_line(line) for line in lines), ".fi")
        else:
            yield from _text_lines(paragraph)


def _term_lines(text_by_term: dict[str, str]) -> Iterator[str]:
    """Yield each term in bold, and its explanation below the term."""
    for term, text in text_by_term.items():
        yield ".TP"
        yield f".B {_escape_roff(term)}"
        first_paragraph, *further_paragraphs = text.replace("\b\n", "\b").split("\n\n")
        yield from _text_lines(first_paragraph)
        for paragraph in further_paragraphs:
            lines = [line for line in paragraph.removeprefix("\b").split("\n") if line]
            yield from (".IP", ".nf", *(_roff_line(line) for line in lines), ".fi")


def _text_lines(text: str) -> Iterator[str]:
    """Yield a text as one line of roff, which roff folds."""
    yield _roff_line(" ".join(text.split()))


def _roff_line(text: str) -> str:
    """Return a text as a line of roff.

    A line that begins with a dot or quote gets an escape in front. Otherwise roff would treat it as a
    request.
    """
    escaped_text = _escape_roff(text)
    return rf"\&{escaped_text}" if escaped_text.startswith((".", "'")) else escaped_text


def _escape_roff(text: str) -> str:
    """Return a text in which roff's special characters and those outside ASCII are escaped by name.

    >>> _escape_roff("a-b \\\\ c: é")
    'a\\\\-b \\\\e c: \\\\[u00E9]'
    """
    text = text.replace("\\", r"\e").replace("-", r"\-").replace("'", r"\(aq").replace("`", r"\(ga")
    text = text.replace("^", r"\(ha").replace("~", r"\(ti").replace('"', r"\(dq")
    return "".join(character if character.isascii() else rf"\[u{ord(character):04X}]" for character in text)


if __name__ == "__main__":
    Path("docs/bkaudit.1").write_text(man_page(), "utf-8")
