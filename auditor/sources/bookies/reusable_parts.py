"""Read of a part of the index that an earlier run read too (``--since``).

A reusable part is planned and read apart from the parts that are read from the disk
(`auditor.sources.bookies.part_rows`), which know of no earlier run. Its reader asks which of the part's files
are unchanged (`auditor.sources.bookies.earlier_rows`). It reads only the other files from the disk, and takes
the rows of the unchanged ones from the earlier run's table.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pyarrow as pa

from auditor.model.states import IndexState
from auditor.sources.bookies.earlier_rows import Earlier, EarlierRows, database_unchanged, list_changed
from auditor.sources.bookies.index_files.listing import SkippedPath, check_versions
from auditor.sources.bookies.part_rows import read_listed, read_part
from auditor.sources.bookies.parts import ROCKSDB, IndexDirectory, IndexPart
from auditor.sources.bookies.rocksdb.rows import index_files_beside, stamp_databases


@dataclass(frozen=True, slots=True)
class ReusablePart:
    """A part of the index, and the rows of an earlier run that stand for its unchanged files."""

    part: IndexPart
    earlier: Earlier


def read_reusable_part(reusable: ReusablePart) -> Iterator[pa.RecordBatch]:
    """Read the changed files or databases of one part. Take all other rows from the earlier run.

    If the VERSION of a directory has changed, the directory may be another one, and nothing is reused.

    Raises:
        RunError: a file of the earlier run's table is missing or damaged.
    """
    part = reusable.part
    if any(True for _ in check_versions(part.directories)):
        yield from read_part(part)
        return
    rows = EarlierRows(reusable.earlier, part.bookie_id)
    if part.storage == ROCKSDB:
        for directory in part.directories:
            yield from _read_if_changed(part, directory, rows)
    else:
        yield from read_listed(part, list_changed(part, rows))
    yield from rows.rows()


def _read_if_changed(
    part: IndexPart, directory: IndexDirectory, rows: EarlierRows
) -> Iterator[pa.RecordBatch]:
    """Read the databases of an index directory. If they are unchanged, select their rows in ``rows`` instead.

    Strays beside unchanged databases have no stamp, so they become rows again.
    """
    own_part = replace(part, directories=(directory,))
    strays = _strays_beside_unchanged(directory, rows)
    yield from read_part(own_part) if strays is None else read_listed(own_part, strays)


def _strays_beside_unchanged(directory: IndexDirectory, rows: EarlierRows) -> list[SkippedPath] | None:
    """Return the strays beside unchanged databases. Returns None if the databases must be read."""
    paths = list(index_files_beside(directory.path))
    if any(path.state != IndexState.STRAY for path in paths):
        return None
    stamp = stamp_databases(f"{directory.path}/current")
    if stamp is None or not database_unchanged(directory.path, stamp, rows):
        return None
    return paths
