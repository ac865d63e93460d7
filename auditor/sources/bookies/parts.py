"""How the indexes of a cluster are cut into tasks.

A directory with a DbLedgerStorage index (RocksDB) is one task: it is read in key order. Of index files a unit
of work is one first-level directory name (of 256; other scopes have their own) of one bookie, in all of its
index directories together: only so can a task see which of them has a ledger's file first. A part is one
bookie and some of these names. The driver lists only the first level; files are listed where they are read.
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

_OWN_FILE = re.compile(
    r"VERSION|BOOKIE_STATUS|DIRTY|lastMark(\.[0-9]+)?|lastId"
    r"|[0-9a-f]+\.(log|txn)|[0-9a-f]+\.log\.(compacting|[0-9a-f]+\.compacted)"
)
# The table service keeps RocksDB databases below ranges/, whose logs (000012.log) are no entry logs.
_OWN_DIRECTORY = re.compile(r"(ledgers|locations|locations-scoped|metadata-cache)(\.(TEMP|PREV)-.*)?|ranges")


IDX, ROCKSDB = "idx", "rocksdb"
"""How an index is kept: in files of its own (Interleaved, Sorted), or in RocksDB (DbLedgerStorage)."""


@dataclass(frozen=True, slots=True)
class IndexDirectory:
    """An index directory and the SHA-256 of the VERSION that was seen in it; None if it had none.

    It is number ``position`` (from 0) of the bookie's ``of`` index directories in configured order; on
    DbLedgerStorage ledger L is in number L mod ``of``.
    """

    path: str
    version_sha256: str | None
    storage: str = IDX
    position: int = 0
    of: int = 1

    @classmethod
    def seen(
        cls, path: str, version: bytes | None, storage: str = IDX, position: int = 0, directory_count: int = 1
    ) -> IndexDirectory:
        """
        >>> IndexDirectory.seen("/l0", None).version_sha256 is None
        True
        """
        digest = None if version is None else hashlib.sha256(version).hexdigest()
        return cls(path, digest, storage, position, directory_count)


@dataclass(frozen=True, slots=True)
class Earlier:
    """Rows of an earlier run that may be taken again (`auditor.sources.bookies.earlier_rows`).

    ``files`` of the table availability at ``table``, a path or URI, may have rows of the bookie; that run
    began to list at ``began``, in ms.
    """

    table: str
    files: tuple[str, ...]
    began: int


@dataclass(frozen=True, slots=True)
class IndexPart:
    """What one task reads: some first-level ``names`` of one bookie's index directories, in configured order.

    On DbLedgerStorage it is one directory, without names. A part with ``elsewhere`` reads every name that is
    *not* in it, whatever it finds when it looks: one part of each bookie has it, so nothing that appears
    after planning is passed over, and that part also looks for files directly in ``current``. ``threads``
    pay where the files are not in the page cache (`auditor.sources.bookies.part_rows`). What did
    not change since ``earlier`` is not read again.
    """

    bookie_id: str
    directories: tuple[IndexDirectory, ...]
    names: tuple[str, ...]
    elsewhere: tuple[str, ...] | None = None
    threads: int = 1
    earlier: Earlier | None = None

    @property
    def storage(self) -> str:
        """How the index is kept: a part has directories of one kind."""
        return self.directories[0].storage


def plan_parts(
    bookies: Sequence[tuple[str, Sequence[IndexDirectory]]], part_count: int, threads: int = 1
) -> list[IndexPart]:
    """Cut the index of ``bookies`` into about ``part_count`` parts, at least one per bookie; RocksDB first.

    Each bookie is its id and its index directories in configured order.

    A bookie gets parts in proportion to its units. Ids are given out in order, so that its names hold about
    equally many files. ``part_count`` is 4 to 8 a core: a task costs 20 to 50 ms.
    """
    result = [
        IndexPart(bookie_id, (directory,), ())
        for bookie_id, directories in bookies
        for directory in directories
        if directory.storage == ROCKSDB
    ]
    files = [
        (bookie_id, [directory for directory in own if directory.storage == IDX])
        for bookie_id, own in bookies
    ]
    files = [(bookie_id, directories) for bookie_id, directories in files if directories]
    names = [_first_level(directories) for _, directories in files]
    units = sum(len(level_names) for level_names in names)
    for (bookie_id, directories), own in zip(files, names, strict=True):
        count = max(1, min(len(own), round(part_count * len(own) / units))) if units else 1
        edges = [len(own) * number // count for number in range(count + 1)]
        hands = [tuple(own[start:end]) for start, end in pairwise(edges)]
        elsewhere = tuple(sorted(name for hand in hands[1:] for name in hand))
        result.append(IndexPart(bookie_id, tuple(directories), hands[0], elsewhere, threads))
        result += [IndexPart(bookie_id, tuple(directories), hand, None, threads) for hand in hands[1:]]
    return result


def _first_level(directories: Sequence[IndexDirectory]) -> list[str]:
    names: set[str] = set()
    for directory in directories:
        try:
            names.update(list_current(directory.path)[0])
        except OSError:
            # The part with `elsewhere` lists it again, and says so if it still cannot.
            continue
    return sorted(names)


def list_current(directory: str) -> tuple[list[str], list[str]]:
    """Names in ``current``: directories that may hold index files, and files that are none of a bookie's.

    The bookie's own files and its RocksDB directories are left out. Raises OSError.
    """
    with os.scandir(Path(directory, "current")) as entries:
        directories, strays = [], []
        for entry in entries:
            if is_directory(entry) and visible_path(entry.name) == entry.name:
                if not is_database(entry.name):
                    directories.append(entry.name)
            elif not _OWN_FILE.fullmatch(entry.name):
                strays.append(visible_path(entry.name))
    return sorted(directories), sorted(strays)


def is_database(name: str) -> bool:
    """Whether a directory of that name in ``current`` is one that RocksDB keeps.

    >>> is_database("locations"), is_database("ranges"), is_database("0")
    (True, True, False)
    """
    return _OWN_DIRECTORY.fullmatch(name) is not None
