"""Entries that lie as bytes on the disks of a cluster, by a plain search of every log and journal file.

No index and no framing is used: an entry is where its header stands right before its payload. Of a journal
only records behind the last mark count, as a start of the bookie replays no others.
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
"""Ledger, entry, last add confirmed and length, then the CRC32C of `DigestManager`."""
_MARK = struct.Struct(">qq")
"""The id of a journal file and a position in it: the file ``lastMark``."""


class EntryBytes(NamedTuple):
    """One payload of one entry."""

    ledger: int
    entry: int
    payload: bytes


Disks = Mapping[EntryBytes, frozenset[Path]]
"""Where each entry lies: the directories that are a bookie's place."""


def entries_on_disks(places: Path) -> Disks:
    """The entries in all directories below one directory, by place.

    Args:
        places: A directory with one sub-directory for each bookie, whether that runs or not.

    Returns:
        For every entry the places that have its bytes in an entry log, or in a journal behind the last mark.
    """
    found: dict[EntryBytes, set[Path]] = defaultdict(set)
    for place in sorted(path for path in places.iterdir() if path.is_dir()):
        for log in place.glob("*/current/*.log"):
            _collect(found, place, _entries_in(log.read_bytes()))
        mark = _last_mark(place)
        for journal in place.glob("*/current/*.txn"):
            number = int(journal.stem, 16)
            if number >= mark[0]:
                start = mark[1] if number == mark[0] else 0
                _collect(found, place, _entries_in(journal.read_bytes()[start:]))
    return {entry: frozenset(paths) for entry, paths in found.items()}


def _collect(found: dict[EntryBytes, set[Path]], place: Path, entries: Iterator[EntryBytes]) -> None:
    for entry in entries:
        found[entry].add(place)


def _entries_in(data: bytes) -> Iterator[EntryBytes]:
    for match in _PAYLOAD.finditer(data):
        start = match.start() - _HEADER.size
        if start < 0:
            continue
        ledger, entry, _, _ = _HEADER.unpack_from(data, start)
        if entry == int(match[2]):
            yield EntryBytes(ledger, entry, match[0])


def _last_mark(place: Path) -> tuple[int, int]:
    """The greatest last mark of a bookie's directories, as a start takes it; (0, 0) if there is none."""
    marks = [
        _MARK.unpack(path.read_bytes()[: _MARK.size]) for path in place.glob("ledgers*/current/lastMark")
    ]
    return max(marks, default=(0, 0))
