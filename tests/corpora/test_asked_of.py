"""The table that a check queries: without its rows the check finds nothing, so the audit skips the query."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING

import pytest

from auditor.checks import TABLE_CHECKS
from auditor.findings.table import ask_table_checks
from auditor.tables import Tables
from auditor.tables.parts import TABLE_PARTS
from auditor.tables.run_tables import OPTIONAL_TABLES, TABLES
from tests.corpora.audited import RunWithTables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

DERIVED = {"over_replicated", "unindexed"}
FRAMES = {*TABLES, "locks", "empty_directories", *DERIVED}
IN_FULL = DERIVED & {*TABLE_PARTS}
"""Parts that are made to tables of their own."""
CHECKED_TABLES = sorted({check.asks for check in TABLE_CHECKS if isinstance(check.asks, str)})


def _empty_table(tables: Tables, name: str) -> Tables:
    if name == "unregistered":
        return tables.add(bookies=tables.bookies.where("not named or registered is not null"))
    if name in TABLE_PARTS and name not in IN_FULL:
        for table, condition in TABLE_PARTS[name]:
            remaining_rows = getattr(tables, table).where(f"not coalesce({condition}, false)")
            tables = tables.add(**{table: remaining_rows})
        return tables
    return tables.add(**{name: getattr(tables, name).where("false")})


@pytest.mark.parametrize("name", CHECKED_TABLES)
def test_table_of_every_check_exists(name: str) -> None:
    assert name in {*FRAMES, *TABLE_PARTS} or isinstance(getattr(Tables, name), property)


def test_every_part_belongs_to_a_table_and_has_a_check() -> None:
    assert {table for pairs in TABLE_PARTS.values() for table, _ in pairs} <= FRAMES
    assert {*TABLE_PARTS} - {*CHECKED_TABLES} == {"unindexed"} - {*CHECKED_TABLES}


def test_parts_known_to_be_empty_are_empty(asked: RunWithTables) -> None:
    counts: Counter[str] = Counter()
    for table in sorted({table for pairs in TABLE_PARTS.values() for table, _ in pairs}):
        parts = [
            (name, condition)
            for name, pairs in TABLE_PARTS.items()
            for base, condition in pairs
            if base == table
        ]
        [row] = getattr(asked.tables, table).selectExpr(*(f"count_if({sql})" for _, sql in parts)).collect()
        for (name, _), count in zip(parts, row, strict=True):
            counts[name] += count
    assert counts.keys() == TABLE_PARTS.keys()
    assert {name for name, count in counts.items() if not count} == {
        *TABLE_PARTS
    } & asked.tables.empty_table_names


MAIN_CORPUS, SECOND_CORPUS = "dbledger-long", "interleaved-hier"
"""Corpora: the one with findings of most checks, and the other that has more than it of some."""


def test_check_finds_nothing_without_its_table(asked_of: Callable[[str], RunWithTables]) -> None:
    table_by_check = {check.id: check.asks for check in TABLE_CHECKS if isinstance(check.asks, str)}
    first, second = (asked_of(name) for name in (MAIN_CORPUS, SECOND_CORPUS))
    first_ids, second_set = (
        {result.id for result in run.finding_keys()} & table_by_check.keys() for run in (first, second)
    )
    assert len(first_ids) > 12
    assert second_set - first_ids
    for run, names in (
        (first, CHECKED_TABLES),
        (second, sorted({table_by_check[id] for id in second_set - first_ids})),
    ):
        tables = replace(run.tables, empty_table_names=frozenset())  # so that every check is asked
        present_names = [name for name in names if name in TABLE_PARTS or hasattr(tables, name)]
        # Some of these are asked of no check by themselves, such as the sizes of disks.
        assert {*names} - {*present_names} <= OPTIONAL_TABLES, "which were not read"
        result = [
            ask_table_checks(
                [check for check in TABLE_CHECKS if check.asks == name], _empty_table(tables, name)
            )
            for name in present_names
        ]
        rows: DataFrame = reduce(lambda first_set, second_set: first_set.union(second_set), result)
        assert [row["id"] for row in rows.select("id").collect()] == []


def test_tables_known_to_be_empty_are_empty(asked: RunWithTables) -> None:
    empty_tables = [getattr(asked.tables, name, None) for name in asked.tables.empty_table_names]
    assert [table.columns for table in empty_tables if table is not None and not table.isEmpty()] == []
