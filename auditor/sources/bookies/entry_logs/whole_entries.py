"""Entries that are looked at whole: whether each is what its digest says, and a checksum of its payload.

One row an entry, with what holds under each type of digest, for which of them a ledger has only its metadata
says; and rows without an entry that count those which were in the sample and were not read, with the reason.
The bytes themselves go no further.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from auditor.codecs.bookie.entry import decode_header
from auditor.codecs.bookie.entry_digest import DIGEST_BYTES, crc32c, digest_matches
from auditor.codecs.bookie.length_prefixed import LENGTH, RECORD_IDS
from auditor.errors import DecodeError, UnreadError
from auditor.model.columns import schema_of
from auditor.model.ledger_id import LedgerId
from auditor.model.regular_file import open_descriptor
from auditor.model.states import NotChecked
from auditor.sources.bookies.entry_logs.locations import EntryLocations, LogPaths, homes_of, located_batches
from auditor.sources.bookies.entry_logs.one_entry import MAX_ENTRY_BYTES
from auditor.sources.bookies.entry_logs.sample import EntrySample
from auditor.sources.bookies.parts import IndexPart

WHOLE_ENTRIES = schema_of(
    ("bookie_id", pa.string(), "the bookie"),
    ("logger", pa.int32(), "as in entry_logs"),
    ("log_id", pa.int64(), "the log"),
    ("entry_offset", pa.int64(), "where the entry begins there"),
    ("scope_id", pa.int64(), "BP-35 scope of the ledger"),
    ("ledger_id", pa.int64(), "the ledger; null: entries that were not read"),
    ("entry_id", pa.int64(), "the entry"),
    ("entry_bytes", pa.int64(), "its length, header and digest too"),
    ("crc32_right", pa.bool_(), "it is what a digest CRC32 says"),
    ("crc32c_right", pa.bool_(), "the same of CRC32C"),
    ("mac_right", pa.bool_(), "the same of MAC; null: no password was given"),
    *(
        (f"payload_{name.lower()}", pa.int64(), f"CRC-32C of the payload, if the digest is {name}")
        for name in DIGEST_BYTES
    ),
    ("header_bytes", pa.int32(), "where the digest begins"),
    ("entries", pa.int64(), "1; of entries that were not read, how many"),
    ("reason", pa.string(), "why they were not read, or not checked"),
    ("there_ledger_id", pa.int64(), "as in locations: what lies there instead"),
    ("there_entry_id", pa.int64(), "likewise"),
)
"""What `read_whole_entries` gives."""

_BLOCK = 1 << 18
_NEAR = 1 << 16  # entries so close to each other are read with what lies between


def read_whole_entries(
    part: IndexPart, ledger_directories: Sequence[str], sample: EntrySample, key: bytes | None
) -> Iterator[pa.RecordBatch]:
    """Rows of `WHOLE_ENTRIES` of one part of a bookie's index. Needs no Spark.

    ``ledger_directories`` are the bookie's in configured order, "" for one that was not found. ``key`` is
    that of HMACs (`auditor.codecs.bookie.entry_digest.mac_key`). What cannot be read of the index is no row
    here: the table locations has it.
    """
    logger, homes = homes_of(part, ledger_directories)
    logs = LogPaths(homes)
    left = sample.bytes
    try:
        for located in located_batches(part):
            chosen = np.flatnonzero(sample.chosen(located.scope_ids, located.ledger_ids, located.entry_ids))
            if len(chosen):
                some = EntryLocations(*(column[chosen] for column in located))
                rows, left = _rows(some, logs, left, key)
                named = [{"bookie_id": part.bookie_id, "logger": logger} | row for row in rows]
                yield pa.RecordBatch.from_pylist(named, schema=WHOLE_ENTRIES)
    except (OSError, UnreadError):
        return


def _rows(
    located: EntryLocations, logs: LogPaths, left: int, key: bytes | None
) -> tuple[list[dict[str, Any]], int]:
    """Rows of some entries, read in the order in which they lie; and the bytes left of the budget."""
    rows: list[dict[str, Any]] = []
    missed: Counter[NotChecked] = Counter()
    reader = _Reader(logs)
    for at in np.argsort(located.locations, kind="stable").tolist():
        if left <= 0:
            missed[NotChecked.BUDGET] += 1
            continue
        location = int(located.locations[at])
        ledger = LedgerId(int(located.ledger_ids[at]), int(located.scope_ids[at]))
        try:
            data = reader.entry(location >> 32, location & 0xFFFFFFFF)
        except OSError:
            missed[NotChecked.LOG] += 1
            continue
        left -= len(data)
        row = _row(data, ledger, int(located.entry_ids[at]), key)
        rows.append(row | {"log_id": location >> 32, "entry_offset": location & 0xFFFFFFFF})
    reader.close()
    return [*rows, *({"entries": count, "reason": reason} for reason, count in missed.items())], left


def _row(data: bytes, ledger: LedgerId, entry_id: int, key: bytes | None) -> dict[str, Any]:
    """What the bytes at an entry's location are."""
    wanted = {"scope_id": ledger.scope, "ledger_id": ledger.id, "entry_id": entry_id, "entries": 1}
    try:
        header = decode_header(data)
    except DecodeError:
        return wanted | {"reason": NotChecked.OTHER}
    if (header.ledger, header.entry_id) != (ledger, entry_id):
        there = {"there_ledger_id": header.ledger.id, "there_entry_id": header.entry_id}
        return wanted | {"reason": NotChecked.OTHER} | there
    begin = header.header_bytes
    payloads = {
        f"payload_{name.lower()}": crc32c(data[begin + length :]) for name, length in DIGEST_BYTES.items()
    }
    return wanted | {
        "entry_bytes": len(data),
        "crc32_right": digest_matches(data, begin, "CRC32"),
        "crc32c_right": digest_matches(data, begin, "CRC32C"),
        "mac_right": digest_matches(data, begin, "MAC", key),
        "header_bytes": begin,
        **payloads,
    }


class _Reader:
    """Entries of logs, to be asked for in the order in which they lie; neighbours are read together."""

    def __init__(self, logs: LogPaths) -> None:
        self._logs = logs
        self._log: int | None = None
        self._descriptor: int | None = None
        self._start, self._block = 0, b""

    def entry(self, log_id: int, offset: int) -> bytes:
        """An entry by where it begins, or nothing where none can be.

        Raises OSError: its log cannot be read.
        """
        if log_id != self._log:
            self._open(log_id)
        if self._descriptor is None:
            raise FileNotFoundError(f"log {log_id:x}")
        before = self._part(offset - LENGTH.size, LENGTH.size)
        size = LENGTH.unpack(before)[0] if len(before) == LENGTH.size else 0
        if not RECORD_IDS <= size <= MAX_ENTRY_BYTES:
            return b""
        data = self._part(offset, size)
        return data if len(data) == size else b""

    def close(self) -> None:
        """Close the log that is open."""
        if self._descriptor is not None:
            os.close(self._descriptor)
        self._descriptor = self._log = None

    def _open(self, log_id: int) -> None:
        self.close()
        self._log, self._start, self._block = log_id, 0, b""
        path = self._logs.path(log_id)
        try:
            self._descriptor = None if path is None else open_descriptor(path)[0]
        except OSError:
            self._descriptor = None

    def _part(self, offset: int, length: int) -> bytes:
        assert self._descriptor is not None
        end = self._start + len(self._block)
        if not self._start <= offset <= offset + length <= end:
            # A neighbour of what was read last: the next ones will be near too.
            near = bool(self._block) and 0 <= offset - end < _NEAR
            wanted = max(length, _BLOCK if near else 4096)
            self._start, self._block = offset, os.pread(self._descriptor, wanted, max(0, offset))
        return self._block[offset - self._start : offset - self._start + length]
