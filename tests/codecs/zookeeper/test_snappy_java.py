"""snappy-java streams: one that the Java library wrote, generated streams of the same form, and damage."""

import io
import struct
from pathlib import Path

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditor.codecs.zookeeper.encodings import MAGIC, MAX_BLOCK_BYTES, decompress
from auditor.errors import DecodeError

HEADER = MAGIC + struct.pack(">ii", 1, 1)
# SnappyOutputStream of snappy-java 1.1.10.8, given "bookkeeper" 20 times.
GOLDEN = bytes.fromhex(
    "82534e4150505900 00000001 00000001 00000016 c80124626f6f6b6b6565706572fe0a00fe0a00f60a00"
)
# snapshot.0.snappy of a ZooKeeper 3.9.5 server with nothing in it.
SNAPSHOT = bytes.fromhex(
    "82534e4150505900 00000001 00000001 000000a4"
    "de03205a4b534e00000002ff0d0100000901000109070508010c01043c05776f726c6400000006616e796f6e650d2300000d3a11"
    "3bde0100280a2f7a6f6f6b65657065720143fe56000d5600111956182f636f6e666967015d0d0101d6920100018d4a290000101d"
    "5d1071756f74610124012c0101010cea01002c012f00000000b8a23b4900000d0d0d0100020d0805010c95b93d593e21002400bd"
    "e83f6d000000012f"
)


def block(data: bytes) -> bytes:
    packed = bytes(cramjam.snappy.compress_raw(data))
    return struct.pack(">i", len(packed)) + packed


def test_stream_of_the_java_library_is_decompressed() -> None:
    assert b"".join(decompress(io.BytesIO(GOLDEN))) == b"bookkeeper" * 20


def test_compressed_snapshot_of_a_real_server_equals_the_plain_snapshot() -> None:
    plain = Path(__file__).parents[2] / "data/interleaved-hier/zookeeper/version-2/snapshot.0"
    assert b"".join(decompress(io.BytesIO(SNAPSHOT))) == plain.read_bytes()


@given(st.lists(st.lists(st.binary(max_size=300), max_size=4), min_size=1, max_size=3))
def test_blocks_and_concatenated_streams_are_read_in_order(streams: list[list[bytes]]) -> None:
    packed = b"".join(HEADER + b"".join(map(block, blocks)) for blocks in streams)
    assert list(decompress(io.BytesIO(packed))) == [data for blocks in streams for data in blocks]


@given(st.binary(min_size=1, max_size=300), st.data())
def test_a_stream_cut_inside_a_block_is_refused(content: bytes, data: st.DataObject) -> None:
    stream = HEADER + block(content)
    cut = data.draw(st.integers(len(HEADER) + 1, len(stream) - 1))
    with pytest.raises(DecodeError) as damage:
        list(decompress(io.BytesIO(stream[:cut])))
    assert damage.value.offset == len(HEADER)


@given(st.binary(max_size=200))
def test_arbitrary_blocks_are_refused_or_decompressed(noise: bytes) -> None:
    try:
        blocks = list(decompress(io.BytesIO(HEADER + noise)))
    except DecodeError:
        return
    assert all(isinstance(piece, bytes) for piece in blocks)


@pytest.mark.parametrize(
    ("damaged", "offset"),
    [
        pytest.param(b"", 0, id="nothing"),
        pytest.param(b"\xff\x06\x00\x00sNaPpY", 0, id="the framing format"),
        pytest.param(MAGIC, 0, id="half a header"),
        pytest.param(HEADER + b"\xff\xff\xff\xff", 16, id="a negative length"),
        pytest.param(HEADER + block(b"x") + b"\0\0", 16 + 7, id="half a length"),
        pytest.param(HEADER + struct.pack(">i", 5) + b"\xff\xff\xff\xff\x0f", 16, id="a block of 4 GB"),
        pytest.param(HEADER + struct.pack(">i", MAX_BLOCK_BYTES + 1), 16, id="a packed block of 64 MB"),
        pytest.param(HEADER + struct.pack(">i", 2) + b"\x05\xff", 16, id="a damaged block"),
    ],
)
def test_stream_damage_is_refused_with_its_offset(damaged: bytes, offset: int) -> None:
    with pytest.raises(DecodeError) as damage:
        list(decompress(io.BytesIO(damaged)))
    assert damage.value.offset == offset
