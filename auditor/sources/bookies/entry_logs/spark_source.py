"""Bookies' entry logs as a Spark table, by the name ``bookkeeper_entry_logs``.

spark.dataSource.register(EntryLogSource)
spark.read.format("bookkeeper_entry_logs").option("directory", "/mnt/disk0/ledgers").load()
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from auditor.errors import UsageError
from auditor.sources.bookies.entry_logs.parts import (
    ENTRY_LOGS,
    LogPart,
    from_json,
    read_logs_of,
    slice_parts,
)
from auditor.sources.bookies.parts import IndexDirectory
from auditor.sources.regular_file import open_regular

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT = "bookkeeper_entry_logs"
TASKS = 8
"""Tasks that read a directory which is given by its path."""


class EntryLogSource(DataSource):
    """The table ``entry_logs``: of a ``directory``, or of ``parts``, which is what `to_json` wrote."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return FORMAT

    def schema(self) -> StructType:
        """The columns of ``entry_logs``."""
        return from_arrow_schema(ENTRY_LOGS)

    def reader(self, schema: StructType) -> EntryLogSourceReader:
        """A reader of what the options name. Raises `UsageError`."""
        if "parts" in self.options:
            return EntryLogSourceReader(from_json(self.options["parts"]))
        if "directory" not in self.options:
            raise UsageError(f"{FORMAT}: give the option directory: a ledger directory of a bookie")
        return EntryLogSourceReader(slice_parts([directory_part(self.options["directory"])], TASKS))


def directory_part(path: str) -> LogPart:
    """The part of a directory of which nothing is known but its path."""
    try:
        with open_regular(f"{path}/current/VERSION") as file:
            version = file.read()
    except OSError:
        version = None
    seen = IndexDirectory.seen(path, version)
    return LogPart(None, None, path, seen.version_sha256)


@dataclass(frozen=True)
class EntryLogPartition(InputPartition):
    """The part that one task reads."""

    part: LogPart


class EntryLogSourceReader(DataSourceReader):
    """Travels to the workers, so it holds values, never open files."""

    def __init__(self, parts: Sequence[LogPart]) -> None:
        self._parts = tuple(parts)

    def partitions(self) -> Sequence[InputPartition]:
        """One a part."""
        return [EntryLogPartition(part) for part in self._parts]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one part."""
        if isinstance(partition, EntryLogPartition):
            yield from read_logs_of(partition.part)
