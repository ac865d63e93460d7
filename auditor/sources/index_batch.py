"""What reading index files gives: one row a file, its entries as BP-34 groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from auditor.codecs.groups import GroupBatch

OK, CUT, UNREADABLE = "ok", "cut", "unreadable"


class IndexFile(NamedTuple):
    """A file to be read as the index of a ledger. A tuple: there is one for each of millions of files."""

    ledger_id: int
    path: str
    scope_id: int = 0


@dataclass(frozen=True, slots=True)
class IndexBatch:
    """Index files and what they say, one list item and one set of ``groups`` a file.

    ``states`` are ok, cut (the last slot is not whole; those before it are in ``groups``) or unreadable (no
    groups), with ``reasons`` and, where it is known, the ``offsets`` of the byte at fault. ``page_bytes``
    is the file's length after its header, ``mtimes`` are in ms, None unless asked for.
    """

    files: Sequence[IndexFile]
    groups: GroupBatch
    states: list[str]
    reasons: list[str | None]
    offsets: list[int | None]
    page_bytes: list[int]
    mtimes: list[int | None]
