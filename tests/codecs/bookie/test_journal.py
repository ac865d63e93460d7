"""Journals of real bookies (4.17.2), and every way in which a journal can end."""

from __future__ import annotations

import json
import struct
import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditor.codecs.bookie import length_prefixed
from auditor.codecs.bookie.journal import Journal
from auditor.errors import DecodeError
from auditor.model.states import ReplayError
from tests.codecs.journals import EXPLICIT_LAC, FENCE, MASTER_KEY, header, journal, padding, record

IDLE = Path(__file__).parents[2] / "data" / "idle-journal" / "bookies.tar.gz"
# A bookie's first records as formats has them: a master key of 20 bytes, entry 0, padding to byte 1024.
GOLDEN = (
    header()
    + bytes.fromhex("00000028 0000000000000000 fffffffffffff000 00000014")
    + bytes(20)
    + bytes.fromhex("0000002b 0000000000000000 0000000000000000 ffffffffffffffff 0000000000000007 2e233f22")
    + b"entry-0"
    + bytes.fromhex("ffffff00 0000019d")
    + bytes(413)
)


def open_journal(data: bytes) -> Journal:
    return Journal.open(lambda offset, length: data[offset : offset + length], len(data))


def read(data: bytes, start: int = 0) -> tuple[list[tuple[int, int]], int | None, bool]:
    """Return (ledger, entry) of every record, where the journal ended, and whether it was cut there."""
    reader = open_journal(data)
    pairs = [
        pair
        for records in reader.records(start)
        for pair in zip(records.ledger_ids.tolist(), records.entry_ids.tolist(), strict=True)
    ]
    return pairs, reader.end, reader.is_cut


def test_journal_written_by_a_server_is_read() -> None:
    assert len(GOLDEN) == 1024
    assert read(GOLDEN) == ([(0, MASTER_KEY), (0, 0)], 1024, False)
    assert read(GOLDEN + bytes(512)) == ([(0, MASTER_KEY), (0, 0)], 1024, False)
    assert read(GOLDEN, 1024) == ([], 1024, False)


def contents(name: str) -> dict[str, bytes]:
    """Return the files below a directory of the corpus, by path."""
    with tarfile.open(IDLE) as archive:
        files = {member.name: archive.extractfile(member) for member in archive if member.isfile()}
        return {path: file.read() for path, file in files.items() if file is not None and name in path}


@pytest.mark.parametrize("bookie", ["127.0.33.1_3181", "127.0.33.3_3181", "bk-eps"])
def test_journal_of_a_killed_bookie_has_the_entries_that_plain_reads_returned(bookie: str) -> None:
    [data] = [file for path, file in contents(f"/{bookie}/journal").items() if path.endswith(".txn")]
    [truth] = map(json.loads, contents("truth.json").values())
    entries_by_ledger: dict[int, set[int]] = {}
    pairs, end, cut = read(data)
    for ledger, entry in pairs:
        if entry >= 0:
            entries_by_ledger.setdefault(ledger, set()).add(entry)
    name = bookie.replace("_3181", ":3181")
    expected = {int(ledger): listed(facts["held"].get(name, "")) for ledger, facts in truth.items()}
    assert entries_by_ledger == {ledger: entries for ledger, entries in expected.items() if entries}
    assert sum(entry == MASTER_KEY for _, entry in pairs) == len(entries_by_ledger)
    assert not cut
    assert end is not None
    assert set(data[end:]) == {0}  # what was filled with zeros before it was written to


def listed(text: str) -> set[int]:
    """Return the entries of a list of ranges.
    >>> listed("0-1,3")
    {0, 1, 3}
    """
    ends = [part.split("-") for part in text.split(",") if part]
    return {entry for end in ends for entry in range(int(end[0]), int(end[-1]) + 1)}


PAIRS = [(7, MASTER_KEY), (7, 0), (9, 4), (7, FENCE), (9, 5), (7, EXPLICIT_LAC), (7, -5), (7, 2**40)]


@pytest.mark.parametrize("version", [1, 2, 3, 4, 5, 6])
def test_every_journal_version_is_read(version: int) -> None:
    since = {MASTER_KEY: 3, FENCE: 4, EXPLICIT_LAC: 6}
    pairs = [pair for pair in PAIRS if since.get(pair[1], 1) <= version]
    read_pairs, end, cut = read(journal(pairs, version))
    assert (read_pairs, cut) == (pairs, False)
    assert end == len(journal(pairs, version, spare=0))
    assert open_journal(journal(pairs, version)).version == version


def test_only_records_with_nonnegative_ids_are_entries() -> None:
    [records] = open_journal(journal(PAIRS)).records()
    entries = records.entries()
    assert list(zip(entries.ledger_ids.tolist(), entries.entry_ids.tolist(), strict=True)) == [
        pair for pair in PAIRS if pair[1] >= 0
    ]


# BP-35 (formats 8.2): digest DUMMY, scope 1, ledger 2, entry 3. No server has written one yet.
V2 = bytes.fromhex(
    "a4 0000000000000001 0000000000000002 0000000000000003 0000000000000002 0000000000000007656e7472792d33"
)


def v2_record(data: bytes = V2) -> bytes:
    return struct.pack(">i", len(data)) + data


def test_an_entry_of_another_scope_is_read_with_its_scope() -> None:
    negative = bytearray(V2)
    negative[9:17] = struct.pack(">q", -5)  # an id may be any number there
    data = header() + record(7, 0) + v2_record() + v2_record(bytes(negative)) + record(7, 1)
    for spare in (0, 64):
        journal_read = open_journal(data + bytes(spare))
        [records] = journal_read.records()
        entries = records.entries()
        assert list(zip(*(column.tolist() for column in entries), strict=True)) == [
            (512, 7, 0, 0),
            (512 + 27, 2, 3, 1),
            (512 + 27 + 52, -5, 3, 1),
            (512 + 27 + 52 + 52, 7, 1, 0),
        ]
        assert (journal_read.end, journal_read.is_cut) == (len(data), False)


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        pytest.param(b"\xb4" + V2[1:], "begins with 0xb4", id="a version that nobody defined"),
        pytest.param(b"\xa9" + V2[1:], "begins with 0xa9", id="an unknown digest type"),
        pytest.param(V2[:40], "a record of 40 bytes", id="shorter than its header"),
    ],
)
def test_invalid_v2_entry_is_damage(changed: bytes, reason: str) -> None:
    journal_read = open_journal(header() + record(7, 0) + v2_record(changed) + bytes(64))
    entry_ids: list[list[int]] = []
    with pytest.raises(DecodeError, match=reason) as caught:
        entry_ids.extend(records.entry_ids.tolist() for records in journal_read.records())
    assert (caught.value.offset, entry_ids) == (512 + 27, [[0]])


# the file, what is read of it, where it ends, whether it is cut there
PREFIX = journal([(1, 0)], 4, spare=0)
ENDS = {
    "an empty file": (b"", [], 0, False),
    "three bytes": (b"\0\0\1", [], 0, True),
    "a magic and nothing more": (b"BKLG", [], 0, True),
    "a header alone": (header(6), [], 512, False),
    "a header cut in its zeros": (header(6)[:100], [], 512, False),
    "zeros alone": (bytes(100), [], 0, False),
    "no byte behind the last record": (PREFIX, [(1, 0)], len(PREFIX), False),
    "two zeros behind it": (PREFIX + bytes(2), [(1, 0)], len(PREFIX), True),
    "a length cut": (PREFIX + b"\xff\xff", [(1, 0)], len(PREFIX), True),
    "ids cut": (PREFIX + record(1, 1)[:9], [(1, 0)], len(PREFIX), True),
    "a payload cut": (PREFIX + record(1, 1)[:-1], [(1, 0)], len(PREFIX), True),
    "a record without payload": (PREFIX + record(1, 1, b""), [(1, 0), (1, 1)], len(PREFIX) + 20, False),
    "padding cut": (GOLDEN[:-1], [(0, MASTER_KEY), (0, 0)], 1024 - 413 - 8, True),
    "padding cut in its length": (GOLDEN[: -413 - 2], [(0, MASTER_KEY), (0, 0)], 1024 - 413 - 8, True),
    "padding of nothing": (
        GOLDEN + padding(0) + record(1, 1),
        [(0, MASTER_KEY), (0, 0), (1, 1)],
        1024 + 8 + 27,
        False,
    ),
}


@pytest.mark.parametrize(("data", "pairs", "end", "cut"), ENDS.values(), ids=ENDS.keys())
def test_journal_ends_where_a_bookie_restart_would_end(
    data: bytes, pairs: list[tuple[int, int]], end: int, cut: bool
) -> None:
    assert read(data) == (pairs, end, cut)


# the file, where the damage begins
DAMAGED = {
    "a newer version": (header(7), 4),
    "version 1 with a magic": (header(1) + b"BKLG" + struct.pack(">i", 1), 4),
    "a negative version": (b"BKLG" + struct.pack(">i", -1), 4),
    "a negative length": (PREFIX + struct.pack(">i", -2) + bytes(50), len(PREFIX)),
    "padding before version 5": (PREFIX + padding(8), len(PREFIX)),
    "padding of less than nothing": (header(6) + struct.pack(">ii", -256, -1) + bytes(50), 512),
    "a record shorter than its ids": (PREFIX + struct.pack(">i", 15) + bytes(50), len(PREFIX)),
    "such a record at the very end": (PREFIX + struct.pack(">i", 3) + bytes(3), len(PREFIX)),
    "a master key before version 3": (journal([(1, MASTER_KEY)], 2), 8),
    "a fence before version 4": (journal([(1, FENCE)], 3), 8),
    "an explicit LAC before version 6": (journal([(1, EXPLICIT_LAC)], 5), 512),
}


@pytest.mark.parametrize(("data", "offset"), DAMAGED.values(), ids=DAMAGED.keys())
def test_journal_damage_is_refused_with_its_offset(data: bytes, offset: int) -> None:
    pairs, damage = refusal_of(data)
    assert (damage.what, damage.offset) == ("journal", offset)
    assert pairs == ([(1, 0)] if data.startswith(PREFIX) else [])


def refusal_of(data: bytes) -> tuple[list[tuple[int, int]], DecodeError]:
    """Return the records before the damage, and the error for the damage."""
    pairs: list[tuple[int, int]] = []
    try:
        for records in open_journal(data).records():
            pairs += zip(records.ledger_ids.tolist(), records.entry_ids.tolist(), strict=True)
    except DecodeError as damage:
        return pairs, damage
    pytest.fail("it was read")


def test_records_before_the_damage_are_returned_first() -> None:
    data = journal([(1, 0), (1, 1)], 4, spare=0) + struct.pack(">i", 2) + bytes(30) + record(5, 5)
    assert refusal_of(data)[0] == [(1, 0), (1, 1)]


def test_long_payloads_are_not_read() -> None:
    payload = bytes(3 << 20)
    data = journal([(1, 0)])[:-4096] + b"".join(record(2, entry, payload) for entry in range(8)) + bytes(64)
    read_lengths: list[int] = []

    def read_at(offset: int, length: int) -> bytes:
        read_lengths.append(length)
        return data[offset : offset + length]

    reader = Journal.open(read_at, len(data))
    assert sum(len(records.offsets) for records in reader.records()) == 9
    assert sum(read_lengths) < 2 * length_prefixed.BLOCK_BYTES


def test_truncated_file_ends_at_its_new_end() -> None:
    data = journal([(1, 0), (1, 1)], 4, spare=0)
    reader = Journal.open(lambda offset, length: data[offset : offset + length], len(data) + 1000)
    assert [records.entry_ids.tolist() for records in reader.records()] == [[0, 1]]
    assert (reader.end, reader.is_cut, reader.size) == (len(data), False, len(data))


pairs_written = st.lists(
    st.tuples(st.integers(0, 2**63 - 1), st.one_of(st.integers(-(2**63), 2**63 - 1), st.just(MASTER_KEY))),
    max_size=30,
)


@given(pairs_written, st.lists(st.integers(0, 3000), min_size=30, max_size=30), st.integers(29, 700))
def test_written_journal_is_read_back_in_blocks_of_any_size(
    pairs: list[tuple[int, int]], payloads: list[int], block: int
) -> None:
    data = header() + b"".join(
        record(*pair, b"p" * length) + padding(length % 7)
        for pair, length in zip(pairs, payloads, strict=False)
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(length_prefixed, "BLOCK_BYTES", block)
        assert read(data + bytes(64)) == (pairs, len(data), False)


@given(pairs_written.filter(bool), st.data())
def test_cut_journal_gives_the_records_before_the_cut(
    pairs: list[tuple[int, int]], data: st.DataObject
) -> None:
    full_journal = journal(pairs, 6, spare=0)
    length = data.draw(st.integers(512, len(full_journal)))
    read_pairs, end, _ = read(full_journal[:length])
    assert read_pairs == pairs[: len(read_pairs)]
    assert end is not None
    assert end <= length
    [records] = open_journal(full_journal).records()
    ends = [start + 4 + 16 + len(b"payload") for start in records.offsets.tolist()]
    assert len(read_pairs) == sum(end <= length for end in ends)


@given(pairs_written.filter(bool), st.data())
def test_records_before_the_start_are_skipped(pairs: list[tuple[int, int]], data: st.DataObject) -> None:
    full_journal = journal(pairs)
    number = data.draw(st.integers(0, len(pairs) - 1))
    [records] = open_journal(full_journal).records()
    assert read(full_journal, int(records.offsets[number]))[0] == pairs[number:]


@given(st.binary(max_size=300), st.integers(0, 6), st.integers(0, 400))
def test_any_journal_bytes_are_read_or_refused_with_an_offset_inside(
    data: bytes, version: int, start: int
) -> None:
    data = (header(version) if version else b"") + data
    offset = None
    try:
        _, offset, _ = read(data, start)
    except DecodeError as damage:
        offset = damage.offset
    assert offset is not None
    assert 0 <= offset <= max(len(data), start, 512)


@pytest.mark.parametrize(
    ("damage", "replay_error"),
    [
        (struct.pack(">i", -9), ReplayError.INVALID_RECORD),
        (struct.pack(">iq", 8, 7), ReplayError.SHORT_RECORD),
        (struct.pack(">ii", -256, -1), ReplayError.INVALID_PADDING),
        (v2_record(b"\x41" + V2[1:]), None),
    ],
)
def test_replay_error_of_a_damaged_record_is_reported(
    damage: bytes, replay_error: ReplayError | None
) -> None:
    data = header() + record(7, 0) + damage + bytes(4096)
    reader = open_journal(data)
    pairs = []
    if replay_error is not None:
        with pytest.raises(DecodeError) as raised:
            pairs += [records.entry_ids.tolist() for records in reader.records()]
        assert raised.value.offset == len(header()) + len(record(7, 0))
    else:
        pairs += [records.entry_ids.tolist() for records in reader.records()]
    assert reader.replay_error is replay_error


def test_record_type_of_a_newer_version_ends_the_replay() -> None:
    reader = open_journal(journal([(7, 0), (7, EXPLICIT_LAC)], version=5))
    with pytest.raises(DecodeError):
        list(reader.records())
    assert reader.replay_error is ReplayError.INVALID_RECORD
