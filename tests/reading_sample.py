"""Samples of texts for a reader who does not know the project: ``python -m tests.reading_sample SEED DIR``.

The command draws 40 docstrings, 40 paragraphs of documents, 30 messages, and the names of 40 modules. It
writes one file for each kind. The reader marks each text that must be read twice. The reader also marks each
module in which more than two names need a guess. At most a tenth of each kind may be marked.
"""

from __future__ import annotations

import ast
import random
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path

from tests.messages import is_prose, messages
from tests.prose import PAGES, ROOT
from tests.syntax import syntax_tree
from tests.test_plain_names import bound_names, source_files

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef

COUNTS = {"docstrings": 40, "paragraphs": 40, "messages": 30, "names": 40}
"""Number of texts drawn of each kind."""


def docstrings() -> Iterator[str]:
    """Yield each docstring below its module's path and its definition."""
    for path in source_files():
        tree = syntax_tree(path)
        for node in ast.walk(tree):
            if not isinstance(node, Definition | ast.Module) or (text := ast.get_docstring(node)) is None:
                continue
            yield f"{path.relative_to(ROOT)}\n{_header(node)}{text}"


def _header(node: ast.AST) -> str:
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            result = f" -> {ast.unparse(node.returns)}" if node.returns else ""
            return f"def {node.name}({ast.unparse(node.args)}){result}:\n"
        case ast.ClassDef():
            return f"class {node.name}:\n"
    return ""


def paragraphs() -> Iterator[str]:
    """Yield each paragraph of prose below its page and headings; tables and blocks of code are left out."""
    for page in PAGES:
        headings: dict[int, str] = {}
        text = re.sub(r"^( *)```.*?^\1```$|<!--.*?-->", "", page.read_text("utf-8"), flags=re.S | re.M)
        for block in re.split(r"\n\s*\n", text):
            if heading := re.match(r"(#+) (.*)", block):
                level = len(heading[1])
                headings = {key: title for key, title in headings.items() if key < level} | {
                    level: heading[2]
                }
            elif re.search(r"\w+ \w+ \w+ \w+", block) and not block.lstrip().startswith(("|", "    ", "!")):
                yield f"{page.relative_to(ROOT)}: {' > '.join(headings.values())}\n{block.strip()}"


def message_texts() -> Iterator[str]:
    """Yield each message with the name of its module and its label."""
    for message in messages():
        if is_prose(message.text):
            yield f"{message.module} {message.label}\n{message.text}"


def name_lists() -> Iterator[str]:
    """Yield the names of each module. Names in a function or class follow it, arguments in parentheses."""
    for path in source_files():
        lines = [*module_names(syntax_tree(path))]
        if lines:
            yield "\n".join([str(path.relative_to(ROOT)), *lines])


def module_names(node: ast.Module | Definition, indent: str = "  ") -> Iterator[str]:
    """Yield lines with the names of a module, a class or a function, and of all definitions in it."""
    inner = [child for child in _children(node) if isinstance(child, Definition)]
    own_nodes = [child for child in _children(node) if not isinstance(child, Definition)]
    names = dict.fromkeys(name for child in own_nodes for name in bound_names(child) if name != "_")
    if names:
        yield f"{indent}{', '.join(names)}"
    for child in inner:
        if isinstance(child, ast.ClassDef):
            yield f"{indent}class {child.name}"
        else:
            arguments = [argument.arg for argument in ast.walk(child.args) if isinstance(argument, ast.arg)]
            shown_arguments = ", ".join(name for name in arguments if name not in ("self", "cls"))
            yield f"{indent}{child.name}({shown_arguments})"
        yield from module_names(child, indent + "    ")


def _children(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes below a node, without arguments and without nodes inside a nested definition."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.arguments):
            continue
        yield child
        if not isinstance(child, Definition):
            yield from _children(child)


KINDS: Mapping[str, Callable[[], Iterator[str]]] = {
    "docstrings": docstrings,
    "paragraphs": paragraphs,
    "messages": message_texts,
    "names": name_lists,
}


@cache
def _all_texts(kind: str) -> tuple[str, ...]:
    return tuple(KINDS[kind]())


def main(seed: int, directory: Path) -> None:
    """Write one file for each kind of text, with the texts that ``seed`` draws."""
    directory.mkdir(parents=True, exist_ok=True)
    for kind, count in COUNTS.items():
        drawn_texts = random.Random(f"{seed} {kind}").sample(_all_texts(kind), count)
        numbered_texts = (f"## {number}\n\n{text}\n" for number, text in enumerate(drawn_texts, 1))
        (directory / f"{kind}.md").write_text("\n".join(numbered_texts), "utf-8")


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
