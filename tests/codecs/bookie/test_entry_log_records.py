"""Scans of entry logs: logs of real bookies, generated logs of every form, and every way a log can end."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditor.codecs.bookie import length_prefixed
from auditor.codecs.bookie.entry_log_records import EntryLogRecords
from auditor.errors import DecodeError
from tests.codecs.entry_logs import direct_log, header, ledgers_map, log, record, scoped

LOGS = Path(__file__).parents[2] / "data" / "entry-logs"
EntryRows = list[tuple[int, int, int, int, int]]
"""Offset, size, scope, ledger and entry of each entry."""


def open_log(data: bytes) -> EntryLogRecords:
    return EntryLogRecords(lambda offset, length: data[offset : offset + length], len(data))


def read(data: bytes) -> tuple[EntryRows, EntryLogRecords]:
    records = open_log(data)
    rows = [
        entry
        for entries in records.entries()
        for entry in zip(*(column.tolist() for column in entries), strict=True)
    ]
    return rows, records


def scan_one_by_one(data: bytes) -> EntryRows:
    """Return the entries that the server's scan finds byte by byte (DefaultEntryLogger.scanEntryLog)."""
    rows, offset = [], 1024
    while offset + 12 <= len(data):
        (size,) = struct.unpack_from(">i", data, offset)
        if size <= 0:
            offset += 1
            continue
        (ledger,) = struct.unpack_from(">q", data, offset + 4)
        if ledger != -1:
            if offset + 4 + size > len(data):
                break
            if data[offset + 4] >= 0x80:
                rows.append((offset, 4 + size, *struct.unpack_from(">qqq", data, offset + 5)))
            else:
                rows.append((offset, 4 + size, 0, ledger, *struct.unpack_from(">q", data, offset + 12)))
        offset += 4 + size
    return rows


def all_bytes_counted(data: bytes, rows: EntryRows, records: EntryLogRecords) -> bool:
    """Return whether the rows and records account for all bytes of a log."""
    end = len(data) if records.end is None else records.end
    total = 1024 + sum(entry[1] for entry in rows) + records.non_entry_bytes + records.padding_bytes
    return total == end <= len(data)


@pytest.mark.parametrize(("name", "entries", "ledgers"), [("interleaved", 8, 2), ("dbledger", 194, 10)])
def test_a_log_of_a_real_bookie_is_read_entry_by_entry(name: str, entries: int, ledgers: int) -> None:
    data = gzip.decompress((LOGS / f"{name}.log.gz").read_bytes())
    rows, records = read(data)
    assert rows == scan_one_by_one(data)
    assert (records.end, records.is_cut) == (len(data), False)
    assert all_bytes_counted(data, rows, records)
    assert (len(rows), len({entry[3] for entry in rows})) == (entries, ledgers)
    assert all(entry[1] >= 4 + 32 for entry in rows)  # ids, LAC, length


def test_map_after_the_entries_is_counted_as_other_bytes() -> None:
    data = log([(5, 0, 2), (5, 1, 2), (9, 2, 2)])
    rows, records = read(data)
    assert rows == [(1024, 22, 0, 5, 0), (1046, 22, 0, 5, 1), (1068, 22, 0, 9, 2)]
    assert (records.non_entry_bytes, records.end, records.padding_bytes) == (56, len(data), 0)


def test_padding_between_blocks_of_the_direct_logger_is_counted() -> None:
    data = direct_log([[(5, 0, 100), (6, 0, 100)], [(5, 1, 5000)]])
    rows, records = read(data)
    assert [entry[3:] for entry in rows] == [(5, 0), (6, 0), (5, 1)]
    assert rows == scan_one_by_one(data)
    assert all_bytes_counted(data, rows, records)
    assert rows[0][0] == 4096
    assert records.padding_bytes > 0


def test_bp_35_entries_are_read_with_their_scope() -> None:
    data = header() + record(7, 1) + scoped(3, 7, 2, 5) + scoped(-4, -9, 0) + ledgers_map([(7, 20)])
    rows, records = read(data)
    assert [entry[2:] for entry in rows] == [(0, 7, 1), (3, 7, 2), (-4, -9, 0)]
    assert all_bytes_counted(data, rows, records)


# what follows two entries; whether the log is cut there
ENDS = {
    "nothing": (b"", False),
    "zeros": (bytes(100), False),
    "two zeros": (bytes(2), False),
    "padding": (b"\xf0" * 5000, False),
    "padding and zeros": (b"\xf0" * 7 + bytes(9), False),
    "a size": (struct.pack(">i", 40), True),
    "half a size": (b"\0\0\1", True),
    "an entry cut": (record(9, 9, 90)[:-1], True),
    "an entry cut in its ids": (record(9, 9)[:-9], True),
    "an entry cut behind padding": (b"\xf0" * 40 + record(9, 9, 90)[:-1], True),
}


@pytest.mark.parametrize(("tail", "cut"), ENDS.values(), ids=ENDS.keys())
def test_log_ends_after_its_last_whole_record(tail: bytes, cut: bool) -> None:
    data = log([(1, 0, 9), (2, 0, 9)], closed=False)
    rows, records = read(data + tail)
    assert [entry[3:] for entry in rows] == [(1, 0), (2, 0)]
    assert (records.end, records.is_cut) == (len(data), cut)


# what follows two entries; what is wrong with it
DAMAGE = {
    "shorter than its ids": (struct.pack(">iqq", 15, 5, 5), "a record of 15 bytes, shorter than its header"),
    "one of three bytes": (struct.pack(">i", 3) + bytes(60), "a record of 3 bytes, shorter than its header"),
    "a negative entry": (record(5, -2), "an entry with a negative id"),
    "flags that no format has": (struct.pack(">iB", 60, 0xB4) + bytes(59), "an entry with flags 0xb4, which"),
    "a digest that none has": (struct.pack(">iB", 60, 0xA9) + bytes(59), "an entry with flags 0xa9, which"),
    "too short for BP-35": (struct.pack(">iB", 40, 0xA4) + bytes(39), "a record of 40 bytes, shorter than"),
}  # fmt: skip


@pytest.mark.parametrize(("tail", "reason"), DAMAGE.values(), ids=DAMAGE.keys())
def test_damage_is_reported_at_its_offset_after_the_sound_entries(tail: bytes, reason: str) -> None:
    data = log([(1, 0, 9), (2, 0, 9)], closed=False)
    records = open_log(data + tail + record(3, 3))
    ledger_ids: list[list[int]] = []
    with pytest.raises(DecodeError) as damage:
        ledger_ids.extend(entries.ledger_ids.tolist() for entries in records.entries())
    assert ledger_ids == [[1, 2]]
    assert (damage.value.what, damage.value.offset) == ("entry log", len(data))
    assert damage.value.reason.startswith(reason)
    assert records.end == len(data)


def test_payloads_larger_than_a_block_are_not_read() -> None:
    data = log([(1, 0, 5_000_000), (2, 0, 3_000_000), (1, 1, 9)], closed=False)
    read_lengths = []

    def read_at(offset: int, length: int) -> bytes:
        read_lengths.append(length)
        return data[offset : offset + length]

    records = EntryLogRecords(read_at, len(data))
    assert [entries.ledger_ids.tolist() for entries in records.entries()] == [[1], [2], [1]]
    assert sum(read_lengths) < 2 * length_prefixed.BLOCK_BYTES


def test_log_truncated_during_the_read_ends_at_its_new_end() -> None:
    data = log([(1, 0, 9), (2, 0, 9)], closed=False)
    cut_data = data[:-5]
    records = EntryLogRecords(lambda offset, length: cut_data[offset : offset + length], len(data))
    assert [entries.ledger_ids.tolist() for entries in records.entries()] == [[1]]
    assert (records.size, records.is_cut) == (len(cut_data), True)


ids = st.integers(0, 2**63 - 1)
pieces = st.one_of(
    st.builds(record, ids, ids, st.integers(0, 70)),
    st.builds(
        lambda entry, times: entry * times, st.builds(record, ids, ids, st.just(9)), st.integers(1, 40)
    ),
    st.builds(scoped, st.integers(-(2**63), 2**63 - 1), ids, ids, st.integers(0, 30)),
    st.builds(lambda count: b"\xf0" * count, st.integers(1, 90)),
    st.builds(lambda ledger: ledgers_map([(ledger, 7)]), ids),
)


@given(st.lists(pieces, max_size=12), st.integers(40, 300), st.integers(0, 40), st.integers(0, 90))
def test_scan_in_blocks_of_any_size_matches_the_server_scan(
    parts: list[bytes], block: int, cut: int, zeros: int
) -> None:
    data = header() + b"".join(parts)
    data = data[: max(1024, len(data) - cut)] if cut else data + bytes(zeros)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(length_prefixed, "BLOCK_BYTES", block)
        rows, records = read(data)
    assert rows == scan_one_by_one(data)
    assert all_bytes_counted(data, rows, records)


@given(st.binary(max_size=200))
def test_any_log_bytes_are_read_or_refused_with_an_offset_inside(data: bytes) -> None:
    offset = None
    try:
        rows, records = read(header() + data)
        assert all_bytes_counted(header() + data, rows, records)
    except DecodeError as damage:
        offset = damage.offset
    assert offset is None or 1024 <= offset < 1024 + len(data)
