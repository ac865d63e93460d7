"""Tests that all bytes of an entry log are accounted for, whatever state the log is in."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditor.sources.bookies.entry_logs.reader import LogContents, contents_of, read_contents
from tests.codecs.entry_logs import Entry, direct_log, header, ledgers_map, log, record, sums

LOGS = Path(__file__).parents[3] / "data" / "entry-logs"
ENTRIES: list[Entry] = [(5, 0, 2), (5, 1, 2), (9, 2, 2)]


def read(data: bytes, scan: bool = True, verify: bool = False) -> LogContents:
    contents = contents_of(lambda offset, length: data[offset : offset + length], len(data), scan, verify)
    assert total(contents) == len(data)
    return contents


def total(contents: LogContents) -> int:
    parts = (
        contents.header_bytes,
        contents.map_bytes,
        contents.padding_bytes,
        contents.tail_bytes,
        contents.entry_bytes,
    )
    assert min(parts) >= 0
    return sum(parts)


def ledgers(contents: LogContents) -> dict[int, int]:
    return dict(zip(contents.ledger_ids.tolist(), contents.bytes.tolist(), strict=True))


def test_closed_log_is_read_from_its_map_alone() -> None:
    data = log(ENTRIES)
    offsets: list[int] = []

    def read_at(offset: int, length: int) -> bytes:
        offsets.append(offset)
        return data[offset : offset + length]

    contents = contents_of(read_at, len(data))
    assert (contents.bytes_source, ledgers(contents), len(contents.entries)) == ("map", {5: 44, 9: 22}, 0)
    assert (contents.header_bytes, contents.map_bytes, contents.tail_bytes) == (1024, 56, 0)
    assert offsets == [0, 1090]


GOLDEN = bytes.fromhex("424b4c4f 00000001 0000000000000442 00000002").ljust(1024, b"\0") + bytes.fromhex(
    "00000012 0000000000000005 0000000000000000 6430"
    "00000012 0000000000000005 0000000000000001 6431"
    "00000012 0000000000000009 0000000000000002 6432"
    "00000034 ffffffffffffffff fffffffffffffffe 00000002"
    "0000000000000009 0000000000000016 0000000000000005 000000000000002c"
)
"""A whole log that the entry logger of a real server closed, to its last byte."""


@pytest.mark.parametrize("verify", [False, True])
def test_log_closed_by_a_server_has_equal_map_and_scan(verify: bool) -> None:
    contents = read(GOLDEN, verify=verify)
    assert (contents.bytes_source, ledgers(contents)) == ("scan" if verify else "map", {5: 44, 9: 22})
    assert (contents.size, contents.header_bytes, contents.map_bytes, contents.tail_bytes) == (
        1146,
        1024,
        56,
        0,
    )
    assert contents.map_damage is None
    assert contents.damage is None


def test_log_without_map_is_scanned_unless_scan_is_off() -> None:
    data = log(ENTRIES, closed=False)
    contents = read(data)
    assert (contents.bytes_source, ledgers(contents), contents.entries.tolist()) == (
        "scan",
        {5: 44, 9: 22},
        [2, 1],
    )
    contents = read(data, scan=False)
    assert (contents.bytes_source, ledgers(contents), contents.tail_bytes) == (None, {}, 66)


@pytest.mark.parametrize("name", ["interleaved", "dbledger"])
def test_open_log_of_a_real_bookie_is_header_and_entries(name: str, tmp_path: Path) -> None:
    data = gzip.decompress((LOGS / f"{name}.log.gz").read_bytes())
    (tmp_path / "0.log").write_bytes(data)
    contents = read_contents(str(tmp_path / "0.log"))
    assert (contents.bytes_source, contents.header_bytes + contents.entry_bytes) == ("scan", len(data))
    assert contents.mtime > 0


def test_map_that_lacks_a_ledger_is_damaged_even_without_a_scan() -> None:
    contents = read(log(ENTRIES, map_sums={5: 44}))
    assert (contents.bytes_source, ledgers(contents)) == ("scan", {5: 44, 9: 22})
    assert contents.map_damage is not None
    assert contents.map_damage.offset == 1090
    assert contents.map_damage.reason == (
        "the ledgers map is wrong for 1 ledger: it lists 0 bytes for ledger 9; the log has 22"
    )
    unseen = read(log(ENTRIES, map_sums={5: 44}), scan=False)
    assert (unseen.bytes_source, unseen.tail_bytes) == (None, 66 + 40)
    assert unseen.map_damage is not None
    assert unseen.map_damage.reason == "the ledgers map lists 44 bytes, but 66 bytes precede the map"


def test_bytes_between_entries_do_not_make_a_map_wrong() -> None:
    body = record(5, 0, 2) + b"\xf0" * 10 + record(9, 0, 2)
    contents = read(header(1024 + len(body), 2) + body + ledgers_map([(5, 22), (9, 22)]))
    assert (contents.map_damage, contents.bytes_source, contents.padding_bytes) == (None, "scan", 10)


def test_map_with_right_sum_and_wrong_ledgers_is_found_by_verification() -> None:
    data = log(ENTRIES, map_sums={5: 22, 7: 44})
    assert ledgers(read(data)) == {5: 22, 7: 44}
    contents = read(data, verify=True)
    assert (contents.bytes_source, ledgers(contents)) == ("scan", {5: 44, 9: 22})
    assert contents.map_damage is not None
    assert contents.map_damage.reason == (
        "the ledgers map is wrong for 3 ledgers: it lists 22 bytes for ledger 5; the log has 44"
    )
    assert read(log(ENTRIES), verify=True).map_damage is None


def test_log_of_the_direct_logger_has_header_block_and_padding() -> None:
    data = direct_log([[(5, 0, 100), (6, 0, 100)], [(5, 1, 5000)]])
    contents = read(data)
    assert (contents.is_direct, contents.bytes_source, contents.header_bytes) == (True, "map", 4096)
    assert ledgers(contents) == {5: 120 + 5020, 6: 120}
    assert contents.map_bytes % 4096 == 0
    scanned = read(data, verify=True)
    assert scanned.map_damage is None
    assert (ledgers(scanned), scanned.header_bytes) == (ledgers(contents), 4096)
    assert scanned.padding_bytes == contents.padding_bytes


def test_bytes_after_damage_are_the_tail_of_a_log() -> None:
    sound = log(ENTRIES, closed=False)
    contents = read(sound + record(5, -7) + record(5, 9))
    assert (contents.bytes_source, ledgers(contents), contents.tail_bytes) == ("scan", {5: 44, 9: 22}, 40)
    assert contents.damage is not None
    assert contents.damage.offset == len(sound)
    contents = read(sound + record(5, 9, 90)[:-1])
    assert (contents.is_cut, contents.damage, contents.tail_bytes) == (True, None, 109)


def test_log_with_unreadable_header_has_no_bytes_source() -> None:
    for data in (b"", b"BKLO", b"x" * 3000):
        contents = read(data)
        assert (contents.bytes_source, contents.header) == (None, None)
        assert contents.header_bytes == min(len(data), 1024)


ids = st.integers(0, 2**63 - 1)
entries = st.lists(st.tuples(ids | st.integers(0, 3), ids, st.integers(0, 60)), max_size=20)


@given(entries, st.booleans())
def test_map_and_scan_agree(sample: list[Entry], direct: bool) -> None:
    data = direct_log([sample[:5], sample[5:]]) if direct else log(sample)
    by_map, by_scan = read(data), read(data, verify=True)
    assert ledgers(by_map) == ledgers(by_scan) == sums(sample)
    assert by_scan.map_damage is None
    assert int(by_scan.entries.sum()) == len(sample)


@given(st.binary(max_size=300), st.integers(0, 2**40), st.integers(0, 3), st.booleans(), st.booleans())
def test_all_bytes_of_any_file_are_accounted_for(
    body: bytes, offset: int, promised: int, scan: bool, verify: bool
) -> None:
    start = header(1024 + len(body) if offset % 2 else offset, promised)
    read(start + body + ledgers_map([(1, len(body))] * promised), scan, verify)
    read(start[: offset % 1200] + body, scan, verify)


def collector(data: bytes) -> tuple[str | None, dict[int, int]]:
    contents = read(data)
    return contents.collector_scan, contents.collector_bytes


def with_size(data: bytes, offset: int, size: int) -> bytes:
    """Return a log in which the record at ``offset`` has another size."""
    return data[:offset] + size.to_bytes(4, signed=True) + data[offset + 4 :]


def test_collector_scan_stops_at_a_damaged_record_unless_a_map_is_valid() -> None:
    closed, open_end = log(ENTRIES), log(ENTRIES, closed=False)
    assert collector(open_end) == (None, {})
    # The second record says that it is longer than the file, and the third is not seen.
    assert collector(with_size(open_end, 1046, 500)) == ("counts", {5: 22})
    assert collector(with_size(open_end, 1046, 1 << 30)) == ("may-fail", {5: 22})
    # A map that can be believed is what the collector goes by, whatever the records say.
    verified = read(with_size(closed, 1046, 500), verify=True)
    assert (verified.collector_scan, verified.collector_bytes) == ("counts", {5: 44, 9: 22})


def test_impossible_record_length_is_damage_and_a_possible_one_is_a_cut() -> None:
    data = log(ENTRIES, closed=False)
    huge, long = read(with_size(data, 1046, 1 << 30)), read(with_size(data, 1046, 500))
    assert (
        str(huge.damage) == "entry log: a record with an impossible length: 1073741824 bytes (at byte 1046)"
    )
    assert (long.damage, long.is_cut) == (None, True)


def test_size_of_zero_ends_a_collector_scan_of_a_direct_log() -> None:
    data = direct_log([[(5, 0, 0)], [(7, 0, 0)]], closed=False)
    offset = data.index(record(7, 0, 0))
    assert collector(data) == (None, {})
    scan, counted = collector(with_size(data, offset, 0))
    assert (scan, counted) == ("counts", {5: 20})
