"""Texts of the program that people read: ``python -m tests.messages`` prints each with its place, for review.

Texts are string literals with at least two blanks; an f-string has the code of its expressions in braces.
Docstrings, SQL and patterns are left out. The rules of `FAULTS` that a text breaks stand
behind it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from tests.house import ROOT

_SQL = re.compile(
    r"\bAS [a-z_]+|\b[A-Za-z_]+\(.*,.*\)|\bCASE WHEN\b|\bSELECT\b|\bUSING\b|\bJOIN .* ON\b"
    r"|\b(?:IS|is) (?:(?:NOT|not) )?(?:NULL|null)\b|\bas bigint\b"
)
_EXPRESSION = re.compile(r"\{[^}]*\}")
_CLAUSE_END = re.compile(r"(?<=[.;:!?])(?:\{[^}]*\})?\s+|\n\n")
_SENTENCE_END = re.compile(r"(?<=[.!?])(?:\{[^}]*\})?\s+|\n\n")
_WORD = re.compile(r"(?:\{[^}]*\}|[^\s{])+")

MANUAL = ROOT / "auditor/checks/manual.py"
"""Commands of the pages of checks: a document."""

MAX_WORDS = 20
"""Largest number of words of a clause."""

OLD_LABELS = (
    r"^(?:so|looked at|suspect|do now|see to|could not be seen):? *$",
    r"\bin doubt\b",
    r"\b[Rr]emarks?\b",
    r"\blooked at\b",
    r"\bblind\b",
    r"\bdestroys\b(?!-data)",
    r"\bnear loss\b",
    r"\bworth knowing\b",
    r"\bnothing presses\b",
    r"\bknocked\b",
    r"\bpromised\b",
    r"\b(?:is|are) none of\b",
    r"\brests? on what\b",
    r"\blies? (?:past|beside|beyond)\b",
    r"\bhave (?:their|its) ledgers copied\b",
    r"^have\b.*\b(?:copied|marked)\b",
    r"\bgive the audit\b",
    r"\bforecast by server defaults\b",
    r"\bread anew\b|\bbegun anew\b|\bbegan anew\b",
    r"\btaken away\b|\btake away\b",
    r"\bnobody's\b",
)
"""Patterns of labels and idioms that the writing guide replaced; a text that has one is an old text."""


class Message(NamedTuple):
    """A text, and the module and line in which it begins."""

    module: str
    line: int
    text: str

    @property
    def faults(self) -> list[str]:
        """The rules of the writing guide that the text breaks."""
        return [rule for rule, find_fault in FAULTS.items() if find_fault(self.text)]


def count_words(clause: str) -> int:
    """Return how many words a clause has; an expression is a part of a word.

    >>> count_words("bookie {bookie_id}: not registered; see tables/holds")
    6
    """
    return sum(any(map(str.isalnum, word)) for word in _WORD.findall(clause))


def has_long_clause(text: str) -> bool:
    """Return whether a clause has too many words; full stops, colons and semicolons end a clause.

    >>> has_long_clause("word " * 20), has_long_clause("word " * 21), has_long_clause("word; " * 21)
    (False, True, False)
    """
    return any(count_words(clause) > MAX_WORDS for clause in _CLAUSE_END.split(text))


def has_riddle(text: str) -> bool:
    """Return whether a sentence begins with "What" and states something.

    >>> has_riddle("What was read."), has_riddle("What to read")
    (True, False)
    """
    return any(
        re.match(r"What\b.*\.$", sentence.strip(), re.DOTALL) is not None
        for sentence in _SENTENCE_END.split(text)
    )


def has_old_label(text: str) -> bool:
    """Return whether a text has a label of the list.

    >>> has_old_label("{blind}: in doubt"), has_old_label("{blind}: unconfirmed")
    (True, False)
    """
    words = _EXPRESSION.sub("", text)
    return any(re.search(label, words) for label in OLD_LABELS)


def repeats_object(text: str) -> bool:
    """Return whether a text names its object, which ends with its first colon, a second time.

    >>> repeats_object("{path}: no such file"), repeats_object("{path}: cannot read {path}")
    (False, True)
    """
    name, colon, problem = text.partition(": ")
    is_object = name.startswith(("--", "{")) and not re.search(r"\s", _EXPRESSION.sub("", name))
    return bool(colon) and is_object and re.search(re.escape(name) + r"(?![\w-])", problem) is not None


FAULTS: Mapping[str, Callable[[str], bool]] = {
    f"a clause above {MAX_WORDS} words": has_long_clause,
    'a sentence that begins with "What"': has_riddle,
    "an old label": has_old_label,
    "its object twice": repeats_object,
}
"""Rules that a program can check, each with a function that returns whether a text breaks it."""


def messages() -> Iterator[Message]:
    """Yield the texts of all modules of the program but its manual, in the order of their places."""
    for path in sorted({*(ROOT / "auditor").rglob("*.py")} - {MANUAL}):
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
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "re.compile":
            skipped.update(node.args)
    for node in ast.walk(tree):
        if not isinstance(node, ast.expr) or node in skipped:
            continue
        text = _text(node)
        if text is not None and text.strip().count(" ") >= 2 and not _SQL.search(_EXPRESSION.sub("{}", text)):
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
        print(f"{message.module}:{message.line}: {message.text!r}", *(f"[{rule}]" for rule in message.faults))
