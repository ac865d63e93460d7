"""The division of a cluster's indexes into parts. One task reads one part.

With DbLedgerStorage (RocksDB), a part is one index directory, which the task reads in key order. With index
files, a part is a bookie and some of its first-level directory names. Ledger ids of up to 64 bits (scope 0,
BP-35) have 256 such names. Longer ids have names of their own.

A task reads each of its names in all index directories of the bookie. So it sees all index files of a
ledger, even if they are in several directories. The driver lists only the first level. The task that reads
the files lists the lower levels.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from auditor.sources.regular_file import is_directory, visible_path

_BOOKIE_FILE_NAME = re.compile(
    r"VERSION|BOOKIE_STATUS|DIRTY|lastMark(\.[0-9]+)?|lastId"
    r"|[0-9a-f]+\.(log|txn)|[0-9a-f]+\.log\.(compacting|[0-9a-f]+\.compacted)"
)
# The table service keeps RocksDB databases below ranges/, whose logs (000012.log) are no entry logs.
_BOOKIE_DIRECTORY_NAME = re.compile(
    r"(ledgers|locations|locations-scoped|metadata-cache)(\.(TEMP|PREV)-.*)?|ranges"
)


INDEX_FILES, ROCKSDB = "idx", "rocksdb"
"""The two kinds of index: ``.idx`` files (Interleaved, Sorted), or RocksDB (DbLedgerStorage)."""


@dataclass(frozen=True, slots=True)
class IndexDirectory:
    """An index directory, and the SHA-256 of its VERSION file when the directory was found.

    The SHA-256 is None if the directory had no VERSION file. ``position`` is the number of the directory,
    from 0, in the configured order of the bookie's index directories. ``directory_count`` is the number of
    these directories. With DbLedgerStorage, ledger L is in directory number L mod ``directory_count``.
    """

    path: str
    version_sha256: str | None
    storage: str = INDEX_FILES
    position: int = 0
    directory_count: int = 1

    @classmethod
    def from_version(
        cls,
        path: str,
        version: bytes | None,
        storage: str = INDEX_FILES,
        position: int = 0,
        directory_count: int = 1,
    ) -> IndexDirectory:
        """Return the directory with the SHA-256 of the given VERSION bytes.

        >>> IndexDirectory.from_version("/l0", None).version_sha256 is None
        True
        """
        version_digest = None if version is None else hashlib.sha256(version).hexdigest()
        return cls(path, version_digest, storage, position, directory_count)


@dataclass(frozen=True, slots=True)
class IndexPart:
    """The work of one task: some first-level ``names`` in all index directories of one bookie.

    With DbLedgerStorage, a part is one directory and has no names.

    Attributes:
        directories: The index directories, in configured order.
        names: The first-level names to read.
        names_of_other_parts: The first-level names that the bookie's other parts read. None in all parts of
            the bookie except one. This one part also reads the files directly in ``current``, and every
            name that no other part reads. So it also reads names that appear after the parts were planned.
        threads: The number of reading threads. Several threads are useful for files that are not in the
            page cache (`auditor.sources.bookies.part_rows`).
    """

    bookie_id: str
    directories: tuple[IndexDirectory, ...]
    names: tuple[str, ...]
    names_of_other_parts: tuple[str, ...] | None = None
    threads: int = 1

    @property
    def storage_kind(self) -> str:
        """The kind of index. All directories of a part have the same kind."""
        return self.directories[0].storage


def plan_parts(
    bookies: Sequence[tuple[str, Sequence[IndexDirectory]]], part_count: int, threads: int = 1
) -> list[IndexPart]:
    """Divide the indexes of ``bookies`` into about ``part_count`` parts. Parts with RocksDB come first.

    Args:
        bookies: The id of each bookie, and its index directories in configured order.
        part_count: The desired number of parts. Use 4 to 8 per core, because a task costs 20 to 50 ms.
        threads: The number of reading threads of each part.

    Returns:
        The parts. Each bookie has at least one. Bookies with index files have parts in proportion to their
        numbers of first-level names. Each of these parts has a contiguous range of names. All names hold
        about equally many files, because ledger ids are assigned in order.
    """
    index_parts = [
        IndexPart(bookie_id, (directory,), ())
        for bookie_id, directories in bookies
        for directory in directories
        if directory.storage == ROCKSDB
    ]
    bookie_index_files = [
        (bookie_id, [directory for directory in index_directories if directory.storage == INDEX_FILES])
        for bookie_id, index_directories in bookies
    ]
    bookie_index_files = [
        (bookie_id, directories) for bookie_id, directories in bookie_index_files if directories
    ]
    names_by_bookie = [_list_first_level(directories) for _, directories in bookie_index_files]
    name_count = sum(len(names_of_bookie) for names_of_bookie in names_by_bookie)
    for (bookie_id, directories), first_level_names in zip(bookie_index_files, names_by_bookie, strict=True):
        bookie_part_count = (
            max(1, min(len(first_level_names), round(part_count * len(first_level_names) / name_count)))
            if name_count
            else 1
        )
        part_bounds = [
            len(first_level_names) * part_number // bookie_part_count
            for part_number in range(bookie_part_count + 1)
        ]
        names_by_part = [
            tuple(first_level_names[first_position:end_position])
            for first_position, end_position in pairwise(part_bounds)
        ]
        names_of_other_parts = tuple(
            sorted(name for names_of_part in names_by_part[1:] for name in names_of_part)
        )
        index_parts.append(
            IndexPart(bookie_id, tuple(directories), names_by_part[0], names_of_other_parts, threads)
        )
        index_parts += [
            IndexPart(bookie_id, tuple(directories), names_of_part, None, threads)
            for names_of_part in names_by_part[1:]
        ]
    return index_parts


def _list_first_level(directories: Sequence[IndexDirectory]) -> list[str]:
    first_level_names: set[str] = set()
    for directory in directories:
        try:
            first_level_names.update(list_current(directory.path)[0])
        except OSError:
            # The part with `names_of_other_parts` lists it again, and reports a second failure.
            continue
    return sorted(first_level_names)


def list_current(directory: str) -> tuple[list[str], list[str]]:
    """List ``current``: return the names of possible index directories, and of files that no bookie writes.

    The bookie's own files and RocksDB directories are in neither list. Raises OSError.
    """
    with os.scandir(Path(directory, "current")) as directory_entries:
        directory_names, unknown_names = [], []
        for directory_entry in directory_entries:
            if is_directory(directory_entry) and visible_path(directory_entry.name) == directory_entry.name:
                if not is_database_directory(directory_entry.name):
                    directory_names.append(directory_entry.name)
            elif not _BOOKIE_FILE_NAME.fullmatch(directory_entry.name):
                unknown_names.append(visible_path(directory_entry.name))
    return sorted(directory_names), sorted(unknown_names)


def is_database_directory(name: str) -> bool:
    """Return whether a directory with this name in ``current`` contains RocksDB databases.

    >>> is_database_directory("locations"), is_database_directory("ranges"), is_database_directory("0")
    (True, True, False)
    """
    return _BOOKIE_DIRECTORY_NAME.fullmatch(name) is not None
