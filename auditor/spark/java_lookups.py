"""What PySpark looks up in Java again for every column: kept after the first time.

A column is made in Java. For each function PySpark asks which class has it, then which member that is, and
hands over a list of columns one by one: half of all that a small audit says to Java, thousands of questions
whose answers are always the same. Its view of Java is given these answers here, lists go in a few parts, and
columns are kept themselves (`auditor.spark.kept_columns`).

What is not known here, in a PySpark of another make, is looked up as before.
"""

from __future__ import annotations

from functools import partial, reduce
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from auditor.spark.kept_columns import KeptColumns

FUNCTIONS = ("org.apache.spark.sql.functions", "functions")
UTILITIES = "PythonSQLUtils"
SEQUENCES = "PythonUtils"
NEVER_ALIKE = frozenset(("rand", "randn", "random", "randstr", "shuffle", "uniform", "uuid"))
"""Functions that choose a seed whenever they are called."""
LONGEST = 10
"""`java.util.List.of` takes so many elements by themselves."""


class CachedClass:
    """A Java class whose static methods are looked up once."""

    def __init__(self, found: Any) -> None:
        self._found = found

    def __getattr__(self, name: str) -> Any:
        from py4j.java_gateway import JavaMember

        member = getattr(self._found, name)
        if isinstance(member, JavaMember):  # what a field holds may change
            member = self._kept(name, member)
            setattr(self, name, member)
        return member

    def _kept(self, name: str, member: Any) -> Any:
        return member


class CachedFunctions(CachedClass):
    """The functions of Spark, which make columns of names, constants and columns."""

    def __init__(self, found: Any, columns: KeptColumns) -> None:
        super().__init__(found)
        self._columns = columns

    def _kept(self, name: str, member: Any) -> Any:
        return member if name in NEVER_ALIKE else partial(self._columns.made_by, member)


class CachedSequences(CachedClass):
    """`PythonUtils`, which takes lists of objects or names in parts instead of one by one."""

    def __init__(self, found: Any, lists: Any, columns: KeptColumns) -> None:
        super().__init__(found)
        self._to_seq = found.toSeq
        self._list_of = lists.of
        self._columns = columns

    def toSeq(self, values: Any) -> Any:  # noqa: N802 - Scala's name
        """Scala's sequence of a list, as `PythonUtils.toSeq` makes it."""
        from py4j.java_gateway import JavaObject

        if not (
            isinstance(values, list)
            and values
            and all(isinstance(value, (JavaObject, str)) for value in values)
        ):
            return self._to_seq(values)
        return self._columns.made_by(self._sequence, *values)

    def _sequence(self, *values: Any) -> Any:
        parts = (
            self._to_seq(self._list_of(*values[at : at + LONGEST])) for at in range(0, len(values), LONGEST)
        )
        return reduce(lambda some, more: some.concat(more), parts)


def keep_lookups(spark: SparkSession) -> None:
    """Tell this process's view of Java what PySpark asks it most; once, however often it is called."""
    from auditor.spark.kept_columns import KeptColumns

    java: Any = spark.sparkContext._jvm
    if java is None or SEQUENCES in vars(java):
        return
    columns = KeptColumns()
    for name in FUNCTIONS:
        setattr(java, name, CachedFunctions(getattr(java, name), columns))
    setattr(java, UTILITIES, CachedClass(getattr(java, UTILITIES)))
    setattr(java, SEQUENCES, CachedSequences(getattr(java, SEQUENCES), java.java.util.List, columns))
