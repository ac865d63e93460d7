"""Prose of the documents: ``python -m tests.prose`` prints each page's word count and its faulty sentences.

Headings, blocks of code and HTML comments are not prose. Inline code is one word, and a link counts as its
text. Each list item and each table cell is a separate text. In a cell a semicolon ends a sentence.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]

PAGES = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md")))

MAX_WORDS = 45_000
"""Most words that all pages have together, as ``wc -w`` counts them."""

MAX_SENTENCE_WORDS = 30
MIN_SHORT_SHARE = 0.97
"""Smallest share of all sentences that have at most `MAX_SENTENCE_WORDS` words."""

VAGUE_PHRASES = (
    "and so on",
    "as it were",
    "foretell",
    "foretells",
    "heals",
    "knock",
    "knocked",
    "knocks",
    "lie",
    "lies",
    "nothing is said",
    "nothing presses",
    "see to",
    "sees to",
    "stands",
    "stood",
    "whatever",
    "whoever",
    "worth knowing",
)
"""Phrases that a plain verb or a word of BookKeeper replaces; no page has one in its prose."""

_VAGUE = re.compile(rf"\b(?:{'|'.join(VAGUE_PHRASES)})\b", re.IGNORECASE)
_FENCED = re.compile(r"^( *)```.*?^\1```\n?", re.DOTALL | re.MULTILINE)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_LABEL = re.compile(r"^\*\*[^*]+\*\*\s*")
_CODE = re.compile(r"(`+).+?\1", re.DOTALL)
_SENTENCE_END = re.compile(r"(?<=[.!?])(?<!e\.g\.)(?<!i\.e\.)[\"')*]*\s+")
_LIST_ITEM = re.compile(r"^\s*(?:[-*]|\d+\.) ")
_WORD = re.compile(r"[\w'-]*\w[\w'-]*")


class Sentence(NamedTuple):
    """A sentence of a page, or a text without a full stop."""

    page: str
    text: str

    @property
    def is_long(self) -> bool:
        """Return whether it has more than `MAX_SENTENCE_WORDS` words. Inline code is one word."""
        return len(_WORD.findall(self.text)) > MAX_SENTENCE_WORDS

    @property
    def has_clause_as_subject(self) -> bool:
        """Return whether it begins with "What" and is not a question."""
        return self.text.startswith("What ") and self.text.endswith(".")

    @property
    def vague_phrases(self) -> list[str]:
        """Return the phrases of `VAGUE_PHRASES` in it, in order."""
        return [phrase.lower() for phrase in _VAGUE.findall(self.text)]


def sentences(page: str, text: str) -> list[Sentence]:
    """Return the sentences of a page's prose, given its name and text.

    >>> [part.text for part in sentences("a.md", "# Head\\n\\nRead `a b`. Then\\nwrite.\\n\\n    code\\n")]
    ['Read CODE.', 'Then write.']
    """
    return [Sentence(page, part) for block in _texts(text) for part in _SENTENCE_END.split(block)]


def count_words(text: str) -> int:
    """Return the number of words of a page as ``wc -w`` counts them, including markup and code."""
    return len(text.split())


def _texts(page: str) -> Iterator[str]:
    """Yield paragraphs, list items and table cells, each on one line."""
    page = _FENCED.sub("\n", _COMMENT.sub("", page))
    for block in re.split(r"\n\s*\n", page):
        lines = block.strip("\n").splitlines()
        if not lines or _is_code(lines[0]) or lines[0].startswith("#"):
            lines = [line for line in lines[1:] if lines[0].startswith("#")]
        yield from filter(None, map(_plain, _parts(lines)))


def _is_code(line: str) -> bool:
    return line.startswith("    ") and not _LIST_ITEM.match(line)


def _parts(lines: Iterable[str]) -> Iterator[str]:
    """Yield the cells of table rows, and other lines joined up to the next list item."""
    joined: list[str] = []
    for line in lines:
        if line.lstrip().startswith("|"):
            yield from re.split(r"(?<!\\)\||;", line)
            continue
        if _LIST_ITEM.match(line):
            yield " ".join(joined)
            joined = []
        joined.append(_LIST_ITEM.sub("", line, count=1) if not joined else line.strip())
    yield " ".join(joined)


def _plain(text: str) -> str:
    text = _LABEL.sub("", _CODE.sub("CODE", _LINK.sub(r"\1", text)).strip())
    return "" if set(text) <= set("-: ") else text


def main() -> None:
    """Print the word count of each page and every sentence that a test rejects."""
    total = 0
    for path in PAGES:
        text, name = path.read_text("utf-8"), str(path.relative_to(ROOT))
        total += count_words(text)
        print(f"{count_words(text):7,} words  {name}")
        for sentence in sentences(name, text):
            faults = [*["long"] * sentence.is_long, *["what"] * sentence.has_clause_as_subject]
            if faults := [*faults, *sentence.vague_phrases]:
                print(f"        {', '.join(faults)}: {sentence.text}")
    print(f"{total:7,} words of at most {MAX_WORDS:,}")


if __name__ == "__main__":
    main()
