"""How all bytes of a log are accounted for, whatever became of it."""

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
    found = contents_of(lambda offset, length: data[offset : offset + length], len(data), scan, verify)
    assert total(found) == len(data)
    return found


def total(found: LogContents) -> int:
    parts = (found.header_bytes, found.map_bytes, found.padding_bytes, found.tail_bytes, found.entry_bytes)
    assert min(parts) >= 0
    return sum(parts)


def ledgers(found: LogContents) -> dict[int, int]:
    return dict(zip(found.ledger_ids.tolist(), found.bytes.tolist(), strict=True))


def test_a_closed_log_is_read_by_its_map_and_not_by_its_entries() -> None:
    data = log(ENTRIES)
    asked: list[int] = []

    def read_at(offset: int, length: int) -> bytes:
        asked.append(offset)
        return data[offset : offset + length]

    found = contents_of(read_at, len(data))
    assert (found.bytes_source, ledgers(found), len(found.entries)) == ("map", {5: 44, 9: 22}, 0)
    assert (found.header_bytes, found.map_bytes, found.tail_bytes) == (1024, 56, 0)
    assert asked == [0, 1090]


GOLDEN = bytes.fromhex("424b4c4f 00000001 0000000000000442 00000002").ljust(1024, b"\0") + bytes.fromhex(
    "00000012 0000000000000005 0000000000000000 6430"
    "00000012 0000000000000005 0000000000000001 6431"
    "00000012 0000000000000009 0000000000000002 6432"
    "00000034 ffffffffffffffff fffffffffffffffe 00000002"
    "0000000000000009 0000000000000016 0000000000000005 000000000000002c"
)
"""A whole log that the entry logger of a real server closed, to its last byte."""


@pytest.mark.parametrize("verify", [False, True])
def test_a_log_that_a_server_closed_is_what_its_map_and_its_entries_say(verify: bool) -> None:
    found = read(GOLDEN, verify=verify)
    assert (found.bytes_source, ledgers(found)) == ("scan" if verify else "map", {5: 44, 9: 22})
    assert (found.size, found.header_bytes, found.map_bytes, found.tail_bytes) == (1146, 1024, 56, 0)
    assert found.map_damage is None
    assert found.damage is None


def test_a_log_without_a_map_is_scanned_unless_that_is_not_wanted() -> None:
    data = log(ENTRIES, closed=False)
    found = read(data)
    assert (found.bytes_source, ledgers(found), found.entries.tolist()) == ("scan", {5: 44, 9: 22}, [2, 1])
    found = read(data, scan=False)
    assert (found.bytes_source, ledgers(found), found.tail_bytes) == (None, {}, 66)


@pytest.mark.parametrize("name", ["interleaved", "dbledger"])
def test_a_real_log_that_was_left_open_is_header_and_entries(name: str, tmp_path: Path) -> None:
    data = gzip.decompress((LOGS / f"{name}.log.gz").read_bytes())
    (tmp_path / "0.log").write_bytes(data)
    found = read_contents(str(tmp_path / "0.log"))
    assert (found.bytes_source, found.header_bytes + found.entry_bytes) == ("scan", len(data))
    assert found.mtime > 0


def test_a_map_that_lacks_a_ledger_is_found_without_looking_for_it() -> None:
    found = read(log(ENTRIES, said={5: 44}))
    assert (found.bytes_source, ledgers(found)) == ("scan", {5: 44, 9: 22})
    assert found.map_damage is not None
    assert found.map_damage.offset == 1090
    assert found.map_damage.reason == (
        "the ledgers map is wrong for 1 ledger: it lists 0 bytes for ledger 9; the log has 22"
    )
    unseen = read(log(ENTRIES, said={5: 44}), scan=False)
    assert (unseen.bytes_source, unseen.tail_bytes) == (None, 66 + 40)
    assert unseen.map_damage is not None
    assert unseen.map_damage.reason == "the ledgers map lists 44 bytes, but 66 bytes precede the map"


def test_bytes_that_are_no_entries_do_not_make_a_map_wrong() -> None:
    body = record(5, 0, 2) + b"\xf0" * 10 + record(9, 0, 2)
    found = read(header(1024 + len(body), 2) + body + ledgers_map([(5, 22), (9, 22)]))
    assert (found.map_damage, found.bytes_source, found.padding_bytes) == (None, "scan", 10)


def test_a_map_of_the_right_sum_and_wrong_ledgers_is_found_where_both_are_read() -> None:
    data = log(ENTRIES, said={5: 22, 7: 44})
    assert ledgers(read(data)) == {5: 22, 7: 44}
    found = read(data, verify=True)
    assert (found.bytes_source, ledgers(found)) == ("scan", {5: 44, 9: 22})
    assert found.map_damage is not None
    assert found.map_damage.reason == (
        "the ledgers map is wrong for 3 ledgers: it lists 22 bytes for ledger 5; the log has 44"
    )
    assert read(log(ENTRIES), verify=True).map_damage is None


def test_a_log_of_the_direct_logger_has_a_block_of_header_and_padding() -> None:
    data = direct_log([[(5, 0, 100), (6, 0, 100)], [(5, 1, 5000)]])
    found = read(data)
    assert (found.is_direct, found.bytes_source, found.header_bytes) == (True, "map", 4096)
    assert ledgers(found) == {5: 120 + 5020, 6: 120}
    assert found.map_bytes % 4096 == 0
    scanned = read(data, verify=True)
    assert scanned.map_damage is None
    assert (ledgers(scanned), scanned.header_bytes) == (ledgers(found), 4096)
    assert scanned.padding_bytes == found.padding_bytes


def test_what_a_damaged_log_holds_behind_the_damage_is_its_tail() -> None:
    sound = log(ENTRIES, closed=False)
    found = read(sound + record(5, -7) + record(5, 9))
    assert (found.bytes_source, ledgers(found), found.tail_bytes) == ("scan", {5: 44, 9: 22}, 40)
    assert found.damage is not None
    assert found.damage.offset == len(sound)
    found = read(sound + record(5, 9, 90)[:-1])
    assert (found.is_cut, found.damage, found.tail_bytes) == (True, None, 109)


def test_a_header_that_cannot_be_read_leaves_all_to_nobody() -> None:
    for data in (b"", b"BKLO", b"x" * 3000):
        found = read(data)
        assert (found.bytes_source, found.header) == (None, None)
        assert found.header_bytes == min(len(data), 1024)


ids = st.integers(0, 2**63 - 1)
entries = st.lists(st.tuples(ids | st.integers(0, 3), ids, st.integers(0, 60)), max_size=20)


@given(entries, st.booleans())
def test_map_and_scan_agree(some: list[Entry], direct: bool) -> None:
    data = direct_log([some[:5], some[5:]]) if direct else log(some)
    by_map, by_scan = read(data), read(data, verify=True)
    assert ledgers(by_map) == ledgers(by_scan) == sums(some)
    assert by_scan.map_damage is None
    assert int(by_scan.entries.sum()) == len(some)


@given(st.binary(max_size=300), st.integers(0, 2**40), st.integers(0, 3), st.booleans(), st.booleans())
def test_all_bytes_of_any_file_are_accounted_for(
    rest: bytes, offset: int, promised: int, scan: bool, verify: bool
) -> None:
    start = header(1024 + len(rest) if offset % 2 else offset, promised)
    read(start + rest + ledgers_map([(1, len(rest))] * promised), scan, verify)
    read(start[: offset % 1200] + rest, scan, verify)


def collector(data: bytes) -> tuple[str | None, dict[int, int]]:
    found = read(data)
    return found.collector_scan, found.collector_bytes


def spoiled(data: bytes, at: int, size: int) -> bytes:
    """A log, one record of which says another size."""
    return data[:at] + size.to_bytes(4, signed=True) + data[at + 4 :]


def test_what_a_collector_counts_of_a_log_with_a_damaged_record_stands_beside_what_it_has() -> None:
    closed, open_end = log(ENTRIES), log(ENTRIES, closed=False)
    assert collector(open_end) == (None, {})
    # The second record says that it is longer than the file, and the third is not seen.
    assert collector(spoiled(open_end, 1046, 500)) == ("counts", {5: 22})
    assert collector(spoiled(open_end, 1046, 1 << 30)) == ("may-fail", {5: 22})
    # A map that can be believed is what the collector goes by, whatever the records say.
    verified = read(spoiled(closed, 1046, 500), verify=True)
    assert (verified.collector_scan, verified.collector_bytes) == ("counts", {5: 44, 9: 22})


def test_a_record_that_no_file_can_hold_is_damage_and_a_shorter_one_may_be_written_to() -> None:
    data = log(ENTRIES, closed=False)
    huge, long = read(spoiled(data, 1046, 1 << 30)), read(spoiled(data, 1046, 500))
    assert (
        str(huge.damage) == "entry log: a record with an impossible length: 1073741824 bytes (at byte 1046)"
    )
    assert (long.damage, long.is_cut) == (None, True)


def test_a_size_of_zero_ends_a_log_of_the_direct_logger() -> None:
    data = direct_log([[(5, 0, 0)], [(7, 0, 0)]], closed=False)
    at = data.index(record(7, 0, 0))
    assert collector(data) == (None, {})
    scan, counted = collector(spoiled(data, at, 0))
    assert (scan, counted) == ("counts", {5: 20})
