"""Queries that several checks share: each is built once, and released with its tables."""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame, SparkSession

from auditor.tables import Tables, cached_query
from tests.checks.tables_builder import tables


def test_cached_query_is_reused_only_for_same_tables(spark: SparkSession) -> None:
    calls: list[Tables] = []

    @cached_query
    def registered(these: Tables) -> DataFrame:
        """Bookies that are registered."""
        calls.append(these)
        return these.bookies.where("registered is not null")

    @cached_query
    def names(these: Tables) -> DataFrame:
        return registered(these).select("bookie_id")

    first_tables = tables(spark, bookies=[{"bookie_id": "bk1"}, {"bookie_id": "bk2", "registered": None}])
    assert registered(first_tables) is registered(first_tables)
    assert [row["bookie_id"] for row in names(first_tables).collect()] == ["bk1"]
    assert len(calls) == 1

    later = first_tables.add(bookies=tables(spark, bookies=[{"bookie_id": "bk3"}]).bookies)
    assert [row["bookie_id"] for row in names(later).collect()] == ["bk3"]
    assert calls == [first_tables, later]
    assert (registered.__name__, registered.__doc__) == ("registered", "Bookies that are registered.")


def test_failed_cached_query_is_built_again(spark: SparkSession) -> None:
    tries: list[Tables] = []

    @cached_query
    def refused_at_first(these: Tables) -> DataFrame:
        tries.append(these)
        if len(tries) == 1:
            raise ValueError("not yet")
        return these.bookies

    first_tables = tables(spark, bookies=[{"bookie_id": "bk1"}])
    with pytest.raises(ValueError, match="not yet"):
        refused_at_first(first_tables)
    assert refused_at_first(first_tables) is refused_at_first(first_tables)
    assert len(tries) == 2
