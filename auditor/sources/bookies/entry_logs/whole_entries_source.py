"""Entries that are looked at whole, as a Spark table: ``bookkeeper_whole_entries``."""

from __future__ import annotations

import json
import secrets
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from auditor.sources.bookies.entry_logs.sample import EntrySample
from auditor.sources.bookies.entry_logs.whole_entries import WHOLE_ENTRIES, Secrets, read_whole_entries
from auditor.sources.bookies.parts import IndexPart, from_json
from auditor.sources.metadata.credentials import read_credentials

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT = "bookkeeper_whole_entries"


class WholeEntrySource(DataSource):
    """Rows of `WHOLE_ENTRIES`.

    ``parts`` and ``ledger_directories`` are as those of `LocationSource`, ``sample`` an `EntrySample` in
    JSON, whose bytes are those of a bookie; ``credentials`` the path of a file with the ledgers' password.
    """

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return FORMAT

    def schema(self) -> StructType:
        """The columns."""
        return from_arrow_schema(WHOLE_ENTRIES)

    def reader(self, schema: StructType) -> WholeEntryReader:
        """A reader of the parts in the options."""
        return WholeEntryReader(
            from_json(self.options["parts"]),
            json.loads(self.options["ledger_directories"]),
            EntrySample(**json.loads(self.options["sample"])),
            self.options.get("credentials"),
        )


@dataclass(frozen=True)
class WholeEntryPartition(InputPartition):
    """What one task reads; of the credentials it has the path alone."""

    part: IndexPart
    ledger_directories: tuple[str, ...]
    sample: EntrySample
    credentials: str | None


class WholeEntryReader(DataSourceReader):
    """Travels to the workers, so it holds values, never open files or passwords.

    Tags of master keys are made under a key that is new for each reader: nobody else can make or compare one.
    """

    def __init__(
        self,
        parts: Sequence[IndexPart],
        directories: Mapping[str, Sequence[str]],
        sample: EntrySample,
        credentials: str | None,
    ) -> None:
        self._tag_key = secrets.token_bytes(32)
        of_bookie = Counter(part.bookie_id for part in parts)
        self._partitions = [
            WholeEntryPartition(
                part,
                tuple(directories.get(part.bookie_id, ())),
                replace(sample, bytes=-(-sample.bytes // of_bookie[part.bookie_id])),
                credentials,
            )
            for part in parts
        ]

    def partitions(self) -> Sequence[InputPartition]:
        """One a part of the index."""
        return self._partitions

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one part."""
        if isinstance(partition, WholeEntryPartition):
            password = read_credentials(partition.credentials).ledgers.password
            told = Secrets(None if password is None else password.encode(), self._tag_key)
            yield from read_whole_entries(
                partition.part, partition.ledger_directories, partition.sample, told
            )


def sample_json(sample: EntrySample) -> str:
    """A sample as the option of that name."""
    return json.dumps(asdict(sample))
