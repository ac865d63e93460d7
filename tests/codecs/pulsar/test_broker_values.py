"""Values that brokers wrote in every compression, beside what these brokers read in them; and damaged."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from auditor.codecs.protobuf.pb.pulsar_managed_ledger_pb2 import PulsarCompressedMetadata
from auditor.codecs.pulsar import log_segment, managed_cursor, managed_ledger, schema_locator
from auditor.codecs.pulsar.log_segment import LogSegment
from auditor.codecs.pulsar.managed_ledger import COMPRESSIONS, MAGIC, unpack
from auditor.errors import DecodeError
from auditor.keys.pulsar import NodeKind, names_of
from tests.codecs.damage import refusal, within
from tests.codecs.pulsar.pulsar_values import topic_path

FILES = sorted((Path(__file__).parents[2] / "data" / "pulsar-values").glob("*.json"))
KEPT: dict[str, Any] = {file.stem: json.loads(file.read_text()) for file in FILES}
DECODERS: dict[NodeKind, Callable[[bytes], Any]] = {
    NodeKind.TOPIC: managed_ledger.decode,
    NodeKind.CURSOR: managed_cursor.decode,
    NodeKind.SCHEMA: schema_locator.decode,
    NodeKind.LOG_SEGMENT: log_segment.decode,
    NodeKind.LOG_ALLOCATION: log_segment.decode_allocation,
}
every_run = pytest.mark.parametrize("run", KEPT)


def value(run: str, topic: str, cursor: str = "") -> bytes:
    """What lies at the path of a topic, or of one of its cursors."""
    path = topic_path(f"persistent://{topic}")
    return bytes.fromhex(KEPT[run]["znodes"][f"/{path}{cursor and '/'}{cursor}"])


def last_entry(run: str, topic: str, cursor: str) -> managed_cursor.CursorPosition:
    """The last entry of a cursor's own ledger."""
    ledger = KEPT[run]["topics"][topic]["cursors"][cursor]
    return managed_cursor.decode_position(bytes.fromhex(KEPT[run]["entries"][str(ledger)]))


def decoded(run: str) -> Iterator[tuple[Callable[[bytes], Any], bytes]]:
    """Every value of a run with the codec that is for it."""
    for path, text in (KEPT[run]["znodes"] | KEPT[run]["logs"]).items():
        yield DECODERS[names_of(path[1:]).kind], bytes.fromhex(text)


def test_every_compression_was_written_by_a_broker() -> None:
    assert {f"4.2.4-{name}" for name in COMPRESSIONS.values()} <= KEPT.keys()


@every_run
def test_a_list_says_what_the_broker_reads_in_it(run: str) -> None:
    for topic, info in KEPT[run]["infos"].items():
        read = managed_ledger.decode(value(run, topic))
        assert len(read.ledgers) == len(info["ledgers"])
        for ledger, said in zip(read.ledgers, info["ledgers"], strict=True):
            assert ledger.ledger_id == said["ledgerId"]
            assert (ledger.entries, ledger.size) == (said.get("entries"), said.get("size"))
            assert ledger.timestamp in (None, said["timestamp"]), (
                "of the open ledger the broker says the present"
            )
            assert (ledger.offload and ledger.offload.uid) == said.get("offloadedContextUuid")
        ended = info.get("terminatedPosition")
        assert read.terminated == (ended and (ended["ledgerId"], ended["entryId"]))


@every_run
def test_a_cursor_says_what_the_broker_reads_in_it(run: str) -> None:
    for topic, info in KEPT[run]["infos"].items():
        for name, said in info["cursors"].items():
            read = managed_cursor.decode(value(run, topic, name))
            assert (-1 if read.ledger_id is None else read.ledger_id) == said["cursorsLedgerId"]
            assert read.mark_delete == (said["markDelete"]["ledgerId"], said["markDelete"]["entryId"])
            assert read.holes == len(said.get("individualDeletedMessages", []))
            assert read.properties == said.get("properties", {})


@every_run
def test_what_is_larger_than_the_threshold_is_compressed(run: str) -> None:
    seen = {"none": 0, KEPT[run]["compression"]: 0}
    for decode, data in decoded(run):
        if decode in (managed_ledger.decode, managed_cursor.decode):
            message, compression, _ = unpack(data, "value")
            large = len(message) > KEPT[run]["threshold"] and KEPT[run]["compression"] != "NONE"
            assert compression == (KEPT[run]["compression"] if large else "none")
            seen[compression] += 1
    assert seen["none"] > 10
    assert KEPT[run]["compression"] == "NONE" or seen[KEPT[run]["compression"]] >= 5


@every_run
def test_offloads_are_whole_given_up_or_broken(run: str) -> None:
    states = {
        "kinds/all/offloaded": (True, True),
        "kinds/waiting/offloaded": (True, False),
        "kinds/all/offload-broken": (False, False),
    }
    for topic, state in states.items():
        *closed, last = managed_ledger.decode(value(run, topic)).ledgers
        for offload in (ledger.offload for ledger in closed):
            assert offload is not None
            assert (offload.complete, offload.bookkeeper_deleted) == state
            assert (offload.timestamp is not None) == offload.complete
            assert (offload.driver, offload.bucket) == ("aws-s3", "cold")
        assert last.offload is None


@every_run
def test_a_compacted_ledger_is_named_by_the_znode_or_by_the_cursors_ledger_alone(run: str) -> None:
    closed = managed_cursor.decode(value(run, "kinds/all/compacted-closed", "__compaction"))
    assert closed.compacted_ledger is not None
    open_znode = managed_cursor.decode(value(run, "kinds/all/compacted", "__compaction"))
    assert open_znode.compacted_ledger is None
    assert last_entry(run, "kinds/all/compacted", "__compaction").compacted_ledger is not None


@every_run
def test_holes_are_as_many_in_the_cursors_ledger_as_in_the_znode(run: str) -> None:
    # Both topics were read alike; the one that was closed has them in its znode.
    znode = managed_cursor.decode(value(run, "kinds/all/holes-closed", "reader"))
    assert znode.holes > 10
    assert last_entry(run, "kinds/all/holes", "reader").holes == znode.holes


@every_run
def test_a_locator_has_every_version_of_a_schema(run: str) -> None:
    for topic, said in KEPT[run]["topics"].items():
        if said["schemas"]:
            read = schema_locator.decode(bytes.fromhex(KEPT[run]["znodes"][f"/schemas/{topic}"]))
            assert [version.ledger_id for version in read.versions] == said["schemas"]
            assert read.newest == read.versions[-1]


@every_run
def test_segments_of_logs_name_their_ledgers(run: str) -> None:
    logs = "/pulsar/functions/{}/<default>/ledgers/{}_000000000000000001"
    whole, written = (
        log_segment.decode(bytes.fromhex(KEPT[run]["logs"][logs.format(*names)]))
        for names in (("package", "logrecs"), ("open", "inprogress"))
    )
    assert whole == LogSegment(5, whole.ledger_id, 1024, 3)
    assert written == LogSegment(5, written.ledger_id, 7, 0)
    assert written.ledger_id > whole.ledger_id > 0


@every_run
def test_a_ledger_that_a_log_made_in_advance_has_its_id(run: str) -> None:
    data = bytes.fromhex(KEPT[run]["logs"]["/pulsar/functions/allocated/<default>/allocation"])
    assert log_segment.decode_allocation(data) == int(data)


@every_run
def test_no_cut_and_no_flipped_bit_is_more_than_a_typed_error(run: str) -> None:
    for decode, data in decoded(run):
        if not data.startswith(MAGIC) and run != "4.2.4-NONE":
            continue  # a plain value, as that run has them
        for end in range(len(data)):
            assert within(refusal(decode, data[:end]), data[:end])
        for bit in range(8 * len(data)):
            damaged = bytearray(data)
            damaged[bit // 8] ^= 1 << bit % 8
            assert within(refusal(decode, bytes(damaged)), data)


@every_run
def test_a_compressed_value_that_is_cut_is_damaged(run: str) -> None:
    for _, data in decoded(run):
        if data.startswith(MAGIC):
            message, compression, begins = unpack(data, "value")
            # In the last bytes of a stream, the end of its last block and a flush, nothing of it is lost.
            tail = 8 if compression == "ZLIB" else 0
            for end in range(len(MAGIC), len(data)):
                damage = refusal(lambda cut: unpack(cut, "value"), data[:end])
                if damage is None:
                    assert unpack(data[:end], "value").message == message
                    assert end >= len(data) - tail
                else:
                    assert isinstance(damage, DecodeError)
                    assert damage.offset <= begins


@every_run
@pytest.mark.parametrize("size", [-1, 0, 1, 16 << 20, (16 << 20) + 1, 2**31 - 1])
def test_another_size_or_compression_than_the_brokers_is_refused(run: str, size: int) -> None:
    for _, data in decoded(run):
        if data.startswith(MAGIC):
            packed = data[unpack(data, "value").message_start :]
            for number in (*COMPRESSIONS, len(COMPRESSIONS), 255):
                if number:
                    with pytest.raises(DecodeError) as damage:
                        unpack(headed(number, size) + packed, "value")
                    assert damage.value.offset in (6, len(headed(number, size)))


def headed(compression: int, size: int) -> bytes:
    """The head of a compressed value."""
    said = PulsarCompressedMetadata(compressionType=compression, uncompressedSize=size).SerializeToString()
    return MAGIC + len(said).to_bytes(4, "big") + said
