"""What collected journals hold, as the table ``journal_tails``: relabelled now that owners are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from auditor.sources.bookies.collections.collection import Collection, CollectionManifest
from auditor.sources.bookies.collections.index import literal_path
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
    from pyspark.sql import functions as F
    from pyspark.sql.pandas.types import from_arrow_schema

    owned = {piece.rpartition(":")[0] for piece in owner_of_piece}
    paths = [
        literal_path(f"{collection.path}/{file.path}")
        for collection, manifest in collections
        if manifest.id in owned
        for file in manifest.tables["journal_tails"]
    ]
    if not paths:
        return spark.createDataFrame([], from_arrow_schema(SCHEMA))
    reader = spark.read.schema(from_arrow_schema(TAILS))
    rows = reader.option("parquet.page.verify-checksum.enabled", "true").parquet(*paths)
    owners = spark.createDataFrame(
        [(piece, owner.bookie_id) for piece, owner in owner_of_piece.items()], "piece string, owner string"
    )
    mine = rows.join(F.broadcast(owners), "piece").withColumn("bookie_id", F.col("owner"))
    return mine.select(*SCHEMA.names)
