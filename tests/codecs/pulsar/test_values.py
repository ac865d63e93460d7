"""Owners' values: every one that a real broker wrote, of any content, and damaged."""

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
from tests.codecs.damage import refusal, within
from tests.codecs.ledger_strategies import int64s, mutations
from tests.codecs.pulsar.pulsar_values import oracle, values

VALUES = values()
KNOWN = oracle()["znodes"]
DECODERS: dict[NodeKind, Callable[[bytes], Any]] = {
    NodeKind.TOPIC: managed_ledger.decode,
    NodeKind.CURSOR: managed_cursor.decode,
    NodeKind.SCHEMA: schema_locator.decode,
}
# The last entry of ledger 46, of the cursor __compaction of shop/billing/accounts, without its digest.
COMPACTION_ENTRY = bytes.fromhex("0832100122180a14436f6d706163746564546f7069634c65646765721033")


def ids(path: str, data: bytes) -> list[int]:
    """The ledgers that a value names."""
    kind = names_of(path[1:]).kind
    read = DECODERS[kind](data)
    if kind is NodeKind.TOPIC:
        return [ledger.ledger_id for ledger in read.ledgers]
    if kind is NodeKind.SCHEMA:
        return [version.ledger_id for version in read.versions]
    own = [] if read.ledger_id is None else [read.ledger_id]
    return own + list(read.buckets.values())


@pytest.mark.parametrize("path", sorted(VALUES))
def test_a_value_names_the_ledgers_that_pulsar_reads_in_it(path: str) -> None:
    said = KNOWN[path]["names"]
    if said == "unreadable":
        with pytest.raises(DecodeError):
            ids(path, VALUES[path])
        return
    znode = [named for named in said if named.get("named_by") != "cursor ledger entry"]
    listed = [named["ledger"] for named in znode if named["owner"] != "compacted"]
    assert sorted(ids(path, VALUES[path])) == sorted(listed)


def test_lists_have_the_lengths_and_offloads_that_pulsar_reads() -> None:
    seen = 0
    for path, said in KNOWN.items():
        if names_of(path[1:]).kind is not NodeKind.TOPIC or said["names"] == "unreadable":
            continue
        read = managed_ledger.decode(VALUES[path]).ledgers
        for ledger, named in zip(read, said["names"], strict=True):
            assert (ledger.entries, ledger.size) == (named.get("entries"), named.get("size"))
            offload = ledger.offload and (ledger.offload.complete, ledger.offload.bookkeeper_deleted)
            wanted = named.get("offload")
            assert offload == (wanted and (wanted["complete"], wanted["bookkeeperDeleted"]))
            seen += 1
    assert seen > 100


def test_a_shadow_topic_names_its_source() -> None:
    read = managed_ledger.decode(VALUES["/managed-ledgers/fleet/telemetry/persistent/gps-shadow"])
    assert read.shadow_source == "persistent://fleet/telemetry/gps"


def test_a_terminated_topic_says_where() -> None:
    read = managed_ledger.decode(VALUES["/managed-ledgers/fleet/telemetry/persistent/season-2025"])
    assert read.terminated == Position(96, 4)


def test_a_compaction_cursors_entry_names_the_compacted_ledger() -> None:
    read = managed_cursor.decode_position(COMPACTION_ENTRY)
    assert (read.mark_delete, read.compacted_ledger) == (Position(50, 1), 51)


def test_a_new_topic_and_a_new_cursor_have_no_bytes() -> None:
    assert managed_ledger.decode(b"").ledgers == ()
    assert managed_cursor.decode(b"").ledger_id is None


@pytest.mark.parametrize("value", [b"x", b"", b"12 ", b"-4", b"9" * 20])
def test_a_bucket_whose_value_is_no_id_is_damage(value: bytes) -> None:
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
def test_every_list_is_read_as_it_was_written(message: PulsarManagedLedgerInfo) -> None:
    read = managed_ledger.decode(message.SerializeToString())
    assert [ledger.ledger_id for ledger in read.ledgers] == [info.ledgerId for info in message.ledgerInfo]
    for ledger, info in zip(read.ledgers, message.ledgerInfo, strict=True):
        assert ledger.entries == (info.entries if info.HasField("entries") else None)
        assert (ledger.offload is not None) == info.HasField("offloadContext")
        if ledger.offload is not None:
            begun = bool(info.offloadContext.uidMsb or info.offloadContext.uidLsb)
            assert (ledger.offload.uid is not None) == begun
            assert ledger.offload.complete == info.offloadContext.complete


@given(st.builds(PulsarPositionInfo, ledgerId=int64s, entryId=int64s, properties=numbers))
def test_every_position_is_read_as_it_was_written(message: PulsarPositionInfo) -> None:
    read = managed_cursor.decode_position(message.SerializeToString())
    assert read.mark_delete == (message.ledgerId, message.entryId)
    compacted = [item.value for item in message.properties if item.name == COMPACTED_LEDGER.encode()]
    assert read.compacted_ledger == (compacted[-1] if compacted else None)


@given(st.data(), st.sampled_from(sorted(VALUES)))
def test_damage_is_a_typed_error_with_an_offset_inside(data: st.DataObject, path: str) -> None:
    damaged = data.draw(mutations(VALUES[path]))
    for decode in DECODERS.values():
        assert within(refusal(decode, damaged), damaged)


@given(mutations(COMPACTION_ENTRY))
def test_a_damaged_position_is_a_typed_error(damaged: bytes) -> None:
    assert within(refusal(managed_cursor.decode_position, damaged), damaged)


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
def test_damage_is_refused_where_it_begins(
    decode: Callable[[bytes], object], data: bytes, offset: int
) -> None:
    with pytest.raises(DecodeError) as damage:
        decode(data)
    assert damage.value.offset == offset


def test_damage_inside_a_compressed_message_says_where_that_begins() -> None:
    path = "/managed-ledgers/shop/orders/persistent/wishlist"
    with pytest.raises(DecodeError, match="at byte 0 of the LZ4 output") as damage:
        managed_ledger.decode(VALUES[path])
    assert damage.value.offset == 10


def test_segments_are_read_as_distributedlog_reads_them() -> None:
    home = Path(__file__).parents[2] / "data" / "distributedlog-4.17.2"
    written = json.loads(gzip.decompress((home / "segments.json.gz").read_bytes()))
    for each in written["segments"]:
        read = log_segment.decode(b64decode(each["data"]))
        assert (read.version, read.ledger_id, read.first_transaction) == (
            each["version"],
            each["ledger"],
            each["first"],
        )
        assert (read.records > 0) == each["complete"]
    for each in written["allocations"]:
        assert log_segment.decode_allocation(b64decode(each["data"])) == each["ledger"]


@given(st.integers(0, 15), st.integers(0, 2**31 - 1), int64s, int64s, st.binary(max_size=20))
def test_a_segment_is_read_whatever_follows_it(
    version: int, records: int, ledger: int, first: int, more: bytes
) -> None:
    data = b"%d;%d;%d;" % (version | records << 32, ledger, first) + more
    if 1 <= version <= 5:
        read = log_segment.decode(data)
        assert (read.version, read.ledger_id, read.first_transaction, read.records) == (
            version,
            ledger,
            first,
            records,
        )
    else:
        assert isinstance(refusal(log_segment.decode, data), DecodeError)
