"""What collected indexes hold, as the table ``availability``: relabelled now that owners are known."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from auditor.sources.bookies.collections.collection import Collection, CollectionManifest
from auditor.sources.bookies.collections.places import PieceOwner
from auditor.sources.bookies.collections.writer import AVAILABILITY
from auditor.sources.bookies.part_rows import SCHEMA

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def collected_availability(
    spark: SparkSession,
    collections: Sequence[tuple[Collection, CollectionManifest]],
    owner_of_piece: Mapping[str, PieceOwner],
) -> DataFrame:
    """Rows of ``availability`` from collections, each row under the bookie that its piece belongs to.

    Rows of pieces that nobody owns, and of directories that do not count, are left out. A ledger that a
    bookie has in several pieces comes once for each. Only files that a manifest lists are read; a page of
    them that was changed since fails the job by its checksum.
    """
    from pyspark.sql import functions as F
    from pyspark.sql.pandas.types import from_arrow_schema

    owned = {piece.rpartition(":")[0] for piece in owner_of_piece}
    paths = [
        literal_path(f"{collection.path}/{file.path}")
        for collection, manifest in collections
        if manifest.id in owned
        for file in manifest.tables["availability"]
    ]
    if not paths:
        return spark.createDataFrame([], from_arrow_schema(SCHEMA))
    reader = spark.read.schema(from_arrow_schema(AVAILABILITY))
    rows = reader.option("parquet.page.verify-checksum.enabled", "true").parquet(*paths)
    owners = spark.createDataFrame(
        [(piece, owner.bookie_id, list(owner.roots)) for piece, owner in owner_of_piece.items()],
        "piece string, owner string, roots array<string>",
    )
    mine = F.expr("exists(roots, root -> startswith(path, concat(root, '/')) or path = root)")
    joined = rows.join(F.broadcast(owners), "piece").where(mine).withColumn("bookie_id", F.col("owner"))
    # A stamp is of a file on the host that collected it: here it says nothing.
    here = {"stamp": F.lit(None).cast("bigint"), "reused": F.lit(False)}
    return joined.withColumns(here).select(*SCHEMA.names)


def literal_path(path: str) -> str:
    r"""A path as Spark takes it where it would take a pattern.

    >>> print(literal_path("/data/[a]"))
    /data/\[a\]
    """
    return re.sub(r"([\\*?\[\]{}])", r"\\\1", path)
