"""Columns are what they were; Java is asked less."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F

from auditor.spark import java_lookups, kept_columns
from auditor.spark.java_lookups import LONGEST, CachedFunctions, CachedSequences, keep_lookups
from auditor.spark.kept_columns import KeptColumns

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession


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
    F.coalesce("c", "b", "a")
    # A list of three columns that are known, Scala's sequence of it, and the function.
    assert len(commands) == 3
    assert not [command for command in commands if command.startswith("r")]


def test_a_long_list_goes_in_parts(commands: list[str]) -> None:
    names = [f"c{number}" for number in range(3 * LONGEST)]
    F.concat(*names)
    commands.clear()
    F.concat(*reversed(names))
    # Three parts and their sequences, put together twice, and the function.
    assert len(commands) == 9


def test_a_constant_is_made_once_and_is_no_other_constant(spark: SparkSession) -> None:
    values = (1, True, "1", "true", 0, False, None, 1.0, 1 << 40)
    for _ in range(2):
        row = spark.range(1).select(*(F.lit(value) for value in values)).first()
        assert row is not None
        assert tuple(row) == values
        assert [type(value) for value in row] == [type(value) for value in values]


def columns_of_columns() -> list[Column]:
    """Of names, constants and SQL, and of such by operators, methods, functions and lists."""
    named = F.concat(F.lit("the "), F.col("c").cast("string"), F.expr("1 + c"))
    chosen = F.when((F.col("c") > 3) & ~F.col("d").isNull(), "some").when(F.col("c") < 1, "none")
    return [
        named.alias("n"),
        chosen.otherwise(F.lit(None)),
        F.coalesce("c", F.col("d")).isin(1, 2, 3),
        F.struct("c", (F.col("d") + 1).alias("e")),
    ]


def test_columns_of_names_constants_and_columns_are_said_once(commands: list[str]) -> None:
    made = [str(column) for column in columns_of_columns()]
    assert len(set(made)) == 4
    commands.clear()
    assert [str(column) for column in columns_of_columns()] == made
    assert commands == []


def test_a_column_that_is_kept_is_the_same_in_every_query(spark: SparkSession) -> None:
    for start in (0, 7):
        rows = spark.range(start, start + 5).select(F.col("id").alias("c"), F.lit(1).alias("d"))
        name, chosen, among, pair = columns_of_columns()
        found = rows.select(name, chosen.alias("chosen"), among.alias("among"), pair.alias("pair")).collect()
        assert [row.n for row in found] == [f"the {c}{c + 1}" for c in range(start, start + 5)]
        assert [row.chosen for row in found] == [
            "some" if c > 3 else "none" if c < 1 else None for c in range(start, start + 5)
        ]
        assert [row.among for row in found] == [c in (1, 2, 3) for c in range(start, start + 5)]
        assert [tuple(row.pair) for row in found] == [(c, 2) for c in range(start, start + 5)]


def test_what_is_random_is_made_anew(spark: SparkSession) -> None:
    row = spark.range(1).select(*(F.uuid() for _ in range(2)), *(F.rand() for _ in range(2))).first()
    assert row is not None
    assert len(set(row)) == 4


def test_what_is_no_longer_kept_is_made_again(monkeypatch: pytest.MonkeyPatch, spark: SparkSession) -> None:
    monkeypatch.setattr(kept_columns, "KEPT", 2)
    columns = KeptColumns()
    java: Any = spark.sparkContext._jvm
    functions = java.org.apache.spark.sql.functions
    col, upper = functions.col, functions.upper
    for _ in range(2):
        for name in "abc":
            column = columns.made_by(col, name)
            assert columns.made_by(col, name) is column
            assert str(columns.made_by(upper, column).toString()) == f"upper({name})"


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
    assert all(type(getattr(java, name)) is CachedFunctions for name in java_lookups.FUNCTIONS)
