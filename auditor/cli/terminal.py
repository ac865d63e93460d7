"""The terminal: its width, colours for severities, and the pager."""

import os
import re
import shutil
import sys
from typing import Any

import click

from auditor.model.finding import URGENCY_LABELS, Urgency

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
_COLOURS: dict[str, dict[str, Any]] = {
    "critical": {"fg": "red", "bold": True},
    "error": {"fg": "red"},
    "warning": {"fg": "magenta"},
    URGENCY_LABELS[Urgency.DESTROYS_DATA]: {"fg": "red", "bold": True},
    URGENCY_LABELS[Urgency.LOST]: {"fg": "red", "bold": True},
    URGENCY_LABELS[Urgency.NEAR_LOSS]: {"fg": "red"},
    URGENCY_LABELS[Urgency.BELOW_ACK_QUORUM]: {"fg": "red"},
    URGENCY_LABELS[Urgency.UNSEEN]: {"fg": "magenta"},
    "HEALTHY": {"fg": "green", "bold": True},
    "NOT-HEALTHY": {"fg": "red", "bold": True},
    "INCOMPLETE": {"fg": "magenta", "bold": True},
}
_HEADS = re.compile(
    rf"^(critical|error|warning)(?= )|^({'|'.join(URGENCY_LABELS.values())})(?= +[\d,]+ findings?)"
    r"|(?<=\()(critical|error|warning)(?=;)",
    re.MULTILINE,
)
_VERDICT = re.compile(r"^(HEALTHY|NOT-HEALTHY|INCOMPLETE)(?=:)", re.MULTILINE)


def wants_colour() -> bool:
    """Whether standard output is a terminal whose user has not asked for none (no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def colour_words(text: str) -> str:
    """The same text with severities, urgent findings and verdict in colour.

    >>> colour_words("HEALTHY: no finding")
    '\\x1b[32m\\x1b[1mHEALTHY\\x1b[0m: no finding'
    """
    for pattern in (_HEADS, _VERDICT):
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
