"""Tables that several checks ask for, made once for an audit.

A query is put together step by step, and of a small audit each step costs more than the rows do.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from threading import RLock

from auditor.spark.types import DataFrame
from auditor.tables import Tables

Make = Callable[[Tables], DataFrame]

_MAKING = RLock()
"""Two threads put questions together side by side; what both ask for is made by the first of them."""


def once(make: Make) -> Make:
    """What ``make`` makes of an audit's tables: whoever asks for it again gets what was made at first.

    Nothing is worked out or kept but the question. It is let go with the tables.

        @once
        def distrusted_bookies(tables: Tables) -> DataFrame: ...
    """

    @wraps(make)
    def made(tables: Tables) -> DataFrame:
        with _MAKING:
            if make not in tables.made_once:
                tables.made_once[make] = make(tables)
            return tables.made_once[make]

    return made
