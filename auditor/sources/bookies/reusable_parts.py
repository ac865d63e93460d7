"""The reader of index parts that an earlier run also read (``--since``).

The reader finds the files of the part that are unchanged (`auditor.sources.bookies.earlier_rows`). It takes
the rows of these files from the earlier run's table, and reads all other files from disk. For a part that
no earlier run read, the program uses `auditor.sources.bookies.part_rows` instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pyarrow as pa

from auditor.model.states import IndexState
from auditor.sources.bookies.earlier_rows import EarlierRows, EarlierTable, database_unchanged, list_changed
from auditor.sources.bookies.index_files.listing import SkippedPath, check_versions
from auditor.sources.bookies.part_rows import read_listed, read_part
from auditor.sources.bookies.parts import ROCKSDB, IndexDirectory, IndexPart
from auditor.sources.bookies.rocksdb.rows import find_directory_faults, read_database_stamp


@dataclass(frozen=True, slots=True)
class ReusablePart:
    """A part of the index, and the earlier run's table with the rows of the part's unchanged files."""

    index_part: IndexPart
    earlier_table: EarlierTable


def read_reusable_part(reusable_part: ReusablePart) -> Iterator[pa.RecordBatch]:
    """Yield a part's rows. Rows of unchanged files or databases come from the earlier run.

    The function reads only changed files or databases. If the VERSION file of a directory has changed, the
    directory may be on a different disk. In that case, no row of the earlier run is used.

    Raises:
        RunError: a file of the earlier run's table is missing or damaged.
    """
    index_part = reusable_part.index_part
    if any(True for _ in check_versions(index_part.directories)):
        yield from read_part(index_part)
        return
    rows = EarlierRows(reusable_part.earlier_table, index_part.bookie_id)
    if index_part.storage_kind == ROCKSDB:
        for directory in index_part.directories:
            yield from _read_if_changed(index_part, directory, rows)
    else:
        yield from read_listed(index_part, list_changed(index_part, rows))
    yield from rows.rows()


def _read_if_changed(
    index_part: IndexPart, directory: IndexDirectory, rows: EarlierRows
) -> Iterator[pa.RecordBatch]:
    """Read the databases of an index directory, unless they are unchanged.

    If the databases are unchanged, select their earlier rows in ``rows``. The stray files in the same
    directory have no stamp that shows whether they changed. Therefore, their rows are always written again.
    """
    directory_part = replace(index_part, directories=(directory,))
    unknown_paths = _list_unknown_if_unchanged(directory, rows)
    yield from (
        read_part(directory_part) if unknown_paths is None else read_listed(directory_part, unknown_paths)
    )


def _list_unknown_if_unchanged(directory: IndexDirectory, rows: EarlierRows) -> list[SkippedPath] | None:
    """Return the stray files in a directory with unchanged databases. None if the databases must be read."""
    skipped_paths = list(find_directory_faults(directory.path))
    if any(skipped_path.state != IndexState.STRAY for skipped_path in skipped_paths):
        return None
    database_stamp = read_database_stamp(f"{directory.path}/current")
    if database_stamp is None or not database_unchanged(directory.path, database_stamp, rows):
        return None
    return skipped_paths
