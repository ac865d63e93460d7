"""Only `auditor.spark` checks sizes and empty tables; all other packages only describe the work."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

import pytest

from tests.syntax import syntax_nodes
from tests.test_house import HOUSE, MODULES, floor_of

NAMES_OF_SIZES = {
    *("has_one_task_plans", "is_large", "partitions", "partitions_of", "read_parts"),
    *(
        "DRIVER_SECONDS",
        "DRIVER_READ_BYTES",
        "DRIVER_READ_SECONDS",
        "MAX_MEMORY_BYTES",
        "MAX_BROADCAST_BYTES",
    ),
}
"""Names of `auditor.spark` that tell how large work is."""
METHODS_OF_READERS = {"partitions", "partitions_of"}
ASSEMBLE_TABLES = {"audit/derived_tables.py", "audit/table_cache.py", "tables/__init__.py"}
"""Modules that state which tables are empty."""


def size_questions(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Yield the names in a module's code that ask for sizes."""
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("auditor.spark"):
            yield from (alias.name for alias in node.names if alias.name in NAMES_OF_SIZES)
        elif isinstance(node, ast.Attribute) and node.attr in NAMES_OF_SIZES - METHODS_OF_READERS:
            yield node.attr


def test_only_spark_package_uses_size_functions() -> None:
    uses = [
        f"{module.relative_to(HOUSE)}: {name}"
        for module in MODULES
        if floor_of(module) != "spark"
        for name in size_questions(syntax_nodes(module))
    ]
    assert uses == []


def test_only_spark_package_checks_for_empty_tables() -> None:
    module_paths = [
        str(module.relative_to(HOUSE))
        for module in MODULES
        if floor_of(module) != "spark" and str(module.relative_to(HOUSE)) not in ASSEMBLE_TABLES
        for node in syntax_nodes(module)
        if isinstance(node, ast.Attribute) and node.attr == "empty_table_names"
    ]
    assert module_paths == []


@pytest.mark.parametrize(
    "line",
    [
        "from auditor.spark.query_plans import is_large",
        "if query_plans.has_one_task_plans(spark): pass",
        "execution.read_parts(t)",
    ],
)
def test_size_use_in_source_line_is_detected(line: str) -> None:
    assert list(size_questions(ast.walk(ast.parse(line))))
