"""Ledger owners' values: every value that a real broker wrote, generated values, and damaged values."""

from __future__ import annotations

import gzip
import json
from base64 import b64decode
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditor.codecs.protobuf.pb.pulsar_managed_ledger_pb2 import (
    PulsarKeyValue,
    PulsarLedgerInfo,
    PulsarLongProperty,
    PulsarManagedCursorInfo,
    PulsarManagedLedgerInfo,
    PulsarOffloadContext,
    PulsarPosition,
    PulsarPositionInfo,
    PulsarStringProperty,
)
from auditor.codecs.pulsar import log_segment, managed_cursor, managed_ledger, schema_locator
from auditor.codecs.pulsar.managed_cursor import BUCKET_PREFIX, COMPACTED_LEDGER
from auditor.codecs.pulsar.managed_ledger import Position
from auditor.errors import DecodeError
from auditor.keys.pulsar import NodeKind, names_of
from tests.codecs.damage import points_within, refusal
from tests.codecs.ledger_strategies import int64s, mutations
from tests.codecs.pulsar.pulsar_values import oracle, values

VALUES = values()
ORACLE_ZNODES = oracle()["znodes"]
DECODERS: dict[NodeKind, Callable[[bytes], Any]] = {
    NodeKind.TOPIC: managed_ledger.decode,
    NodeKind.CURSOR: managed_cursor.decode,
    NodeKind.SCHEMA: schema_locator.decode,
}
# The last entry of ledger 46, of the cursor __compaction of shop/billing/accounts, without its digest.
COMPACTION_ENTRY = bytes.fromhex("0832100122180a14436f6d706163746564546f7069634c65646765721033")


def ids(path: str, data: bytes) -> list[int]:
    """Return the ids of the ledgers that a value names."""
    kind = names_of(path[1:]).kind
    decoded_value = DECODERS[kind](data)
    if kind is NodeKind.TOPIC:
        return [ledger.ledger_id for ledger in decoded_value.ledgers]
    if kind is NodeKind.SCHEMA:
        return [version.ledger_id for version in decoded_value.versions]
    cursor_ledgers = [] if decoded_value.ledger_id is None else [decoded_value.ledger_id]
    return cursor_ledgers + list(decoded_value.buckets.values())


@pytest.mark.parametrize("path", sorted(VALUES))
def test_value_names_the_ledgers_that_pulsar_reads(path: str) -> None:
    expected = ORACLE_ZNODES[path]["names"]
    if expected == "unreadable":
        with pytest.raises(DecodeError):
            ids(path, VALUES[path])
        return
    znode = [record for record in expected if record.get("named_by") != "cursor ledger entry"]
    listed = [record["ledger"] for record in znode if record["owner"] != "compacted"]
    assert sorted(ids(path, VALUES[path])) == sorted(listed)


def test_topic_ledgers_have_the_lengths_and_offloads_that_pulsar_reads() -> None:
    ledger_count = 0
    for path, znode in ORACLE_ZNODES.items():
        if names_of(path[1:]).kind is not NodeKind.TOPIC or znode["names"] == "unreadable":
            continue
        ledgers = managed_ledger.decode(VALUES[path]).ledgers
        for ledger, record in zip(ledgers, znode["names"], strict=True):
            assert (ledger.entries, ledger.size) == (record.get("entries"), record.get("size"))
            offload = ledger.offload and (ledger.offload.complete, ledger.offload.bookkeeper_deleted)
            expected = record.get("offload")
            assert offload == (expected and (expected["complete"], expected["bookkeeperDeleted"]))
            ledger_count += 1
    assert ledger_count > 100


def test_shadow_topic_names_its_source() -> None:
    topic = managed_ledger.decode(VALUES["/managed-ledgers/fleet/telemetry/persistent/gps-shadow"])
    assert topic.shadow_source == "persistent://fleet/telemetry/gps"


def test_terminated_topic_has_its_last_position() -> None:
    topic = managed_ledger.decode(VALUES["/managed-ledgers/fleet/telemetry/persistent/season-2025"])
    assert topic.terminated == Position(96, 4)


def test_compaction_cursor_entry_names_the_compacted_ledger() -> None:
    position = managed_cursor.decode_position(COMPACTION_ENTRY)
    assert (position.mark_delete, position.compacted_ledger) == (Position(50, 1), 51)


def test_empty_values_of_a_new_topic_and_cursor_are_decoded() -> None:
    assert managed_ledger.decode(b"").ledgers == ()
    assert managed_cursor.decode(b"").ledger_id is None


@pytest.mark.parametrize("value", [b"x", b"", b"12 ", b"-4", b"9" * 20])
def test_bucket_with_an_invalid_ledger_id_is_damage(value: bytes) -> None:
    bucket = PulsarStringProperty(name=BUCKET_PREFIX.encode() + b"1_2", value=value)
    data = PulsarManagedCursorInfo(cursorsLedgerId=1, cursorProperties=[bucket]).SerializeToString()
    with pytest.raises(DecodeError, match="not the id of a ledger"):
        managed_cursor.decode(data)


key_values = st.builds(PulsarKeyValue, key=st.binary(max_size=5), value=st.binary(max_size=5))
contexts = st.builds(
    PulsarOffloadContext,
    uidMsb=st.none() | int64s,
    uidLsb=st.none() | int64s,
    complete=st.none() | st.booleans(),
    bookkeeperDeleted=st.none() | st.booleans(),
    timestamp=st.none() | int64s,
)
infos = st.builds(
    PulsarLedgerInfo,
    ledgerId=int64s,
    entries=st.none() | int64s,
    size=st.none() | int64s,
    timestamp=st.none() | int64s,
    offloadContext=st.none() | contexts,
)
topics = st.builds(
    PulsarManagedLedgerInfo,
    ledgerInfo=st.lists(infos, max_size=5),
    terminatedPosition=st.none() | st.builds(PulsarPosition, ledgerId=int64s, entryId=int64s),
    properties=st.lists(key_values, max_size=3),
)
numbers = st.lists(
    st.builds(
        PulsarLongProperty,
        name=st.sampled_from([COMPACTED_LEDGER.encode(), b"other", b"\xff"]),
        value=int64s,
    ),
    max_size=3,
)


@given(topics)
def test_written_topic_value_is_read_back(message: PulsarManagedLedgerInfo) -> None:
    topic = managed_ledger.decode(message.SerializeToString())
    assert [ledger.ledger_id for ledger in topic.ledgers] == [info.ledgerId for info in message.ledgerInfo]
    for ledger, info in zip(topic.ledgers, message.ledgerInfo, strict=True):
        assert ledger.entries == (info.entries if info.HasField("entries") else None)
        assert (ledger.offload is not None) == info.HasField("offloadContext")
        if ledger.offload is not None:
            begun = bool(info.offloadContext.uidMsb or info.offloadContext.uidLsb)
            assert (ledger.offload.uid is not None) == begun
            assert ledger.offload.complete == info.offloadContext.complete


@given(st.builds(PulsarPositionInfo, ledgerId=int64s, entryId=int64s, properties=numbers))
def test_written_position_is_read_back(message: PulsarPositionInfo) -> None:
    position = managed_cursor.decode_position(message.SerializeToString())
    assert position.mark_delete == (message.ledgerId, message.entryId)
    compacted = [pair.value for pair in message.properties if pair.name == COMPACTED_LEDGER.encode()]
    assert position.compacted_ledger == (compacted[-1] if compacted else None)


@given(st.data(), st.sampled_from(sorted(VALUES)))
def test_damage_is_a_typed_error_with_an_offset_inside(data: st.DataObject, path: str) -> None:
    damaged = data.draw(mutations(VALUES[path]))
    for decode in DECODERS.values():
        assert points_within(refusal(decode, damaged), damaged)


@given(mutations(COMPACTION_ENTRY))
def test_damaged_position_raises_only_typed_errors(damaged: bytes) -> None:
    assert points_within(refusal(managed_cursor.decode_position, damaged), damaged)


@pytest.mark.parametrize(
    ("decode", "data", "offset"),
    [
        (managed_ledger.decode, b"\x0a\x02\x08\x03\xff", 4),
        (managed_ledger.decode, b"\x0a\x02\x10\x03", 4),  # a ledger without an id
        (managed_ledger.decode, b"\x0a\x04\x08\x03\x10", 0),
        (managed_cursor.decode, b"\x10\x05", 2),  # no ledger of the cursor
        (managed_cursor.decode, b"\x08\x05\x10", 2),
        (managed_cursor.decode_position, b"\x08\x05", 2),
        (schema_locator.decode, b"", 0),
        (schema_locator.decode, b"\x0a\x09\x08\x00", 0),
        (log_segment.decode, b"", 0),
        (log_segment.decode, b"1;2", 3),
        (log_segment.decode, b"1;x;3", 2),
        (log_segment.decode, b"1;2;", 4),
        (log_segment.decode, b"9;2;3", 0),
        (log_segment.decode_allocation, b"17x", 0),
    ],
)
def test_value_damage_is_refused_with_its_offset(
    decode: Callable[[bytes], object], data: bytes, offset: int
) -> None:
    with pytest.raises(DecodeError) as damage:
        decode(data)
    assert damage.value.offset == offset


def test_damage_in_a_compressed_message_is_reported_at_its_start() -> None:
    path = "/managed-ledgers/shop/orders/persistent/wishlist"
    with pytest.raises(DecodeError, match="at byte 0 of the LZ4 output") as damage:
        managed_ledger.decode(VALUES[path])
    assert damage.value.offset == 10


def test_segments_are_decoded_as_distributedlog_reads_them() -> None:
    home = Path(__file__).parents[2] / "data" / "distributedlog-4.17.2"
    samples = json.loads(gzip.decompress((home / "segments.json.gz").read_bytes()))
    for sample in samples["segments"]:
        segment = log_segment.decode(b64decode(sample["data"]))
        assert (segment.version, segment.ledger_id, segment.first_transaction) == (
            sample["version"],
            sample["ledger"],
            sample["first"],
        )
        assert (segment.records > 0) == sample["complete"]
    for sample in samples["allocations"]:
        assert log_segment.decode_allocation(b64decode(sample["data"])) == sample["ledger"]


@given(st.integers(0, 15), st.integers(0, 2**31 - 1), int64s, int64s, st.binary(max_size=20))
def test_segment_is_decoded_with_any_bytes_after_it(
    version: int, records: int, ledger: int, first: int, more: bytes
) -> None:
    data = b"%d;%d;%d;" % (version | records << 32, ledger, first) + more
    if 1 <= version <= 5:
        segment = log_segment.decode(data)
        assert (segment.version, segment.ledger_id, segment.first_transaction, segment.records) == (
            version,
            ledger,
            first,
            records,
        )
    else:
        assert isinstance(refusal(log_segment.decode, data), DecodeError)
