"""What a collector takes an entry log to hold where its header or its ledgers map is damaged.

The server reads the map that the header names, and where it finds that wrong it reads the entries
(``DefaultEntryLogger.getEntryLogMetadata``). It does not hold the map to the entries, and it is not as strict
as `auditor.codecs.bookie.entry_log`. Three things lead it astray:

- A ledgers map offset a little below 0, where the reader's buffer is larger than the header
  (readBufferSizeBytes: 512 by default, 4096 in Pulsar). The read at that place fails when the reader has
  already noted it as the place of its buffer (``BufferedReadChannel``). The scan that follows takes what is
  in the buffer, the start of the file, for what comes so many bytes earlier: it begins inside a record, makes
  up ledgers, and a log of which no ledger exists is deleted. Whatever else is wrong with an offset has the
  map refused and the entries read.
- A map that can be read and is none of the log's: not even its place is asked for.
- In the direct logger (``LogMetadata.read``) a map of which nothing can be read, as its offset lies at or
  behind the end of the file or at a number of 0 or below: that log has no ledgers, and is deleted.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from auditor.codecs.bookie.entry_log import HEADER_BYTES, LEDGER, EntryLogHeader
from auditor.codecs.bookie.entry_log_records import EntryLogRecords
from auditor.codecs.bookie.length_prefixed import LENGTH, ReadAt

LARGER_BUFFER = 4096
"""What a reader of entry logs reads at once as Pulsar sets it (readBufferSizeBytes); the default is 512."""

_IDS = 20  # of a map's record: ledger, entry, number of ledgers
_MAP_IDS = (-1).to_bytes(8, signed=True) + (-2).to_bytes(8, signed=True)
_LARGEST_OF_DIRECT = 24 + LEDGER.itemsize * 10_000
_LARGEST_INT = 2**31 - 1

Sums = dict[int, int]
"""Bytes by ledger."""


def extract_ledgers(
    read_at: ReadAt, size: int, header: EntryLogHeader, direct: bool, buffer_bytes: int = LARGER_BUFFER
) -> Sums | None:
    """Whose bytes a collector takes a log to hold, and how many; ``header`` is what it says, sensible or not.

    None where it reads all entries, or leaves the log alone for an error.
    """
    if header.version < 1 or header.map_offset == 0:
        return None
    if direct:
        sound = 0 < header.map_offset <= _LARGEST_INT
        return _ledgers(read_at, size, header.map_offset, direct) if sound else None
    if header.map_offset < 0:
        return _astray(read_at, size, -header.map_offset, buffer_bytes)
    found = _ledgers(read_at, size, header.map_offset, direct)
    return found if found and len(found) == header.map_ledgers else None


def _ledgers(read_at: ReadAt, size: int, at: int, direct: bool) -> Sums | None:
    """What the records of a map add up to; None where one of them is refused."""
    found: Sums = {}
    # What the direct logger reads from before a file's end goes on in zeros, where its buffer was new.
    beyond = size + _LARGEST_OF_DIRECT if direct else size

    def part(at: int, length: int) -> bytes:
        return read_at(at, min(length, size - at)).ljust(length if direct else 0, b"\0")

    while at < size:
        length = int.from_bytes(start := part(at, LENGTH.size), signed=True)
        at += LENGTH.size
        if len(start) == LENGTH.size and length <= 0:
            break
        if at >= size or (direct and length >= _LARGEST_OF_DIRECT):
            return None
        # The other reads a record that the file cuts as one that ends there.
        whole = min(length, beyond - at)
        ids = part(at, min(_IDS, whole))
        count = int.from_bytes(ids[16:], signed=True)
        if ids[:16] != _MAP_IDS or whole - _IDS != LEDGER.itemsize * max(0, count):
            return None
        for ledger, more in np.frombuffer(part(at + _IDS, whole - _IDS), LEDGER).tolist():
            found[ledger] = found.get(ledger, 0) + more
            if ledger < 0 or not 0 <= found[ledger] < 2**63:
                return None
        at += length
    return found


def _astray(read_at: ReadAt, size: int, shift: int, buffer_bytes: int) -> Sums | None:
    """What a scan finds whose reader has the start of the file for what lies ``shift`` bytes before it."""
    buffer = read_at(0, buffer_bytes)
    edge = len(buffer) - shift  # where it reads on, from where it is
    if edge <= HEADER_BYTES:
        return None
    found: Sums = {}
    at = HEADER_BYTES
    for ledger, length in _shifted(read_at, buffer, edge):
        at += LENGTH.size + length if length > 0 else 1
        if ledger >= 0 and length > 0:
            if at > size:
                return found
            found[ledger] = found.get(ledger, 0) + LENGTH.size + length
    for ledgers, sizes in EntryLogRecords(read_at, size).as_collected(at):
        for ledger, length in zip(ledgers.tolist(), sizes.tolist(), strict=True):
            found[ledger] = found.get(ledger, 0) + length
    return found


def _shifted(read_at: ReadAt, buffer: bytes, edge: int) -> Iterator[tuple[int, int]]:
    """Ledgers and lengths of the records that begin in the buffer; where no length is above 0, one byte."""
    at, shift = HEADER_BYTES, len(buffer) - edge
    while at < edge:
        head = buffer[at + shift : at + shift + 12]
        across = len(head) < 12
        head += read_at(edge, 12 - len(head))
        if len(head) < 12:
            return
        length, ledger = (int.from_bytes(each, signed=True) for each in (head[:4], head[4:]))
        yield ledger, length
        if across:
            return
        at += LENGTH.size + length if length > 0 else 1
