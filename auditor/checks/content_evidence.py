"""When the ledgers in a directory speak for another bookie than the one that it is counted for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.model.alias_by_contents import LEAST_LEDGERS

if TYPE_CHECKING:
    from pyspark.sql import Column

MARGIN = 10
"""So many ledgers speak for the candidate for each that speaks for the owner."""


def points_elsewhere() -> Column:
    """Whether a row of the table contents says that its directory is the candidate's, and not its owner's."""
    from pyspark.sql import functions as F

    return (
        (F.col("candidate") != F.col("owner"))
        & (F.col("better") >= LEAST_LEDGERS)
        & (F.col("better") >= MARGIN * F.col("worse"))
    )
