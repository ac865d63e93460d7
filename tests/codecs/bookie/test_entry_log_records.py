"""Scans of entry logs: real bookies', made up ones of every form, and every way in which one can end."""

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
Found = list[tuple[int, int, int, int, int]]
"""Offset, size, scope, ledger and entry of each entry."""


def opened(data: bytes) -> EntryLogRecords:
    return EntryLogRecords(lambda offset, length: data[offset : offset + length], len(data))


def read(data: bytes) -> tuple[Found, EntryLogRecords]:
    records = opened(data)
    found = [
        entry
        for entries in records.entries()
        for entry in zip(*(column.tolist() for column in entries), strict=True)
    ]
    return found, records


def one_by_one(data: bytes) -> Found:
    """The server's scan, byte by byte (DefaultEntryLogger.scanEntryLog)."""
    found, at = [], 1024
    while at + 12 <= len(data):
        (size,) = struct.unpack_from(">i", data, at)
        if size <= 0:
            at += 1
            continue
        (ledger,) = struct.unpack_from(">q", data, at + 4)
        if ledger != -1:
            if at + 4 + size > len(data):
                break
            if data[at + 4] >= 0x80:
                found.append((at, 4 + size, *struct.unpack_from(">qqq", data, at + 5)))
            else:
                found.append((at, 4 + size, 0, ledger, *struct.unpack_from(">q", data, at + 12)))
        at += 4 + size
    return found


def whole(data: bytes, found: Found, records: EntryLogRecords) -> bool:
    """Whether all bytes of a log are accounted for."""
    end = len(data) if records.end is None else records.end
    total = 1024 + sum(entry[1] for entry in found) + records.non_entry_bytes + records.padding_bytes
    return total == end <= len(data)


@pytest.mark.parametrize(("name", "entries", "ledgers"), [("interleaved", 8, 2), ("dbledger", 194, 10)])
def test_a_log_of_a_real_bookie_is_read_entry_by_entry(name: str, entries: int, ledgers: int) -> None:
    data = gzip.decompress((LOGS / f"{name}.log.gz").read_bytes())
    found, records = read(data)
    assert found == one_by_one(data)
    assert (records.end, records.is_cut) == (len(data), False)
    assert whole(data, found, records)
    assert (len(found), len({entry[3] for entry in found})) == (entries, ledgers)
    assert all(entry[1] >= 4 + 32 for entry in found)  # ids, LAC, length


def test_the_map_behind_the_entries_is_none_and_is_counted() -> None:
    data = log([(5, 0, 2), (5, 1, 2), (9, 2, 2)])
    found, records = read(data)
    assert found == [(1024, 22, 0, 5, 0), (1046, 22, 0, 5, 1), (1068, 22, 0, 9, 2)]
    assert (records.non_entry_bytes, records.end, records.padding_bytes) == (56, len(data), 0)


def test_blocks_of_the_direct_logger_are_padding_between_its_entries() -> None:
    data = direct_log([[(5, 0, 100), (6, 0, 100)], [(5, 1, 5000)]])
    found, records = read(data)
    assert [entry[3:] for entry in found] == [(5, 0), (6, 0), (5, 1)]
    assert found == one_by_one(data)
    assert whole(data, found, records)
    assert found[0][0] == 4096
    assert records.padding_bytes > 0


def test_entries_of_bp_35_have_their_scope() -> None:
    data = header() + record(7, 1) + scoped(3, 7, 2, 5) + scoped(-4, -9, 0) + ledgers_map([(7, 20)])
    found, records = read(data)
    assert [entry[2:] for entry in found] == [(0, 7, 1), (3, 7, 2), (-4, -9, 0)]
    assert whole(data, found, records)


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


@pytest.mark.parametrize(("rest", "cut"), ENDS.values(), ids=ENDS.keys())
def test_a_log_ends_behind_its_last_whole_record(rest: bytes, cut: bool) -> None:
    data = log([(1, 0, 9), (2, 0, 9)], closed=False)
    found, records = read(data + rest)
    assert [entry[3:] for entry in found] == [(1, 0), (2, 0)]
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


@pytest.mark.parametrize(("rest", "reason"), DAMAGE.values(), ids=DAMAGE.keys())
def test_damage_is_an_error_at_its_offset_behind_what_is_sound(rest: bytes, reason: str) -> None:
    data = log([(1, 0, 9), (2, 0, 9)], closed=False)
    records = opened(data + rest + record(3, 3))
    found: list[list[int]] = []
    with pytest.raises(DecodeError) as damage:
        found.extend(entries.ledger_ids.tolist() for entries in records.entries())
    assert found == [[1, 2]]
    assert (damage.value.what, damage.value.offset) == ("entry log", len(data))
    assert damage.value.reason.startswith(reason)
    assert records.end == len(data)


def test_payloads_that_are_larger_than_a_block_are_not_read() -> None:
    data = log([(1, 0, 5_000_000), (2, 0, 3_000_000), (1, 1, 9)], closed=False)
    asked = []

    def read_at(offset: int, length: int) -> bytes:
        asked.append(length)
        return data[offset : offset + length]

    records = EntryLogRecords(read_at, len(data))
    assert [entries.ledger_ids.tolist() for entries in records.entries()] == [[1], [2], [1]]
    assert sum(asked) < 2 * length_prefixed.BLOCK_BYTES


def test_a_log_that_becomes_shorter_while_it_is_read_ends_where_it_ends() -> None:
    data = log([(1, 0, 9), (2, 0, 9)], closed=False)
    left = data[:-5]
    records = EntryLogRecords(lambda offset, length: left[offset : offset + length], len(data))
    assert [entries.ledger_ids.tolist() for entries in records.entries()] == [[1]]
    assert (records.size, records.is_cut) == (len(left), True)


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
def test_any_log_is_read_as_the_server_reads_it_in_blocks_of_any_size(
    parts: list[bytes], block: int, cut: int, zeros: int
) -> None:
    data = header() + b"".join(parts)
    data = data[: max(1024, len(data) - cut)] if cut else data + bytes(zeros)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(length_prefixed, "BLOCK_BYTES", block)
        found, records = read(data)
    assert found == one_by_one(data)
    assert whole(data, found, records)


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused_with_an_offset_inside(data: bytes) -> None:
    offset = None
    try:
        found, records = read(header() + data)
        assert whole(header() + data, found, records)
    except DecodeError as damage:
        offset = damage.offset
    assert offset is None or 1024 <= offset < 1024 + len(data)
