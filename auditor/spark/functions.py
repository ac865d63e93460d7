"""Lazy import of Spark's column functions: the first call of a function imports Spark.

Importing Spark takes a second. ``bkaudit explain check`` also imports the modules of checks, tables and
reports, and does not need Spark. These modules therefore say ``from auditor.spark import functions as F``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql import Window as Window
    from pyspark.sql.functions import *  # noqa: F403
else:

    def __getattr__(name: str) -> object:
        """Return the function of `pyspark.sql.functions` with this name, or `pyspark.sql.Window`."""
        from pyspark.sql import Window, functions

        return Window if name == "Window" else getattr(functions, name)


def lowercase_digits(hexadecimal_digits: Column | str) -> Column:
    """Convert hexadecimal digits to lower case.

    Spark's ``lower`` supports all alphabets, and loads their tables on its first call. That takes two
    seconds, even in a small audit.
    """
    from pyspark.sql import functions

    return functions.translate(hexadecimal_digits, "ABCDEF", "abcdef")
