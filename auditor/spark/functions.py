"""Spark's functions of columns, imported when the first of them is called.

Checks, tables and reports of them stand in modules that `bkaudit explain check` reads too, and Spark takes a
second to import. So they say ``from auditor.spark import functions as F``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql import Window as Window
    from pyspark.sql.functions import *  # noqa: F403
else:

    def __getattr__(name: str) -> object:
        """The function of `pyspark.sql.functions` with this name, or `pyspark.sql.Window`."""
        from pyspark.sql import Window, functions

        return Window if name == "Window" else getattr(functions, name)


def small_digits(digits: Column | str) -> Column:
    """Hexadecimal digits in small letters.

    Spark's ``lower`` knows all alphabets, and reads tables of them the first time that it is asked: two
    seconds of a small audit.
    """
    from pyspark.sql import functions

    return functions.translate(digits, "ABCDEF", "abcdef")
