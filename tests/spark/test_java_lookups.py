"""Columns are what they were; Java is asked less."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F

from auditor.spark import java_lookups
from auditor.spark.java_lookups import LONGEST, CachedClass, CachedSequences, keep_lookups

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def commands(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is said to Java from now on, but for objects that are let go."""
    from py4j.clientserver import ClientServerConnection

    said: list[str] = []
    send = ClientServerConnection.send_command

    def listen(self: Any, command: str, *more: Any) -> Any:
        if not command.startswith("m"):
            said.append(command)
        return send(self, command, *more)

    monkeypatch.setattr(ClientServerConnection, "send_command", listen)
    return said


def test_a_function_is_looked_up_once_and_a_short_list_goes_whole(commands: list[str]) -> None:
    F.coalesce("a", "b", "c")
    commands.clear()
    F.coalesce("a", "b", "c")
    # A list of three columns that are known, Scala's sequence of it, and the function.
    assert len(commands) == 3
    assert not [command for command in commands if command.startswith("r")]


def test_a_long_list_goes_in_parts(commands: list[str]) -> None:
    names = [f"c{number}" for number in range(3 * LONGEST)]
    F.concat(*names)
    commands.clear()
    F.concat(*names)
    # Three parts and their sequences, put together twice, and the function.
    assert len(commands) == 9


def test_a_constant_is_made_once_and_is_no_other_constant(spark: SparkSession) -> None:
    values = (1, True, "1", "true", 0, False, None, 1.0, 1 << 40)
    for _ in range(2):
        row = spark.range(1).select(*(F.lit(value) for value in values)).first()
        assert row is not None
        assert tuple(row) == values
        assert [type(value) for value in row] == [type(value) for value in values]


def test_a_name_a_text_and_a_constant_are_said_once(spark: SparkSession, commands: list[str]) -> None:
    made = F.lit("once"), F.col("c"), F.expr("1 + c")
    commands.clear()
    again = F.lit("once"), F.col("c"), F.expr("1 + c")
    assert commands == []
    assert [str(column) for column in again] == [str(column) for column in made]


def test_a_name_means_the_column_of_the_table_that_it_is_asked_of(spark: SparkSession) -> None:
    one, two = spark.range(2).toDF("c"), spark.range(5, 7).toDF("c")
    both = one.crossJoin(two.withColumnRenamed("c", "d"))
    asked = both.where((F.col("c") == 1) & (F.col("d") == 6)).select(F.col("c") + F.col("d"))
    assert [row[0] for row in asked.collect()] == [7]
    assert one.select(F.col("c")).union(two.select(F.col("c"))).count() == 4


@pytest.mark.parametrize("length", [1, 2, LONGEST, LONGEST + 1, 30])
def test_a_list_of_any_length_is_the_same_columns(spark: SparkSession, length: int) -> None:
    row = spark.range(3, 4).select(*(F.lit(number).alias(f"c{number}") for number in range(length))).first()
    assert row is not None
    assert row.asDict() == {f"c{number}": number for number in range(length)}


def test_without_a_column_there_is_none(spark: SparkSession) -> None:
    assert spark.range(1).select().columns == []


def test_it_is_done_once(spark: SparkSession) -> None:
    java: Any = spark.sparkContext._jvm
    keep_lookups(spark)
    kept = getattr(java, java_lookups.SEQUENCES)
    assert type(kept) is CachedSequences
    keep_lookups(spark)
    assert getattr(java, java_lookups.SEQUENCES) is kept
    assert all(type(getattr(java, name)) is CachedClass for name in java_lookups.CLASSES)
