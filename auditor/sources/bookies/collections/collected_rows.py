"""The rows of a collected table, each under the bookie that its piece belongs to."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from auditor.sources.bookies.collections.collection import Collection, CollectionManifest
from auditor.sources.bookies.collections.places import PieceOwner
from auditor.spark import functions as F

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROOTS = "roots"
"""The column with the directories of a row's piece that belong to its bookie."""


def collected_rows(
    spark: SparkSession,
    table: str,
    schema: pa.Schema,
    collections: Sequence[tuple[Collection, CollectionManifest]],
    owner_of_piece: Mapping[str, PieceOwner],
) -> DataFrame | None:
    """A table's rows from collections in the columns of ``schema``, with ``bookie_id`` and `ROOTS` besides.

    Rows of pieces that nobody owns are left out; None where no collection has a file of the table. Only files
    that a manifest lists are read; a page of them that was changed since fails the job by its checksum.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    owned = {piece.rpartition(":")[0] for piece in owner_of_piece}
    paths = [
        literal_path(f"{collection.path}/{file.path}")
        for collection, manifest in collections
        if manifest.id in owned
        for file in manifest.tables[table]
    ]
    if not paths:
        return None
    reader = spark.read.schema(from_arrow_schema(schema))
    rows = reader.option("parquet.page.verify-checksum.enabled", "true").parquet(*paths)
    owners = spark.createDataFrame(
        [(piece, owner.bookie_id, list(owner.roots)) for piece, owner in owner_of_piece.items()],
        f"piece string, owner string, {ROOTS} array<string>",
    )
    return rows.join(F.broadcast(owners), "piece").withColumn("bookie_id", F.col("owner"))


def literal_path(path: str) -> str:
    r"""A path as Spark takes it where it would take a pattern.

    >>> print(literal_path("/data/[a]"))
    /data/\[a\]
    """
    return re.sub(r"([\\*?\[\]{}])", r"\\\1", path)
