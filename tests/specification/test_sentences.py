"""Every sentence of SENTENCES.md has exactly one test, and every specification test names a sentence."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

from tests.syntax import syntax_tree

TEST_DIR = Path(__file__).parent


def listed_sentences() -> list[str]:
    text = (TEST_DIR / "SENTENCES.md").read_text("utf-8")
    return re.findall(r"^\| ((?:34|35|41|IN)-[0-9]{2}) \| \S", text, re.MULTILINE)


def named_sentences() -> list[tuple[str, list[str]]]:
    """Return the tests of this directory, except this file, each with the sentences that it names."""
    tests = []
    for file in sorted(TEST_DIR.glob("test_*.py")):
        if file == Path(__file__):
            continue
        for node in syntax_tree(file).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                calls = [decorator for decorator in node.decorator_list if isinstance(decorator, ast.Call)]
                numbers = [
                    str(ast.literal_eval(call.args[0]))
                    for call in calls
                    if isinstance(call.func, ast.Name) and call.func.id == "sentence"
                ]
                tests.append((f"{file.name}: {node.name}", numbers))
    return tests


def test_every_sentence_is_listed_once() -> None:
    assert [number for number, count in Counter(listed_sentences()).items() if count > 1] == []
    assert len(listed_sentences()) > 70


def test_every_sentence_has_exactly_one_test() -> None:
    counts = Counter(number for _, numbers in named_sentences() for number in numbers)
    assert counts == Counter(listed_sentences())


def test_every_specification_test_names_one_sentence() -> None:
    assert [name for name, numbers in named_sentences() if len(numbers) != 1] == []
