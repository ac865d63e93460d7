"""Metadata of ledgers as a Pulsar cluster has it, from a fixed seed, and a ZooKeeper snapshot full of it."""

from __future__ import annotations

import random
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path

from google.protobuf import text_format

from auditor.codecs.ledger_metadata import MAGIC
from auditor.codecs.pb.ledger_metadata_pb2 import LedgerMetadataFormat
from auditor.keys.ledger_tree import LayoutKind, to_path

SEED = 34
BOOKIES = [f"bookie-{number}.svc:3181" for number in range(500)]
ENSEMBLE, WRITE_QUORUM, ACK_QUORUM = 3, 2, 2
MOST_ENTRIES = 50_000
ROOT = "/ledgers"
LAYOUT = LayoutKind.HIERARCHICAL

_TIME_MS = 1_700_000_000_000
_LAYOUT_DATA = b"2\norg.apache.bookkeeper.meta.HierarchicalLedgerManagerFactory:1"
_HEAD = struct.Struct(">4siqii")  # magic, version, dbId; no sessions, no lists of rights
_TAIL = struct.Struct(">qqqqqiiiqq")


def messages(count: int) -> list[LedgerMetadataFormat]:
    """Closed ledgers on 3 of 500 bookies, half of them with a bookie replaced, and what Pulsar attaches."""
    chosen = random.Random(SEED)
    found = []
    for number in range(count):
        entries = chosen.randrange(2, MOST_ENTRIES)
        *ensemble, fresh = chosen.sample(BOOKIES, ENSEMBLE + 1)
        message = LedgerMetadataFormat(
            quorumSize=WRITE_QUORUM,
            ensembleSize=ENSEMBLE,
            ackQuorumSize=ACK_QUORUM,
            length=entries * 1024,
            lastEntryId=entries - 1,
            state=LedgerMetadataFormat.CLOSED,
            digestType=LedgerMetadataFormat.CRC32C,
            password=b"",
        )
        message.segment.add(firstEntryId=0, ensembleMember=ensemble)
        if number % 2:
            ensemble[chosen.randrange(ENSEMBLE)] = fresh
            message.segment.add(firstEntryId=chosen.randrange(1, entries), ensembleMember=ensemble)
        for key, value in (
            ("application", b"pulsar"),
            ("component", b"managed-ledger"),
            ("pulsar/managed-ledger", b"public/default/persistent/topic-%d" % (number % 1000)),
        ):
            message.customMetadata.add(key=key, value=value)
        found.append(message)
    return found


def binary(message: LedgerMetadataFormat) -> bytes:
    """A ledger in format 3."""
    body = message.SerializeToString()
    low, high = len(body) & 0x7F, len(body) >> 7
    return MAGIC + b"3\n" + bytes([low | 0x80, high] if high else [low]) + body


def text(message: LedgerMetadataFormat) -> bytes:
    """A ledger in format 2, laid out as the server does."""
    return MAGIC + b"2\n" + text_format.MessageToString(message).encode()


def lines(message: LedgerMetadataFormat) -> bytes:
    """A ledger in format 1, which has no room for what is attached to it."""
    head = [f"{message.quorumSize}", f"{message.ensembleSize}", f"{message.length}"]
    segments = [f"{each.firstEntryId}\t" + "\t".join(each.ensembleMember) for each in message.segment]
    return MAGIC + b"1\n" + "\n".join([*head, *segments, f"{message.lastEntryId}\tCLOSED"]).encode()


def write_snapshot(directory: Path, values: Sequence[bytes]) -> Path:
    """A server's ``version-2`` with one snapshot: a cluster of these ledgers, ids from 0 on."""
    inner: dict[str, None] = {}
    leaves = []
    for ledger, value in enumerate(values):
        path = f"{ROOT}/{to_path(LAYOUT, ledger)}"
        inner.update(dict.fromkeys((path.rsplit("/", 2)[0], path.rsplit("/", 1)[0])))
        leaves.append((path, value))
    own = [("", b""), (ROOT, b""), (f"{ROOT}/LAYOUT", _LAYOUT_DATA), (f"{ROOT}/INSTANCEID", b"1")]
    records = [_record(path, data) for path, data in (*own, *((path, b"") for path in inner), *leaves)]
    body = b"".join([_HEAD.pack(b"ZKSN", 2, -1, 0, 0), *records, _string(b"/")])
    directory.mkdir(parents=True)
    file = directory / "snapshot.1"
    file.write_bytes(body + struct.pack(">q", zlib.adler32(body)) + _string(b"/"))
    return file


def _record(path: str, data: bytes) -> bytes:
    return _string(path.encode()) + _string(data) + _TAIL.pack(-1, 1, 1, _TIME_MS, _TIME_MS, 0, 0, 0, 0, 1)


def _string(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data
