"""Numbers, times and texts as the page shows them: jinja2 filters."""

from __future__ import annotations

from auditor.reports.amounts import moment, size
from auditor.reports.plain_text import clip

__all__ = ["clip", "grouped", "moment", "percent", "plural", "prose", "size"]


def grouped(value: int) -> str:
    """Digits in threes.

    >>> grouped(1234567)
    '1,234,567'
    """
    return f"{value:,}"


def plural(number: int, noun: str) -> str:
    """A number of things.

    >>> plural(1, "entry"), plural(2, "entry"), plural(2000, "ledger")
    ('1 entry', '2 entries', '2,000 ledgers')
    """
    if number == 1:
        return f"1 {noun}"
    return f"{number:,} {noun[:-1] + 'ies' if noun.endswith('y') else noun + 's'}"


def percent(part: int, whole: int) -> str:
    """A share that never says 100 % of what is not whole, nor 0 % of what is there.

    >>> percent(3, 4), percent(999_999, 1_000_000), percent(1, 1_000_000), percent(0, 0)
    ('75.0 %', '99.9 %', '0.1 %', 'none')
    """
    if not whole:
        return "none"
    tenths = part * 1000 // whole
    if 0 < part < whole:
        tenths = min(max(tenths, 1), 999)
    return f"{tenths // 10}.{tenths % 10} %" if tenths % 1000 else f"{tenths // 10} %"


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
