"""What a table of a run is: its name, what a row of it is, its columns, and what it is made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from auditor.spark.types import DataFrame


@dataclass(frozen=True, slots=True)
class Table:
    """One table, as `auditor.tables.published_schemas` lists it; whatever knows of tables reads that list.

    ``row`` says what a row is, ``columns`` (`auditor.model.columns.schema_of`) what each column means.
    ``only`` says which runs have it, None where every audit does.

    An audit lands a table with ``make`` by itself, where it has all tables that ``of`` names: ``make`` gets
    these, in this order. Others are landed by the stage that reads them.
    """

    name: str
    row: str
    columns: pa.Schema
    only: str | None = None
    make: Callable[..., DataFrame] | None = None
    of: tuple[str, ...] = ()
