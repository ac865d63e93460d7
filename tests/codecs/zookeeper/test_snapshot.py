"""Snapshots: those of a 3.9.5 server, generated snapshots of any shape, and damage at every byte."""

import struct
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditor.codecs.zookeeper.snapshot import (
    check_checksums,
    find_nodes,
    find_record_offsets,
    read_record_tails,
)
from auditor.errors import DecodeError

DATA = Path(__file__).parents[2] / "data"
TAIL = struct.Struct(">qqqqqiiiqq")
PATHS = ["", "/zookeeper", "/zookeeper/config", "/zookeeper/quota"]

longs = st.integers(-(2**63), 2**63 - 1)
ints = st.integers(-(2**31), 2**31 - 1)
numbers = st.tuples(longs, longs, longs, longs, longs, ints, ints, ints, longs, longs)
paths = (
    st.text(st.characters(codec="utf-8"), min_size=1, max_size=12).map("/".__add__).filter(lambda p: p != "/")
)
records = st.tuples(paths, st.none() | st.binary(max_size=30), numbers)
Record = tuple[str, bytes | None, tuple[int, ...]]


def sized(data: bytes | None) -> bytes:
    return struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + data


def sealed(data: bytes) -> bytes:
    return data + struct.pack(">q", zlib.adler32(data)) + sized(b"/")


def snapshot(nodes: list[Record], digest: bool = True, last_zxid: bool = True) -> bytes:
    data = struct.pack(">iiq", 0x5A4B534E, 2, -1) + struct.pack(">iqi", 1, 77, 30000)
    data += struct.pack(">iqii", 1, 1, 1, 31) + sized(b"world") + sized(b"anyone")
    data += b"".join(sized(path.encode()) + sized(value) + TAIL.pack(*tail) for path, value, tail in nodes)
    data = sealed(data + sized(b"/"))
    data = sealed(data + struct.pack(">qiq", 9, 2, 12345)) if digest else data
    return sealed(data + struct.pack(">q", 9)) if last_zxid else data


def read(data: bytes, limit: int = 1000, byte_limit: int = 10**9) -> list[Record]:
    view = memoryview(data)
    offset, ended = find_nodes(view), False
    nodes: list[Record] = []
    while not ended:
        bounds = find_record_offsets(view, offset, limit, byte_limit)
        fixed = read_record_tails(view, bounds.tail_starts).tolist()
        for begin, value, tail, row in zip(
            bounds.path_offsets.tolist(),
            bounds.data_starts.tolist(),
            bounds.tail_starts.tolist(),
            fixed,
            strict=True,
        ):
            nodes.append((data[begin : value - 4].decode(), data[value:tail], row))
        offset, ended = bounds.next_record, bounds.has_end_mark
    check_checksums(view, offset)
    return nodes


def test_the_snapshot_of_an_empty_server_is_read() -> None:
    golden = (DATA / "interleaved-hier/zookeeper/version-2/snapshot.0").read_bytes()
    assert len(golden) == 478
    assert [(path, value) for path, value, _ in read(golden)] == [(path, b"") for path in PATHS]


def test_znode_of_a_real_server_is_read_with_all_its_fields() -> None:
    golden = (DATA / "interleaved-hier/zookeeper/version-2/snapshot.16f").read_bytes()
    node = next(node for node in read(golden) if node[0] == "/ledgers/00/0000/L0000")
    _, czxid, mzxid, ctime, mtime, version, cversion, aversion, owner, pzxid = node[2]
    assert (czxid, mzxid, ctime, mtime, version) == (33, 34, 1795237658356, 1795237658473, 1)
    assert (cversion, aversion, owner, pzxid) == (0, 0, 0, 33)
    assert (node[1] or b"").startswith(b"BookieMetadataFormatVersion\t3\n")


@given(st.lists(records, max_size=12), st.booleans(), st.booleans(), st.integers(1, 5), st.integers(1, 300))
def test_written_snapshot_is_read_back_in_slices(
    nodes: list[Record], digest: bool, last_zxid: bool, limit: int, byte_limit: int
) -> None:
    expected = [(path, value or b"", tail) for path, value, tail in nodes]
    assert read(snapshot(nodes, digest, last_zxid), limit, byte_limit) == expected


@given(st.lists(records, max_size=4), st.data())
def test_cut_snapshot_is_refused_unless_cut_at_an_optional_section(
    nodes: list[Record], data: st.DataObject
) -> None:
    full_snapshot = snapshot(nodes)
    cut = data.draw(st.integers(0, len(full_snapshot) - 1))
    # Older servers write no sections after the first seal: cut exactly there, it is such a snapshot.
    expected = [(path, value or b"", tail) for path, value, tail in nodes]
    if cut in (len(snapshot(nodes, last_zxid=False)), len(snapshot(nodes, False, False))):
        assert read(full_snapshot[:cut]) == expected
        return
    with pytest.raises(DecodeError) as damage:
        read(full_snapshot[:cut])
    assert 0 <= damage.value.offset <= cut


@given(st.lists(records, max_size=4), st.data())
def test_any_changed_byte_is_refused(nodes: list[Record], data: st.DataObject) -> None:
    snapshot_bytes = bytearray(snapshot(nodes))
    snapshot_bytes[data.draw(st.integers(0, len(snapshot_bytes) - 1))] ^= data.draw(st.integers(1, 255))
    with pytest.raises((DecodeError, UnicodeDecodeError)):
        read(bytes(snapshot_bytes))


@given(st.binary(max_size=300))
def test_arbitrary_bytes_are_refused(noise: bytes) -> None:
    for data in (noise, snapshot([])[:70] + noise):
        with pytest.raises((DecodeError, UnicodeDecodeError)):
            read(data)


@pytest.mark.parametrize(
    ("damaged", "offset"),
    [
        pytest.param(b"PK\3\4" + bytes(100), 0, id="another kind of file"),
        pytest.param(struct.pack(">iiq", 0x5A4B534E, 3, -1), 4, id="a newer version"),
        pytest.param(struct.pack(">iiqi", 0x5A4B534E, 2, -1, 2**31 - 1), 16, id="more sessions than bytes"),
        pytest.param(snapshot([]) + b"x", 76 + 13, id="bytes after the last seal"),
    ],
)
def test_snapshot_damage_is_refused_with_its_offset(damaged: bytes, offset: int) -> None:
    with pytest.raises(DecodeError) as damage:
        read(damaged)
    assert damage.value.offset == offset
