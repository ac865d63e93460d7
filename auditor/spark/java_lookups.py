"""What PySpark looks up in Java again for every column: kept after the first time.

A column is made in Java. For each function PySpark asks which class has it, then which member that is, and
hands over a list of columns one by one: half of all that a small audit says to Java, thousands of questions
whose answers are always the same. Its view of Java is given these answers here, and lists go in a few parts.
So are columns that stand for a name, a constant or a piece of SQL: nothing changes them, and every check asks
for the same ones.

What is not known here, in a PySpark of another make, is looked up as before.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, reduce
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CLASSES = ("org.apache.spark.sql.functions", "functions", "PythonSQLUtils")
SEQUENCES = "PythonUtils"
LONGEST = 10
"""`java.util.List.of` takes so many elements by themselves."""
ALWAYS_ALIKE = ("col", "lit", "expr")
"""Functions whose column follows from one name, constant or text."""
KEPT = 4096
"""Columns of each of them: an audit has some hundred, and sessions may be long."""


class CachedClass:
    """A Java class whose static methods are looked up once."""

    def __init__(self, found: Any) -> None:
        self._found = found

    def __getattr__(self, name: str) -> Any:
        from py4j.java_gateway import JavaMember

        member = getattr(self._found, name)
        if isinstance(member, JavaMember):  # what a field holds may change
            member = keep_columns(member) if name in ALWAYS_ALIKE else member
            setattr(self, name, member)
        return member


def keep_columns(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A function of one value that keeps the column of each text and whole number; others it makes anew."""
    # Typed: 1 and True are equal, and not the same constant. A member of Java has no docstring to take over.
    kept = lru_cache(KEPT, typed=True)(lambda value: function(value))

    def column(value: Any) -> Any:
        return kept(value) if isinstance(value, (str, int)) else function(value)

    return column


class CachedSequences(CachedClass):
    """`PythonUtils`, which takes lists of objects or names in parts instead of one by one."""

    def __init__(self, found: Any, lists: Any) -> None:
        super().__init__(found)
        self._to_seq = found.toSeq
        self._list_of = lists.of

    def toSeq(self, values: Any) -> Any:  # noqa: N802 - Scala's name
        """Scala's sequence of a list, as `PythonUtils.toSeq` makes it."""
        from py4j.java_gateway import JavaObject

        if not (
            isinstance(values, list)
            and values
            and all(isinstance(value, (JavaObject, str)) for value in values)
        ):
            return self._to_seq(values)
        parts = (
            self._to_seq(self._list_of(*values[at : at + LONGEST])) for at in range(0, len(values), LONGEST)
        )
        return reduce(lambda some, more: some.concat(more), parts)


def keep_lookups(spark: SparkSession) -> None:
    """Tell this process's view of Java what PySpark asks it most; once, however often it is called."""
    java: Any = spark.sparkContext._jvm
    if java is None or SEQUENCES in vars(java):
        return
    for name in CLASSES:
        setattr(java, name, CachedClass(getattr(java, name)))
    setattr(java, SEQUENCES, CachedSequences(getattr(java, SEQUENCES), java.java.util.List))
