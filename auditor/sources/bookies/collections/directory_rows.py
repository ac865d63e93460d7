"""Rows of collected tables that are of a directory: relabelled now that it is known whose each one is.

In a collection such rows have the path that the directory has on its host, and the collection's id. In an
audit they go under ``<collection>#<path>``, as the directory itself does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from auditor.model.columns import column
from auditor.sources.bookies.collections.collected_rows import literal_path
from auditor.sources.bookies.collections.collection import Collection, CollectionManifest
from auditor.sources.bookies.disks import SIZES
from auditor.sources.bookies.entry_logs.rows import SCHEMA as ENTRY_LOGS
from auditor.spark import functions as F

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

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
