"""The values that an application keeps of its owners, undecoded: what a comparison of two stores reads."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from auditor.sources.metadata.store import ZnodeBatch
from auditor.sources.owners.applications import APPLICATIONS
from auditor.sources.owners.spark_source import OwnerPartition, OwnerReader, OwnerSource
from auditor.sources.owners.uri import OwnersUri

OWNER_VALUES = pa.schema(
    [
        ("path", pa.string()),  # below the chroot, so that two stores have the same
        ("version", pa.int64()),
        ("status", pa.string()),  # ok, or gap: at or below this path there may be more
        ("damage", pa.string()),
        ("value", pa.binary()),
    ]
)


class OwnerValueSource(OwnerSource):
    """Every value below the trees of an application. Options: those of `OwnerSource`."""

    @classmethod
    def name(cls) -> str:
        """What messages call it."""
        return "bookkeeper_owner_values"

    def schema(self) -> StructType:
        """The columns of `OWNER_VALUES`."""
        schema = from_arrow_schema(OWNER_VALUES)
        assert isinstance(schema, StructType)
        return schema

    def reader(self, schema: StructType) -> OwnerReader:
        """A reader of what the options say; raises as `OwnerSource.reader`."""
        return OwnerValueReader(*self.parse_options())


class OwnerValueReader(OwnerReader):
    """Reads the parts that `OwnerReader` does, and decodes nothing."""

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one part, batch by batch."""
        if not isinstance(partition, OwnerPartition):
            return  # where there is no part, Spark asks for a partition of its own, which is empty
        for batch in self.batches(partition):
            yield value_rows(batch, self.owners)


def value_rows(batch: ZnodeBatch, owners: OwnersUri) -> pa.RecordBatch:
    """Rows of `OWNER_VALUES`; a path without a value stands for nothing, and leaves none.

    Nor does the top of a tree, which some stores count as of the tree, and some do not.
    """
    tops = {f"{owners.chroot}/{tree}" for tree in APPLICATIONS[owners.application].trees}
    has_value = [
        len(data) > 0 and path not in tops for path, data in zip(batch.paths, batch.data, strict=True)
    ]
    at = np.flatnonzero(has_value).tolist()
    start, gaps = len(owners.chroot), batch.gaps
    columns = (
        [batch.paths[row][start:] for row in at] + [path[start:] for path, _ in gaps],
        batch.version[at].tolist() + [None] * len(gaps),
        ["ok"] * len(at) + ["gap"] * len(gaps),
        [None] * len(at) + [reason for _, reason in gaps],
        [bytes(batch.data[row]) for row in at] + [None] * len(gaps),
    )
    arrays = [pa.array(column, field.type) for column, field in zip(columns, OWNER_VALUES, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=OWNER_VALUES)
