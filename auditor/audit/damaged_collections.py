"""Which collections cannot be read to their end: asked when a job over all of them has failed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from auditor.sources.bookies.collections.collection import Collection, CollectionManifest
from auditor.sources.bookies.collections.index import collected_availability
from auditor.sources.bookies.collections.places import PieceOwner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def damaged_collections(
    spark: SparkSession,
    collections: Sequence[tuple[Collection, CollectionManifest]],
    owner_of_piece: Mapping[str, PieceOwner],
) -> dict[str, str]:
    """The collections, by path, whose availability cannot be read to its end, and why; one job for each."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    found = {}
    for collection, manifest in collections:
        rows = collected_availability(spark, [(collection, manifest)], owner_of_piece)
        try:
            rows.write.format("noop").mode("overwrite").save()
        except (Py4JError, PySparkException):
            found[collection.path] = "its availability is damaged: not all of it can be read"
    return found
