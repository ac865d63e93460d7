"""The journals of bookies after their marks as a Spark table, one task a bookie."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from auditor.sources.bookies.journal.tails import SCHEMA, TailPart, from_json, read_tail

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT = "bookkeeper_journal_tails"


class JournalSource(DataSource):
    """The table ``journal_tails``; ``parts`` is what `to_json` wrote."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return FORMAT

    def schema(self) -> StructType:
        """The columns of ``journal_tails``."""
        return from_arrow_schema(SCHEMA)

    def reader(self, schema: StructType) -> JournalSourceReader:
        """A reader of the parts in the options."""
        return JournalSourceReader(self.options["parts"])


@dataclass(frozen=True)
class TailPartition(InputPartition):
    """The part that one task reads."""

    part: TailPart


class JournalSourceReader(DataSourceReader):
    """Travels to the workers, so it holds text, never open files."""

    def __init__(self, parts: str) -> None:
        self._parts = parts

    def partitions(self) -> Sequence[InputPartition]:
        """One per bookie."""
        return [TailPartition(part) for part in from_json(self._parts)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one bookie."""
        if isinstance(partition, TailPartition):
            yield from read_tail(partition.part)
