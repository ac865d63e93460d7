"""The index of every bookie as a Spark table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import BinaryType, BooleanType, DataType, LongType, StringType, StructField, StructType

from auditor.sources.bookies.by_name import FORMAT, Unread, find_indexes, gaps_of
from auditor.sources.bookies.part_rows import SCHEMA, read_part
from auditor.sources.bookies.parts import IndexPart, from_json, to_json

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

__all__ = ["FORMAT", "SPARK_SCHEMA", "IndexSource", "register"]

_SPARK_TYPES: dict[str, DataType] = {
    "string": StringType(),
    "int64": LongType(),
    "binary": BinaryType(),
    "bool": BooleanType(),
}

SPARK_SCHEMA = StructType(
    [
        StructField(
            field.name,
            _SPARK_TYPES[str(field.type)],
            metadata={"comment": field.metadata[b"comment"].decode()},
        )
        for field in SCHEMA
    ]
)


def register(spark: SparkSession) -> None:
    """Make the format ``bookkeeper_indexes`` known to a session."""
    spark.dataSource.register(IndexSource)


class IndexSource(DataSource):
    """What each bookie holds of each ledger, read from its index files: the table ``availability``.

    Options: ``bookies``, a directory with one sub-directory a bookie, or an inventory file, or a JSON list
    of such paths; ``metadata``, a metadata URI whose cluster knows more bookies than their own cookies name,
    with ``credentials`` as for `auditor.sources.metadata.spark_source`; ``tasks``, about how many read it
    (default 8). Or only ``parts``, as `auditor.sources.bookies.parts.to_json` writes them; each is one task.

    Use: ``spark.read.format("bookkeeper_indexes").option("bookies", "/mnt/bookies").load()``
    """

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return FORMAT

    def schema(self) -> StructType:
        """The columns of ``availability``, each with its meaning as the comment."""
        return SPARK_SCHEMA

    def reader(self, schema: StructType) -> IndexSourceReader:
        """A reader of the parts in the options, or of what is found where they say."""
        options = dict(self.options)
        if set(options) == {"parts"}:
            return IndexSourceReader(options["parts"])
        found = find_indexes(options)
        return IndexSourceReader(to_json(found.parts), found.unread)


@dataclass(frozen=True)
class IndexPartition(InputPartition):
    """The part that one task reads."""

    part: IndexPart


@dataclass(frozen=True)
class UnreadPartition(InputPartition):
    """What could not be read whole, told in one task."""

    unread: tuple[Unread, ...]


class IndexSourceReader(DataSourceReader):
    """Travels to the workers, so it holds text, never open files."""

    def __init__(self, parts: str, unread: Sequence[Unread] = ()) -> None:
        self._parts = parts
        self._unread = tuple(unread)

    def partitions(self) -> Sequence[InputPartition]:
        """One per part, and one for what could not be read."""
        told = [UnreadPartition(self._unread)] if self._unread else []
        return [*(IndexPartition(part) for part in from_json(self._parts)), *told]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one part."""
        # Where there is no part, Spark asks for a partition of its own, which is empty.
        if isinstance(partition, IndexPartition):
            yield from read_part(partition.part)
        elif isinstance(partition, UnreadPartition):
            yield gaps_of(partition.unread)
