"""What PySpark looks up in Java again for every column: kept after the first time.

A column is made in Java. For each function PySpark asks which class has it, then which member that is, and
hands over a list of columns one by one: half of all that a small audit says to Java, thousands of questions
whose answers are always the same. Its view of Java is given these answers here, and short lists go whole.

What is not known here, in a PySpark of another make, is looked up as before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CLASSES = ("org.apache.spark.sql.functions", "functions", "PythonSQLUtils")
SEQUENCES = "PythonUtils"
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
            setattr(self, name, member)
        return member


class CachedSequences(CachedClass):
    """`PythonUtils`, which takes a short list of objects or names in one call."""

    def __init__(self, found: Any, lists: Any) -> None:
        super().__init__(found)
        self._to_seq = found.toSeq
        self._list_of = lists.of

    def toSeq(self, values: Any) -> Any:  # noqa: N802 - Scala's name
        """Scala's sequence of a list, as `PythonUtils.toSeq` makes it."""
        from py4j.java_gateway import JavaObject

        if (
            isinstance(values, list)
            and 0 < len(values) <= LONGEST
            and all(isinstance(value, (JavaObject, str)) for value in values)
        ):
            return self._to_seq(self._list_of(*values))
        return self._to_seq(values)


def keep_lookups(spark: SparkSession) -> None:
    """Tell this process's view of Java what PySpark asks it most; once, however often it is called."""
    java: Any = spark.sparkContext._jvm
    if java is None or SEQUENCES in vars(java):
        return
    for name in CLASSES:
        setattr(java, name, CachedClass(getattr(java, name)))
    setattr(java, SEQUENCES, CachedSequences(getattr(java, SEQUENCES), java.java.util.List))
