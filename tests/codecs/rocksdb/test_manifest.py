"""MANIFEST files: those of a 4.17.2 bookie, handwritten edits, fields of future versions, and damage."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from auditor.codecs.rocksdb.manifest import Manifest, TableFile, decode
from auditor.errors import DecodeError
from tests.codecs.rocksdb.test_log import BOOKIES, log

COMPARATOR = b"\x01\x1aleveldb.BytewiseComparator"


def varint(*numbers: int) -> bytes:
    out = bytearray()
    for number in numbers:
        while number >= 0x80:
            out.append(number & 0x7F | 0x80)
            number >>= 7
        out.append(number)
    return bytes(out)


def string(data: bytes) -> bytes:
    return varint(len(data)) + data


def added(number: int, size: int, custom: bytes = b"", level: int = 0) -> bytes:
    keys = string(bytes(24)) + string(bytes(24))
    return varint(103, level, number, size) + keys + varint(1, 9) + custom + varint(1)


def test_real_manifest_names_its_table_and_its_log() -> None:
    with tarfile.open(BOOKIES) as archive:
        base = "bookies/bk-b.rack1/ledgers1/current/locations"
        file = archive.extractfile(f"{base}/MANIFEST-000038")
        assert file is not None
        manifest = decode(file.read())
        sizes = {Path(member.name).name: member.size for member in archive if member.name.startswith(base)}
    assert (manifest.log_number, manifest.last_sequence, manifest.logs) == (33, 3044, {})
    [table] = manifest.tables.values()
    assert table.number == 41  # a compaction put it in the place of five
    assert table.bytes == sizes["000041.sst"]


def test_edits_are_applied_in_order_and_deletions_before_additions() -> None:
    first = COMPARATOR + varint(2, 7, 9, 0, 3, 20, 4, 100) + added(8, 1000) + added(9, 50)
    moved = added(8, 1000, level=1) + varint(6, 0, 8, 6, 0, 9, 10, 12, 4, 90)
    manifest = decode(log([first, moved]))
    assert manifest == Manifest(12, 100, {8: TableFile(8, 1000, len(log([first])))}, {})


def test_older_new_file_records_are_read() -> None:
    keys = string(b"a" * 9) + string(b"b" * 9)
    edit = varint(7, 0, 1, 11) + keys + varint(100, 0, 2, 12) + keys + varint(1, 2)
    edit += varint(102, 0, 3, 0, 13) + keys + varint(1, 2)
    assert {table.number: table.bytes for table in decode(log([edit])).tables.values()} == {
        1: 11,
        2: 12,
        3: 13,
    }


def test_other_column_family_does_not_change_the_default_manifest() -> None:
    family_edit = varint(200, 3, 201) + string(b"other") + varint(2, 99) + added(5, 1)
    assert decode(log([family_edit, varint(2, 4)])) == Manifest(log_number=4)


def test_logs_of_the_manifest_are_tracked() -> None:
    grown = varint(8199) + string(varint(7, 2, 500, 1)) + varint(8199) + string(varint(9, 1))
    assert decode(log([grown])).logs == {7: 500}
    deletion = varint(8200) + string(varint(8))
    assert decode(log([grown, deletion])).logs == {}
    assert decode(log([varint(8196, 7, 2, 500, 1), varint(8197, 3)])).logs == {7: 500}


def test_ignorable_fields_are_skipped() -> None:
    custom = varint(6) + string(b"time") + varint(33) + string(b"from the future")
    future = varint(1 << 13 | 77) + string(b"from the future")
    edit = future + added(8, 1000, custom) + varint(5, 0) + string(bytes(9)) + varint(203, 4, 300, 0, 202)
    assert list(decode(log([edit])).tables) == [8]


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        pytest.param(varint(11), "unknown tag 11", id="an unknown tag"),
        pytest.param(varint(400), "unknown tag 400", id="files beside the tables"),
        pytest.param(
            added(8, 1, varint(1 << 6 | 9) + string(b"")), "unknown field 73", id="an unknown field"
        ),
        pytest.param(varint(8196, 7, 3), "unknown field 3 of a log file", id="an unknown field of a log"),
        pytest.param(b"\x01\x05other", "unknown comparator ", id="keys in another order"),
        pytest.param(b"\x02\xff", "a number that is cut", id="a number that is cut"),
        pytest.param(b"\x01\x1aleveldb", "a string that is cut", id="a string that is cut"),
    ],
)
def test_unreadable_edit_is_refused_at_its_offset(edit: bytes, words: str) -> None:
    good = log([COMPARATOR])
    with pytest.raises(DecodeError, match=words) as damage:
        decode(good + log([edit]))
    assert damage.value.offset == len(good)
