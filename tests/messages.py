"""Texts of the program that people read: ``python -m tests.messages`` prints each with its place, for review.

Texts are string literals with at least two blanks that are no docstrings; an f-string has the code of its
expressions in braces. SQL is left out.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

from tests.house import ROOT

_SQL = re.compile(
    r"\bAS [a-z_]+|\b[a-z_]+\(.*,.*\)|\bCASE WHEN\b|\bSELECT\b|\bIS (NOT )?NULL\b|\bUSING\b", re.IGNORECASE
)
_SENTENCE_END = re.compile(r"(?<=[.;:!?])\s+|\n\n")
_WORD = re.compile(r"\{[^}]*\}|[\w'-]+")


class Message(NamedTuple):
    """A text, and the module and line in which it begins."""

    module: str
    line: int
    text: str

    @property
    def sentences(self) -> list[str]:
        """Its sentences and clauses, as full stops, colons and semicolons part them."""
        return [sentence for sentence in _SENTENCE_END.split(self.text) if sentence]


def count_words(sentence: str) -> int:
    """Return how many words a sentence has; an expression is one.

    >>> count_words("bookie {bookie_id}: not registered")
    4
    """
    return len(_WORD.findall(sentence))


def messages() -> Iterator[Message]:
    """Yield the texts of all modules of the program, in the order of their places."""
    for path in sorted((ROOT / "auditor").rglob("*.py")):
        for line, text in texts_of(path.read_text("utf-8")):
            yield Message(str(path.relative_to(ROOT)), line, text)


def texts_of(source: str) -> Iterator[tuple[int, str]]:
    """Yield line and text of the literals of a module that people may read.

    >>> list(texts_of('"Doc."\\nprint(f"bookie {name}: not read")'))
    [(2, 'bookie {name}: not read')]
    """
    tree = ast.parse(source)
    skipped: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr):
            skipped.add(node.value)
        elif isinstance(node, ast.JoinedStr):
            skipped.update(part for part in ast.walk(node) if part is not node)
    for node in ast.walk(tree):
        if not isinstance(node, ast.expr) or node in skipped:
            continue
        text = _text(node)
        if text is not None and text.strip().count(" ") >= 2 and not _SQL.search(text):
            yield node.lineno, text


def _text(node: ast.expr) -> str | None:
    """Return the text of a literal, with the code of expressions in braces; None for other expressions."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(_part_text(part) for part in node.values)
    return None


def _part_text(part: ast.expr) -> str:
    if isinstance(part, ast.FormattedValue):
        return f"{{{ast.unparse(part.value)}}}"
    return str(part.value) if isinstance(part, ast.Constant) else ast.unparse(part)


if __name__ == "__main__":
    for message in messages():
        print(f"{message.module}:{message.line}: {message.text!r}")
