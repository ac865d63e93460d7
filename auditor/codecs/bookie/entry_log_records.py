"""The records of an entry log: which entries it holds and how long each is, without their payloads.

    byte 0 ... 1024    header (`auditor.codecs.bookie.entry_log`)
    record    0         4          12        20
              size      ledger id  entry id  rest of the entry      size counts from byte 4
              int32     int64      int64
    padding   a size of 0 or below: the next byte is looked at, one by one

An entry of BP-35 (format v2) has flags, from 0x80 on, in the first byte after its size; scope, ledger and
entry follow as int64 (`auditor.codecs.bookie.entry`). A ledger id of -1 is not an entry: the ledgers map, or
what the direct logger writes after its header so that its first block is full. The direct logger
(DirectEntryLogger, blocks of 4096 bytes) fills a block that it must flush with bytes 0xf0; a log that is
written to may end in zeros, or inside a record.

The rules are those of the server's scan (``DefaultEntryLogger.scanEntryLog``); where that would go astray
without a word, as after a size that no entry can have, this raises.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from auditor.codecs.bookie.entry_log import HEADER_BYTES
from auditor.codecs.bookie.length_prefixed import (
    HEAD,
    LENGTH,
    RECORD_IDS,
    V2_BEFORE,
    V2_HEAD,
    V2_HEADER,
    Longs,
    ReadAt,
    alike,
    has_v2_flags,
    heads_at,
    next_block,
)
from auditor.errors import DecodeError

NO_ENTRY = -1
"""The ledger id of what is not an entry."""

_WHAT = "entry log"
_SAME = 8  # records of one length after which it is worth to look for more of them at once
# The next place where four bytes are a size above 0: neither negative nor four zeros.
_SIZE_AHEAD = re.compile(rb"(?!\x00{4})[\x00-\x7f]", re.DOTALL)


class LogEntries(NamedTuple):
    """Some entries of a log, in its order: int64 arrays of one length.

    ``offsets`` are the starts of their records; an index points 4 bytes further. ``sizes`` are whole records,
    their own four bytes of size too, as a ledgers map counts them.
    """

    offsets: Longs
    sizes: Longs
    scope_ids: Longs
    ledger_ids: Longs
    entry_ids: Longs


@dataclass
class EntryLogRecords:
    """The records of an entry log up to byte ``size``, to be read once from the front by `entries`.

    After that ``end`` is the byte behind the last whole record, and ``cut`` whether one that follows goes
    beyond ``size``. ``other_bytes`` are those of records that are not entries, ``padding_bytes`` those
    between records. So header, entries, these two, and what follows ``end`` are all bytes of the file.

    >>> data = bytes(1024) + bytes.fromhex("00000010 0000000000000007 0000000000000002 f0f0f0f0")
    >>> log = EntryLogRecords(lambda offset, length: data[offset : offset + length], len(data))
    >>> [(found.ledger_ids.tolist(), found.sizes.tolist()) for found in log.entries()], log.end, log.cut
    ([([7], [20])], 1044, False)
    """

    read_at: ReadAt
    size: int
    end: int = HEADER_BYTES
    cut: bool = False
    other_bytes: int = 0
    padding_bytes: int = 0

    def entries(self, start: int = HEADER_BYTES) -> Iterator[LogEntries]:
        """All entries from byte ``start`` on, a block's at a time.

        Raises `DecodeError` at a record that no server can have written; what comes before it is given first.
        """
        self.end = start
        for block, at, starts in self._records(start):
            yield from self._entries_of(block, at, starts)

    def as_collected(self, start: int) -> Iterator[tuple[Longs, Longs]]:
        """Ledgers and sizes of all whole records from byte ``start`` on, whether a server can have written
        them or not: a collector's scan does not ask."""
        for block, at, starts in self._records(start):
            heads = heads_at(block, starts, HEAD)
            ledgers, sizes = (heads[name].astype(np.int64) for name in ("ledger_id", "length"))
            # It reads twelve bytes of each, and ends where they are not there.
            taken = (ledgers >= 0) & (at + starts + LENGTH.size + 8 <= self.size)
            yield ledgers[taken], sizes[taken] + LENGTH.size

    def _records(self, start: int) -> Iterator[tuple[bytes, int, Longs]]:
        """Blocks, where each begins, and where in it whole records start."""
        at, wanted = start, next_block(0)
        while at < self.size and not self.cut:
            block = self._block(at, wanted)
            starts, stop = self._walk(block, at)
            if len(starts):
                yield block, at, starts
            wanted = next_block(stop - len(block))
            at += stop

    def _block(self, at: int, wanted: int) -> bytes:
        """The bytes from ``at`` on; those at the end with zeros behind, which are padding."""
        wanted = min(wanted, self.size - at)
        block = self.read_at(at, wanted)
        if len(block) < wanted:
            self.size = at + len(block)  # the file became shorter while it was read
        return block if at + len(block) < self.size else block + bytes(V2_BEFORE)

    def _walk(self, block: bytes, base: int) -> tuple[Longs, int]:
        """Where whole records start in a block, and where to go on."""
        pieces: list[Longs] = []
        starts: list[int] = []
        add, unpack = starts.append, LENGTH.unpack_from
        at, last, rest = 0, len(block) - V2_BEFORE, self.size - base
        before = same = 0
        while at <= last:
            (length,) = unpack(block, at)
            if length == before and same == _SAME:
                # Writers often write entries of one length: such a run needs no steps.
                run = min(alike(block, at, length), (last - at) // (4 + length) + 1)
                pieces += [np.array(starts, np.int64), np.arange(at, at + run * (4 + length), 4 + length)]
                starts.clear()
                at += run * (4 + length)
                same = 0
            elif length > 0:
                add(at)
                at += 4 + length
                same = same + 1 if length == before else 0
                before = length
            else:
                ahead = _SIZE_AHEAD.search(block, at)
                at = min(ahead.start() if ahead else len(block), last + 1)
        found = np.concatenate([*pieces, np.array(starts, np.int64)])
        if at > rest and len(found) and _whole(block, int(found[-1])) > rest:
            at = int(found[-1])
            found = found[:-1]
            self.cut = True
        return found, at

    def _entries_of(self, block: bytes, base: int, starts: Longs) -> Iterator[LogEntries]:
        """The entries that start in a block; counts what else does."""
        heads = heads_at(block, starts, HEAD)
        sizes, ledgers, entries = (
            heads[name].astype(np.int64) for name in ("length", "ledger_id", "entry_id")
        )
        found = LogEntries(base + starts, sizes, np.zeros(len(sizes), np.int64), ledgers, entries)
        if ledgers.min() >= 0 and entries.min() >= 0 and sizes.min() >= RECORD_IDS:
            self._count(found)
            yield found
            return
        other, fault = _others(found, block, starts)
        sound = len(sizes) if fault is None else fault[0]
        found = LogEntries(*(column[:sound] for column in found))
        if sound:
            self._count(found)
            kept = np.flatnonzero(~other[:sound])
            self.other_bytes += int(found.sizes.sum() - found.sizes[kept].sum())
            yield LogEntries(*(column[kept] for column in found))
        if fault is not None:
            raise DecodeError(_WHAT, base + int(starts[sound]), fault[1])

    def _count(self, found: LogEntries) -> None:
        """Count what lies between records, and make sizes those of whole records."""
        found.sizes[:] += LENGTH.size
        first, end = int(found.offsets[0]), int(found.offsets[-1] + found.sizes[-1])
        between = end - first - int(found.sizes.sum())
        self.padding_bytes += first - self.end + between
        self.end = end


_Fault = tuple[int, str]


def _others(found: LogEntries, block: bytes, starts: Longs) -> tuple[NDArray[np.bool_], _Fault | None]:
    """Which records are not entries, and the first that nobody can have written; corrects ids of BP-35."""
    _, sizes, scopes, ledgers, entries = found
    other = ledgers == NO_ENTRY
    second = ledgers < NO_ENTRY
    wide = heads_at(block, starts, V2_HEAD)
    flags = wide["flags"]
    for column, name in ((scopes, "scope"), (ledgers, "ledger"), (entries, "entry")):
        column[second] = wide[name][second]
    known = has_v2_flags(flags)
    short = sizes < np.where(second, V2_HEADER, np.where(other, 8, RECORD_IDS))
    wrong = np.flatnonzero(short | second & ~known | ~second & ~other & (entries < 0))
    if not wrong.size:
        return other, None
    first = int(wrong[0])
    if short[first]:
        return other, (first, f"a record of {sizes[first]} bytes, shorter than its header")
    if second[first]:
        return other, (first, f"an entry with flags {int(flags[first]):#04x}, which no format has")
    return other, (first, "an entry with a negative id")


def _whole(block: bytes, start: int) -> int:
    """Where the record at ``start`` ends."""
    return start + LENGTH.size + int(LENGTH.unpack_from(block, start)[0])
