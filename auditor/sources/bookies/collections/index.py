"""What collected indexes hold, as the table ``availability``: relabelled now that owners are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from auditor.sources.bookies.collections.collected_rows import ROOTS, collected_rows
from auditor.sources.bookies.collections.collection import Collection, CollectionManifest
from auditor.sources.bookies.collections.places import PieceOwner
from auditor.sources.bookies.collections.writer import AVAILABILITY
from auditor.sources.bookies.part_rows import SCHEMA
from auditor.spark import functions as F

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def collected_availability(
    spark: SparkSession,
    collections: Sequence[tuple[Collection, CollectionManifest]],
    owner_of_piece: Mapping[str, PieceOwner],
) -> DataFrame:
    """Rows of ``availability`` from collections, each row under the bookie that its piece belongs to.

    Rows of pieces that nobody owns, and of directories that do not count, are left out. A ledger that a
    bookie has in several pieces comes once for each. See `collected_rows`.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    rows = collected_rows(spark, "availability", AVAILABILITY, collections, owner_of_piece)
    if rows is None:
        return spark.createDataFrame([], from_arrow_schema(SCHEMA))
    mine = F.expr(f"exists({ROOTS}, root -> startswith(path, concat(root, '/')) or path = root)")
    # A stamp is of a file on the host that collected it: here it says nothing.
    here = {"stamp": F.lit(None).cast("bigint"), "reused": F.lit(False)}
    return rows.where(mine).withColumns(here).select(*SCHEMA.names)
