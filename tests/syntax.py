"""Syntax trees of source files, each parsed once per test process.

Many tests look through the whole package. They read the trees and never change them.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path


@cache
def syntax_tree(path: Path) -> ast.Module:
    """Return the tree of the Python file at ``path``."""
    return ast.parse(path.read_text("utf-8"))


@cache
def syntax_nodes(path: Path) -> tuple[ast.AST, ...]:
    """Return all nodes of the tree of a Python file, in the order of `ast.walk`."""
    return tuple(ast.walk(syntax_tree(path)))
