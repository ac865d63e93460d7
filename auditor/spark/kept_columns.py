"""Columns that Java has made once, for as long as its process lives.

A column follows from what it is made of, and nothing changes it: which rows it is of is for the query to say.
A check makes the same ones in every audit, of names, constants and other columns, and each step is a question
to Java. The least recently used ones are let go.

What a kept column is blamed for in Spark's messages has no line of Python in it: sessions that keep columns
(`auditor.spark.session`) do not look where in a program each is made.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

from py4j.java_gateway import JavaMember, JavaObject

KEPT = 16_384
"""Columns and lists of them: an audit has some three thousand, and sessions may be long."""
CONSTANTS = (str, int, type(None))
"""What PySpark hands to Java beside columns. A float is none: -0.0 and 0.0 are equal, and not the same."""


class KeptColumn(JavaObject):  # type: ignore[misc]
    """A column in Java, or Scala's list of columns, that was made of what is kept: so is what it makes.

    It is what it stands for and equal to no other: to ask Java would be a question for each comparison.
    """

    _columns: KeptColumns

    def __getattr__(self, name: str) -> Any:
        member = super().__getattr__(name)
        return partial(self._columns.made_by, member) if isinstance(member, JavaMember) else member

    __hash__ = object.__hash__
    __eq__ = object.__eq__


_LASTING = (*CONSTANTS, KeptColumn)


class KeptColumns:
    """What Java's functions have made of constants and of one another."""

    def __init__(self) -> None:
        # Typed: 1 and True are equal, and not the same constant.
        self._made = lru_cache(KEPT, typed=True)(self._make)

    def made_by(self, function: Callable[..., Any], *values: Any) -> Any:
        """What ``function`` of Java makes of ``values``; kept where they are, too."""
        if all(isinstance(value, _LASTING) for value in values):
            return self._made(function, *values)
        return function(*values)

    def _make(self, function: Callable[..., Any], *values: Any) -> Any:
        made = function(*values)
        if type(made) is JavaObject:
            # Not a second object for the same one of Java's: that one is let go with the first.
            made.__class__ = KeptColumn
            made._columns = self
        return made
