"""Samples for a reader have the promised number of texts, and depend only on the seed."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.reading_sample import COUNTS, KINDS, main, module_names

pytestmark = pytest.mark.files


def test_equal_seeds_draw_equal_texts_of_each_kind(tmp_path: Path) -> None:
    for name in ("first", "second"):
        main(7, tmp_path / name)
    for kind, count in COUNTS.items():
        first, second = ((tmp_path / name / f"{kind}.md").read_text("utf-8") for name in ("first", "second"))
        assert first == second
        assert first.count("\n\n## ") + first.startswith("## ") == count
    assert {*KINDS} == {*COUNTS}


def test_names_are_listed_below_their_class_and_function() -> None:
    source = """
LIMIT = 1
class Reader:
    path: str
    def read(self, count=2, *parts, **options):
        rows = [row for row in parts]
        def inner(value):
            key = value
        return rows
try:
    pass
except OSError as error:
    _ = 0
"""
    assert [*module_names(ast.parse(source))] == [
        "  LIMIT, error",
        "  class Reader",
        "      path",
        "      read(count, parts, options)",
        "          rows, row",
        "          inner(value)",
        "              key",
    ]
