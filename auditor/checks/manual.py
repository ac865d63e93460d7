"""A check's manual page, read out of a docstring: its sections, and its commands with what each risks.

A command stands in the section Commands, one a bullet, with words in capitals where something is to be
filled in, what it does, and its risk, which begins with a word of `RISKS`:

    - `bookkeeper shell cookie_get BOOKIE`
      prints the store's cookie. Risk: none; it reads metadata.
"""

from __future__ import annotations

import inspect
import re
from collections import Counter
from dataclasses import dataclass

SECTIONS = ("What it finds", "Why it matters", "How sure", "What to do", "Commands", "Limits")
RISKS = {
    "none": "nothing changes, and nothing is felt",
    "load": "nothing changes, but bookies feel it",
    "writes": "something changes, and can be changed back",
    "danger": "something changes that cannot be changed back, or data may be lost",
}
BLANKS = (
    "ID", "BOOKIE", "FIRST", "NEXT", "OLD", "NEW", "FILE", "INSTANCE", "JOURNALS", "LEDGERS", "PASSWORD",
    "ANY", "PATH", "DIR",
)  # fmt: skip
"""Words of a command that stand for something else; NEXT is one past the last entry."""

_SECTION = re.compile(r"^(\w[\w ]+):\n((?:\n|    .*\n?)+)", re.MULTILINE)
_BULLET = re.compile(r"^- ", re.MULTILINE)
_COMMAND = re.compile(rf"`([^`]+)` (.+?)\. Risk: (({'|'.join(RISKS)})\b.*)")


@dataclass(frozen=True, slots=True)
class Command:
    """A command, what it does, and what it may do besides; ``level`` is the first word of ``risk``."""

    text: str
    does: str
    risk: str
    level: str


def sections(page: str) -> dict[str, str]:
    """The text of each section by its heading, in order, out of a cleaned docstring."""
    return {name: inspect.cleandoc(text) for name, text in _SECTION.findall(page)}


def repeated(page: str) -> list[str]:
    """Headings that a page has more than once: of such a section only the last text would be seen.

    >>> repeated("Title.\\n\\nLimits:\\n    One.\\n\\nLimits:\\n    Two.\\n")
    ['Limits']
    """
    counts = Counter(name for name, _ in _SECTION.findall(page))
    return [name for name, count in counts.items() if count > 1]


def commands(text: str) -> tuple[Command, ...]:
    """The commands of a section.

    Raises:
        ValueError: it has none, or one does not say its risk.

    >>> [command] = commands("- `bkaudit decode layout FILE`\\n  shows it. Risk: none; it reads the file.")
    >>> (command.text, command.does, command.risk, command.level)
    ('bkaudit decode layout FILE', 'shows it', 'none; it reads the file.', 'none')
    """
    before, *bullets = _BULLET.split(text)
    found = []
    for bullet in bullets:
        words = " ".join(bullet.split())
        match = _COMMAND.fullmatch(words)
        if match is None:
            raise ValueError(f"no command with its risk: {words}")
        command, does, risk, level = match.groups()
        found.append(Command(command, does, risk, level))
    if before.strip() or not found:
        raise ValueError("commands are told one a bullet")
    return tuple(found)
