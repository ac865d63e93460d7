"""RocksDB's logs: those of a 4.17.2 bookie, every way of splitting records into blocks, and damage."""

from __future__ import annotations

import random
import struct
import tarfile
from pathlib import Path

import google_crc32c
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from rocksdict import Options, Rdict

from auditor.codecs.rocksdb.manifest import BLOCK_BYTES, RecordSpan, check_wal, records
from auditor.errors import DecodeError
from tests.examples import examples

BOOKIES = Path(__file__).parents[2] / "data" / "dbledger-long" / "bookies.tar.gz"
FULL, FIRST, MIDDLE, LAST = 1, 2, 3, 4
WRITES = 30_000


def physical(kind: int, payload: bytes, log_number: int | None = None) -> bytes:
    checked = bytes([kind]) + (b"" if log_number is None else struct.pack("<I", log_number)) + payload
    crc = google_crc32c.value(checked)
    masked = ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
    return struct.pack("<IH", masked, len(payload)) + checked


def log(payloads: list[bytes], log_number: int | None = None) -> bytes:
    """Return a log as RocksDB writes it; with a log number, in the form of recycled log files."""
    out = b""
    header, type_offset = (7, 0) if log_number is None else (11, 4)
    for payload in payloads:
        begin = True
        while begin or payload:
            room = BLOCK_BYTES - len(out) % BLOCK_BYTES
            if room < header:
                out += bytes(room)
                continue
            part, payload = payload[: room - header], payload[room - header :]
            kind = (FULL if begin else LAST) if not payload else FIRST if begin else MIDDLE
            out += physical(kind + type_offset, part, log_number)
            begin = False
    return out


def batch(sequence: int, count: int, size: int = 0) -> bytes:
    return struct.pack("<QI", sequence, count) + bytes(size)


def payloads_of(data: bytes, log_number: int | None = None) -> list[bytes]:
    return [record.payload for record in records(data, "log", log_number)]


def test_write_spans_of_real_bookie_logs_are_read() -> None:
    spans = {}
    with tarfile.open(BOOKIES) as archive:
        for member in archive:
            path = Path(member.name)
            if path.suffix == ".log" and (file := archive.extractfile(member)) is not None:
                spans["/".join(path.parts[1:])] = check_wal(file.read(), path.name, int(path.stem))
    assert len(spans) == 14
    assert spans["bk-a.rack1/ledgers0/current/locations/000014.log"] is None
    assert spans["bk-a.rack1/ledgers0/current/locations/000018.log"] == RecordSpan(595, 858)
    assert spans["bk-c.rack2/index0/current/ledgers/000031.log"] == RecordSpan(51, 80)


sizes = st.integers(0, 60) | st.integers(BLOCK_BYTES - 60, BLOCK_BYTES + 60) | st.integers(0, 3 * BLOCK_BYTES)


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(sizes, max_size=6), st.none() | st.integers(0, 2**33))
@example([0, 0, 32708, 32708, 32801, 0], 0)
def test_written_log_is_read_back(lengths: list[int], number: int | None) -> None:
    payloads = [bytes([index % 251]) * length for index, length in enumerate(lengths)]
    log_number = None if number is None else number & 0xFFFFFFFF
    assert payloads_of(log(payloads, log_number), number) == payloads


@pytest.mark.parametrize("room", range(13))
@pytest.mark.parametrize("number", [None, 7])
def test_block_end_too_short_for_a_header_is_zeros(room: int, number: int | None) -> None:
    header = 7 if number is None else 11
    payloads = [bytes(BLOCK_BYTES - header - room), b"next"]
    data = log(payloads, number)
    assert payloads_of(data, number) == payloads
    # Where a header fits, zeros are no record.
    zeros = data[: BLOCK_BYTES - room] + bytes(room) + log(payloads[1:], number)
    if room < header:
        assert payloads_of(zeros, number) == payloads
    else:
        with pytest.raises(DecodeError, match="zeros where a record should be") as damage:
            payloads_of(zeros, number)
        assert damage.value.offset == BLOCK_BYTES - room


def test_recycled_log_of_rocksdb_is_read_to_its_end(tmp_path: Path) -> None:
    """Small writes of all sizes: at the end of some block only the shorter of the two headers fits."""
    options = Options(raw_mode=True)
    options.set_recycle_log_file_num(4)
    database = Rdict(str(tmp_path / "database"), options)
    chosen = random.Random(5)
    for turn in range(4):
        for key in range(WRITES):
            database[key.to_bytes(8, "big")] = bytes(chosen.randrange(30))
        if turn < 3:
            database.flush()
    # While it is open, as a bookie's is: what is not flushed is in the log alone.
    logs = {path: path.read_bytes() for path in sorted((tmp_path / "database").glob("*.log"))}
    database.close()
    newest, data = list(logs.items())[-1]
    assert data[6] in (5, 6)  # in the form for files that are used again
    last = BLOCK_BYTES * (len(data) // BLOCK_BYTES)
    ends = [data[end - 7 : end] for end in range(BLOCK_BYTES, last + 1, BLOCK_BYTES)]
    assert bytes(7) in ends
    assert check_wal(data, newest.name, int(newest.stem)) == RecordSpan(3 * WRITES + 1, 4 * WRITES + 1)


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.integers(0, 100), min_size=1, max_size=4), st.data())
def test_flipped_byte_is_reported_at_the_start_of_its_record(lengths: list[int], data: st.DataObject) -> None:
    payloads = [bytes(length) for length in lengths]
    log_bytes = bytearray(log(payloads))
    position = data.draw(st.integers(0, len(log_bytes) - 1))
    log_bytes[position] ^= data.draw(st.integers(1, 255))
    starts = [len(log(payloads[:count])) for count in range(len(payloads))]
    with pytest.raises(DecodeError) as damage:
        payloads_of(bytes(log_bytes))
    assert damage.value.offset == max(start for start in starts if start <= position)


@settings(max_examples=examples(40), deadline=None)
@given(st.lists(sizes, min_size=1, max_size=3), st.data())
def test_cut_inside_a_record_is_refused(lengths: list[int], data: st.DataObject) -> None:
    payloads = [bytes(length) for length in lengths]
    ends = [len(log(payloads[:count])) for count in range(len(payloads) + 1)]
    cut = data.draw(st.integers(0, ends[-1] - 1))
    cut_log = log(payloads)[:cut]
    # Zeros at the end of a block belong to no record.
    if any(end <= cut and not any(log(payloads)[end:cut]) and cut - end < 7 for end in ends):
        return
    with pytest.raises(DecodeError) as damage:
        payloads_of(cut_log)
    assert damage.value.offset <= cut


@pytest.mark.parametrize(
    ("damaged", "offset"),
    [
        pytest.param(physical(LAST, b"x"), 0, id="an end without a beginning"),
        pytest.param(physical(MIDDLE, b"x"), 0, id="a middle without a beginning"),
        pytest.param(physical(FIRST, b"x") + physical(FULL, b"y"), 0, id="a beginning without an end"),
        pytest.param(physical(FULL, b"x") + physical(FIRST, b"y"), 8, id="a last record without an end"),
        pytest.param(physical(FULL, b"x") + bytes(40), 8, id="zeros"),
        pytest.param(physical(12, b"x"), 0, id="an unknown type"),
        pytest.param(physical(9, struct.pack("<I", 7)), 0, id="compressed"),
    ],
)
def test_record_types_that_cannot_follow_each_other_are_refused(damaged: bytes, offset: int) -> None:
    with pytest.raises(DecodeError) as damage:
        payloads_of(damaged)
    assert damage.value.offset == offset


def test_ignorable_records_are_skipped() -> None:
    around = [physical(9, bytes(4)), physical(10, bytes(8)), physical(130, b"x"), physical(200, b"new")]
    assert payloads_of(b"".join(around) + physical(FULL, b"x")) == [b"x"]


def test_empty_first_fragment_of_an_old_writer_is_accepted() -> None:
    assert payloads_of(physical(FIRST, b"") + physical(FULL, b"x")) == [b"x"]


def test_recycled_log_ends_where_the_old_log_shows() -> None:
    assert payloads_of(log([b"new"], 9) + log([b"older", b"oldest"], 8), 9) == [b"new"]


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(sizes, min_size=1, max_size=3), st.lists(sizes, max_size=6))
def test_older_log_after_a_recycled_log_gives_no_records(new: list[int], old: list[int]) -> None:
    payloads = [bytes([index + 1]) * length for index, length in enumerate(new)]
    new_log, old_log = log(payloads, 9), log([bytes(length) for length in old], 8)
    assert payloads_of(new_log + old_log[len(new_log) :], 9) == payloads


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.integers(BLOCK_BYTES, 2 * BLOCK_BYTES), min_size=2, max_size=4), st.data())
def test_flipped_byte_of_a_recycled_log_is_refused(lengths: list[int], data: st.DataObject) -> None:
    """The last block written to is left out: a changed byte there could belong to the recycled file."""
    log_bytes = bytearray(log([bytes(length) for length in lengths], 9))
    position = data.draw(st.integers(0, len(log_bytes) - len(log_bytes) % BLOCK_BYTES - 1))
    log_bytes[position] ^= data.draw(st.integers(1, 255))
    with pytest.raises(DecodeError) as damage:
        payloads_of(bytes(log_bytes) + log([b"old"] * 5, 8), 9)
    assert damage.value.offset <= position


def test_damaged_record_in_the_last_block_of_a_recycled_log_is_refused() -> None:
    log_bytes = bytearray(log([b"first", b"second"], 9))
    log_bytes[-1] ^= 1
    with pytest.raises(DecodeError, match="checksum") as damage:
        payloads_of(bytes(log_bytes) + b"older", 9)
    assert damage.value.offset == len(log([b"first"], 9))


def test_span_of_consecutive_batches_is_read() -> None:
    assert check_wal(log([batch(7, 3), batch(10, 0), batch(10, 1, 40_000)]), "log", 9) == RecordSpan(7, 11)


@pytest.mark.parametrize(
    ("second", "words"),
    [
        (batch(11, 1), "writes are missing: sequence number 10 expected, 11 found"),
        (b"short", "a write batch of 5 bytes"),
    ],
)
def test_batch_that_does_not_follow_the_previous_is_refused(second: bytes, words: str) -> None:
    first = log([batch(7, 3)])
    with pytest.raises(DecodeError, match=words) as damage:
        check_wal(first + physical(FULL, second), "log", 9)
    assert damage.value.offset == len(first)
