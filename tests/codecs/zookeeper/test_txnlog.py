"""Transaction logs: those of a 3.9.5 server, every kind of record, both forms of closeSession, and damage."""

import struct
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditor.codecs.zookeeper.txnlog import (
    CloseSession,
    Create,
    CutTail,
    Delete,
    Operation,
    SetData,
    Transaction,
    read_log,
)
from auditor.errors import DecodeError

DATA = Path(__file__).parents[2] / "data"
HEADER = bytes.fromhex("5a4b4c47 00000002 0000000000000000")
ACLS = struct.pack(">ii", 1, 31) + struct.pack(">i", 5) + b"world" + struct.pack(">i", 6) + b"anyone"
DIGEST = struct.pack(">iq", 2, 99)
SESSION = 77

# A createSession of a 3.9.5 server, byte for byte.
GOLDEN = (
    "00000000c3240a37 00000030 0100001d3ae70000 00000000 0000000000000001 000001a1fc7e4c15 fffffff6 00002710"
    "00000002 0000000051c6d660 42"
)


def sized(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def record(kind: int, body: bytes, zxid: int = 1, time: int = 5, session: int = SESSION) -> bytes:
    data = struct.pack(">qiqqi", session, 0, zxid, time, kind) + body
    return struct.pack(">q", zlib.adler32(data)) + sized(data) + b"B"


def create(path: bytes, data: bytes = b"", ephemeral: bool = False) -> bytes:
    return sized(path) + sized(data) + ACLS + bytes([ephemeral]) + struct.pack(">i", 1)


def multi(*parts: tuple[int, bytes]) -> bytes:
    return struct.pack(">i", len(parts)) + b"".join(
        struct.pack(">i", kind) + sized(body) for kind, body in parts
    )


def operations(*records: bytes) -> list[Operation]:
    results = list(read_log(memoryview(HEADER + b"".join(records) + bytes(50))))
    assert not [result for result in results if isinstance(result, CutTail)]
    return [
        operation for result in results if isinstance(result, Transaction) for operation in result.operations
    ]


def test_record_of_a_real_server_is_decoded() -> None:
    (transaction,) = read_log(memoryview(HEADER + bytes.fromhex(GOLDEN)))
    assert transaction == Transaction(1, 0x1A1FC7E4C15, ())


@pytest.mark.parametrize(
    ("corpus", "last"), [("interleaved-hier", 0x16F), ("flat-v1", 0x12F), ("dbledger-long", 0x11D)]
)
def test_the_log_of_a_real_server_is_read_to_its_last_transaction(corpus: str, last: int) -> None:
    data = memoryview((DATA / corpus / "zookeeper/version-2/log.1").read_bytes())
    assert [txn.zxid for txn in read_log(data) if isinstance(txn, Transaction)] == list(range(1, last + 1))


@pytest.mark.parametrize("digest", [b"", DIGEST], ids=["without a digest", "with a digest"])
@pytest.mark.parametrize(
    ("kind", "body", "expected"),
    [
        (1, create(b"/a", b"x"), Create("/a", b"x", 0)),
        (15, create(b"/a", b"x", True), Create("/a", b"x", SESSION)),
        (1, sized(b"/a") + struct.pack(">i", -1) + struct.pack(">i", -1) + b"\1", Create("/a", b"", SESSION)),
        (19, sized(b"/a") + sized(b"") + ACLS + struct.pack(">i", 1), Create("/a", b"", 0)),
        (
            21,
            sized(b"/a") + sized(b"") + ACLS + struct.pack(">iq", 1, 500),
            Create("/a", b"", 0),
        ),
        (2, sized(b"/a"), Delete("/a")),
        (20, sized(b"/a"), Delete("/a")),
        (5, sized(b"/a") + sized(b"y") + struct.pack(">i", 4), SetData("/a", b"y", 4)),
        (16, sized(b"/a") + sized(b"y") + struct.pack(">i", 4), SetData("/a", b"y", 4)),
        (-11, struct.pack(">i", 2) + sized(b"/a") + sized(b"/b"), CloseSession(SESSION, ("/a", "/b"))),
        (-11, struct.pack(">i", 0), CloseSession(SESSION, ())),
        (-11, b"", CloseSession(SESSION, ())),
        (
            14,
            multi((1, create(b"/a")), (13, sized(b"/a") + bytes(4)), (2, sized(b"/a"))),
            Create("/a", b"", 0),
        ),
        (7, sized(b"/a") + ACLS + bytes(4), None),
        (-10, bytes(4), None),
        (-1, bytes(4), None),
        (99, b"whatever", None),
        (14, multi((1, create(b"/a")), (-1, bytes(4)), (2, sized(b"/a"))), None),
    ],
)
def test_every_kind_of_record_is_read(
    kind: int, body: bytes, expected: Operation | None, digest: bytes
) -> None:
    assert operations(record(kind, body + digest))[:1] == ([] if expected is None else [expected])


@given(
    st.lists(st.tuples(st.text(st.characters(codec="utf-8"), max_size=9), st.binary(max_size=20)), max_size=8)
)
def test_written_records_are_read_back(writes: list[tuple[str, bytes]]) -> None:
    records = [
        record(1, create(f"/{name}".encode(), data), zxid) for zxid, (name, data) in enumerate(writes, 1)
    ]
    assert operations(*records) == [Create(f"/{name}", data, 0) for name, data in writes]


@given(st.integers(1, 5), st.data())
def test_cut_log_ends_with_its_last_whole_record(count: int, data: st.DataObject) -> None:
    records = [record(1, create(b"/a%d" % n), n) for n in range(count)]
    full_log = HEADER + b"".join(records)
    cut = data.draw(st.integers(0, len(full_log) - 1))
    for end in (b"", bytes(100)):
        results = list(read_log(memoryview(full_log[:cut] + end))) if cut >= 16 else []
        complete = sum(len(HEADER) + sum(map(len, records[:n])) <= cut for n in range(1, count + 1))
        assert [result.zxid for result in results if isinstance(result, Transaction)][:complete] == list(
            range(complete)
        )[: len(results)]
        assert sum(isinstance(result, Transaction) for result in results) == (complete if cut >= 16 else 0)


@given(st.integers(0, 2), st.data())
def test_a_changed_byte_before_the_last_record_is_refused_at_its_record(
    victim: int, data: st.DataObject
) -> None:
    records = [record(1, create(b"/a%d" % n), n) for n in range(4)]
    begin = len(HEADER) + sum(map(len, records[:victim]))
    log_bytes = bytearray(HEADER + b"".join(records))
    # The length apart (offsets 8 to 11), whose damage can look like a record that was cut.
    position = data.draw(st.sampled_from([*range(8), *range(12, len(records[victim]))]))
    log_bytes[begin + position] ^= data.draw(st.integers(1, 255))
    with pytest.raises(DecodeError) as damage:
        list(read_log(memoryview(bytes(log_bytes))))
    assert damage.value.offset == begin


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_refused_or_cut(noise: bytes) -> None:
    try:
        results = list(read_log(memoryview(HEADER + noise)))
    except DecodeError:
        return
    assert all(isinstance(result, CutTail | Transaction) for result in results)


@given(st.sampled_from([1, 2, 5, 14, 15, 19, 21, -11]), st.binary(max_size=60))
def test_arbitrary_bodies_with_a_valid_checksum_are_refused_or_read(kind: int, body: bytes) -> None:
    try:
        results = list(read_log(memoryview(HEADER + record(kind, body))))
    except DecodeError as damage:
        assert damage.offset >= len(HEADER)  # noqa: PT017
        return
    assert len(results) == 1


@pytest.mark.parametrize(
    ("damaged", "offset"),
    [
        pytest.param(b"ZKSN" + HEADER[4:], 0, id="a snapshot"),
        pytest.param(HEADER[:4] + struct.pack(">i", 3) + HEADER[8:], 4, id="a newer version"),
        pytest.param(
            HEADER + record(-11, struct.pack(">i", 5) + b"/"), 16 + 12 + 32, id="half a closeSession"
        ),
    ],
)
def test_log_damage_is_refused_with_its_offset(damaged: bytes, offset: int) -> None:
    with pytest.raises(DecodeError) as damage:
        list(read_log(memoryview(damaged)))
    assert damage.value.offset == offset
