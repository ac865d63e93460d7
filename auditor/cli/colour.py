"""Severities and the verdict in colours that can be read on light and on dark; colour alone says nothing."""

from __future__ import annotations

import os
import re
import sys
from typing import Any

import click

# Yellow is lost on white and blue on black; a note is not worth a colour.
_COLOURS: dict[str, dict[str, Any]] = {
    "critical": {"fg": "red", "bold": True},
    "error": {"fg": "red"},
    "warning": {"fg": "magenta"},
    "HEALTHY": {"fg": "green", "bold": True},
    "NOT-HEALTHY": {"fg": "red", "bold": True},
    "INCOMPLETE": {"fg": "magenta", "bold": True},
}
_SEVERITY = re.compile(r"^(critical|error|warning)(?= )|(?<=\()(critical|error|warning)(?=;)", re.MULTILINE)
_VERDICT = re.compile(r"^(HEALTHY|NOT-HEALTHY|INCOMPLETE)(?=:)", re.MULTILINE)


def wants_colour() -> bool:
    """Whether standard output is a terminal whose user has not asked for none (no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def colour_words(text: str) -> str:
    """The same text with severities and verdict in colour.

    >>> colour_words("HEALTHY: no finding")
    '\\x1b[32m\\x1b[1mHEALTHY\\x1b[0m: no finding'
    """
    for pattern in (_SEVERITY, _VERDICT):
        text = pattern.sub(lambda found: click.style(found[0], **_COLOURS[found[0]]), text)
    return text
