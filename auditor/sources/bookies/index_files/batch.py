"""What reading index files gives: one row per file, its entries as BP-34 groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from auditor.codecs.availability.groups import GroupBatch, Longs
from auditor.sources.bookies.file_stamp import Stamps


class IndexFiles(NamedTuple):
    """Files to be read as the indexes of ledgers of one scope: columns, since there are millions of them."""

    ledger_ids: Longs
    paths: list[bytes]
    scope_id: int = 0


class FileFault(NamedTuple):
    """Why an index file is not ok, and, where it is known, the byte at fault.

    ``state`` is cut (the last slot is not whole; those before it count) or unreadable (no groups).
    """

    state: str
    reason: str
    offset: int | None


@dataclass(frozen=True, slots=True)
class IndexBatch:
    """Index files and what they say, one item and one set of ``groups`` a file.

    A file without an item in ``faults``, by its number, is ok. ``page_bytes`` is the file's length after its
    header; ``mtimes`` are in ms, -1 where a file could not be asked. ``stamps`` are of files as they were
    before they were read, and sure of those that are ok only.
    """

    scope_ids: Longs
    ledger_ids: Longs
    paths: list[bytes]
    groups: GroupBatch
    faults: dict[int, FileFault]
    page_bytes: Longs
    mtimes: Longs
    stamps: Stamps
