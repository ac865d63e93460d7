"""The entries whose bytes are on a cluster's disks, found by a plain search of all log and journal files.

The search uses neither indexes nor framing. It counts an entry if the entry's header is directly before the
payload. In a journal it counts only records after the last mark, because a starting bookie replays no others.
"""

from __future__ import annotations

import re
import struct
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

_PAYLOAD = re.compile(rb"(entry|other)-(\d{6})")
_HEADER = struct.Struct(">qqqq4x")
"""Ledger id, entry id, last add confirmed and length, then the CRC32C (BookKeeper's `DigestManager`)."""
_MARK = struct.Struct(">qq")
"""Content of the file ``lastMark``: the id of a journal file, and a position in it."""


class EntryBytes(NamedTuple):
    """One payload of an entry. Copies of an entry can have different payloads."""

    ledger: int
    entry: int
    payload: bytes


Disks = Mapping[EntryBytes, frozenset[Path]]
"""The bookie directories that contain each entry."""


def entries_on_disks(places: Path) -> Disks:
    """Find the entries in all bookie directories.

    Args:
        places: A directory with one sub-directory for each bookie, running or not.

    Returns:
        The bookie directories that contain each entry in an entry log, or in a journal after the last mark.
    """
    directories: dict[EntryBytes, set[Path]] = defaultdict(set)
    for place in sorted(path for path in places.iterdir() if path.is_dir()):
        for log in place.glob("*/current/*.log"):
            _collect(directories, place, _entries_in(log.read_bytes()))
        mark = _last_mark(place)
        for journal in place.glob("*/current/*.txn"):
            number = int(journal.stem, 16)
            if number >= mark[0]:
                start = mark[1] if number == mark[0] else 0
                _collect(directories, place, _entries_in(journal.read_bytes()[start:]))
    return {entry: frozenset(paths) for entry, paths in directories.items()}


def _collect(directories: dict[EntryBytes, set[Path]], place: Path, entries: Iterator[EntryBytes]) -> None:
    for entry in entries:
        directories[entry].add(place)


def _entries_in(data: bytes) -> Iterator[EntryBytes]:
    for match in _PAYLOAD.finditer(data):
        start = match.start() - _HEADER.size
        if start < 0:
            continue
        ledger, entry, _, _ = _HEADER.unpack_from(data, start)
        if entry == int(match[2]):
            yield EntryBytes(ledger, entry, match[0])


def _last_mark(place: Path) -> tuple[int, int]:
    """Return the greatest last mark of a bookie's directories, which a starting bookie uses.

    Returns (0, 0) if there is none.
    """
    marks = [
        _MARK.unpack(path.read_bytes()[: _MARK.size]) for path in place.glob("ledgers*/current/lastMark")
    ]
    return max(marks, default=(0, 0))
