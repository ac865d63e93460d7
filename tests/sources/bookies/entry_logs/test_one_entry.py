"""Tests of cursor ledger entries of real bookies, found through the bookies' index, and of damage."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import pytest

from auditor.codecs.pulsar.managed_cursor import decode_position
from auditor.demo.sample import extract
from auditor.errors import DecodeError, UnreadError
from auditor.sources.bookies.entry_logs.locations import find_location, read_body
from auditor.sources.bookies.parts import INDEX_FILES, ROCKSDB

DATA = Path(__file__).parents[3] / "data" / "pulsar-a" / "bookies.tar.gz"
LEDGER, LAST, COMPACTED = 46, 6, 51
"""The cursor __compaction of shop/billing/accounts, and what its last entry names."""


@pytest.fixture(scope="module")
def bookie(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("pulsar")
    extract(DATA, root)
    return root / "bookies" / "bookie-1.example_3181" / "ledgers0"


def entry_location(bookie: Path, entry: int = LAST) -> int | None:
    return find_location(str(bookie / "current" / "locations"), ROCKSDB, LEDGER, entry)


def test_last_entry_of_a_cursor_ledger_names_the_compacted_ledger(bookie: Path) -> None:
    location = entry_location(bookie)
    assert location is not None
    body = read_body([str(bookie)], location, LEDGER, LAST, "CRC32C")
    assert decode_position(body).compacted_ledger == COMPACTED


def test_entry_that_the_bookie_does_not_store_has_no_location(bookie: Path) -> None:
    assert entry_location(bookie, LAST + 1) is None
    assert entry_location(bookie, 4) is None  # striped to the two others


def test_wrong_entry_or_digest_type_is_refused(bookie: Path) -> None:
    location = entry_location(bookie)
    assert location is not None
    for ledger, entry, digest in (
        (LEDGER, LAST - 1, "CRC32C"),
        (47, LAST, "CRC32C"),
        (LEDGER, LAST, "CRC32"),
    ):
        with pytest.raises(DecodeError):
            read_body([str(bookie)], location, ledger, entry, digest)


def test_missing_or_duplicate_entry_log_is_unread(bookie: Path) -> None:
    for directories in ([], [str(bookie)] * 2):
        with pytest.raises(UnreadError, match=f"{len(directories)} entry logs"):
            read_body(directories, 1024, LEDGER, LAST, "CRC32C")


def write_entry_log(directory: Path, body: bytes, digest: bytes, ledger: int = 7, entry: int = 2) -> int:
    """Write an entry log with one entry, and return the entry's location."""
    data = struct.pack(">qqqq", ledger, entry, 1, 9) + digest + body
    (directory / "current").mkdir()
    log = bytes(1024) + struct.pack(">i", len(data)) + data
    (directory / "current" / "a.log").write_bytes(log)
    return 10 << 32 | 1028


@pytest.mark.parametrize(
    ("digest_type", "digest"),
    [
        ("DUMMY", b""),
        ("MAC", bytes(20)),
        ("CRC32", zlib.crc32(struct.pack(">qqqq", 7, 2, 1, 9) + b"body").to_bytes(8, "big")),
    ],
)
def test_body_is_read_after_a_digest_of_each_type(digest_type: str, digest: bytes, tmp_path: Path) -> None:
    location = write_entry_log(tmp_path, b"body", digest)
    assert read_body([str(tmp_path)], location, 7, 2, digest_type) == b"body"


def test_damaged_entry_is_refused_with_the_offset_of_its_damage(tmp_path: Path) -> None:
    location = write_entry_log(tmp_path, b"body", bytes(4))
    with pytest.raises(DecodeError, match="CRC32C digest does not match") as damage:
        read_body([str(tmp_path)], location, 7, 2, "CRC32C")
    assert damage.value.offset == 1028 + 32
    log = tmp_path / "current" / "a.log"
    whole = log.read_bytes()
    log.write_bytes(whole[:-1])
    with pytest.raises(DecodeError, match="bytes expected") as damage:
        read_body([str(tmp_path)], location, 7, 2, "CRC32C")
    assert damage.value.offset == 1028
    log.write_bytes(whole[:1024] + struct.pack(">i", 31) + whole[1028:])
    with pytest.raises(DecodeError, match="invalid entry size: 31 bytes") as damage:
        read_body([str(tmp_path)], location, 7, 2, "CRC32C")
    assert damage.value.offset == 1024


def test_index_file_gives_the_location_of_an_entry(tmp_path: Path) -> None:
    index = tmp_path / "7.idx"
    index.write_bytes(bytes(1024) + struct.pack(">qqq", 0, 77, 88))
    assert [find_location(str(index), INDEX_FILES, 7, entry) for entry in range(4)] == [None, 77, 88, None]
    with pytest.raises(UnreadError):
        find_location(str(tmp_path / "8.idx"), INDEX_FILES, 8, 0)
