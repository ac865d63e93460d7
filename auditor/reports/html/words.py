"""Numbers, times and texts as the page shows them: jinja2 filters."""

from __future__ import annotations

from auditor.model.amounts import format_time, percent, plural, size
from auditor.reports.plain_text import shorten

__all__ = ["format_time", "group_digits", "percent", "plural", "prose", "shorten", "size"]


def group_digits(value: int) -> str:
    """Digits in threes.

    >>> group_digits(1234567)
    '1,234,567'
    """
    return f"{value:,}"


def prose(text: str) -> list[str]:
    """The paragraphs of a text that was folded into lines; a bullet is a paragraph of its own.

    >>> prose("One\\nline.\\n\\n- a\\n  b\\n- c")
    ['One line.', '- a b', '- c']
    """
    paragraphs: list[str] = []
    for block in text.split("\n\n"):
        begun = False
        for line in block.splitlines():
            if begun and not line.startswith("- "):
                paragraphs[-1] += f" {line.strip()}"
            elif line.strip():
                paragraphs.append(line.strip())
                begun = True
    return paragraphs
