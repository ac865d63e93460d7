"""Compressed values of any content, all four kinds as brokers compress them, and damage."""

from __future__ import annotations

import tracemalloc
import zlib
from collections.abc import Callable

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditor.codecs.protobuf.pb.pulsar_managed_ledger_pb2 import PulsarCompressedMetadata
from auditor.codecs.pulsar.managed_ledger import COMPRESSIONS, MAGIC, unpack
from auditor.errors import DecodeError
from tests.codecs.damage import points_within, refusal
from tests.codecs.ledger_strategies import mutations
from tests.codecs.pulsar.pulsar_values import oracle, values


def deflate(data: bytes) -> bytes:
    """Return a zlib stream that ends like a broker's: flushed, but never finished."""
    stream = zlib.compressobj()
    return stream.compress(data) + stream.flush(zlib.Z_SYNC_FLUSH)


GPS = "/managed-ledgers/fleet/telemetry/persistent/gps"
PACK: dict[str, Callable[[bytes], bytes]] = {
    "NONE": bytes,
    "LZ4": lambda data: bytes(cramjam.lz4.compress_block(data, store_size=False)),
    "ZLIB": deflate,
    "ZSTD": lambda data: bytes(cramjam.zstd.compress(data)),
    "SNAPPY": lambda data: bytes(cramjam.snappy.compress_raw(data)),
}
NUMBERS = {name: number for number, name in COMPRESSIONS.items()}


def packed(message: bytes, name: str, size: int | None = None) -> bytes:
    """Return a compressed value as a broker writes it."""
    head = PulsarCompressedMetadata(
        compressionType=NUMBERS[name], uncompressedSize=len(message) if size is None else size
    ).SerializeToString()
    return MAGIC + len(head).to_bytes(4, "big") + head + PACK[name](message)


def unpack_any(data: bytes) -> object:
    return unpack(data, "value")


def test_compression_of_broker_values_matches_the_oracle() -> None:
    by_path = values()
    for path, znode in oracle()["znodes"].items():
        if znode["names"] != "unreadable" and path in by_path:
            assert unpack(by_path[path], "value").compression.lower() == znode["compression"].lower()


@given(st.binary(max_size=3000), st.sampled_from(list(PACK)))
def test_compressed_message_is_read_back(message: bytes, name: str) -> None:
    assert unpack(packed(message, name), "value")[:2] == (message, name)


@given(st.binary(max_size=300).filter(lambda data: not data.startswith(MAGIC)))
def test_value_without_the_magic_is_returned_unchanged(message: bytes) -> None:
    assert unpack(message, "value") == (message, "none", 0)


@pytest.mark.parametrize("name", [name for name in PACK if name != "NONE"])
@pytest.mark.parametrize("size_error", [-3, 3])
def test_wrong_uncompressed_size_is_damage(name: str, size_error: int) -> None:
    message = b"ledger" * 50
    value = packed(message, name, len(message) + size_error)
    with pytest.raises(DecodeError) as damage:
        unpack(value, "value")
    assert damage.value.offset == len(value) - len(PACK[name](message))


@pytest.mark.parametrize(
    ("data", "offset"),
    [
        (MAGIC, 2),
        (MAGIC + b"\0\0\0", 5),
        (MAGIC + b"\0\0\0\x09\x08\x01", 2),
        (MAGIC + b"\xff\xff\xff\xff\x08\x01", 2),
        (MAGIC + b"\0\0\0\x02\x08\x01", 8),  # no size
        (MAGIC + b"\0\0\0\x04\x08\x07\x10\x01", 6),  # no such compression
        (MAGIC + b"\0\0\0\x0d\x08\x01\x10" + b"\xff" * 9 + b"\x01", 6),  # size -1
    ],
)
def test_header_damage_is_refused_with_its_offset(data: bytes, offset: int) -> None:
    with pytest.raises(DecodeError) as damage:
        unpack(data, "value")
    assert damage.value.offset == offset


def test_value_with_a_huge_declared_size_is_refused() -> None:
    with pytest.raises(DecodeError, match="uncompressed size of 2000000000"):
        unpack(packed(b"x" * 100, "ZSTD", 2_000_000_000), "value")


@pytest.mark.parametrize("name", [name for name in PACK if name != "NONE"])
def test_decompression_bomb_is_refused_in_little_memory(name: str) -> None:
    bomb = packed(bytes(32 << 20), name, 1000)
    tracemalloc.start()
    try:
        with pytest.raises(DecodeError):
            unpack(bomb, "value")
        # The value itself, without its head, and what it promised.
        assert tracemalloc.get_traced_memory()[1] < len(bomb) + 100_000
    finally:
        tracemalloc.stop()


@given(mutations(values()[GPS]) | st.binary(max_size=40).map(lambda data: MAGIC + data))
def test_damaged_value_raises_only_typed_errors(damaged: bytes) -> None:
    assert points_within(refusal(unpack_any, damaged), damaged)


@given(st.data(), st.sampled_from(list(PACK)))
def test_damage_in_each_compression_raises_only_typed_errors(data: st.DataObject, name: str) -> None:
    damaged = data.draw(mutations(packed(b"mutated ledgers" * 20, name)))
    assert points_within(refusal(unpack_any, damaged), damaged)
