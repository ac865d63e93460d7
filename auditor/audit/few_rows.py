"""Of large tables the rows that a few others are of: landed for the steps that ask for no others.

They are looked for once, by ledger id, and taken away when the checks are done.
"""

from __future__ import annotations

from collections.abc import Sequence

from auditor.audit.landing import FEW_BYTES, Landing
from auditor.spark.types import DataFrame
from auditor.tables.rows_of_few import rows_of_few

STEPS = "few"
"""Where they land below the tables of a run, with what else is for these steps alone."""


def rows_that_matter(
    landing: Landing, few: str, table: str, rows: DataFrame, columns: Sequence[str] | None = None
) -> DataFrame:
    """The rows of ``table`` with a ledger id of the table ``few``; all, where those are more than a few.

    Both have landed; ``rows`` are all of ``table``. ``columns`` are those to keep, None: all.
    """
    if landing.size(f"tables/{few}") > FEW_BYTES:
        return rows
    name = f"{table}_of_{few}"
    found = rows_of_few(landing.spark, landing.files(table), landing.files(few), rows.schema, columns)
    landed = landing.land(name, lambda: landing.read_small(found), f"tables/{STEPS}")
    return landing.beside_all(f"{STEPS}/{name}", landed)


def drop_few_rows(landing: Landing) -> None:
    """Take away what landed for the steps up to the checks alone."""
    landing.run.remove(f"tables/{STEPS}")
