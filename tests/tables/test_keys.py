"""Every join, group and order of ledgers uses scope and id, because two scopes can have equal ids."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import auditor

PACKAGE = Path(auditor.__file__).parent
# What takes names of columns.
VERBS = {
    *("agg", "join", "select", "groupBy", "group_by", "cogroup", "dropDuplicates", "drop_duplicates"),
    *("orderBy", "sort", "sort_by", "partitionBy", "repartition", "repartitionByRange"),
    *("sortWithinPartitions", "with_samples"),
}


SCOPE_0_MODULES = (
    *("audit/cursor_scan.py", "runs/ledger_topics.py", "runs/load_topic.py", "tables/ownership.py"),
    *("tables/gc_foresight.py", "tables/gc_listing.py", "simulate/owner_losses.py"),
    *(
        "plan/answers.py",
        "plan/bookie_steps.py",
        "plan/index_steps.py",
        "plan/start_steps.py",
        "tables/id_generators.py",
    ),
)
"""Applications refer to ledgers of scope 0 alone, and servers list no others: what joins these takes the rows
of that scope first."""
EXEMPT = (
    *("cli/decode.py", "sources/bookies/entry_logs/reader.py"),
    *("audit/owner_scan.py", "findings/basis.py"),
    *("plan/plan_file.py", "plan/plan_facts.py"),
)
"""They know the fields of a record, and no tables; a plan's ledgers, and marks, are of scope 0 alone.

`audit/owner_scan.py` joins what owners name, which has no scope. `findings/basis.py` joins nothing: it asks
which bookies have an unread index or log, of any ledger."""


def lines_without_scope(source: str) -> Iterator[int]:
    """Yield the lines whose column names include the id of a ledger but not its scope."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            verb = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            columns = node.args if verb in VERBS else []
        elif isinstance(node, ast.Tuple | ast.List | ast.Set):
            # With anything else in it, it is not a list of columns.
            columns = (
                node.elts
                if all(isinstance(element, ast.Constant | ast.Starred) for element in node.elts)
                else []
            )
        else:
            continue
        names = {element.value for element in columns if isinstance(element, ast.Constant)}
        if "ledger_id" in names and "scope_id" not in names:
            yield node.lineno


def test_no_column_list_has_ledger_id_without_scope_id() -> None:
    places = [
        f"{path.relative_to(PACKAGE)}:{line}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if "codecs" not in path.relative_to(PACKAGE).parts  # they know bytes, and no tables
        and str(path.relative_to(PACKAGE)) not in (*SCOPE_0_MODULES, *EXEMPT)
        for line in lines_without_scope(path.read_text("utf-8"))
    ]
    assert places == []


@pytest.mark.parametrize("name", SCOPE_0_MODULES)
def test_modules_that_join_by_ledger_id_alone_filter_scope_0(name: str) -> None:
    source = (PACKAGE / name).read_text("utf-8")
    assert any(lines_without_scope(source)), "it needs no exception any more"
    assert re.search(r"""scope_id(\"\))? ==? 0""", source)


@pytest.mark.parametrize(
    "line",
    [
        'left.join(right, "ledger_id")',
        'left.join(right, ["bookie_id", "ledger_id"])',
        'rows.groupBy("ledger_id").count()',
        'Window.partitionBy("ledger_id", "bookie_id")',
        'KEYS = ("ledger_id", "bookie_id")',
        'with_samples(rows, "bookie_id", "ledger_id")',
    ],
)
def test_key_without_scope_id_is_detected(line: str) -> None:
    assert list(lines_without_scope(line)) == [1]
    assert list(lines_without_scope(line.replace('"ledger_id"', '"scope_id", "ledger_id"'))) == []
