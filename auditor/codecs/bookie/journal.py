"""A bookie's journal (``<hex>.txn``): the entries written to it, read from the headers of its records.

    version 1            no header; the first record is at byte 0 (the file does not start with "BKLG")
    version 2, 3, 4      byte 0 "BKLG"   4 version, int32   8 first record
    version 5, 6         the same, and zeros up to byte 512, where the first record is

All numbers are big-endian. The bookie fills files with zeros before it writes to them. So a length of 0,
like the end of the file, ends the journal. If a file ends inside a record, the replay at a restart ends
before that record.

A record with an entry id below 0 is not an entry. The id -4096 means a ledger's master key (from version 3
on). The id -8192 means a fence (from version 4 on), and -32768 an explicit LAC (from version 6 on). Records
with any other negative id are skipped, as in the server (``Journal.scanJournal``,
``BookieImpl.readJournal``).

Payloads are never examined. Payloads larger than a block are not even read.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from auditor.codecs.bookie.length_prefixed import (
    HEAD_DTYPE,
    LENGTH_STRUCT,
    RECORD_ID_BYTES,
    V2_HEAD_DTYPE,
    V2_HEADER_BYTES,
    V2_PREFIX_BYTES,
    LengthPrefixed,
    Longs,
    ReadAt,
    has_v2_flags,
    next_block_bytes,
    read_heads,
)
from auditor.errors import DecodeError
from auditor.model.states import ReplayError

MAGIC = b"BKLG"
NEWEST_VERSION = 6
MASTER_KEY, FENCE, EXPLICIT_LAC = -0x1000, -0x2000, -0x8000
"""Entry ids of records that are not entries. `MASTER_KEY` is written when a ledger is new to the bookie."""

HEADER = struct.Struct(">4si")

_FORMAT_NAME = "journal"
_ALIGNED_HEADER_BYTES = 512
_PADDING_LENGTH = -256
_FIRST_ALIGNED_VERSION = 5
_FIRST_VERSION_OF_KIND = {MASTER_KEY: 3, FENCE: 4, EXPLICIT_LAC: 6}


class Records(NamedTuple):
    """Some records of a journal, in order, as int64 arrays of the same length.

    ``offsets`` are the starts of the records.
    """

    offsets: Longs
    ledger_ids: Longs
    entry_ids: Longs
    scope_ids: Longs

    def entries(self) -> Records:
        """Return the records that are entries, without records such as fences and master keys.

        An entry's ledger id may be negative if the id's upper 64 bits (its scope) are not 0.
        """
        is_entry = (self.entry_ids >= 0) & ((self.ledger_ids >= 0) | (self.scope_ids != 0))
        return Records(*(column[is_entry] for column in self))


@dataclass
class Journal(LengthPrefixed):
    """A journal file of ``size`` bytes. `records` reads the file once, from start to end.

    After `records` has ended, ``end`` is the offset at which the journal ended. ``is_cut`` tells whether the
    file ends inside the record or padding that begins at ``end``. If `records` raised an error at a record,
    ``replay_error`` shows what a server's replay does there. It is the error with which the replay stops, or
    None if the replay continues.

    >>> data = bytes.fromhex("00000010 0000000000000007 0000000000000002 00000000")
    >>> journal = Journal.open(lambda offset, length: data[offset : offset + length], len(data))
    >>> [records.entry_ids.tolist() for records in journal.records()], journal.end, journal.is_cut
    ([[2]], 20, False)
    """

    version: int
    first_record_offset: int
    end: int | None = None
    is_cut: bool = False
    replay_error: ReplayError | None = None

    @classmethod
    def open(cls, read_at: ReadAt, size: int) -> Journal:
        """Open a journal. Raises `DecodeError` if its header has a version that no server writes."""
        data = read_at(0, HEADER.size)
        # Version 1 had no header: the first bytes are those of a record, and are not the magic.
        if len(data) < HEADER.size or not data.startswith(MAGIC):
            return cls(read_at, size, 1, 0)
        _, version = HEADER.unpack(data)
        if not 2 <= version <= NEWEST_VERSION:
            raise DecodeError(_FORMAT_NAME, 4, f"version {version} is not one of 1 to {NEWEST_VERSION}")
        return cls(
            read_at,
            size,
            version,
            _ALIGNED_HEADER_BYTES if version >= _FIRST_ALIGNED_VERSION else HEADER.size,
        )

    def records(self, start: int = 0) -> Iterator[Records]:
        """Yield all records from byte ``start`` on, block by block.

        If ``start`` is 0, begin with the first record. If a record cannot have been written by any server,
        first yields all earlier records and then raises `DecodeError`.
        """
        offset = start if start > 0 else self.first_record_offset
        block_size = next_block_bytes(0)
        while self.end is None:
            block = self._block(offset, block_size)
            starts, next_position, damage = self._find_records(block, offset)
            records, fault = _block_records(block, offset, starts, self.version)
            if fault is not None:
                yield Records(*(column[: fault.record] for column in records))
                self.replay_error = fault.replay_error
                raise DecodeError(_FORMAT_NAME, int(records.offsets[fault.record]), fault.reason)
            if starts:
                yield records
            if damage is not None:
                self.replay_error = damage.replay_error
                raise DecodeError(_FORMAT_NAME, offset + next_position, damage.reason)
            block_size = next_block_bytes(next_position - len(block))
            offset += next_position

    def _find_records(self, block: bytes, block_offset: int) -> tuple[list[int], int, _RecordFault | None]:
        """Return a block's record starts, the next record's position, and the first faulty record or None."""
        starts: list[int] = []
        # The one loop over records in Python: what it calls is looked up once.
        append_start, unpack_length = starts.append, LENGTH_STRUCT.unpack_from
        position, last_position = 0, len(block) - V2_PREFIX_BYTES
        while position <= last_position:
            (length,) = unpack_length(block, position)
            if length > 0:
                append_start(position)
                position += 4 + length
            # A block has zeros behind the end of the file: a length that is cut there reads as another.
            elif length == 0 or block_offset + position + 4 > self.size:
                self.end, self.is_cut = block_offset + position, 0 < self.size - block_offset - position < 4
                break
            elif length != _PADDING_LENGTH or self.version < _FIRST_ALIGNED_VERSION:
                fault = _RecordFault(
                    len(starts),
                    f"a record with an invalid length: {length} bytes",
                    ReplayError.INVALID_RECORD,
                )
                return starts, position, fault
            else:
                (length,) = unpack_length(block, position + 4)
                if length < 0:
                    reason = f"padding with an invalid length: {length} bytes"
                    return starts, position, _RecordFault(len(starts), reason, ReplayError.INVALID_PADDING)
                if block_offset + position + 8 + length > self.size:
                    self.end, self.is_cut = block_offset + position, True
                    break
                position += 8 + length
        # The last record reaches beyond the file: it was not written to its end, and a restart drops it too.
        if block_offset + position > self.size and starts:
            self.end, self.is_cut = block_offset + starts.pop(), True
        return starts, position, None


def _block_records(
    block: bytes, block_offset: int, starts: list[int], version: int
) -> tuple[Records, _RecordFault | None]:
    """Return the records that start in a block, and the first one that no server can write (or None)."""
    positions = np.array(starts, np.int64)
    record_heads = read_heads(block, positions, HEAD_DTYPE)
    lengths, ledger_ids, entry_ids = (
        record_heads[name].astype(np.int64) for name in ("length", "ledger_id", "entry_id")
    )
    records = Records(block_offset + positions, ledger_ids, entry_ids, np.zeros(len(positions), np.int64))
    v2_rows = np.flatnonzero(ledger_ids < 0)
    v2_heads = read_heads(block, positions[v2_rows], V2_HEAD_DTYPE)
    columns = ((records.scope_ids, "scope"), (ledger_ids, "ledger"), (entry_ids, "entry"))
    for column, name in columns:
        column[v2_rows] = v2_heads[name]
    faulty_v2 = np.flatnonzero(~has_v2_flags(v2_heads["flags"]) | (lengths[v2_rows] < V2_HEADER_BYTES))
    fault = _first_fault(records, lengths, version)
    if faulty_v2.size and (fault is None or v2_rows[faulty_v2[0]] < fault.record):
        flags, length = int(v2_heads["flags"][faulty_v2[0]]), lengths[v2_rows[faulty_v2[0]]]
        # A server takes it for an entry of a ledger below 0, which its storage does not have, and skips it.
        fault = _RecordFault(
            int(v2_rows[faulty_v2[0]]),
            f"a record of {length} bytes that begins with {flags:#04x}: not an entry in a known format",
            None,
        )
    return records, fault


class _RecordFault(NamedTuple):
    """A record that no server can have written.

    ``record`` is its position among the records of its block. ``reason`` is why it is impossible.
    """

    record: int
    reason: str
    replay_error: ReplayError | None


def _first_fault(records: Records, lengths: Longs, version: int) -> _RecordFault | None:
    """Return the first record that no server can have written, with the reason.

    A server refuses to start at such a record. ``version`` is the version of the journal's format. Returns
    None if no record is at fault.
    """
    is_short = lengths < RECORD_ID_BYTES
    is_too_new = np.zeros(len(lengths), bool)
    for entry_id, first_version in _FIRST_VERSION_OF_KIND.items():
        if version < first_version:
            is_too_new |= records.entry_ids == entry_id
    faulty_rows = np.flatnonzero(is_short | is_too_new)
    if not faulty_rows.size:
        return None
    first_row = int(faulty_rows[0])
    if is_short[first_row]:
        reason = f"a record of {lengths[first_row]} bytes, too short for a ledger id and an entry id"
        return _RecordFault(first_row, reason, ReplayError.SHORT_RECORD)
    reason = f"a record of kind {records.entry_ids[first_row]}, which journal version {version} does not have"
    return _RecordFault(first_row, reason, ReplayError.INVALID_RECORD)
