"""Texts of the program that people read: ``python -m tests.messages`` prints each with its place, for review.

Texts are string literals with at least two blanks; an f-string has the code of its expressions in braces. The
texts of HTML templates follow.
Docstrings, SQL and patterns are left out. A text follows the label that its reader sees with it, such as an
option or a column. The rules of `FAULTS` that the text breaks follow it. Literals without prose, such as
commands, are listed separately at the end.
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
_TAG = re.compile(r"<[^>]*>")
_BLOCK_TAG = re.compile(
    r"</?(?:p|li|ul|dl|dt|dd|div|td|th|tr|h\d|caption|figcaption|summary|option|label|span)\b[^>]*>"
)
_PROSE_WORD = re.compile(r"(?<![\w.$-])[A-Za-z]{2,}(?![\w=])")
_COMMAND = re.compile(
    r"^(?:bkaudit|spark-submit|curl) (?!.*\b(?:shows|makes|prints|lists)\b)|^\.[A-Z]{2} "
    r"|^(?:ledgermetadata|readledger|deleteledger|recover|cookie_\w+|listunderreplicated|regenerate-\S+) -"
)
_CODE = re.compile(
    r"(?:<>|!=| = '| [<>]=? \d|\bin \('|\bcount_if\(|array<)|^\w+ = \w+$|^size\("
    r"|^\w+ (?:string|boolean|bigint|long)(?:,|$)|^\w+(?:, \w+)*, \w*_\w+|^(?:not )?in_m\d|%\(\w+\)s"
)
_NAME = re.compile(r"(?:--)?[a-z][\w-]*")

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
    """A text, and the module and line where it starts. ``label`` is empty if no label is known."""

    module: str
    line: int
    text: str
    label: str = ""

    @property
    def faults(self) -> list[str]:
        """Return the rules of the writing guide that the text breaks."""
        return [rule for rule, find_fault in FAULTS.items() if find_fault(self.text)]


def count_words(clause: str) -> int:
    """Return the number of words of a clause. An expression counts as part of a word.

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
    """Return whether a text contains one of `OLD_LABELS`.

    >>> has_old_label("{blind}: in doubt"), has_old_label("{blind}: unconfirmed")
    (True, False)
    """
    words = _EXPRESSION.sub("", text)
    return any(re.search(label, words) for label in OLD_LABELS)


def repeats_object(text: str) -> bool:
    """Return whether a text repeats its object, which is the part before its first colon.

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


def is_prose(text: str) -> bool:
    """Return whether a text has two words beside expressions and tags, and is no command or condition.

    >>> is_prose("{count} ledgers lost"), is_prose("<b>{count}</b> of"), is_prose("curl -X PUT URL")
    (True, False, False)
    """
    words = _TAG.sub(" ", _EXPRESSION.sub(" ", text))
    return (
        len(_PROSE_WORD.findall(words)) > 1
        and _COMMAND.search(text.strip()) is None
        and _CODE.search(text) is None
    )


def messages() -> Iterator[Message]:
    """Yield the texts of all modules of the program except its manual, then those of its templates."""
    for path in sorted({*(ROOT / "auditor").rglob("*.py")} - {MANUAL}):
        for line, label, text in texts_of(path.read_text("utf-8")):
            yield Message(str(path.relative_to(ROOT)), line, text, label)
    for path in sorted((ROOT / "auditor").rglob("*.j2")):
        for line, text in template_texts(path.read_text("utf-8")):
            yield Message(str(path.relative_to(ROOT)), line, text)


def template_texts(source: str) -> Iterator[tuple[int, str]]:
    """Yield line and text of the paragraphs, cells and labels of a template; tags in a text are left out.

    >>> list(template_texts('<p>All {{ found }} <b>findings</b>{% if most %} of many{% endif %}.</p>'))
    [(1, 'All {found} findings of many.')]
    """
    for line, markup in enumerate(source.splitlines(), 1):
        branches = re.sub(r"\{%-? *el(?:se|if).*?%\}", "<p>", markup)
        plain = re.sub(r"\{\{(.*?)\}\}", r"{\1}", re.sub(r"\{%.*?%\}|<svg.*?</svg>", "", branches))
        labels = re.findall(r'(?:aria-label|placeholder|data-label)="([^"]*)"', plain)
        for part in (*labels, *_BLOCK_TAG.split(plain)):
            text = re.sub(r"\{ *(.*?) *\}", r"{\1}", " ".join(_TAG.sub("", part).split()))
            if text.count(" ") >= 2:
                yield line, text


def texts_of(source: str) -> Iterator[tuple[int, str, str]]:
    """Yield line, label and text of the literals of a module that people may read.

    >>> list(texts_of('"Doc."\\nprint(f"bookie {name}: not read")'))
    [(2, '', 'bookie {name}: not read')]
    """
    for node, label in _labeled(ast.parse(source), ""):
        text = _text(node)
        if text is not None and text.strip().count(" ") >= 2 and not _SQL.search(_EXPRESSION.sub("{}", text)):
            yield node.lineno, label, text


def _labeled(node: ast.AST, label: str) -> Iterator[tuple[ast.expr, str]]:
    """Yield the literals of a node, and the label of each; docstrings and patterns are left out."""
    if isinstance(node, ast.expr) and _text(node) is not None:
        yield node, label
        return
    for child, child_label in _children(node, label):
        yield from _labeled(child, child_label)


def _children(node: ast.AST, label: str) -> Iterator[tuple[ast.AST, str]]:
    """Yield the nodes below a node that may contain texts, and the label of each."""
    match node:
        case ast.Expr(value=ast.Constant()):
            return
        case ast.Call(func=function) if ast.unparse(function) == "re.compile":
            return
        case ast.ClassDef(name=name):
            yield from ((child, name) for child in node.body)
        case ast.FunctionDef(name=name, decorator_list=decorators):
            is_check = any("check" in ast.unparse(decorator).partition("(")[0] for decorator in decorators)
            label = name.replace("_", "-") if is_check else ""
            yield from ((child, label) for child in ast.iter_child_nodes(node))
        case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation, value=value):
            yield annotation, f"{label}.{name}" if label else name
            if value is not None:
                yield value, ""
        case ast.Assign(
            targets=[ast.Name(id=name)], value=ast.Call(func=ast.Name(id="make_schema")) as schema
        ):
            yield from ((child, name.lower()) for child in schema.args)
        case ast.Assign(value=value):
            yield value, ""
        case ast.Dict(keys=keys, values=values):
            yield from ((key, label) for key in keys if key is not None)
            yield from ((value, _key_name(key) or label) for key, value in zip(keys, values, strict=True))
        case ast.Tuple(elts=[ast.Constant(value=str(head)), *further]) if _NAME.fullmatch(head):
            yield from ((child, f"{label}.{head}" if label else head) for child in further)
        case ast.Call(args=[ast.Constant(value=str(head)), *further]) if _NAME.fullmatch(head):
            yield node.func, label
            label = f"{label}.{head}" if label else head
            yield from ((child, label) for child in (*further, *node.keywords))
        case _:
            yield from ((child, label) for child in ast.iter_child_nodes(node))


def _key_name(key: ast.expr | None) -> str:
    """Return the name of a key of a mapping: its text, or the last part of its name; empty for other keys."""
    match key:
        case ast.Constant(value=str(name)):
            return name
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name.lower().replace("_", "-")
    return ""


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
    without_prose = []
    for message in messages():
        label = f" {message.label}:" if message.label else ""
        line = f"{message.module}:{message.line}:{label} {message.text!r}"
        if is_prose(message.text):
            print(line, *(f"[{rule}]" for rule in message.faults))
        else:
            without_prose.append(line)
    print("", "Without prose:", *without_prose, sep="\n")
