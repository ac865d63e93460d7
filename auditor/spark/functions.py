"""Lazy import of Spark's column functions: Spark is imported when one of the functions is first used.

The import of Spark takes a second. ``bkaudit explain check`` imports the modules of checks, tables and
reports, but does not need Spark. So these modules use ``from auditor.spark import functions as F``.
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

    Spark's ``lower`` would also do this. But it supports all alphabets, and its first call takes two
    seconds to load their tables.
    """
    from pyspark.sql import functions

    return functions.translate(hexadecimal_digits, "ABCDEF", "abcdef")
