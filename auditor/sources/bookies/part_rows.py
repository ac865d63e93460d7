"""What one part of the index says, as rows: the table ``availability``."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from auditor.sources.bookies.availability_schema import SCHEMA
from auditor.sources.bookies.index_files.batch import IndexFiles
from auditor.sources.bookies.index_files.listing import SkippedPath, check_versions, list_part
from auditor.sources.bookies.index_files.row_builder import RowBuilder
from auditor.sources.bookies.index_files.threads import read_files
from auditor.sources.bookies.parts import ROCKSDB, IndexPart
from auditor.sources.bookies.rocksdb.rows import read_databases
from auditor.sources.reuse.earlier_rows import EarlierRows
from auditor.sources.reuse.unchanged_files import list_changed

__all__ = ["SCHEMA", "read_part"]


def read_part(part: IndexPart) -> Iterator[pa.RecordBatch]:
    """Read what one part covers. Needs no Spark: this is also how a table is collected beside a bookie."""
    rows = RowBuilder(part.bookie_id, part.storage)
    changed = list(check_versions(part.directories))
    passed = list(changed)
    earlier = EarlierRows(part.earlier, part.bookie_id) if part.earlier and not changed else None
    if part.storage == ROCKSDB:
        for directory in part.directories:
            yield from read_databases(part.bookie_id, directory, passed, earlier)
    else:
        for batch in read_files(_files(part, passed, earlier), part.threads):
            rows.add_files(batch)
            yield from rows.take_when_full(passed)
    if not changed:
        # A disk that went away while it was read looks like a disk with fewer ledgers.
        passed.extend(check_versions(part.directories))
    yield from rows.take_when_full(passed)
    if rows.count:
        yield rows.take()
    if earlier is not None:
        yield from earlier.rows()


def _files(part: IndexPart, passed: list[SkippedPath], earlier: EarlierRows | None) -> Iterator[IndexFiles]:
    """The files to read, piece by piece as they are read; what is not read is put aside."""
    for item in list_part(part) if earlier is None else list_changed(part, earlier):
        if isinstance(item, IndexFiles):
            yield item
        else:
            passed.append(item)
