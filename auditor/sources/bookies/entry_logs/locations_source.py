"""Where bookies' indexes point into their entry logs, as a Spark table: ``bookkeeper_entry_locations``."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from auditor.sources.bookies.entry_logs.locations import LOCATIONS, read_locations
from auditor.sources.bookies.parts import IndexPart, from_json

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT = "bookkeeper_entry_locations"


class LocationSource(DataSource):
    """The table ``locations``.

    ``parts`` are those of the index, as `auditor.sources.bookies.parts` writes them, ``ledger_directories``
    each bookie's in configured order: a JSON object of lists.
    """

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return FORMAT

    def schema(self) -> StructType:
        """The columns of ``locations``."""
        return from_arrow_schema(LOCATIONS)

    def reader(self, schema: StructType) -> LocationSourceReader:
        """A reader of the parts in the options."""
        return LocationSourceReader(
            from_json(self.options["parts"]), json.loads(self.options["ledger_directories"])
        )


@dataclass(frozen=True)
class LocationPartition(InputPartition):
    """What one task reads."""

    part: IndexPart
    ledger_directories: tuple[str, ...]


class LocationSourceReader(DataSourceReader):
    """Travels to the workers, so it holds values, never open files."""

    def __init__(self, parts: Sequence[IndexPart], directories: Mapping[str, Sequence[str]]) -> None:
        self._partitions = [
            LocationPartition(part, tuple(directories.get(part.bookie_id, ()))) for part in parts
        ]

    def partitions(self) -> Sequence[InputPartition]:
        """One a part of the index."""
        return self._partitions

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one part."""
        if isinstance(partition, LocationPartition):
            yield from read_locations(partition.part, partition.ledger_directories)
