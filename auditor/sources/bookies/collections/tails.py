"""What collected journals hold, as the table ``journal_tails``: relabelled now that owners are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from auditor.sources.bookies.collections.collected_rows import collected_rows
from auditor.sources.bookies.collections.collection import Collection, CollectionManifest
from auditor.sources.bookies.collections.places import PieceOwner
from auditor.sources.bookies.collections.writer import TAILS
from auditor.sources.bookies.journal.tails import SCHEMA

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def collected_tails(
    spark: SparkSession,
    collections: Sequence[tuple[Collection, CollectionManifest]],
    owner_of_piece: Mapping[str, PieceOwner],
) -> DataFrame:
    """Rows of ``journal_tails`` from collections that have them, each under the bookie of its piece."""
    from pyspark.sql.pandas.types import from_arrow_schema

    rows = collected_rows(spark, "journal_tails", TAILS, collections, owner_of_piece)
    if rows is None:
        return spark.createDataFrame([], from_arrow_schema(SCHEMA))
    return rows.select(*SCHEMA.names)
