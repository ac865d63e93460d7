"""The table that a check is of: without its rows there is nothing to find, so that nobody asks."""

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
from tests.corpora.audited import Asked

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

DERIVED = {"over_replicated", "unindexed"}
FRAMES = {*TABLES, "locks", "empty_directories", *DERIVED}
IN_FULL = DERIVED & {*TABLE_PARTS}
"""Parts that are made to tables of their own."""
OF = sorted({check.asks for check in TABLE_CHECKS if isinstance(check.asks, str)})


def _without(tables: Tables, name: str) -> Tables:
    if name == "unregistered":
        return tables.add(bookies=tables.bookies.where("not named or registered is not null"))
    if name in TABLE_PARTS and name not in IN_FULL:
        for table, condition in TABLE_PARTS[name]:
            others = getattr(tables, table).where(f"not coalesce({condition}, false)")
            tables = tables.add(**{table: others})
        return tables
    return tables.add(**{name: getattr(tables, name).where("false")})


@pytest.mark.parametrize("name", OF)
def test_a_check_is_of_something_that_the_tables_have(name: str) -> None:
    assert name in {*FRAMES, *TABLE_PARTS} or isinstance(getattr(Tables, name), property)


def test_parts_are_of_tables_and_some_check_is_of_each() -> None:
    assert {table for pairs in TABLE_PARTS.values() for table, _ in pairs} <= FRAMES
    assert {*TABLE_PARTS} - {*OF} == {"unindexed"} - {*OF}


def test_a_part_that_is_known_to_be_empty_is_empty(asked: Asked) -> None:
    counts: Counter[str] = Counter()
    for table in sorted({table for pairs in TABLE_PARTS.values() for table, _ in pairs}):
        named = [
            (name, condition) for name, pairs in TABLE_PARTS.items() for of, condition in pairs if of == table
        ]
        [row] = getattr(asked.tables, table).selectExpr(*(f"count_if({each})" for _, each in named)).collect()
        for (name, _), count in zip(named, row, strict=True):
            counts[name] += count
    assert counts.keys() == TABLE_PARTS.keys()
    assert {name for name, count in counts.items() if not count} == {
        *TABLE_PARTS
    } & asked.tables.empty_table_names


WHOLE, ALSO = "dbledger-long", "interleaved-hier"
"""Corpora: the one with findings of most checks, and the other that has more than it of some."""


def test_without_the_table_that_it_is_of_a_check_finds_nothing(asked_of: Callable[[str], Asked]) -> None:
    of = {check.id: check.asks for check in TABLE_CHECKS if isinstance(check.asks, str)}
    first, second = (asked_of(name) for name in (WHOLE, ALSO))
    met, more = ({each.id for each in asked.seen()} & of.keys() for asked in (first, second))
    assert len(met) > 12
    assert more - met
    for asked, names in ((first, OF), (second, sorted({of[id] for id in more - met}))):
        tables = replace(asked.tables, empty_table_names=frozenset())  # so that every check is asked
        there = [name for name in names if name in TABLE_PARTS or hasattr(tables, name)]
        # Some of these are asked of no check by themselves, such as the sizes of disks.
        assert {*names} - {*there} <= OPTIONAL_TABLES, "which were not read"
        each = [
            ask_table_checks([check for check in TABLE_CHECKS if check.asks == name], _without(tables, name))
            for name in there
        ]
        rows: DataFrame = reduce(lambda some, more: some.union(more), each)
        assert [row["id"] for row in rows.select("id").collect()] == []


def test_a_table_that_is_known_to_be_empty_is_empty(asked: Asked) -> None:
    known = [getattr(asked.tables, name, None) for name in asked.tables.empty_table_names]
    assert [table.columns for table in known if table is not None and not table.isEmpty()] == []
