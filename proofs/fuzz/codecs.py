"""Fuzz targets that are functions of bytes: the kinds of ``bkaudit decode``, and other decoders."""

from __future__ import annotations

import io
import json
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial

import cramjam
import google_crc32c
import numpy as np

from auditor.cli.decode import FILE_KINDS, FileDecoder, to_json_value
from auditor.codecs.bookie import entry_log, entry_log_records, java_properties, ledger_data, wire
from auditor.codecs.etcd import bbolt, mvcc
from auditor.codecs.ledger_metadata.batch import decode_batch
from auditor.codecs.ledger_metadata.one import without_password
from auditor.codecs.protobuf.pb.pulsar_managed_ledger_pb2 import PulsarCompressedMetadata
from auditor.codecs.pulsar import bookie_racks, managed_cursor, managed_ledger
from auditor.codecs.rocksdb import manifest
from auditor.codecs.zookeeper import encodings, snapshot, txnlog
from auditor.errors import DecodeError
from auditor.sources.metadata.zookeeper.requests import MultiRead, Operation, WatchEvent
from auditor.sources.owners.pulsar import read_owner
from proofs.fuzz.golden import golden
from proofs.fuzz.target import Target
from tests.codecs.bookie import test_entry as entry

NODES_AT_ONCE = 4096


def shown(kind: FileDecoder, data: bytes, **settings: object) -> None:
    """Decode and print bytes as ``bkaudit decode`` does."""
    chosen = {name: settings.get(name) for name in kind.argument_names}
    value = kind.decode(io.BytesIO(data) if kind.reads_parts else data, **chosen)
    json.dumps(to_json_value(value))


def _first_byte_chooses(*ways: Callable[[bytes], object]) -> Callable[[bytes], None]:
    """Return a reader whose first byte chooses one of several readers for the rest."""

    def run(data: bytes) -> None:
        if data:
            ways[data[0] % len(ways)](data[1:])

    return run


def _for_each_way(seeds: Iterable[bytes], ways: int) -> Iterator[bytes]:
    return (bytes([way]) + seed for seed in seeds for way in range(ways))


def _transaction(data: bytes) -> None:
    """Read one record of a ZooKeeper log, with a correct checksum added."""
    framed = zlib.adler32(data).to_bytes(8, "big") + len(data).to_bytes(4, "big") + data + b"B"
    head = b"ZKLG" + txnlog.VERSION.to_bytes(4, "big") + bytes(8)
    list(txnlog.read_log(memoryview(head + framed)))


def _transactions() -> Iterator[bytes]:
    for data in golden("codecs/zookeeper/txnlog.py"):
        offset = txnlog.HEADER_BYTES
        while (length := int.from_bytes(data[offset + 8 : offset + 12], "big")) > 0:
            yield data[offset + 12 : offset + 12 + length]
            offset += 13 + length


def _snapshot(data: bytes) -> None:
    """Read a snapshot's znodes. Then check its checksums twice: correct ones, and those of the input."""
    view = memoryview(data)
    offset = snapshot.find_nodes(view)
    ended = False
    while not ended:
        bounds = snapshot.find_record_offsets(view, offset, NODES_AT_ONCE, 1 << 20)
        if len(bounds.tail_starts):
            snapshot.session_owners(snapshot.read_record_tails(view, bounds.tail_starts))
        offset, ended = bounds.next_record, bounds.has_end_mark
    sealed = data[: offset + 5]
    sealed += zlib.adler32(sealed).to_bytes(8, "big") + (1).to_bytes(4, "big") + b"/"
    snapshot.check_checksums(memoryview(sealed), offset)
    snapshot.check_checksums(view, offset)


def _bbolt(data: bytes) -> None:
    view = memoryview(data)
    meta = bbolt.read_meta(view)
    for name in (b"key", b"meta", b"cluster"):
        root = bbolt.bucket(view, meta, name)
        if root is None:
            continue
        spans = [span for span in bbolt.leaves(view, meta, root) if not isinstance(span, DecodeError)]
        starts, end = np.array([(span.start, span.end) for span in spans], np.int64).reshape(-1, 2).T
        elements = bbolt.elements(view, starts, end)
        mvcc.revisions(view, elements)
        mvcc.key_spans(view, elements)
        for key, value in bbolt.read_key_values(view, meta, root):
            if name == b"key":
                mvcc.decode_key_value(value)
            elif key in (b"finishedCompactRev", b"scheduledCompactRev"):
                mvcc.decode_revision(value)


def _log_record(payload: bytes) -> bytes:
    """Return a record in RocksDB's log format, with the payload cut to fit in one block."""
    checked = b"\x01" + payload[: manifest.BLOCK_BYTES - 7]
    crc = int(google_crc32c.value(checked))
    # RocksDB masks CRC32C values: it rotates them by 15 bits and adds a constant (util/crc32c.h).
    masked = ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
    return masked.to_bytes(4, "little") + (len(checked) - 1).to_bytes(2, "little") + checked


def _edits() -> Iterator[bytes]:
    for data in golden("codecs/rocksdb/manifest.py"):
        with suppress(DecodeError):  # some golden files of this reader have another format
            yield from (record.payload for record in manifest.records(data, "MANIFEST"))


def _packed(data: bytes) -> None:
    """Decode a valid compressed value of Pulsar that decompresses to the input."""
    if not data:
        return
    packers: tuple[Callable[[bytes], object], ...] = (
        bytes,
        partial(cramjam.lz4.compress_block, store_size=False),
        zlib.compress,
        cramjam.zstd.compress,
        cramjam.snappy.compress_raw,
    )
    way, message = data[0] % len(packers), data[1:]
    head = PulsarCompressedMetadata(compressionType=way, uncompressedSize=len(message)).SerializeToString()
    value = managed_ledger.MAGIC + len(head).to_bytes(4, "big") + head + bytes(packers[way](message))  # type: ignore[call-overload]
    (managed_ledger if data[0] < 128 else managed_cursor).decode(value)


def _extraction(data: bytes) -> None:
    def part(offset: int, length: int) -> bytes:
        return data[offset : offset + length]

    if len(data) >= entry_log.HEADER_BYTES:
        header = entry_log.decode_unchecked_header(data)
        for direct in (False, True):
            entry_log_records.extract_ledgers(part, len(data), header, direct)


def _answers(version: int) -> Callable[[bytes], object]:
    return lambda data: wire.read_answer(data[: wire.HEAD_BYTES], len(data), version)


def _owner(data: bytes) -> None:
    """Read an owner. The input has the owner's path up to the first line end, and then its value."""
    path, _, value = data.partition(b"\n")
    read_owner(path.decode("utf-8", "replace"), value)


def _owners() -> Iterator[bytes]:
    trees = {
        b"managed-ledgers/a/b/persistent/c": "codecs/pulsar/managed_ledger.py",
        b"managed-ledgers/a/b/persistent/c/d": "codecs/pulsar/managed_cursor.py",
        b"schemas/a/b/c": "codecs/pulsar/schema_locator.py",
        b"pulsar/functions/a/<default>/ledgers/logrecs_0": "codecs/pulsar/log_segment.py",
        b"pulsar/functions/a/<default>/allocation": "codecs/pulsar/log_segment.py",
    }
    for path, reader in trees.items():
        yield from (path + b"\n" + value for value in golden(reader))


def _seeds_of(kind: str) -> Iterable[bytes]:
    if kind == "entry":
        real = [bytes.fromhex(entry.PREFIX + digest) + b"entry-0" for digest in entry.REAL.values()]
        return [*real, bytes.fromhex(entry.SCOPED)]
    return golden(f"decode:{kind}")


_ANSWER_SEEDS = ("codecs/bookie/wire.py", "codecs/bookie/wire.py")

CODECS: tuple[Target, ...] = (
    *(Target(name, partial(_seeds_of, name), partial(shown, kind)) for name, kind in FILE_KINDS.items()),
    Target(
        "availability-java",
        partial(golden, "decode:availability"),
        partial(shown, FILE_KINDS["availability"], java=True),
    ),
    Target(
        "ledger-metadata-batch",
        partial(golden, "decode:ledger-metadata"),
        lambda data: (decode_batch([data]), decode_batch(data.split(b"\0\0")), without_password(data)),
    ),
    Target("java-properties", partial(golden, "codecs/bookie/java_properties.py"), java_properties.decode),
    Target(
        "ledger-data-parts",
        lambda: _for_each_way([*golden("codecs/bookie/ledger_data.py"), bytes(8)], 2),
        _first_byte_chooses(ledger_data.stored_key, ledger_data.flags),
    ),
    Target(
        "entry-log-metadata",
        lambda: [bytes(26) + (1).to_bytes(8, "big") + bytes(16)],
        entry_log.decode_metadata,
    ),
    Target("entry-log-extraction", partial(golden, "codecs/bookie/entry_log_records.py"), _extraction),
    Target(
        "bookie-answers",
        lambda: _for_each_way((seed[4:] for reader in _ANSWER_SEEDS for seed in golden(reader)), 3),
        _first_byte_chooses(wire.list_answer, _answers(2), _answers(3)),
    ),
    Target(
        "zookeeper-answers",
        lambda: [
            b"\0"
            + bytes.fromhex("00000004 00 ffffffff 00000001 61")
            + bytes(68)
            + bytes.fromhex("ffffffff 01 ffffffff"),
            b"\1" + bytes.fromhex("00000008 00 ffffffff 00000001 00000001 61 ffffffff 01 ffffffff"),
            b"\2" + bytes.fromhex("00000001 00000003 00000002 2f61"),
        ],
        _first_byte_chooses(
            lambda data: MultiRead(Operation.GET_DATA, ["/a"]).deserialize(data, 0),
            lambda data: MultiRead(Operation.GET_CHILDREN, ["/a"]).deserialize(data, 0),
            lambda data: WatchEvent.read(data, 0),
        ),
    ),
    Target(
        "zookeeper-log",
        partial(golden, "codecs/zookeeper/txnlog.py"),
        lambda data: list(txnlog.read_log(memoryview(data))),
    ),
    Target("zookeeper-transaction", _transactions, _transaction, offsets=False),
    Target("zookeeper-snapshot", partial(golden, "codecs/zookeeper/snapshot.py"), _snapshot),
    Target(
        "snappy-java",
        partial(golden, "codecs/zookeeper/encodings.py"),
        lambda data: list(encodings.decompress(io.BytesIO(data))),
    ),
    Target("bbolt", partial(golden, "codecs/etcd/bbolt.py"), _bbolt, most=1 << 17),
    Target(
        "etcd-change",
        lambda: [bytes.fromhex("00 0a022f61100218032001 2a0178"), b"\1" + bytes(7) + b"\7_" + bytes(8)],
        _first_byte_chooses(mvcc.decode_key_value, mvcc.decode_revision),
    ),
    Target(
        "rocksdb-log",
        lambda: _for_each_way(golden("codecs/rocksdb/manifest.py"), 2),
        _first_byte_chooses(
            lambda data: list(manifest.records(data, "000009.log", 9)),
            lambda data: manifest.check_wal(data, "000009.log", 9),
        ),
    ),
    Target("rocksdb-manifest", partial(golden, "codecs/rocksdb/manifest.py"), manifest.decode),
    Target(
        "rocksdb-edit", _edits, lambda data: manifest.decode(_log_record(data)), most=manifest.BLOCK_BYTES - 7
    ),
    Target(
        "pulsar-compressed",
        lambda: _for_each_way(golden("codecs/pulsar/managed_ledger.py"), 3),
        _first_byte_chooses(managed_ledger.decode, managed_cursor.decode, managed_cursor.decode_position),
    ),
    Target(
        "pulsar-unpacked",
        lambda: _for_each_way(golden("codecs/pulsar/managed_ledger.py")[-400:], 5),
        _packed,
        offsets=False,
    ),
    Target("pulsar-racks", partial(golden, "codecs/pulsar/bookie_racks.py"), bookie_racks.decode),
    Target("pulsar-owner", _owners, _owner, (DecodeError, ValueError), offsets=False),
)
