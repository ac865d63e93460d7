"""The index of every bookie as a Spark table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import BinaryType, DataType, LongType, StringType, StructField, StructType

from auditor.sources.index_parts import IndexPart, from_json
from auditor.sources.index_rows import SCHEMA, read_part

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

FORMAT = "bookkeeper_indexes"

_SPARK_TYPES: dict[str, DataType] = {"string": StringType(), "int64": LongType(), "binary": BinaryType()}

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

    Option: ``parts`` (required), the parts to read as `auditor.sources.index_parts.to_json` writes them;
    each is one task.

    Use: ``spark.read.format("bookkeeper_indexes").option("parts", to_json(parts(bookies,
    wanted=16))).load()``
    """

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return FORMAT

    def schema(self) -> StructType:
        """The columns of ``availability``, each with its meaning as the comment."""
        return SPARK_SCHEMA

    def reader(self, schema: StructType) -> IndexSourceReader:
        """A reader of the parts in the options."""
        return IndexSourceReader(self.options["parts"])


@dataclass(frozen=True)
class IndexPartition(InputPartition):
    """The part that one task reads."""

    part: IndexPart


class IndexSourceReader(DataSourceReader):
    """Travels to the workers, so it holds text, never open files."""

    def __init__(self, parts: str) -> None:
        self._parts = parts

    def partitions(self) -> Sequence[InputPartition]:
        """One a part."""
        return [IndexPartition(part) for part in from_json(self._parts)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one part."""
        # Where there is no part, Spark asks for a partition of its own, which is empty.
        if isinstance(partition, IndexPartition):
            yield from read_part(partition.part)
