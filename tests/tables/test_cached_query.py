"""What several checks ask of an audit's tables is put together once, and goes with the tables."""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame, SparkSession

from auditor.tables import Tables, cached_query
from tests.checks.tables_builder import tables


def test_the_same_tables_get_the_same_query_and_other_tables_another(spark: SparkSession) -> None:
    made: list[Tables] = []

    @cached_query
    def registered(these: Tables) -> DataFrame:
        """Bookies that are registered."""
        made.append(these)
        return these.bookies.where("registered is not null")

    @cached_query
    def names(these: Tables) -> DataFrame:
        return registered(these).select("bookie_id")

    one = tables(spark, bookies=[{"bookie_id": "bk1"}, {"bookie_id": "bk2", "registered": None}])
    assert registered(one) is registered(one)
    assert [row["bookie_id"] for row in names(one).collect()] == ["bk1"]
    assert len(made) == 1

    later = one.add(bookies=tables(spark, bookies=[{"bookie_id": "bk3"}]).bookies)
    assert [row["bookie_id"] for row in names(later).collect()] == ["bk3"]
    assert made == [one, later]
    assert (registered.__name__, registered.__doc__) == ("registered", "Bookies that are registered.")


def test_what_could_not_be_made_is_made_when_it_is_asked_for_again(spark: SparkSession) -> None:
    tries: list[Tables] = []

    @cached_query
    def refused_at_first(these: Tables) -> DataFrame:
        tries.append(these)
        if len(tries) == 1:
            raise ValueError("not yet")
        return these.bookies

    one = tables(spark, bookies=[{"bookie_id": "bk1"}])
    with pytest.raises(ValueError, match="not yet"):
        refused_at_first(one)
    assert refused_at_first(one) is refused_at_first(one)
    assert len(tries) == 2
