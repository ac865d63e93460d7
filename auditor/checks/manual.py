"""A check's manual page, read out of a docstring: its sections, and its commands with what each risks.

A command stands in the section Commands, one per bullet, with words in capitals where something is to be
filled in. What a command of several pages does and risks is in `auditor.checks.commands`; the page says no
more than why it is of use, if that. Any other says what it does, and its risk, which begins with a word of
`auditor.checks.commands.RISKS`:

    - `bookkeeper shell cookie_get BOOKIE`
      Look at its directories.
    - `bookkeeper shell whoisauditor`
      names it. Risk: none; it reads metadata.
"""

from __future__ import annotations

import inspect
import re
from collections import Counter
from dataclasses import replace

from auditor.checks.commands import RISKS, SHARED, Command

SECTIONS = ("What it finds", "Why it matters", "How sure", "What to do", "Commands", "Limits")
BLANKS = (
    "ID", "BOOKIE", "FIRST", "NEXT", "OLD", "NEW", "FILE", "INSTANCE", "JOURNALS", "LEDGERS", "PASSWORD",
    "ANY", "PATH", "DIR",
)  # fmt: skip
"""Words of a command that stand for something else; NEXT is one past the last entry."""

_SECTION = re.compile(r"^(\w[\w ]+):\n((?:\n|    .*\n?)+)", re.MULTILINE)
_BULLET = re.compile(r"^- ", re.MULTILINE)
_COMMAND = re.compile(rf"`([^`]+)` (.+?)\. Risk: ((?:{'|'.join(RISKS)})\b.*)")
_SHARED = re.compile(r"`([^`]+)`(?: (.+))?\.")


def sections(page: str) -> dict[str, str]:
    """The text of each section by its heading, in order, out of a cleaned docstring."""
    return {name: inspect.cleandoc(text) for name, text in _SECTION.findall(page)}


def repeated_headings(page: str) -> list[str]:
    """Headings that a page has more than once: of such a section only the last text would be seen.

    >>> repeated_headings("Title.\\n\\nLimits:\\n    One.\\n\\nLimits:\\n    Two.\\n")
    ['Limits']
    """
    counts = Counter(name for name, _ in _SECTION.findall(page))
    return [name for name, count in counts.items() if count > 1]


def commands(text: str) -> tuple[Command, ...]:
    """The commands of a section.

    Raises:
        ValueError: it has none, or one does not say its risk, or says again what several pages share.

    >>> [command] = commands("- `bkaudit decode layout FILE` shows it. Risk: none; it reads the file.")
    >>> (command.text, command.does, command.risk, command.level)
    ('bkaudit decode layout FILE', 'shows it', 'none; it reads the file.', 'none')
    >>> commands("- `bookkeeper shell cookie_get BOOKIE` Keep the output.")[0].does
    "prints the bookie's cookie as the store has it. Keep the output"
    """
    before, *bullets = _BULLET.split(text)
    if before.strip() or not bullets:
        raise ValueError("commands are told one per bullet")
    return tuple(_command(" ".join(bullet.split())) for bullet in bullets)


def _command(words: str) -> Command:
    own, shared = _COMMAND.fullmatch(words), _SHARED.fullmatch(words)
    if own is not None and own[1] not in SHARED:
        return Command(*own.groups())
    if own is None and shared is not None and shared[1] in SHARED:
        known = SHARED[shared[1]]
        return known if shared[2] is None else replace(known, does=f"{known.does}. {shared[2]}")
    raise ValueError(f"no command with its risk: {words}")
