"""Values that brokers wrote in every compression, compared with these brokers' reading; and damage."""

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
from tests.codecs.damage import points_within, refusal
from tests.codecs.pulsar.pulsar_values import topic_path

FILES = sorted((Path(__file__).parents[2] / "data" / "pulsar-values").glob("*.json"))
RUNS: dict[str, Any] = {file.stem: json.loads(file.read_text()) for file in FILES}
DECODERS: dict[NodeKind, Callable[[bytes], Any]] = {
    NodeKind.TOPIC: managed_ledger.decode,
    NodeKind.CURSOR: managed_cursor.decode,
    NodeKind.SCHEMA: schema_locator.decode,
    NodeKind.LOG_SEGMENT: log_segment.decode,
    NodeKind.LOG_ALLOCATION: log_segment.decode_allocation,
}
every_run = pytest.mark.parametrize("run", RUNS)


def value(run: str, topic: str, cursor: str = "") -> bytes:
    """Return the value at the path of a topic, or of one of its cursors."""
    path = topic_path(f"persistent://{topic}")
    return bytes.fromhex(RUNS[run]["znodes"][f"/{path}{cursor and '/'}{cursor}"])


def last_entry(run: str, topic: str, cursor: str) -> managed_cursor.CursorPosition:
    """Return the last entry of a cursor's own ledger."""
    ledger = RUNS[run]["topics"][topic]["cursors"][cursor]
    return managed_cursor.decode_position(bytes.fromhex(RUNS[run]["entries"][str(ledger)]))


def values_of_run(run: str) -> Iterator[tuple[Callable[[bytes], Any], bytes]]:
    """Yield every value of a run with its codec."""
    for path, text in (RUNS[run]["znodes"] | RUNS[run]["logs"]).items():
        yield DECODERS[names_of(path[1:]).kind], bytes.fromhex(text)


def test_every_compression_was_written_by_a_broker() -> None:
    assert {f"4.2.4-{name}" for name in COMPRESSIONS.values()} <= RUNS.keys()


@every_run
def test_topic_value_is_decoded_as_the_broker_reads_it(run: str) -> None:
    for topic, info in RUNS[run]["infos"].items():
        decoded_topic = managed_ledger.decode(value(run, topic))
        assert len(decoded_topic.ledgers) == len(info["ledgers"])
        for ledger, ledger_info in zip(decoded_topic.ledgers, info["ledgers"], strict=True):
            assert ledger.ledger_id == ledger_info["ledgerId"]
            assert (ledger.entries, ledger.size) == (ledger_info.get("entries"), ledger_info.get("size"))
            assert ledger.timestamp in (None, ledger_info["timestamp"]), (
                "of the open ledger the broker says the present"
            )
            assert (ledger.offload and ledger.offload.uid) == ledger_info.get("offloadedContextUuid")
        ended = info.get("terminatedPosition")
        assert decoded_topic.terminated == (ended and (ended["ledgerId"], ended["entryId"]))


@every_run
def test_cursor_value_is_decoded_as_the_broker_reads_it(run: str) -> None:
    for topic, info in RUNS[run]["infos"].items():
        for name, stats in info["cursors"].items():
            cursor = managed_cursor.decode(value(run, topic, name))
            assert (-1 if cursor.ledger_id is None else cursor.ledger_id) == stats["cursorsLedgerId"]
            assert cursor.mark_delete == (stats["markDelete"]["ledgerId"], stats["markDelete"]["entryId"])
            assert cursor.holes == len(stats.get("individualDeletedMessages", []))
            assert cursor.properties == stats.get("properties", {})


@every_run
def test_message_above_the_threshold_is_compressed(run: str) -> None:
    counts = {"none": 0, RUNS[run]["compression"]: 0}
    for decode, data in values_of_run(run):
        if decode in (managed_ledger.decode, managed_cursor.decode):
            message, compression, _ = unpack(data, "value")
            large = len(message) > RUNS[run]["threshold"] and RUNS[run]["compression"] != "NONE"
            assert compression == (RUNS[run]["compression"] if large else "none")
            counts[compression] += 1
    assert counts["none"] > 10
    assert RUNS[run]["compression"] == "NONE" or counts[RUNS[run]["compression"]] >= 5


@every_run
def test_complete_deleted_and_broken_offloads_are_decoded(run: str) -> None:
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
def test_compacted_ledger_is_read_from_the_znode_or_the_cursor_ledger(run: str) -> None:
    closed = managed_cursor.decode(value(run, "kinds/all/compacted-closed", "__compaction"))
    assert closed.compacted_ledger is not None
    open_znode = managed_cursor.decode(value(run, "kinds/all/compacted", "__compaction"))
    assert open_znode.compacted_ledger is None
    assert last_entry(run, "kinds/all/compacted", "__compaction").compacted_ledger is not None


@every_run
def test_hole_counts_of_the_cursor_ledger_and_the_znode_agree(run: str) -> None:
    # Both topics were read alike; the one that was closed has them in its znode.
    znode = managed_cursor.decode(value(run, "kinds/all/holes-closed", "reader"))
    assert znode.holes > 10
    assert last_entry(run, "kinds/all/holes", "reader").holes == znode.holes


@every_run
def test_locator_has_every_schema_version(run: str) -> None:
    for topic, topic_info in RUNS[run]["topics"].items():
        if topic_info["schemas"]:
            locator = schema_locator.decode(bytes.fromhex(RUNS[run]["znodes"][f"/schemas/{topic}"]))
            assert [version.ledger_id for version in locator.versions] == topic_info["schemas"]
            assert locator.newest == locator.versions[-1]


@every_run
def test_log_segments_name_their_ledgers(run: str) -> None:
    logs = "/pulsar/functions/{}/<default>/ledgers/{}_000000000000000001"
    closed_segment, open_segment = (
        log_segment.decode(bytes.fromhex(RUNS[run]["logs"][logs.format(*names)]))
        for names in (("package", "logrecs"), ("open", "inprogress"))
    )
    assert closed_segment == LogSegment(5, closed_segment.ledger_id, 1024, 3)
    assert open_segment == LogSegment(5, open_segment.ledger_id, 7, 0)
    assert open_segment.ledger_id > closed_segment.ledger_id > 0


@every_run
def test_log_allocation_has_its_ledger_id(run: str) -> None:
    data = bytes.fromhex(RUNS[run]["logs"]["/pulsar/functions/allocated/<default>/allocation"])
    assert log_segment.decode_allocation(data) == int(data)


@every_run
def test_cut_or_flipped_values_raise_only_typed_errors(run: str) -> None:
    for decode, data in values_of_run(run):
        if not data.startswith(MAGIC) and run != "4.2.4-NONE":
            continue  # a plain value, as that run has them
        for end in range(len(data)):
            assert points_within(refusal(decode, data[:end]), data[:end])
        for bit in range(8 * len(data)):
            damaged = bytearray(data)
            damaged[bit // 8] ^= 1 << bit % 8
            assert points_within(refusal(decode, bytes(damaged)), data)


@every_run
def test_cut_compressed_value_is_damage_unless_only_its_tail_is_cut(run: str) -> None:
    for _, data in values_of_run(run):
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
def test_wrong_size_or_compression_is_refused(run: str, size: int) -> None:
    for _, data in values_of_run(run):
        if data.startswith(MAGIC):
            packed = data[unpack(data, "value").message_start :]
            for number in (*COMPRESSIONS, len(COMPRESSIONS), 255):
                if number:
                    with pytest.raises(DecodeError) as damage:
                        unpack(value_head(number, size) + packed, "value")
                    assert damage.value.offset in (6, len(value_head(number, size)))


def value_head(compression: int, size: int) -> bytes:
    """Return the head of a compressed value."""
    header = PulsarCompressedMetadata(compressionType=compression, uncompressedSize=size).SerializeToString()
    return MAGIC + len(header).to_bytes(4, "big") + header
