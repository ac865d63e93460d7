"""Width of the terminal, colours for severities, and the pager."""

import os
import re
import shutil
import sys
from typing import Any

import click

from auditor.model.finding import SEVERITY_LABELS, URGENCY_LABELS, Severity, Urgency

MIN_TEXT_COLUMNS, MAX_TEXT_COLUMNS = 40, 100
"""Least and largest number of columns into which text is folded, for very narrow and very wide terminals."""


def terminal_columns() -> int:
    """Return the number of columns of the terminal. It is 80 if standard output is not a terminal."""
    return shutil.get_terminal_size((80, 24)).columns


def page_width() -> int:
    """Return the number of columns for a page: 80 in a pipe, and otherwise the width of the terminal.

    The result is at least `MIN_TEXT_COLUMNS` and at most `MAX_TEXT_COLUMNS`.
    """
    return max(MIN_TEXT_COLUMNS, min(terminal_columns(), MAX_TEXT_COLUMNS))


def fold_width() -> int | None:
    """Return the number of columns for a page, or None in a pipe, where lines are not folded."""
    return page_width() if sys.stdout.isatty() else None


def takes_unicode() -> bool:
    """Return whether standard output can encode the characters of a ledger's drawing."""
    try:
        "█○◐·".encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True


# Yellow is illegible on white, and blue on black. A note has no colour, because it is not urgent.
_SEVERITY_COLOURS: dict[str, dict[str, Any]] = {
    "critical": {"fg": "red", "bold": True},
    "error": {"fg": "red"},
    "warning": {"fg": "magenta"},
}
_COUNT_COLOURS: dict[str, dict[str, Any]] = {
    URGENCY_LABELS[Urgency.DESTROYS_DATA]: {"fg": "red", "bold": True},
    URGENCY_LABELS[Urgency.LOST]: {"fg": "red", "bold": True},
    URGENCY_LABELS[Urgency.NEAR_LOSS]: {"fg": "red"},
    URGENCY_LABELS[Urgency.BELOW_ACK_QUORUM]: {"fg": "red"},
    URGENCY_LABELS[Urgency.UNCHECKED]: {"fg": "magenta"},
    **{SEVERITY_LABELS[Severity(severity)]: colour for severity, colour in _SEVERITY_COLOURS.items()},
    **{
        f"other {SEVERITY_LABELS[Severity(severity)]}": colour
        for severity, colour in _SEVERITY_COLOURS.items()
    },
}
_VERDICT_COLOURS: dict[str, dict[str, Any]] = {
    "HEALTHY": {"fg": "green", "bold": True},
    "NOT HEALTHY": {"fg": "red", "bold": True},
    "INCOMPLETE": {"fg": "magenta", "bold": True},
}
_WORD_COLOURS = {**_SEVERITY_COLOURS, **_COUNT_COLOURS, **_VERDICT_COLOURS}
_WORD_PATTERNS = (
    # On the first screen, a number follows each of these labels.
    re.compile(rf"^({'|'.join(_COUNT_COLOURS)})(?= +[\d,]+)", re.MULTILINE),
    re.compile(r"^(critical|error|warning)(?= )|(?<=\()(critical|error|warning)(?=;)", re.MULTILINE),
    re.compile(rf"^({'|'.join(_VERDICT_COLOURS)})(?=:)", re.MULTILINE),
)


def wants_colour() -> bool:
    """Return whether to print text in colour.

    This needs a terminal as standard output. NO_COLOR must not be set (no-color.org), and TERM must not be
    ``dumb``.
    """
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def colour_words(text: str) -> str:
    """Return a text in which severities, urgencies and verdicts have a colour.

    >>> colour_words("HEALTHY: no finding")
    '\\x1b[32m\\x1b[1mHEALTHY\\x1b[0m: no finding'
    """
    for word_pattern in _WORD_PATTERNS:
        text = word_pattern.sub(
            lambda word_match: click.style(word_match[0], **_WORD_COLOURS[word_match[0]]), text
        )
    return text


def show_text(text: str) -> None:
    """Print a page. If it is longer than the terminal, use the pager ($PAGER, or less).

    A pager shows the beginning of the page first, where the worst findings are. After the pager has ended,
    the last screen stays visible.
    """
    if sys.stdout.isatty() and text.count("\n") + 2 > shutil.get_terminal_size((80, 24)).lines:
        # As git does: F ends at once if the text fits, R keeps colours, X leaves the text on the screen.
        os.environ.setdefault("LESS", "FRX")
        click.echo_via_pager(f"{text}\n")
    else:
        click.echo(text)
