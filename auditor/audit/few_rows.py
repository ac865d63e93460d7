"""Of large tables the rows that a few others are of: landed for the steps that ask for no others.

They are looked for once, by ledger id, and taken away when the checks are done.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from auditor.audit.landing import FEW_BYTES, Landing
from auditor.tables.rows_of_few import rows_of_few

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

STEPS = "few"
"""Where they land below the tables of a run, with what else is for these steps alone."""


def are_few(landing: Landing, name: str) -> bool:
    """Whether a table that has landed is small enough to be looked for in the files of others."""
    return landing.run.local and landing.run.size(f"tables/{name}") <= FEW_BYTES


def land_rows_of(
    landing: Landing, few: str, table: str, rows: DataFrame, columns: Sequence[str] | None = None
) -> DataFrame:
    """The rows of ``table`` with a ledger id of the table ``few``; both have landed.

    ``rows`` are all of ``table``; ``columns`` are those to keep, None: all.
    """
    name = f"{table}_of_{few}"
    where, others = (Path(landing.run.where(f"tables/{each}")) for each in (table, few))
    found = rows_of_few(landing.spark, where, others, rows.schema, columns)
    landed = landing.land(name, lambda: landing.read_small(found), f"tables/{STEPS}")
    return landing.beside_all(f"{STEPS}/{name}", landed)


def drop_few_rows(landing: Landing) -> None:
    """Take away what landed for the steps up to the checks alone."""
    landing.run.remove(f"tables/{STEPS}")
