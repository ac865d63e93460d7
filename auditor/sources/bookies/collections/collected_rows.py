"""Rows of collected tables, relabelled now that it is known whose each piece and each directory is.

In a collection rows of a directory have the path that it has on its host, and the collection's id. In an
audit they go under ``<collection>#<path>``, as the directory itself does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa

from auditor.model.columns import column
from auditor.sources.bookies.collections.collection import Collection, CollectionManifest
from auditor.sources.bookies.collections.places import PieceOwner
from auditor.sources.bookies.collections.writer import TAILS
from auditor.sources.bookies.disks import SIZES
from auditor.sources.bookies.entry_logs.rows import SCHEMA as ENTRY_LOGS
from auditor.sources.bookies.journal.tails import SCHEMA
from auditor.spark import functions as F
from auditor.spark.types import DataFrame, SparkSession

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


COLLECTION = column("collection", pa.string(), "the id of the collection")
LOGS = pa.schema([*ENTRY_LOGS, COLLECTION])
"""The table ``entry_logs`` of a collection."""

DISKS = pa.schema([*SIZES, COLLECTION])
"""The table ``disks`` of a collection."""

SPACE_TABLES = ("locations", "disks")
"""Tables of a collection that was made with --entry-logs."""


class DirectoryOwner(NamedTuple):
    """A directory of the collection with that id, by its ``path`` there, and its ``name`` in the audit.

    ``bookie_id`` is whose data it holds, None where nobody's; ``logger`` whose numbering its logs have.
    """

    collection: str
    path: str
    name: str
    bookie_id: str | None
    logger: int | None


def rows_of_directories(
    spark: SparkSession,
    table: str,
    schema: pa.Schema,
    collections: Sequence[tuple[Collection, CollectionManifest]],
    owners: Iterable[DirectoryOwner],
) -> DataFrame:
    """The rows of ``owners``' directories, with ``bookie_id``, ``logger`` and renamed paths; others are left
    out."""
    from pyspark.sql.pandas.types import from_arrow_schema

    files = [
        literal_path(f"{collection.path}/{file.path}")
        for collection, manifest in collections
        for file in manifest.tables[table]
    ]
    reader = spark.read.schema(from_arrow_schema(schema))
    rows = reader.option("parquet.page.verify-checksum.enabled", "true").parquet(*files)
    whose = spark.createDataFrame(
        list(owners), "collection string, directory string, named string, bookie_id string, logger int"
    )
    found = rows.join(F.broadcast(whose), ["collection", "directory"])
    if "path" in schema.names:
        below = F.substring("path", F.length("directory") + 1, F.length("path"))
        found = found.withColumn("path", F.concat("named", below))
    return found.withColumn("directory", F.col("named"))
