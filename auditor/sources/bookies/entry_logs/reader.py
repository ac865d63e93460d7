"""One entry log: its bytes per ledger, from its ledgers map or from a scan of its entry headers.

Every byte of a log belongs to one of four areas:

    header    the first 1024 bytes
    records   records of ledgers with padding between them, known from the totals in the map or from a scan
    map       the ledgers map and the records of the direct logger that are not entries
    tail      the rest

A closed log has a ledgers map. The reader then reads only header and map. The bytes that the map lists must
add up to the bytes between header and map, without the padding of the direct logger. If they do not, or if
there is no map, the reader reads the headers of all entries, as the server does. It skips the payloads.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from auditor.codecs.bookie.collector_scan import scan_log
from auditor.codecs.bookie.entry_log import (
    DIRECT_HEADER_BYTES,
    HEADER_BYTES,
    MAX_MAP_BYTES,
    EntryLogHeader,
    check_header,
    decode_map,
    decode_unchecked_header,
    is_direct,
)
from auditor.codecs.bookie.entry_log_records import EntryLogRecords, extract_ledgers
from auditor.codecs.bookie.length_prefixed import LENGTH_STRUCT, Longs, ReadAt
from auditor.errors import DecodeError
from auditor.model.amounts import plural
from auditor.model.states import CollectorScan
from auditor.sources.regular_file import open_regular

MAP_SOURCE, SCAN_SOURCE = "map", "scan"
"""The two sources of the bytes per ledger."""

MAX_ENTRY_BYTES = 16 << 20
"""Largest size of an entry's record, in bytes. A bookie accepts 5 MB by default (nettyMaxFrameSizeBytes)."""


def _empty_column() -> Longs:
    return np.zeros(0, np.int64)


@dataclass
class LogContents:
    """The contents of one log. Its byte counts add up to ``size``, even if the file is damaged.

    ``scope_ids``, ``ledger_ids``, ``bytes`` and ``entries`` have one item per ledger.

    Attributes:
        entries: Number of entries of each ledger. Empty if only the map was read.
        bytes_source: The source of the bytes per ledger: `MAP_SOURCE` or `SCAN_SOURCE`. None if neither shows
            the ledgers; then ``tail_bytes`` counts all bytes after the header.
        is_cut: Whether the file ends inside a record.
        damage: The fault of a record. None if there is none.
        map_damage: The fault of the map: it contradicts the entries, or cannot be read. None without a fault.
        is_map_unreadable: Whether the map cannot be read.
        has_negative_offset: Whether the map offset in the header is negative, which no server writes. A
            garbage collector with a large read buffer then reads wrong ledgers.
        collector_scan: The result of a collector's scan of the entries. None if the scan misses no record.
        collector_bytes: Bytes of each ledger as the garbage collector counts them: by the map if it accepts
            the map, else by the entries. May name false ledgers. Empty if there is no map and the scan fails.
    """

    size: int = 0
    mtime: int = 0
    header: EntryLogHeader | None = None
    is_direct: bool = False
    bytes_source: str | None = None
    scope_ids: Longs = field(default_factory=_empty_column)
    ledger_ids: Longs = field(default_factory=_empty_column)
    bytes: Longs = field(default_factory=_empty_column)
    entries: Longs = field(default_factory=_empty_column)
    header_bytes: int = 0
    map_bytes: int = 0
    padding_bytes: int = 0
    tail_bytes: int = 0
    is_cut: bool = False
    damage: DecodeError | None = None
    map_damage: DecodeError | None = None
    is_map_unreadable: bool = False
    has_negative_offset: bool = False
    collector_scan: CollectorScan | None = None
    collector_bytes: dict[int, int] = field(default_factory=dict)

    @property
    def entry_bytes(self) -> int:
        """The bytes of all entries, including the four size bytes of each entry."""
        return int(self.bytes.sum())


def read_contents(path: str, scan: bool = True, verify: bool = False) -> LogContents:
    """Read a log from its map if the map is plausible. Otherwise, read the headers of its entries.

    Args:
        path: The path of the log.
        scan: Whether to read the headers of the entries if the map cannot be used.
        verify: Whether to read the headers of the entries even if the map can be used. ``map_damage`` then
            reports a contradiction between them. No effect if ``scan`` is False.

    Returns:
        The contents, including any damage that was found.

    Raises:
        OSError: the file cannot be read.
    """
    with open_log(path) as (read_at, status):
        contents = contents_of(read_at, status.st_size, scan, verify)
        contents.mtime = status.st_mtime_ns // 1_000_000
        return contents


@contextmanager
def open_log(path: str) -> Iterator[tuple[ReadAt, os.stat_result]]:
    """Open a log. Yield a function that reads its bytes, and the status of the file. Raises OSError."""
    with open_regular(path) as file:
        descriptor = file.fileno()
        yield lambda offset, length: _read_bytes(descriptor, offset, length), os.fstat(descriptor)


def contents_of(read_at: ReadAt, size: int, scan: bool = True, verify: bool = False) -> LogContents:
    """Read a log of ``size`` bytes in the same way as `read_contents`. The result includes any damage.

    >>> str(contents_of(lambda offset, length: b"", 0).damage)
    'entry log: only 0 of 1024 header bytes (at byte 0)'
    """
    return _LogReader(read_at, LogContents(size=size)).read(scan, verify)


def _read_bytes(descriptor: int, offset: int, length: int) -> bytes:
    """Read ``length`` bytes, or fewer if the file ends. Call ``pread`` again if it returned too few bytes."""
    log_bytes = os.pread(descriptor, length, offset)
    while log_bytes and len(log_bytes) < length:
        next_bytes = os.pread(descriptor, length - len(log_bytes), offset + len(log_bytes))
        if not next_bytes:
            break
        log_bytes += next_bytes
    return log_bytes


class _LogReader:
    def __init__(self, read_at: ReadAt, contents: LogContents) -> None:
        self._read_bytes = read_at
        self._contents = contents
        self._mapped_bytes: dict[int, int] | None = None

    def read(self, scan: bool, verify: bool) -> LogContents:
        contents = self._contents
        header_bytes = self._read_bytes(0, DIRECT_HEADER_BYTES)
        contents.header_bytes = min(contents.size, HEADER_BYTES)
        contents.tail_bytes = contents.size - contents.header_bytes
        try:
            contents.header = decode_unchecked_header(header_bytes)
        except DecodeError as damage:
            contents.damage = damage
            return contents
        try:
            check_header(contents.header)
        except DecodeError as damage:
            contents.map_damage, contents.is_map_unreadable = damage, True
        contents.is_direct = is_direct(header_bytes)
        if contents.is_direct:
            contents.header_bytes = DIRECT_HEADER_BYTES
            contents.tail_bytes = contents.size - DIRECT_HEADER_BYTES
        if contents.header.has_map and not contents.is_map_unreadable:
            self._read_map(contents.header)
        if scan and (verify or contents.bytes_source is None):
            self._scan()
            if self._mapped_bytes is None:
                self._record_collector_misses(contents.header)
        return contents

    def _read_map(self, header: EntryLogHeader) -> None:
        contents = self._contents
        try:
            remaining_bytes = contents.size - header.map_offset
            if remaining_bytes < 0:
                fault = f"the file ends before the ledgers map, expected at byte {header.map_offset}"
                raise DecodeError("entry log", contents.size, fault)
            # A damaged offset can be past the end. One more length field shows whether the map goes on.
            max_map_bytes = min(remaining_bytes, header.longest_map + LENGTH_STRUCT.size)
            if max_map_bytes > MAX_MAP_BYTES:
                fault = (
                    f"the ledgers map has {header.map_ledgers} ledgers and more than {MAX_MAP_BYTES:,} bytes"
                )
                raise DecodeError("entry log", 16, fault)
            map_data = self._read_bytes(header.map_offset, max_map_bytes)
            map_rows = decode_map(map_data, header)
        except DecodeError as damage:
            contents.map_damage, contents.is_map_unreadable = damage, True
            return
        entry_area_bytes = header.map_offset - contents.header_bytes
        total_bytes = sum(map_rows["bytes"].tolist())  # a Python int: the sum may exceed int64
        self._mapped_bytes = dict(map_rows.tolist())
        if total_bytes > entry_area_bytes or (total_bytes < entry_area_bytes and not contents.is_direct):
            reason = (
                f"the ledgers map lists {total_bytes} bytes, but {entry_area_bytes} bytes precede the map"
            )
            contents.map_damage = DecodeError("entry log", header.map_offset, reason)
            return
        contents.bytes_source = MAP_SOURCE
        contents.ledger_ids, contents.bytes = (
            map_rows[name].astype(np.int64) for name in ("ledger_id", "bytes")
        )
        contents.scope_ids = np.zeros(len(map_rows), np.int64)
        contents.padding_bytes = entry_area_bytes - total_bytes
        contents.map_bytes = contents.size - header.map_offset
        contents.tail_bytes = 0

    def _scan(self) -> None:
        contents = self._contents
        records = EntryLogRecords(self._read_bytes, contents.size)
        # Sum block by block, so that memory grows with ledgers per block and not with entries.
        block_sums = [(_empty_column(), _empty_column(), _empty_column(), _empty_column())]
        try:
            for record_block in records.entries():
                entry_ones = np.ones(len(record_block.sizes), np.int64)
                block_sums.append(
                    _sum_per_ledger(
                        record_block.scope_ids, record_block.ledger_ids, record_block.sizes, entry_ones
                    )
                )
        except DecodeError as damage:
            contents.damage = damage
        columns = (np.concatenate(column) for column in zip(*block_sums, strict=True))
        scope_ids, ledger_ids, sizes, entry_counts = _sum_per_ledger(*columns)
        if self._mapped_bytes is not None and not contents.damage:
            self._compare_with_map(self._mapped_bytes, ledger_ids, sizes)
        contents.bytes_source, contents.is_cut = SCAN_SOURCE, records.is_cut
        contents.scope_ids, contents.ledger_ids, contents.bytes, contents.entries = (
            scope_ids,
            ledger_ids,
            sizes,
            entry_counts,
        )
        contents.padding_bytes = records.padding_bytes
        contents.map_bytes = records.non_entry_bytes - (contents.header_bytes - HEADER_BYTES)
        contents.size = records.size  # the file may have been truncated meanwhile
        contents.tail_bytes = contents.size - records.end
        if records.cut_offset is not None and contents.damage is None:
            self._record_cut(records.cut_offset)
        # The default logger writes no padding, so bytes between its records are a hidden record. In a log of
        # the direct logger a size of 0 ends the scan without an error.
        may_map_be_wrong = self._mapped_bytes is None if contents.is_direct else contents.padding_bytes > 0
        if contents.damage or contents.is_cut or may_map_be_wrong:
            self._scan_as_collector()

    def _record_cut(self, cut_offset: int) -> None:
        """Record damage if the truncated record at ``cut_offset`` has a length that no entry can have.

        Otherwise, the record may be a write that was not finished.
        """
        length = int.from_bytes(self._read_bytes(cut_offset, LENGTH_STRUCT.size), signed=True)
        if length > MAX_ENTRY_BYTES:
            self._contents.damage = DecodeError(
                "entry log", cut_offset, f"a record with an impossible length: {length} bytes"
            )

    def _scan_as_collector(self) -> None:
        """Record the result of a garbage collector's scan of the entries, and the bytes that it would count.

        Record nothing if the collector would miss no record.
        """
        contents = self._contents
        assert contents.header is not None
        ledgers_by_map = extract_ledgers(self._read_bytes, contents.size, contents.header, contents.is_direct)
        scanned_ledgers = scan_log(self._read_bytes, contents.size, contents.is_direct)
        if scanned_ledgers is None:
            contents.collector_scan, contents.collector_bytes = CollectorScan.FAILS, ledgers_by_map or {}
            return
        collector_sums = scanned_ledgers.ledger_sums()
        ledger_bytes = dict(zip(contents.ledger_ids.tolist(), contents.bytes.tolist(), strict=True))
        may_hide_records = (
            contents.damage or contents.is_cut or (contents.padding_bytes and not contents.is_direct)
        )
        if may_hide_records or (collector_sums != ledger_bytes and not contents.scope_ids.any()):
            contents.collector_scan = (
                CollectorScan.MAY_FAIL if scanned_ledgers.may_fail else CollectorScan.COUNTS
            )
            contents.collector_bytes = collector_sums if ledgers_by_map is None else ledgers_by_map

    def _compare_with_map(self, mapped_bytes: dict[int, int], ledger_ids: Longs, record_bytes: Longs) -> None:
        """Compare the map with the entries. If they differ, record this as a fault of the map."""
        contents = self._contents
        assert contents.header is not None
        scanned_bytes = dict(zip(ledger_ids.tolist(), record_bytes.tolist(), strict=True))
        wrong_ledgers = sorted(
            ledger_id
            for ledger_id in mapped_bytes.keys() | scanned_bytes.keys()
            if mapped_bytes.get(ledger_id) != scanned_bytes.get(ledger_id)
        )
        contents.map_damage = None
        if wrong_ledgers:
            example_id = wrong_ledgers[0]
            ledger_text = "1 ledger" if len(wrong_ledgers) == 1 else f"{len(wrong_ledgers)} ledgers"
            reason = (
                f"the ledgers map is wrong for {ledger_text}: it lists {mapped_bytes.get(example_id, 0)} "
                f"bytes for ledger {example_id}; the log has {scanned_bytes.get(example_id, 0)}"
            )
            contents.map_damage = DecodeError("entry log", contents.header.map_offset, reason)

    def _record_collector_misses(self, header: EntryLogHeader) -> None:
        """Record damage if a collector that accepts a bad header or map would miss ledgers of the log."""
        contents = self._contents
        collector_ledgers = extract_ledgers(self._read_bytes, contents.size, header, contents.is_direct)
        missing_ledgers = (
            []
            if collector_ledgers is None
            else sorted(set(contents.ledger_ids.tolist()) - collector_ledgers.keys())
        )
        if collector_ledgers is None or not missing_ledgers:
            return
        fault_text = (
            contents.map_damage.reason
            if contents.map_damage
            else f"the header puts the ledgers map at byte {header.map_offset}"
        )
        reason = (
            f"{fault_text}: garbage collection finds {plural(len(collector_ledgers), 'ledger')} in the "
            f"log, but misses {plural(len(missing_ledgers), 'ledger')} of the log, such as ledger "
            f"{missing_ledgers[0]}"
        )
        offset = contents.map_damage.offset if contents.map_damage else header.map_offset
        contents.map_damage, contents.is_map_unreadable = DecodeError("entry log", offset, reason), False
        contents.has_negative_offset = header.map_offset < 0


def _sum_per_ledger(
    scope_ids: Longs, ledger_ids: Longs, sizes: Longs, entry_counts: Longs
) -> tuple[Longs, Longs, Longs, Longs]:
    """Return four arrays sorted by (scope, ledger): scopes, ledgers, and their total bytes and entries."""
    if not len(ledger_ids):
        return scope_ids, ledger_ids, sizes, entry_counts
    order = np.lexsort((ledger_ids, scope_ids)) if scope_ids.any() else np.argsort(ledger_ids, kind="stable")
    scopes, ledgers = scope_ids[order], ledger_ids[order]
    ledger_starts = np.flatnonzero(
        np.concatenate(([True], (ledgers[1:] != ledgers[:-1]) | (scopes[1:] != scopes[:-1])))
    )
    return (
        scopes[ledger_starts],
        ledgers[ledger_starts],
        np.add.reduceat(sizes[order], ledger_starts),
        np.add.reduceat(entry_counts[order], ledger_starts),
    )


class LedgerEntries(NamedTuple):
    """Entries of some ledgers in one log, in the log's order, as int64 arrays of equal length.

    Attributes:
        sizes: The bytes of each record, including its four length bytes, as a ledgers map counts them.
        log_bytes: The length of the log.
        damage: Why the log was not read to its end. None if it was read to its end.
    """

    scope_ids: Longs
    ledger_ids: Longs
    entry_ids: Longs
    sizes: Longs
    log_bytes: int
    damage: str | None


def read_ledger_entries(path: str, ledger_ids: Longs) -> LedgerEntries:
    """Read the headers of all entries in a log, and return the entries of the given ledgers.

    Raises:
        OSError: the log cannot be read.
    """
    columns = [(_empty_column(), _empty_column(), _empty_column(), _empty_column())]
    damage = None
    with open_log(path) as (read_at, status):
        size = status.st_size
        records = EntryLogRecords(read_at, size)
        try:
            for record_block in records.entries():
                rows = np.flatnonzero(np.isin(record_block.ledger_ids, ledger_ids))
                if len(rows):
                    block_columns = (
                        record_block.scope_ids,
                        record_block.ledger_ids,
                        record_block.entry_ids,
                        record_block.sizes,
                    )
                    scopes, ledgers, entries, sizes = (column[rows] for column in block_columns)
                    columns.append((scopes, ledgers, entries, sizes))
        except DecodeError as error:
            damage = str(error)
    scopes, ledgers, entries, sizes = (np.concatenate(column) for column in zip(*columns, strict=True))
    return LedgerEntries(scopes, ledgers, entries, sizes, size, damage)
