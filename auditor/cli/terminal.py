"""The terminal: its width, colours for severities, and the pager."""

import os
import re
import shutil
import sys
from typing import Any

import click

from auditor.model.finding import SEVERITY_LABELS, URGENCY_LABELS, Severity, Urgency

NARROWEST, WIDEST = 40, 100
"""Text is folded within these, however wide the terminal is."""


def columns() -> int:
    """How wide text may be; 80 where standard output is no terminal."""
    return shutil.get_terminal_size((80, 24)).columns


def text_width() -> int:
    """How many columns a page is folded to: those of the terminal within bounds, and 80 in a pipe."""
    return max(NARROWEST, min(columns(), WIDEST))


def terminal_width() -> int | None:
    """How many columns a page is folded to at a terminal; None in a pipe, where programs want whole lines."""
    return text_width() if sys.stdout.isatty() else None


def takes_unicode() -> bool:
    """Whether standard output can print what drawings use."""
    try:
        "█○◐·".encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True


# Yellow is lost on white and blue on black; a note is not worth a colour.
_OF_SEVERITY: dict[str, dict[str, Any]] = {
    "critical": {"fg": "red", "bold": True},
    "error": {"fg": "red"},
    "warning": {"fg": "magenta"},
}
_OF_COUNTS: dict[str, dict[str, Any]] = {
    URGENCY_LABELS[Urgency.DESTROYS_DATA]: {"fg": "red", "bold": True},
    URGENCY_LABELS[Urgency.LOST]: {"fg": "red", "bold": True},
    URGENCY_LABELS[Urgency.NEAR_LOSS]: {"fg": "red"},
    URGENCY_LABELS[Urgency.BELOW_ACK_QUORUM]: {"fg": "red"},
    URGENCY_LABELS[Urgency.UNSEEN]: {"fg": "magenta"},
    **{SEVERITY_LABELS[Severity(severity)]: colour for severity, colour in _OF_SEVERITY.items()},
    **{f"other {SEVERITY_LABELS[Severity(severity)]}": colour for severity, colour in _OF_SEVERITY.items()},
}
_OF_VERDICTS: dict[str, dict[str, Any]] = {
    "HEALTHY": {"fg": "green", "bold": True},
    "NOT HEALTHY": {"fg": "red", "bold": True},
    "INCOMPLETE": {"fg": "magenta", "bold": True},
}
_COLOURS = {**_OF_SEVERITY, **_OF_COUNTS, **_OF_VERDICTS}
_PATTERNS = (
    # A number follows what heads a line of the first screen.
    re.compile(rf"^({'|'.join(_OF_COUNTS)})(?= +[\d,]+)", re.MULTILINE),
    re.compile(r"^(critical|error|warning)(?= )|(?<=\()(critical|error|warning)(?=;)", re.MULTILINE),
    re.compile(rf"^({'|'.join(_OF_VERDICTS)})(?=:)", re.MULTILINE),
)


def wants_colour() -> bool:
    """Whether standard output is a terminal whose user has not asked for none (no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def colour_words(text: str) -> str:
    """The same text with severities, urgent findings and verdict in colour.

    >>> colour_words("HEALTHY: no finding")
    '\\x1b[32m\\x1b[1mHEALTHY\\x1b[0m: no finding'
    """
    for pattern in _PATTERNS:
        text = pattern.sub(lambda match: click.style(match[0], **_COLOURS[match[0]]), text)
    return text


def show_text(text: str) -> None:
    """Print a page; at a terminal, one that is longer than it goes through the pager ($PAGER, or less).

    So its beginning is seen first, where the worst stands, and all of it stays on the screen afterwards.
    """
    if sys.stdout.isatty() and text.count("\n") + 2 > shutil.get_terminal_size((80, 24)).lines:
        # As git has it: end at once where it fits, keep colours, and leave what was shown.
        os.environ.setdefault("LESS", "FRX")
        click.echo_via_pager(f"{text}\n")
    else:
        click.echo(text)
