"""The terminal that output goes to: how wide it is, and what it can show."""

from __future__ import annotations

import shutil
import sys

NARROWEST, WIDEST = 40, 100
"""Text is folded within these, however wide the terminal is."""


def columns() -> int:
    """How wide text may be; 80 where standard output is no terminal."""
    return shutil.get_terminal_size((80, 24)).columns


def takes_unicode() -> bool:
    """Whether standard output can print what drawings use."""
    try:
        "█○◐·".encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True
